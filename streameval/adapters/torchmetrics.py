"""A torchmetrics metric that is exact, for AUC-PR, average precision and AUC-ROC.

Its state is two columns of scores, one for each class, and two of cases with weights, in
which each score is followed by its weight: torchmetrics concatenates columns across the
processes of a job, across batches in ``forward``, and in ``merge_state``, and a weight must
not be separated from its score. A case takes 8 B on the metric's device, with a weight 16 B;
``update`` is O(n) for a batch of n, ``compute`` sorts: O(N log N) for N cases in all.

Needs torch and torchmetrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from streameval._counts.columns import check_columns, check_length
from streameval._counts.weight_columns import check_units
from streameval._counts.weights import WEIGHT_UNITS
from streameval._evaluator import Evaluator
from streameval.adapters._areas import area_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.nn import Module

    from streameval._common.arrays import FloatArray

__all__ = ["BinaryArea"]


class BinaryArea(Metric):
    """An area under the PR or ROC curve, as a torchmetrics metric.

    Parameters
    ----------
    metric : str
        "auc_pr", "average_precision", "auc_roc", or the optimistic areas of
        the hull, "auc_pr_hull" and "auc_roc_hull".
    **kwargs
        Passed to :class:`torchmetrics.Metric`.

    Raises
    ------
    InvalidInputError
        For an unknown metric.

    Notes
    -----
    Scores may be logits: no sigmoid is applied. There is no ``ignore_index``:
    leave such rows out. ``compute()`` is nan while a class that the area needs is
    absent, where torchmetrics returns 0. Several areas in one ``MetricCollection``
    share one state.

    Examples
    --------
    >>> import torch
    >>> from streameval.adapters.torchmetrics import BinaryArea
    >>> metric = BinaryArea(metric="average_precision")
    >>> metric.update(torch.tensor([0.9, 0.7, 0.4, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> metric.compute()
    tensor(0.8333)
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False  # forward may update an empty state and concatenate
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    positives: list[torch.Tensor] | torch.Tensor
    negatives: list[torch.Tensor] | torch.Tensor
    weighted_positives: list[torch.Tensor] | torch.Tensor
    weighted_negatives: list[torch.Tensor] | torch.Tensor

    def __init__(self, metric: str = "auc_pr", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.metric = area_of(metric).name
        # The empty column of a process without data needs this type, too.
        self._dtype = torch.float64
        for name in ("positives", "negatives", "weighted_positives", "weighted_negatives"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(
        self,
        preds: torch.Tensor,
        target: torch.Tensor,
        sample_weight: torch.Tensor | None = None,
    ) -> None:
        """Add a batch.

        Parameters
        ----------
        preds : tensor
            Finite scores of any shape; higher means more positive.
        target : tensor
            As many labels, 0 or 1, or booleans.
        sample_weight : tensor, optional
            As many weights from 0 to 2**31, as `Evaluator.add_cases` takes them. Cases without
            one weigh 1.

        Raises
        ------
        InvalidInputError
            With the first invalid value. The metric is unchanged then.
        """
        # Columns are checked as numpy arrays on the CPU; numpy has no bfloat16.
        labels, values, _ = check_columns(labels=_column(target), scores=_column(preds))
        if sample_weight is None:
            self.positives.append(self._kept(values[labels]))
            self.negatives.append(self._kept(values[~labels]))
            return
        column = _column(sample_weight)
        check_length("sample_weight", column.size, like="target", length=values.size)
        units = check_units(column, None, size=values.size, counts=None)
        weights = units / WEIGHT_UNITS
        rows = np.stack((values, weights), axis=1)
        self.weighted_positives.append(self._kept(rows[labels].ravel()))
        self.weighted_negatives.append(self._kept(rows[~labels].ravel()))

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], *args: Any) -> Module:
        """Move the state as `fn` does; a conversion would round it, so it keeps its type.

        The host calls it for ``.to(...)``, ``.half()`` and the like of a model that has the
        metric, and for `set_dtype`.
        """

        def moved(tensor: torch.Tensor) -> torch.Tensor:
            result = fn(tensor)
            return result if result.dtype == tensor.dtype else tensor.to(result.device)

        super()._apply(moved, *args)
        self._dtype = torch.float64
        return self

    def compute(self) -> torch.Tensor:
        """Return the area as a scalar tensor; nan where it is undefined."""
        return torch.tensor(area_of(self.metric).value(self.evaluator()), device=self.device)

    def evaluator(self) -> Evaluator:
        """Return an evaluator of this process's cases, for intervals, curves and bounds.

        Within ``sync_context()`` it has the cases of all processes. O(N log N).
        """
        counted = Evaluator()
        for positive, column, weighted in (
            (True, self.positives, self.weighted_positives),
            (False, self.negatives, self.weighted_negatives),
        ):
            scores = _joined(column)
            counted.add_cases(labels=np.full(scores.size, positive), scores=scores)
            scores, weights = _joined(weighted).reshape(-1, 2).T
            counted.add_cases(labels=np.full(scores.size, positive), scores=scores, weights=weights)
        return counted

    def _kept(self, column: FloatArray) -> torch.Tensor:
        return torch.from_numpy(column).to(self.device)


def _column(values: torch.Tensor) -> Any:
    """Return a tensor as a column on the CPU; floats of fewer bits are widened."""
    flat = values.detach().flatten().cpu()
    return (flat.double() if flat.is_floating_point() else flat).numpy()


def _joined(state: list[torch.Tensor] | torch.Tensor) -> FloatArray:
    """Return a state of this process, or of all in a `sync_context`, as one column."""
    # A state that was loaded may have fewer bits, and types that numpy lacks.
    return dim_zero_cat(state).double().cpu().numpy() if len(state) else np.empty(0)
