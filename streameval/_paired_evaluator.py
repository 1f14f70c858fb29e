"""Two models compared on the same cases.

The scores that two models give one case are correlated, so the difference of two
figures is far more certain than either figure. `PairedEvaluator` counts each case in
a sparse grid (a's score, b's score), and takes the variance of the per-case *differences*
of influence (DeLong et al. 1988 for AUC-ROC). It can never be negative, as a sum of
variances minus covariances of different populations can.

The figures themselves are computed from each model's own scores, in two evaluators.
Only the grid, which the variance is computed from, is cut into cells above its cap, at
the quantiles of the pair (`pair_grid`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.keywords import by_keyword
from streameval._common.values import is_number, shown
from streameval._counts.cluster_counts import ClusterCounts
from streameval._counts.cluster_keys import (
    check_cluster_groups,
    check_clusters,
)
from streameval._counts.columns import (
    check_label,
    check_labels,
    check_length,
    check_score,
    check_scores,
    column_of_one,
)
from streameval._counts.weight_columns import check_units, check_weights_allowed
from streameval._counts.weights import WEIGHT_UNITS, unless_one
from streameval._evaluator import Evaluator
from streameval._uncertainty.pair_cells import PairCells
from streameval._uncertainty.pair_clusters import PairGroups
from streameval._uncertainty.pair_comparison import ComparedPair
from streameval._uncertainty.pair_grid import PairGrid
from streameval._uncertainty.pair_ids import NO_WORDS, IdWords, united_words
from streameval._uncertainty.pair_verdict import verdict_of

if TYPE_CHECKING:
    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.resolution import Scale
    from streameval._uncertainty.compare import Comparison
    from streameval._uncertainty.pair_difference import Difference
    from streameval._uncertainty.pair_ids import WordArray

_MAX_MODEL_CELLS = 65_536
"""Distinct scores of each model's evaluator."""


_View: TypeAlias = (
    "tuple[tuple[object, ...], PairGrid, WordArray | None, tuple[Evaluator, Evaluator]]"
)


