"""Bounds: the least and the greatest value of a metric when scores kept few bits.

A bounded evaluator knows every count exactly, and the order of cases between
cells; only the order *inside* a cell is lost. For each metric there is a worst
and a best order, and the two bracket the exact value on the original scores,
ties among them included. With T true and F false positives above a cell of p
positives and n negatives, the worst order (`WorstOrder`, in the metric's row) is:

- NEGATIVES_FIRST for a metric that only gains when false positives come later
  (AUC-ROC, AUC-PR by either method, normalised, precision-recall gain, metrics at
  a rank); it is highest with the positives of each cell first;
- ANY for a metric that chooses among operating points (hulls, maximum F,
  eleven-point precision); it is highest at the corners (F, T + p) and lowest at the
  ends of the cells, which are operating points in every order;
- ONE_BY_ONE for average precision; it is highest with the positives first as *one*
  tie, lowest with the negatives first and the positives one by one.

Some order attains each limit, so narrower limits would not hold for all data; all
limits are then widened by the `ulps` of the metric's row, which covers rounding
here and in the exact metric. References that were never scored are one tied
group by definition: their tie is real and is not widened. Neither is the tie in a
cell that holds a single double. Cells without positives change no metric. O(G)
for G cells that hold positives.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval._counts.cluster_counts import NO_CLUSTERS
from streameval._counts.cumulative import CumulativeCounts
from streameval._counts.view import Queries
from streameval._metric_registry import BY_NAME, Place, WorstOrder
from streameval._metrics.pr_areas import average_precision_value, negatives_factor
from streameval._metrics.queries import ViewQueries
from streameval._uncertainty.cell_orders import (
    hidden_groups,
    least_average_precision,
    negatives_first,
    positives_first,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from streameval._common.arrays import BoolArray, FloatArray
    from streameval._counts.groups import Groups
    from streameval._counts.view import View
    from streameval._metric_registry import Metric

T = TypeVar("T")

_EPSNEG = float(np.finfo(np.float64).epsneg)


class BoundsQueries(Queries):
    """Hard limits of an evaluator's metrics."""

    @overload
    def bounds(  # type: ignore[overload-overlap]  # all metrics but this one are scalars
        self, metric: Literal["eleven_pt_interp_precision"]
    ) -> tuple[FloatArray, FloatArray]: ...

    @overload
    def bounds(self, metric: str = "auc_pr", **arguments: Any) -> tuple[float, float]: ...

    def bounds(self, metric: str = "auc_pr", **arguments: Any) -> tuple[Any, Any]:
        """Return the least and the greatest value that a metric can have.

        With ``resolution`` or ``max_cells`` an evaluator loses the order of
        cases whose scores share a cell; it knows everything else exactly. The
        metric of an exact evaluator with the same cases always lies between the
        two limits, and for each limit there are cases with these counts that
        attain it. These are not confidence limits: see :meth:`interval`.

        Parameters
        ----------
        metric : str
            A metric that the table of metrics gives bounds: an area such as
            ``auc_roc`` or ``auc_pr_hull``, a metric of ranks such as
            ``precision_at``, the best of all thresholds such as
            ``maximum_f_measure``. Another name is refused with the list of all.
        **arguments
            Those of the method of that name: ``rank=10``, ``beta=2.0``,
            ``prevalence=0.01``, ``method="unit"``, ``max_fpr=0.1``, ...

        Returns
        -------
        lower, upper : float
            Arrays of 11 for ``eleven_pt_interp_precision``. nan where the
            metric is nan. Without a resolution both are the metric itself,
            widened by its rounding only.

        Raises
        ------
        InvalidInputError
            When no bounds are known for the metric, or an argument is refused.
        TypeError
            When the method of that name takes no such argument.

        Notes
        -----
        O(G) for G cells that hold positives, O(G log G) at worst for hulls;
        cached for each revision. The method is in docs/bounded-memory.md.

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator(resolution=2)
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.3, 0.1])
        >>> [round(limit, 6) for limit in ev.bounds("auc_roc")]
        [0.5, 0.75]
        >>> [round(limit, 6) for limit in ev.bounds("precision_at", rank=1)]
        [0.0, 1.0]
        """
        view = self._view()
        key = ("bounds", metric, tuple(sorted(arguments.items())))
        return view.cached(key, lambda: _bounds(view, metric, arguments))


def value_of_view(view: View, metric: Metric, **arguments: Any) -> Any:
    """Return what the metric's method returns; cached with the view."""
    return metric.function(ViewQueries(view), **arguments)


