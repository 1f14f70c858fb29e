"""A river metric that is exact, for AUC-PR, average precision and AUC-ROC.

river's own ``ROCAUC`` evaluates scores at ten thresholds between 0 and 1; this one
counts every distinct score, on any scale. Its memory grows with their number unless
`resolution` or `max_cells` bounds it. An update costs what ``add_case`` costs;
``get`` is O(G) after a change, for G distinct scores of positives.

Needs river.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from river import base, metrics

from streameval._common.errors import InvalidInputError
from streameval._common.labels import class_of, is_missing
from streameval._common.values import shown
from streameval._counts.weight_columns import check_unit, check_weight
from streameval._counts.weights import WEIGHT_UNITS
from streameval._evaluator import Evaluator
from streameval.adapters._areas import area_of

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["BinaryArea"]


class BinaryArea(metrics.base.BinaryMetric):
    """An area under the PR or ROC curve, as a river metric.

    Parameters
    ----------
    metric : str
        "auc_pr", "average_precision", "auc_roc", or the optimistic areas of
        the hull, "auc_pr_hull" and "auc_roc_hull".
    pos_val : hashable
        The label to treat as positive.
    resolution, scale, max_cells
        Settings of :class:`streameval.Evaluator` that bound its memory.

    Raises
    ------
    InvalidInputError
        For an unknown metric or a setting out of range.

    Notes
    -----
    ``get()`` is nan while a class that the area needs is absent, where river's
    own metrics return 0.

    Examples
    --------
    >>> from streameval.adapters.river import BinaryArea
    >>> metric = BinaryArea(metric="auc_roc")
    >>> for y_true, y_pred in zip([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]):
    ...     metric.update(y_true, y_pred)
    >>> metric
    BinaryArea(auc_roc): 75.00%
    >>> metric.update(True, {False: 0.1, True: 0.9})
    >>> metric.get(), metric.evaluator.num_cases
    (0.8333333333333334, 5)
    """

    def __init__(
        self,
        metric: str = "auc_pr",
        pos_val: Hashable = True,
        resolution: int | None = None,
        scale: str | None = None,
        max_cells: int | None = None,
    ) -> None:
        # The base class's __init__ would make a confusion matrix, which is not used here.
        self.metric = area_of(metric).name
        self.pos_val = pos_val
        # river clones a metric from the attributes that have the names of its parameters.
        self.resolution = resolution
        self.scale = scale
        self.max_cells = max_cells
        self._evaluator = Evaluator(resolution=resolution, scale=scale, max_cells=max_cells)

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator that counts the cases, for all other metrics, intervals and curves."""
        return self._evaluator

    @property
    def requires_labels(self) -> bool:
        """False: the metric takes scores or probabilities, not decisions."""
        return False

    def works_with(self, model: Any) -> bool:
        """Return whether a model gives scores: classifiers and anomaly detectors do."""
        # Unlike river's own metrics no anomaly filters: they give a decision, not a score.
        return super().works_with(model) or isinstance(model, base.AnomalyDetector)

    def update(
        self, y_true: Hashable, y_pred: float | str | dict[Any, float], w: float = 1.0
    ) -> None:
        """Count one case.

        Parameters
        ----------
        y_true : hashable
            The label; positive if it equals `pos_val`, where 1, True and "1" are equal.
        y_pred : float, bool or dict of label to float
            A score on any scale, or the result of ``predict_proba_one``, where
            an absent class has probability 0. A boolean or a text is what ``predict_one``
            gives, as ``SRPClassifier`` hands it to its metric: 1 if it equals `pos_val`,
            else 0.
        w : float
            A whole number is the number of cases. Another one is the weight of one case,
            as `Evaluator.add_case` takes it.

        Raises
        ------
        InvalidInputError
            For a label that is missing (None, NaN, "N/A"), a score that is not finite and a
            `w` that is negative or not finite. The metric is unchanged then.
        """
        positive, score = self._is_positive(y_true), self._score(y_pred)
        if w == 1:
            self._evaluator.add_case(positive, score)
        else:
            self._evaluator.add_cases(labels=[positive], scores=[score], **_weighted(w))

    def revert(
        self, y_true: Hashable, y_pred: float | str | dict[Any, float], w: float = 1.0
    ) -> None:
        """Remove one case that was given to ``update`` with the same arguments.

        Raises
        ------
        InvalidInputError
            When no such case was counted. The metric is unchanged then.
        """
        positive, score = self._is_positive(y_true), self._score(y_pred)
        if w == 1:
            self._evaluator.remove_case(positive, score)
        else:
            self._evaluator.remove_cases(labels=[positive], scores=[score], **_weighted(w))

    def get(self) -> float:
        """Return the area; nan where it is undefined."""
        return area_of(self.metric).value(self._evaluator)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.metric}): {self.get():.2%}"

    def _is_positive(self, y_true: Any) -> bool:
        """Return whether a label is `pos_val`, or refuse one that is missing."""
        if y_true is self.pos_val:
            return True
        try:
            found, wanted = class_of(y_true), class_of(self.pos_val)
        except TypeError:  # labels of other types, such as tuples
            return type(y_true) is type(self.pos_val) and bool(y_true == self.pos_val)
        if found != wanted and is_missing(found):
            message = f"y_true is missing, got {shown(y_true)}: leave the case out"
            raise InvalidInputError(message, field="y_true")
        return found == wanted

    def _is_named(self, label: Any) -> bool:
        try:
            return class_of(label) == class_of(self.pos_val)
        except TypeError:
            return False

    def _score(self, y_pred: Any) -> float:
        if isinstance(y_pred, dict):
            if self.pos_val in y_pred:
                probability: float = y_pred[self.pos_val]
                return probability
            # A model has its labels as it learned them: "1" may be the positive one.
            return next((share for label, share in y_pred.items() if self._is_named(label)), 0.0)
        if isinstance(y_pred, bool | str | np.bool_):
            return float(self._is_positive(y_pred))
        score: float = y_pred
        return score


def _weighted(w: float) -> dict[str, Any]:
    """Return a weight as arguments of `add_cases`: cases if it is whole."""
    weight = check_weight(w, field="w")
    if weight.is_integer():
        return {"counts": [int(weight)]}
    return {"weights": [check_unit(weight, None) / WEIGHT_UNITS]}
