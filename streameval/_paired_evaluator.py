"""Two models compared on the same cases.

The scores that two models give one case are correlated, so the difference of two
figures is far more certain than either figure. `PairedEvaluator` counts each case in
a sparse grid (cell of a's score, cell of b's score); the variance is that of the
per-case *differences* of influence (DeLong et al. 1988 for AUC-ROC). It can never be
negative, as a sum of variances minus covariances of different populations can.

The figures themselves are computed from each model's own scores, in two evaluators.
Only the grid, which the variance is computed from, keeps few bits of a score (7 by
default) and, above its cap, a sample of the ids.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.keywords import by_keyword
from streameval._counts.columns import (
    check_label,
    check_labels,
    check_length,
    check_score,
    check_scores,
)
from streameval._counts.resolution import MAX_BITS, Scale, quantise
from streameval._evaluator import Evaluator
from streameval._metric_registry import COMPARED_NAMES
from streameval._uncertainty.compare import Comparison, p_value_of
from streameval._uncertainty.intervals import check_level, check_prevalence, uncertain_metric
from streameval._uncertainty.pair_cells import PairCells, levels_of
from streameval._uncertainty.pair_difference import Difference, variance_of_difference

_MAX_MODEL_CELLS = 65_536
"""Distinct scores of each model's evaluator."""