def _bounds(view: View, name: str, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """Compute the limits of one metric: its value at the two extreme orders, widened."""
    if arguments.get("hull") and f"{name}_hull" in BY_NAME:
        name = f"{name}_hull"
    metric = BY_NAME.get(name)
    if metric is None or metric.bounds is None:
        known = ", ".join(Place.BOUNDS.names())
        raise InvalidInputError(f"bounds are known for {known}; got {shown(name)}", field="metric")
    missing = metric.missing(arguments)
    if missing is not None:
        message = f"bounds of {name} need a {missing}: bounds({name!r}, {missing}=10)"
        raise InvalidInputError(message, field=missing)
    arguments = {**arguments, **metric.arguments}
    highest = view if view.resolution is None else _reordered(view, positives_first)
    lower = _least_of(view, metric, metric.bounds.worst, arguments)
    upper = value_of_view(highest, metric, **arguments)
    # A part of an area rounds like the whole area, a difference like its terms.
    is_part = any(arguments.get(name) for name in ("max_fpr", "min_recall"))
    scale = 1.0 if is_part or metric.bounds.is_difference else 0.0
    return _widened(lower, metric, -1, scale), _widened(upper, metric, 1, scale)


def _least_of(view: View, metric: Metric, worst: WorstOrder, arguments: dict[str, Any]) -> Any:
    """Return the value at the order of the cells' cases that is worst for the metric."""
    if view.resolution is not None and worst is WorstOrder.ONE_BY_ONE:
        return _least_average_precision(view, **arguments)  # no other metric has this order
    if view.resolution is not None and worst is WorstOrder.NEGATIVES_FIRST:
        view = _reordered(view, negatives_first)
    return value_of_view(view, metric, **arguments)


def rounding_bounds(name: str, value: float) -> tuple[float, float]:
    """Return the bounds of a metric that was computed from exact counts: its rounding. O(1)."""
    metric = BY_NAME[name]
    return _widened(value, metric, -1, 0.0), _widened(value, metric, 1, 0.0)


def _widened(value: Any, metric: Metric, outwards: int, scale: float) -> Any:
    """Move a limit outwards by the metric's rounding, never out of its range."""
    assert metric.bounds is not None
    rounding = metric.bounds.ulps * _EPSNEG
    if isinstance(value, np.ndarray):
        limits = value + outwards * rounding * np.maximum(np.abs(value), scale)
        return np.clip(limits, metric.least, metric.greatest)
    limit = value + outwards * rounding * max(abs(value), scale)
    return float(limit if math.isnan(limit) else min(max(limit, metric.least), metric.greatest))


def _least_average_precision(view: View, prevalence: float | None = None) -> float:
    """Return the least average precision: real ties as they are, the rest one by one."""
    groups, hidden = view.groups, hidden_groups(view)
    ties = average_precision_value(rows_of(groups, ~hidden), prevalence=prevalence)
    factor = negatives_factor(groups, prevalence)
    if math.isnan(ties):
        return ties
    return ties + least_average_precision(rows_of(groups, hidden), factor=factor)


def _reordered(view: View, order: Callable[[Groups, BoolArray], Groups]) -> View:
    """Return the view with the cases of each cell in one of the extreme orders."""
    return view.cached(
        ("reordered", order),
        lambda: _ReorderedView(order(view.groups, hidden_groups(view)), view),
    )


class _ReorderedView:
    """A view of rewritten groups, with a cache of its own."""

    resolution = None
    clusters = NO_CLUSTERS

    def __init__(self, groups: Groups, view: View) -> None:
        self.groups = groups
        self.scale = view.scale
        self.revision = view.revision
        self.unit = view.unit
        self.weighted = view.weighted
        self.min_label_probability = view.min_label_probability
        self.missed_positives = groups.missed_positives
        self.missed_negatives = groups.missed_negatives
        self.P = groups.P
        self.N = groups.N
        self._answers: dict[Hashable, Any] = {}

    @cached_property
    def cumulative(self) -> CumulativeCounts:
        """The counts at the ends of the groups; scores between have no positives."""
        groups = self.groups
        return CumulativeCounts(
            thresholds=np.concatenate(([np.inf], groups.scores, [-np.inf])),
            fp=np.concatenate(([0], groups.fp + groups.n, [self.N])),
            tp=np.concatenate(([0], groups.tp + groups.p, [self.P])),
        )

    def above(self, threshold: float) -> tuple[int, int]:
        """Return how many positives and negatives a threshold calls positive."""
        return self.cumulative.above(threshold)

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the cached answer of `key`, computed at its first use."""
        if key not in self._answers:
            self._answers[key] = compute()
        return cast("T", self._answers[key])