class PairedEvaluator:
    """Counts of cases that two models, a and b, have both scored.

    Parameters
    ----------
    scale : {"probability"} or None
        As for `Evaluator`.
    max_cells : int or None
        The most pairs of scores that the grid keeps for each class (24 B each). Above
        it the scores are cut at the pair's own quantiles, into the square root of as
        many cells (256 by default) for each model. Each model's own evaluator keeps up
        to 65,536 distinct scores, above that fewer bits. None keeps all of both.
    cluster_groups, min_label_probability
        As for `Evaluator`.

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
        scale: str | None = None,
        max_cells: int | None = 65_536,
        cluster_groups: int | None = None,
        min_label_probability: float | None = None,
    ) -> None:
        if scale not in {None, "probability"}:
            raise InvalidInputError(
                f"scale must be 'probability' or None, got {scale!r}", field="scale"
            )
        is_integer = is_number(max_cells) and isinstance(max_cells, int | np.integer)
        if max_cells is not None and not (is_integer and max_cells >= 1):
            message = f"max_cells must be a positive integer or None, got {shown(max_cells)}"
            raise InvalidInputError(message, field="max_cells")
        self._scale: Scale = "probability" if scale else "plain"
        self._max_cells = max_cells
        groups = check_cluster_groups(cluster_groups)
        self._grid = PairGrid(groups=None if groups is None else PairGroups(groups))
        self._ids: WordArray | None = None  # None: not of every case
        model_cells = None if max_cells is None else _MAX_MODEL_CELLS
        least = min_label_probability
        self._models = (
            Evaluator(scale=scale, max_cells=model_cells, min_label_probability=least),
            Evaluator(scale=scale, max_cells=model_cells, min_label_probability=least),
        )

    # -- mutations ---------------------------------------------------------

    def add_case(
        self,
        positive: bool,
        score_a: float,
        score_b: float,
        *,
        id: str | int | None = None,  # noqa: A002 (the word that users know)
        weight: float | None = None,
        cluster: str | int | bytes | None = None,
    ) -> None:
        """Add one case. O(n log n) in the entries: `add_cases` is much faster.

        Parameters
        ----------
        positive : bool
            Whether the reference is positive.
        score_a, score_b : float
            The scores of the two models.
        id : str or int, optional
            Identifies the case, as in `add_cases`.
        weight : float, optional
            As in `add_cases`.
        cluster : str, int or bytes
            Where clusters are declared: which one the case is of.

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
            ids=column_of_one(id),
            weights=column_of_one(weight),
            clusters=column_of_one(cluster),
        )

    @by_keyword
    def add_cases(
        self,
        *,
        labels: Any,
        scores_a: Any,
        scores_b: Any,
        ids: Any = None,
        weights: Any = None,
        label_probability: Any = None,
        clusters: Any = None,
        positive: Any = None,
        negative: Any = None,
    ) -> None:
        """Add columns of cases, all or none.

        Parameters
        ----------
        labels : column of bool or of 0 and 1
        scores_a, scores_b : columns of float
            The scores of the two models.
        ids : column of str or of int, optional
            One for each case, remembered (8 B each) so that a repeated one is refused.
            Give them for all cases of an evaluator or for none.
        weights, label_probability, clusters, positive, negative
            As of `Evaluator.add_cases`. A weight of 0 drops the row, and its id.

        Raises
        ------
        InvalidInputError
            With ``field`` and ``index``. Nothing has changed then.

        Notes
        -----
        O((n + d) log(n + d)) for d rows and n entries or ids.

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
        self._change(
            (check_labels(labels, positive=positive, negative=negative), scores_a, scores_b, ids),
            (weights, label_probability),
            clusters,
            sign=1,
        )

    @by_keyword
    def remove_cases(
        self,
        *,
        labels: Any,
        scores_a: Any,
        scores_b: Any,
        ids: Any = None,
        weights: Any = None,
        label_probability: Any = None,
        clusters: Any = None,
        positive: Any = None,
        negative: Any = None,
    ) -> None:
        """Remove columns of cases, all or none, with the values they were added with.

        Raises
        ------
        InvalidInputError
            As `add_cases`, and when a case was not added. After a merge has cut the cells
            again, a case that was added may not be found.

        Examples
        --------
        >>> pair = PairedEvaluator()
        >>> pair.add_case(True, 0.9, 0.7, id="order-17")
        >>> pair.remove_cases(labels=[1], scores_a=[0.9], scores_b=[0.7], ids=["order-17"])
        >>> pair.num_cases
        0
        """
        self._change(
            (check_labels(labels, positive=positive, negative=negative), scores_a, scores_b, ids),
            (weights, label_probability),
            clusters,
            sign=-1,
        )

    def merge(self, *others: PairedEvaluator) -> None:
        """Add the counts of other evaluators of the same pair.

        Raises
        ------
        InvalidInputError
            When settings differ, when an id is in two of them, or when only some have
            ids. Nothing has changed then.

        Notes
        -----
        Up to `max_cells` the result is the same to the bit in any order. Above it the
        figures still are, but intervals depend on the cells of the grid, and these depend
        slightly on the order; merge evaluators with different cells in one call, which
        cuts the cells again only once.

        Examples
        --------
        >>> pair = PairedEvaluator()
        >>> pair.add_case(True, 0.9, 0.7, id="order-17")
        >>> whole = PairedEvaluator()
        >>> whole.merge(pair)
        >>> whole.num_cases
        1
        """
        settings, grid, ids, own = self._view()
        models = (own[0].copy(), own[1].copy())
        known = [ids] if self.num_cases else []
        grids = []
        for other in others:
            other_settings, other_grid, other_ids, other_models = other._view()
            if other_settings != settings:
                message = "only pairs of the same settings can be merged"
                raise InvalidInputError(message, field="other")
            grids.append(other_grid)
            if other.num_cases:
                known.append(other_ids)
            for model, other_model in zip(models, other_models):
                model.merge(other_model)
        united = united_words(known)
        self._grid = grid.merged(grids, self._max_cells)
        self._ids, self._models = united, models

    def __add__(self, other: PairedEvaluator) -> Self:
        total = type(self).__new__(type(self))
        total.__dict__.update(self.__dict__)
        total.merge(other)
        return total

    # -- queries -----------------------------------------------------------

    @property
    def num_cases(self) -> int:
        """All cases."""
        return self.num_positive_ref + self.num_negative_ref

    @property
    def cluster_groups(self) -> int | None:
        """How many groups clusters are hashed into; None if none are declared."""
        return None if self._grid.groups is None else self._grid.groups.num_groups

    @property
    def num_positive_ref(self) -> int:
        """All positives."""
        return self._models[0].num_positive_ref

    @property
    def num_negative_ref(self) -> int:
        """All negatives."""
        return self._models[0].num_negative_ref

    @by_keyword
    def compare(
        self,
        *,
        metric: str = "auc_pr",
        level: float = 0.95,
        prevalence: float | None = None,
        anytime: bool = False,
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
        anytime : bool
            Whether the limits are to hold the true difference at all looks together, as
            cases arrive from a start that was chosen before (a confidence sequence). Then
            the p-value is 1/e_value, which is as valid. From 50 cases of each class on.

        Returns
        -------
        Comparison
            ``a`` and ``b`` are the models' own intervals. The limits are nan with fewer
            than two cases of a class, and where the cells of the grid are too coarse: a
            figure in them is further from the exact one than a standard error;
            ``reason`` says which. ``e_value`` may be looked at after each case.

        Raises
        ------
        InvalidInputError
            For any other metric, or values out of range.

        Notes
        -----
        O(n log n) in the entries. Cases are taken as independent, or with clusters the
        clusters are. Where the grid is in cells, each model's exact variance is divided by
        its variance in the cells, and the variance of the difference is multiplied by the
        larger ratio, if it is above 1. With weights that no `min_label_probability` bounds there
        is a warning, and no limits where one case may have more than a fifth of the sum of their
        squares (``"TOO_FEW_EFFECTIVE"``).

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
        return self._compared(metric, level, prevalence, anytime=anytime)[0]

    @by_keyword
    def verdict(
        self,
        *,
        metric: str = "auc_pr",
        prevalence: float | None = None,
        names: tuple[str, str] = ("a", "b"),
    ) -> str:
        """Return who is better and how sure that is, in a sentence.

        It may be asked for after each case, and the first decision may be acted upon: if the
        models are equal, some look ever decides with a probability of 0.05 (an e-value of 20).

        Parameters
        ----------
        metric, prevalence
            As in `compare`.
        names : (str, str)
            What to call a and b.

        Returns
        -------
        str
            Without a decision, with the number of labels that it would take if the
            difference and its variance for each case stay; then the warnings of `compare`.

        Raises
        ------
        InvalidInputError
            As `compare`.

        Notes
        -----
        O(n log n) in the entries.

        Examples
        --------
        >>> import numpy as np
        >>> random = np.random.default_rng(3)
        >>> labels = random.random(1_000) < 0.2
        >>> shared = random.normal(1.5 * labels)
        >>> pair = PairedEvaluator()
        >>> pair.add_cases(
        ...     labels=labels, scores_a=shared + random.normal(0, 0.8, 1_000), scores_b=shared
        ... )
        >>> pair.verdict(metric="auc_roc", names=("v3", "v4"))
        'v4 is better than v3 by 0.0707 in AUC-ROC (0.0298 to 0.1116 at all looks), on 1,000 cases'
        """
        change, difference = self._compared(metric, 0.95, prevalence, anytime=True)
        found = verdict_of(change, difference.growth_to_decide(), self.num_cases, names)
        return "; ".join((found, *change.warnings))

    def _compared(
        self, metric: str, level: float, prevalence: float | None, *, anytime: bool
    ) -> tuple[Comparison, Difference]:
        """Return the answer of `compare`, and the difference that it is made of."""
        ComparedPair.check(metric, level, prevalence)
        found = ComparedPair.of(self._grid, self._models, metric, prevalence)
        return found.comparison(level, anytime=anytime), found.difference

    def _check(self) -> None:
        """Assert all invariants. O(n log n)."""
        self._grid._check(self._max_cells)
        for model in self._models:
            model._check()
            assert model.num_positive_ref == self._grid.positives.total
            assert model.num_negative_ref == self._grid.negatives.total
        if self._ids is not None:
            assert len(self._ids) == self.num_cases
            assert (self._ids[1:] > self._ids[:-1]).all()

    def _view(self) -> _View:
        least = self._models[0].min_label_probability
        settings = (self._scale, self._max_cells, self.cluster_groups, least)
        return settings, self._grid, self._ids, self._models

    def _change(
        self,
        columns: tuple[BoolArray, Any, Any, Any],
        weights: tuple[Any, Any],
        clusters: Any,
        *,
        sign: int,
    ) -> None:
        """Add rows or remove them: labels, scores and ids; weights and label probabilities."""
        positive, scores_a, scores_b, ids = columns
        a = check_scores(scores_a, field="scores_a", scale=self._scale)
        b = check_scores(scores_b, field="scores_b", scale=self._scale)
        column = None if ids is None else IdWords.of(ids)
        sizes = {"scores_a": a.size, "scores_b": b.size}
        if column is not None:
            sizes["ids"] = len(column)
        for name, size in sizes.items():
            check_length(name, size, like="labels", length=positive.size)
        units = None
        if any(each is not None for each in weights):
            check_weights_allowed(self.cluster_groups, field="weights", holder="a pair")
            units = check_units(*weights, size=positive.size, counts=None)
        hashed = check_clusters(clusters, self.cluster_groups, positive.size)
        if units is not None and not units.all():  # a weight of 0 drops the row
            kept = units > 0
            positive, a, b, units = positive[kept], a[kept], b[kept], units[kept]
            column = None if column is None else column.rows(kept)
        units = unless_one(units)
        known = self._changed_ids(column, positive.size, sign=sign)
        models = (self._models[0].copy(), self._models[1].copy())
        for model, scores in zip(models, (a, b)):
            change_model = model.add_cases if sign > 0 else model.remove_cases
            of_rows = {} if units is None else {"weights": units / WEIGHT_UNITS}
            change_model(labels=positive, scores=scores, **of_rows)
        a, b = a + 0.0, b + 0.0  # -0.0 is 0.0
        classes = ~positive, positive
        cells = [_signed_cells(a, b, units, rows, sign) for rows in classes]
        change = PairGrid(cells[0], cells[1])
        if self._grid.groups is not None and hashed is not None:
            groups = [hashed[rows].astype(np.int64) for rows in classes]
            of_groups = PairGroups.of(self._grid.groups.num_groups, cells, groups)
            change = replace(change, groups=of_groups)
        self._grid = self._grid.merged([change], self._max_cells)
        self._ids, self._models = known, models

    def _changed_ids(self, ids: IdWords | None, size: int, *, sign: int) -> WordArray | None:
        """Return the ids after a change of `size` cases."""
        known = self._ids
        if not size:
            return known
        if not self.num_cases:
            known = None if ids is None else NO_WORDS
        if ids is None or known is None:
            if (ids is None) != (known is None):
                has = "was filled without ids" if known is None else "was filled with ids"
                message = f"this pair {has}: give them for all of its cases or for none"
                raise InvalidInputError(message, field="ids")
            return None
        return ids.added_to(known) if sign > 0 else ids.removed_from(known)


def _signed_cells(
    a: FloatArray, b: FloatArray, units: IntArray | None, rows: BoolArray, sign: int
) -> PairCells:
    """Return rows of one class as a change that adds them or removes them."""
    signs = np.full(rows.size, sign, dtype=np.int64)
    return PairCells.of_rows(a, b, signs, units).rows(np.flatnonzero(rows))


@by_keyword
def compare_paired(
    *,
    labels: Any,
    scores_a: Any,
    scores_b: Any,
    ids: Any = None,
    weights: Any = None,
    label_probability: Any = None,
    clusters: Any = None,
    positive: Any = None,
    negative: Any = None,
    cluster_groups: int = ClusterCounts.DEFAULT_GROUPS,
    min_label_probability: float | None = None,
    metric: str = "auc_pr",
    level: float = 0.95,
    prevalence: float | None = None,
) -> Comparison:
    """Compare a metric of two models that scored the same cases, given as columns.

    Parameters
    ----------
    labels, scores_a, scores_b, ids, weights, label_probability, clusters, positive, negative
        As of `PairedEvaluator.add_cases`; a repeated id is refused.
    cluster_groups : int
        How many groups `clusters` are hashed into.
    min_label_probability
        As for `Evaluator`.
    metric, level, prevalence
        As of `PairedEvaluator.compare`.

    Returns
    -------
    Comparison
        Of every pair of scores: nothing is cut into cells.

    Raises
    ------
    InvalidInputError
        With ``field`` and ``index``, for a value that is invalid.

    Notes
    -----
    O(n log n). For ``"auc_roc"`` the variance is DeLong, DeLong and Clarke-Pearson's
    (1988); where cases are few, the interval is wider and the p-value larger than theirs.

    Examples
    --------
    >>> change = compare_paired(
    ...     labels=[1, 1, 1, 0, 0, 0],
    ...     scores_a=[0.9, 0.8, 0.4, 0.5, 0.2, 0.1],
    ...     scores_b=[0.9, 0.3, 0.4, 0.5, 0.2, 0.1],
    ...     metric="auc_roc",
    ... )
    >>> round(change.difference, 4), change.lower < 0 < change.upper
    (0.1111, True)
    """
    groups = None if clusters is None else cluster_groups
    pair = PairedEvaluator(
        max_cells=None, cluster_groups=groups, min_label_probability=min_label_probability
    )
    pair.add_cases(
        labels=labels,
        scores_a=scores_a,
        scores_b=scores_b,
        ids=ids,
        weights=weights,
        label_probability=label_probability,
        clusters=clusters,
        positive=positive,
        negative=negative,
    )
    return pair.compare(metric=metric, level=level, prevalence=prevalence)