class PairedEvaluator:
    """Counts of cases that two models, a and b, have both scored.

    Parameters
    ----------
    resolution : int
        Significant bits of a score that the grid keeps, 1 to 53; 6 to 8 are
        enough for the uncertainty of a difference.
    scale : {"probability"} or None
        As for `Evaluator`.
    max_cells : int
        The most pairs of cells that the grid keeps for each class (25 B
        each); above it the ids are sampled, each class by itself. Each model's
        own evaluator keeps up to 65,536 distinct scores, above that fewer bits.
    seed : int
        The seed of the sampling. Only evaluators of one seed can be merged.

    Raises
    ------
    InvalidInputError
        When a setting is out of range.

    Examples
    --------
    >>> pair = PairedEvaluator()
    >>> pair.add_cases(
    ...     labels=[1, 1, 1, 0, 0, 0],
    ...     scores_a=[0.9, 0.8, 0.4, 0.5, 0.2, 0.1],
    ...     scores_b=[0.9, 0.3, 0.4, 0.5, 0.2, 0.1],
    ...     ids=["u1", "u2", "u3", "u4", "u5", "u6"],
    ... )
    >>> change = pair.compare(metric="auc_roc")
    >>> round(change.difference, 4), change.lower < 0 < change.upper
    (0.1111, True)
    """

    def __init__(
        self,
        *,
        resolution: int = 7,
        scale: str | None = None,
        max_cells: int = 65_536,
        seed: int = 0,
    ) -> None:
        if not 1 <= resolution <= MAX_BITS:
            raise InvalidInputError(
                f"resolution must be between 1 and {MAX_BITS} bits, got {resolution}",
                field="resolution",
            )
        if scale not in {None, "probability"}:
            raise InvalidInputError(
                f"scale must be 'probability' or None, got {scale!r}", field="scale"
            )
        if max_cells < 1:
            raise InvalidInputError(
                f"max_cells must be at least 1, got {max_cells}", field="max_cells"
            )
        self._resolution = resolution
        self._scale: Scale = "probability" if scale else "plain"
        self._max_cells = max_cells
        self._seed = seed
        self._cells = (PairCells(), PairCells())  # negatives, positives
        self._models = (
            Evaluator(scale=scale, max_cells=_MAX_MODEL_CELLS),
            Evaluator(scale=scale, max_cells=_MAX_MODEL_CELLS),
        )

    # -- mutations ---------------------------------------------------------

    def add_case(self, positive: bool, score_a: float, score_b: float, *, id: str | int) -> None:  # noqa: A002 (the word that users know)
        """Add one case. O(n log n) in the entries: `add_cases` is much faster.

        Parameters
        ----------
        positive : bool
            Whether the reference is positive.
        score_a, score_b : float
            The scores of the two models.
        id : str or int
            Identifies the case: sampling keeps or drops an id in every evaluator alike.

        Examples
        --------
        >>> pair = PairedEvaluator()
        >>> pair.add_case(True, 0.9, 0.7, id="order-17")
        >>> pair.num_cases
        1
        """
        self.add_cases(
            labels=[check_label(positive)],
            scores_a=[check_score(score_a, field="score_a", scale=self._scale)],
            scores_b=[check_score(score_b, field="score_b", scale=self._scale)],
            ids=[id],
        )

    @by_keyword
    def add_cases(self, *, labels: Any, scores_a: Any, scores_b: Any, ids: Any) -> None:
        """Add columns of cases, all or none.

        Parameters
        ----------
        labels : column of bool or of 0 and 1
        scores_a, scores_b : columns of float
            The scores of the two models.
        ids : column of str or of int
            One for each case.

        Raises
        ------
        InvalidInputError
            With ``field`` and ``index``. Nothing has changed then.

        Notes
        -----
        O((n + d) log(n + d)) for d rows and n entries.

        Examples
        --------
        >>> pair = PairedEvaluator()
        >>> pair.add_cases(
        ...     labels=[1, 0, 1, 0], scores_a=[4, 3, 2, 1], scores_b=[4, 2, 3, 1],
        ...     ids=["a", "b", "c", "d"],
        ... )
        >>> pair.num_positive_ref, pair.num_negative_ref
        (2, 2)
        """
        self._change(labels, scores_a, scores_b, ids, sign=1)

    @by_keyword
    def remove_cases(self, *, labels: Any, scores_a: Any, scores_b: Any, ids: Any) -> None:
        """Remove columns of cases, all or none, with the values they were added with.

        Raises
        ------
        InvalidInputError
            As `add_cases`, and when a case was not added.

        Examples
        --------
        >>> pair = PairedEvaluator()
        >>> pair.add_case(True, 0.9, 0.7, id="order-17")
        >>> pair.remove_cases(labels=[1], scores_a=[0.9], scores_b=[0.7], ids=["order-17"])
        >>> pair.num_cases
        0
        """
        self._change(labels, scores_a, scores_b, ids, sign=-1)

    def merge(self, *others: PairedEvaluator) -> None:
        """Add the counts of other evaluators of the same pair.

        Raises
        ------
        InvalidInputError
            When settings differ. Nothing has changed then.

        Examples
        --------
        >>> pair = PairedEvaluator()
        >>> pair.add_case(True, 0.9, 0.7, id="order-17")
        >>> whole = PairedEvaluator()
        >>> whole.merge(pair)
        >>> whole.num_cases
        1
        """
        settings, cells, models = self._view()
        models = (models[0].copy(), models[1].copy())
        for other in others:
            other_settings, other_cells, other_models = other._view()
            if other_settings != settings:
                raise InvalidInputError(
                    "only pairs of the same resolution, scale, max_cells and seed can be merged",
                    field="other",
                )
            cells = self._added(cells, other_cells)
            for model, other_model in zip(models, other_models):
                model.merge(other_model)
        self._cells, self._models = cells, models

    def __add__(self, other: PairedEvaluator) -> Self:
        total = type(self).__new__(type(self))
        total.__dict__.update(self.__dict__)
        total.merge(other)
        return total

    # -- queries -----------------------------------------------------------

    @property
    def num_cases(self) -> int:
        """All cases, also those outside the sample."""
        return self.num_positive_ref + self.num_negative_ref

    @property
    def num_positive_ref(self) -> int:
        """All positives."""
        return self._models[0].num_positive_ref

    @property
    def num_negative_ref(self) -> int:
        """All negatives."""
        return self._models[0].num_negative_ref

    @property
    def sampled(self) -> tuple[float, float]:
        """The sampled shares of the positives' and of the negatives' ids; 1.0 below the cap."""
        return 0.5 ** self._cells[True].lowest, 0.5 ** self._cells[False].lowest

    @by_keyword
    def compare(
        self, *, metric: str = "auc_pr", level: float = 0.95, prevalence: float | None = None
    ) -> Comparison:
        """Compare a metric of the two models.

        Parameters
        ----------
        metric : {"auc_pr", "average_precision", "auc_roc"}
            The metric.
        level : float
            Nominal coverage of the interval of a's value minus b's.
        prevalence : float, optional
            Rescales the areas in precision-recall space to this prevalence, taken as
            known. The default is the cases' prevalence, with its uncertainty.

        Returns
        -------
        Comparison
            ``a`` and ``b`` are the models' own intervals. nan with fewer than
            two cases of a class.

        Raises
        ------
        InvalidInputError
            For any other metric, or values out of range.

        Notes
        -----
        O(n log n) in the entries. Independent cases are assumed.

        Examples
        --------
        >>> pair = PairedEvaluator()
        >>> pair.add_cases(
        ...     labels=[1, 0, 1, 0], scores_a=[4, 3, 2, 1], scores_b=[4, 2, 3, 1],
        ...     ids=["a", "b", "c", "d"],
        ... )
        >>> pair.compare(metric="auc_roc").difference
        -0.25
        """
        check_level(level)
        if metric not in COMPARED_NAMES:
            raise InvalidInputError(
                f"pairs are compared by {', '.join(COMPARED_NAMES)}; got {metric!r}",
                field="metric",
            )
        check_prevalence(prevalence, metric)
        a, b = (uncertain_metric(model, metric, prevalence) for model in self._models)
        difference = Difference(
            metric,
            a.figure,
            b.figure,
            self._variance(metric, prevalence),
            min(cells.sampled for cells in self._cells),
        )
        lower, upper = difference.limits(1 - level)
        return Comparison(
            metric=metric,
            difference=difference.estimate,
            lower=lower,
            upper=upper,
            level=level,
            p_value=p_value_of(difference.estimate, difference.limits),
            prevalence=prevalence,
            a=a.interval(level),
            b=b.interval(level),
        )

    def _check(self) -> None:
        """Assert all invariants. O(n log n)."""
        for cells in self._cells:
            cells._check(self._max_cells)
        for model in self._models:
            model._check()
            assert model.num_positive_ref == self._cells[True].total
            assert model.num_negative_ref == self._cells[False].total

    def _variance(self, metric: str, prevalence: float | None) -> float:
        """Return the variance of the difference. O(n log n)."""
        negatives, positives = self._cells
        return variance_of_difference(
            positives,
            negatives,
            (self._models[0]._view(), self._models[1]._view()),
            self._resolution,
            metric=metric,
            prevalence=prevalence,
        )

    def _view(
        self,
    ) -> tuple[tuple[object, ...], tuple[PairCells, PairCells], tuple[Evaluator, Evaluator]]:
        settings = (self._resolution, self._scale, self._max_cells, self._seed)
        return settings, self._cells, self._models

    def _change(self, labels: Any, scores_a: Any, scores_b: Any, ids: Any, *, sign: int) -> None:
        positive = check_labels(labels)
        a = check_scores(scores_a, field="scores_a", scale=self._scale)
        b = check_scores(scores_b, field="scores_b", scale=self._scale)
        levels = levels_of(ids, self._seed)
        for name, column in (("scores_a", a), ("scores_b", b), ("ids", levels)):
            check_length(name, column.size, like="labels", length=positive.size)
        models = (self._models[0].copy(), self._models[1].copy())
        for model, scores in zip(models, (a, b)):
            if sign > 0:
                model.add_cases(labels=positive, scores=scores)
            else:
                model.remove_cases(labels=positive, scores=scores)
        a, b = (quantise(scores, self._resolution, self._scale) for scores in (a, b))
        change = []
        for rows in (~positive, positive):
            counts = np.full(int(rows.sum()), sign, dtype=np.int64)
            change.append(
                PairCells(a[rows], b[rows], levels[rows], counts, total=int(counts.sum()))
            )
        self._cells = self._added(self._cells, (change[0], change[1]))
        self._models = models

    def _added(
        self, cells: tuple[PairCells, PairCells], change: tuple[PairCells, PairCells]
    ) -> tuple[PairCells, PairCells]:
        return (
            cells[0].merged(change[0], self._max_cells),
            cells[1].merged(change[1], self._max_cells),
        )
