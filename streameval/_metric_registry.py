"""The one table of metrics: each row says all that other modules need to know of a metric.

Snapshots, the server's answers, Prometheus, the command line, adapters, Spark, the
page's JavaScript and the documentation's table are made from `METRICS`, so that a new
metric is one function and one row. Rows are resolved when this module is imported;
nothing is looked up by attribute name when a metric is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from streameval._metrics import rate_gradients
from streameval._metrics.areas import AreaQueries
from streameval._metrics.class_separation import ScorecardQueries
from streameval._metrics.confusion import Confusion
from streameval._metrics.decisions import DecisionQueries
from streameval._metrics.gradients import Estimator, gain_gradient, normalized_gradient
from streameval._metrics.influence import (
    auc_pr_derivatives,
    auc_pr_influence,
    auc_roc_influence,
    average_precision_derivatives,
    average_precision_influence,
)
from streameval._metrics.pr_areas import auc_pr_value, average_precision_value
from streameval._metrics.probabilities import ProbabilityQueries
from streameval._metrics.ranked_retrieval import RankedQueries
from streameval._metrics.roc_areas import auc_roc_value
from streameval._metrics.skew import SkewQueries
from streameval._uncertainty.area_rules import PrecisionRule, RocRule
from streameval._uncertainty.calibration import GAPS, RATIO
from streameval._uncertainty.error_costs import CostRule
from streameval._uncertainty.rules import PrevalenceRule, ShareRule

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from streameval._metrics.gradients import Gradient
    from streameval._metrics.queries import MetricQueries
    from streameval._uncertainty.rules import IntervalRule

MAX_ROUNDING_ULPS = 64
"""A few units in the last place for each term of a sum, and at most 45 for pairwise summation."""


Better: TypeAlias = Literal["higher", "lower", "neither"]
"""Which values of a metric are better."""


class WorstOrder(Enum):
    """Which order of a cell's cases gives a metric its least value."""

    NEGATIVES_FIRST = 1
    ANY = 2  # every order passes through the end of the cell
    ONE_BY_ONE = 3  # negatives first, then the positives untied


@dataclass(frozen=True, slots=True)
class BoundsRule:
    """How a metric is bounded where scores kept few bits.

    Attributes
    ----------
    worst : WorstOrder
        Where the least value is; the greatest is with positives first, always.
    ulps : int
        Rounding by which both limits are widened.
    is_difference : bool
        Whether rounding is relative to the terms of a difference, not to the value.
    """

    worst: WorstOrder = WorstOrder.NEGATIVES_FIRST
    ulps: int = MAX_ROUNDING_ULPS
    is_difference: bool = False


class Place(Enum):
    """Where metrics are shown or may be named."""

    SNAPSHOT = auto()  # a field of `Snapshot`, and the default of requests
    SUMMARY = auto()  # the same in the command line's table
    REQUEST = auto()  # a request, and a column of Spark: it has a value without arguments
    ADAPTER = auto()
    PAGE = auto()  # a stream's figures on the page
    MONITOR = auto()  # of every stream: Prometheus, and the page's orders and time series
    CALIBRATION = auto()  # of streams of probabilities: Prometheus, and what they add
    POINT = auto()  # of streams that declare what it needs: the same, unasked in snapshots
    PROJECTION = auto()  # of windows whose labels are still to come, unasked
    DECISION = auto()  # at the threshold of a request or of a stream
    ORDER = auto()  # the page's orders of streams, worst first
    INTERVAL = auto()  # what `interval` takes
    BOUNDS = auto()  # what `bounds` takes
    COMPARISON = auto()  # pairs of models are compared by it
    RANKING = auto()  # streams and slices are
    VERDICT = auto()  # figures of a verdict, if what it needs is declared

    def names(self, arguments: Collection[str] | None = None) -> tuple[str, ...]:
        """Return the names of the metrics of this place, in its order.

        Parameters
        ----------
        arguments : collection of str, optional
            What is known, such as ``["threshold"]``: leave out a metric that needs more.

        Examples
        --------
        >>> Place.COMPARISON.names()
        ('auc_pr', 'average_precision', 'auc_roc')
        >>> Place.DECISION.names(["threshold"])[:3]
        ('precision', 'recall', 'fpr')
        """
        return tuple(
            each.name
            for each in _metrics_of(self)
            if arguments is None or each.missing(arguments) is None
        )


_FOLLOWS: Mapping[Place, Callable[[Metric], bool]] = {
    Place.SUMMARY: lambda metric: Place.SNAPSHOT in metric.shown,
    Place.DECISION: lambda metric: metric.is_at_threshold,
    Place.ORDER: lambda metric: (
        metric.better != "neither" and bool(metric.shown & {Place.MONITOR, Place.POINT})
    ),
    Place.INTERVAL: lambda metric: metric.interval is not None,
    Place.BOUNDS: lambda metric: metric.bounds is not None,
    Place.COMPARISON: lambda metric: metric.estimator is not None,
    Place.RANKING: lambda metric: (
        metric.estimator is not None or (metric.is_at_threshold and metric.better != "neither")
    ),
}
"""The places that follow from what a row has."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Metric:
    """One metric: a row of the table.

    Attributes
    ----------
    name : str
        What requests, columns and JSON call it.
    title : str
        What people read.
    short : str
        The same as a column's head in a narrow table; empty where no table has it.
    function : callable
        The public method, as a function of the queries and its own arguments.
    arguments : mapping
        Those that make it this metric: ``{"hull": True}``.
    needs : tuple of str
        The arguments without which it has no value.
    better : Better
    least, greatest : float
        The range of its values.
    unit : str
        ``"share"`` is shown in percent, ``"cost"`` with three significant digits, others as
        they are; empty is a plain number.
    of_probabilities : bool
        Whether it reads scores as probabilities of the scored cases, so that misses
        do not count.
    is_maximum : bool
        Whether it is the best of all thresholds, and so optimistic.
    is_rescaled : bool
        Whether it takes a `prevalence` to rescale to.
    interval : IntervalRule or None
        How its confidence interval is made.
    gradient : callable or None
        The cells of `cells_of`, and the metric's own arguments, to its `Gradient`; an
        estimator has one. Needs a case of each class that the metric needs.
    bounds : BoundsRule or None
        How it is bounded where scores kept few bits.
    shown : frozenset of Place
        Where it is shown. A row says what cannot be told from its other fields
        (`_FOLLOWS`); empty for a metric that only the library has.
    twin : str
        A metric that the page shows anyway: it shows this one too only where the two differ.
        Empty where there is none.
    watch : str
        The watch of alarms that concerns it; empty where there is none.
    value : callable
        `function` with `arguments`, bound once: an evaluator, a window or a revision to
        the metric, nan where undefined. Raises InvalidInputError when it reads scores as
        probabilities and they are none.
    """

    name: str
    title: str
    short: str = ""
    function: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    better: Better = "higher"
    least: float = 0.0
    greatest: float = 1.0
    unit: str = ""
    of_probabilities: bool = False
    is_maximum: bool = False
    is_rescaled: bool = False
    interval: IntervalRule | None = None
    gradient: Callable[..., Gradient] | None = None
    bounds: BoundsRule | None = None
    shown: frozenset[Place] = frozenset()
    twin: str = ""
    watch: str = ""
    value: Callable[[MetricQueries], float] = field(init=False)

    def __post_init__(self) -> None:
        bound = partial(self.function, **self.arguments) if self.arguments else self.function
        object.__setattr__(self, "value", bound)
        if self.estimator is not None:
            object.__setattr__(self, "gradient", self.estimator.gradient)
        follows = {place for place, applies in _FOLLOWS.items() if applies(self)}
        object.__setattr__(self, "shown", self.shown | follows)

    @property
    def estimator(self) -> Estimator | None:
        """Its value and influence by groups; None where no variance is made of influences."""
        return None if self.interval is None else self.interval.estimator

    @property
    def is_at_threshold(self) -> bool:
        """Whether it is one of what is called positive at a threshold."""
        return "threshold" in self.needs

    @property
    def is_cost(self) -> bool:
        """Whether it needs the costs of errors."""
        return "cost_fp" in self.needs

    def missing(self, arguments: Iterable[str]) -> str | None:
        """Return the first argument that it needs and is not given; None where all are.

        Examples
        --------
        >>> BY_NAME["recall"].missing([]), BY_NAME["recall"].missing(["threshold"])
        ('threshold', None)
        """
        given = set(arguments)
        return next((name for name in self.needs if name not in given), None)

    @property
    def is_hull(self) -> bool:
        """Whether it is an area of the hull, and so optimistic."""
        return bool(self.arguments.get("hull"))

    def undefined_reason(self, *, positives: int, negatives: int) -> str:
        """Return why the metric is nan, given the numbers of references.

        A metric that reads probabilities is nan only where no case was scored, whatever
        was missed.

        Examples
        --------
        >>> for name in ("auc_roc", "brier_score"):
        ...     print(BY_NAME[name].undefined_reason(positives=3, negatives=0))
        NO_NEGATIVES
        EMPTY
        """
        return "EMPTY" if self.of_probabilities else reason_of(positives, negatives)


def reason_of(positives: int, negatives: int) -> str:
    """Return why a metric of ranks has no value, given the numbers of references.

    Examples
    --------
    >>> reason_of(3, 0)
    'NO_NEGATIVES'
    """
    if not positives:
        return "NO_POSITIVES" if negatives else "EMPTY"
    return "NO_NEGATIVES"


def _prevalence(queries: SkewQueries) -> float:
    """Return the share of positives P/(P+N), misses included."""
    return queries.prevalence


def _at_threshold(name: str) -> Callable[..., float]:
    """Return a property of the confusion matrix as a function of queries and a threshold."""
    rate = vars(Confusion)[name]

    def rate_at(queries: DecisionQueries, threshold: float) -> float:
        value: float = rate.fget(queries.confusion_at(threshold))
        return value

    rate_at.__doc__ = rate.__doc__
    return rate_at


_NAMED = frozenset({Place.REQUEST})
_SNAPSHOT = _NAMED | {Place.SNAPSHOT}

_INTERPOLATED = Estimator(
    value=lambda groups, prevalence: auc_pr_value(groups, prevalence=prevalence),
    influence=auc_pr_influence,
    derivatives=auc_pr_derivatives,
)

METRICS = (
    Metric(
        name="auc_roc",
        watch="auc_roc",
        title="AUC-ROC",
        function=AreaQueries.auc_roc,
        interval=RocRule(
            estimator=Estimator(
                value=lambda groups, _: auc_roc_value(groups),
                influence=lambda groups, _: auc_roc_influence(groups),
            )
        ),
        bounds=BoundsRule(),
        shown=_SNAPSHOT
        | {Place.ADAPTER, Place.MONITOR, Place.PROJECTION, Place.PAGE, Place.VERDICT},
    ),
    Metric(
        name="auc_roc_hull",
        title="AUC-ROC of the hull",
        function=AreaQueries.auc_roc,
        arguments={"hull": True},
        bounds=BoundsRule(WorstOrder.ANY),
        shown=_SNAPSHOT | {Place.ADAPTER},
    ),
    Metric(
        name="auc_pr",
        title="AUC-PR",
        function=AreaQueries.auc_pr,
        is_rescaled=True,
        interval=PrecisionRule(estimator=_INTERPOLATED),
        bounds=BoundsRule(),
        shown=_SNAPSHOT
        | {Place.ADAPTER, Place.MONITOR, Place.PROJECTION, Place.PAGE, Place.VERDICT},
    ),
    Metric(
        name="auc_pr_hull",
        title="AUC-PR, achievable",
        function=AreaQueries.auc_pr,
        arguments={"hull": True},
        is_rescaled=True,
        bounds=BoundsRule(WorstOrder.ANY),
        shown=_SNAPSHOT | {Place.ADAPTER},
    ),
    Metric(
        name="average_precision",
        watch="ranking",
        title="Average precision",
        function=AreaQueries.average_precision,
        is_rescaled=True,
        interval=PrecisionRule(
            estimator=Estimator(
                value=lambda groups, prevalence: average_precision_value(
                    groups, prevalence=prevalence
                ),
                influence=average_precision_influence,
                derivatives=average_precision_derivatives,
                counts_misses=False,
                in_cells=_INTERPOLATED,
            )
        ),
        bounds=BoundsRule(WorstOrder.ONE_BY_ONE),
        twin="auc_pr",
        shown=_SNAPSHOT | {Place.ADAPTER, Place.PAGE},
    ),
    Metric(
        name="prevalence",
        title="Prevalence",
        function=_prevalence,
        better="neither",
        unit="share",
        interval=PrevalenceRule(),
        gradient=rate_gradients.prevalence_gradient,
        shown=_SNAPSHOT | {Place.PAGE},
    ),
    Metric(
        name="auc_pr_normalized",
        title="AUC-PR, normalised",
        function=SkewQueries.auc_pr_normalized,
        least=-math.inf,
        bounds=BoundsRule(is_difference=True),
        gradient=normalized_gradient,
        shown=_NAMED,
    ),
    Metric(
        name="auc_pr_minimum",
        title="AUC-PR, the least possible",
        function=SkewQueries.auc_pr_minimum,
        better="neither",
        shown=_NAMED,
    ),
    Metric(
        name="auc_prg",
        title="AUC-PRG",
        function=SkewQueries.auc_prg,
        least=-math.inf,
        bounds=BoundsRule(is_difference=True),
        gradient=gain_gradient,
        shown=_NAMED,
    ),
    Metric(
        name="maximum_f_measure",
        title="Maximum F measure",
        function=RankedQueries.maximum_f_measure,
        is_maximum=True,
        bounds=BoundsRule(WorstOrder.ANY),
        shown=_NAMED,
    ),
    Metric(
        name="maximum_mcc",
        title="Maximum Matthews correlation",
        function=ScorecardQueries.maximum_mcc,
        is_maximum=True,
        bounds=BoundsRule(WorstOrder.ANY),
        shown=_NAMED,
    ),
    Metric(
        name="brier_score",
        title="Brier score",
        function=ProbabilityQueries.brier_score,
        better="lower",
        of_probabilities=True,
        gradient=rate_gradients.brier_gradient,
        shown=_NAMED,
    ),
    Metric(
        name="log_loss",
        title="Log loss",
        function=ProbabilityQueries.log_loss,
        better="lower",
        greatest=math.inf,
        unit="nats",
        of_probabilities=True,
        gradient=rate_gradients.log_loss_gradient,
        shown=_NAMED,
    ),
    Metric(
        name="calibration_error",
        title="Calibration error",
        function=ProbabilityQueries.calibration_error,
        better="lower",
        of_probabilities=True,
        interval=GAPS,
        gradient=rate_gradients.calibration_error_gradient,
        shown=_NAMED | {Place.CALIBRATION},
    ),
    Metric(
        name="observed_expected_ratio",
        title="Observed to expected positives",
        function=ProbabilityQueries.observed_expected_ratio,
        better="neither",
        greatest=math.inf,
        of_probabilities=True,
        interval=RATIO,
        gradient=rate_gradients.observed_expected_gradient,
        shown=_NAMED | {Place.CALIBRATION},
    ),
    Metric(
        name="ks_statistic",
        title="KS statistic",
        function=ScorecardQueries.ks_statistic,
        is_maximum=True,
        shown=_NAMED,
    ),
    Metric(
        name="gini",
        title="Gini coefficient",
        function=ScorecardQueries.gini,
        least=-1.0,
        bounds=BoundsRule(),
        shown=_NAMED,
    ),
    Metric(
        name="r_precision",
        title="R-precision",
        function=RankedQueries.r_precision,
        bounds=BoundsRule(),
    ),
    Metric(
        name="reciprocal_rank",
        title="Reciprocal rank",
        function=RankedQueries.reciprocal_rank,
        # Its expectation inside a long tie is summed to a relative 1e-13.
        bounds=BoundsRule(ulps=2048),
    ),
    Metric(
        name="precision_at",
        title="Precision at a rank",
        function=RankedQueries.precision_at,
        needs=("rank",),
        bounds=BoundsRule(),
    ),
    Metric(
        name="recall_at",
        title="Recall at a rank",
        function=ScorecardQueries.recall_at,
        bounds=BoundsRule(),
    ),
    Metric(
        name="lift_at",
        title="Lift at a rank",
        function=ScorecardQueries.lift_at,
        greatest=math.inf,
        bounds=BoundsRule(),
    ),
    Metric(
        name="eleven_pt_interp_precision",
        title="Eleven-point precision",
        function=RankedQueries.eleven_pt_interp_precision,
        bounds=BoundsRule(WorstOrder.ANY),
    ),
    Metric(
        name="precision",
        watch="precision",
        title="Precision",
        short="prec",
        function=_at_threshold("precision"),
        needs=("threshold",),
        unit="share",
        interval=ShareRule(parts=lambda at: (at.tp, at.fp)),
        gradient=rate_gradients.precision_gradient,
        shown=frozenset({Place.POINT, Place.VERDICT}),
    ),
    Metric(
        name="recall",
        watch="recall",
        title="Recall",
        short="recall",
        function=_at_threshold("recall"),
        needs=("threshold",),
        unit="share",
        interval=ShareRule(parts=lambda at: (at.tp, at.fn)),
        gradient=rate_gradients.recall_gradient,
        shown=frozenset({Place.POINT, Place.VERDICT}),
    ),
    Metric(
        name="fpr",
        title="False positive rate",
        short="FPR",
        function=_at_threshold("fpr"),
        needs=("threshold",),
        better="lower",
        unit="share",
        interval=ShareRule(parts=lambda at: (at.fp, at.tn)),
        gradient=rate_gradients.fpr_gradient,
        shown=frozenset({Place.POINT}),
    ),
    Metric(
        name="specificity",
        title="Specificity",
        function=_at_threshold("specificity"),
        needs=("threshold",),
        unit="share",
        interval=ShareRule(parts=lambda at: (at.tn, at.fp)),
        gradient=rate_gradients.specificity_gradient,
    ),
    Metric(
        name="f_measure",
        title="F measure",
        short="F",
        function=_at_threshold("f_measure"),
        needs=("threshold",),
        unit="share",
        interval=ShareRule(
            parts=lambda at: (at.tp, at.fp + at.fn), rate=lambda share: 2 * share / (1 + share)
        ),
        gradient=rate_gradients.f_measure_gradient,
        shown=frozenset({Place.POINT}),
    ),
    Metric(
        name="flagged_share",
        watch="flagged",
        title="Share flagged",
        short="flagged",
        function=_at_threshold("flagged_share"),
        needs=("threshold",),
        better="neither",
        unit="share",
        interval=ShareRule(parts=lambda at: (at.tp + at.fp, at.fn + at.tn)),
        gradient=rate_gradients.flagged_share_gradient,
        shown=frozenset({Place.POINT}),
    ),
    Metric(
        name="expected_cost",
        title="Cost per case",
        short="cost",
        function=DecisionQueries.expected_cost,
        needs=("threshold", "cost_fp", "cost_fn"),
        better="lower",
        greatest=math.inf,
        unit="cost",
        interval=CostRule(),
        gradient=rate_gradients.expected_cost_gradient,
        shown=frozenset({Place.POINT, Place.VERDICT}),
    ),
)
"""Every metric that has a name; first the metrics of a snapshot, in the order it shows them."""

BY_NAME: Mapping[str, Metric] = {metric.name: metric for metric in METRICS}

HEADLINE = "auc_pr"
"""What is compared, ranked and sorted by where no metric is named."""


def _headline_first(metric: Metric) -> tuple[bool, bool, bool]:
    """Order for people: areas in precision-recall space, other areas, hulls, the rest."""
    return metric.better == "neither", metric.is_hull, not metric.is_rescaled


def _by_name(metric: Metric) -> str:
    return metric.name


_ORDERS: Mapping[Place, Callable[[Metric], Any]] = {
    **dict.fromkeys((Place.PAGE, Place.INTERVAL, Place.BOUNDS), _by_name),
    **dict.fromkeys(
        (
            Place.SUMMARY,
            Place.ADAPTER,
            Place.MONITOR,
            Place.ORDER,
            Place.COMPARISON,
            Place.RANKING,
            Place.VERDICT,
        ),
        _headline_first,
    ),
}
"""The order in which a place shows its metrics; elsewhere it is the table's."""


@cache
def _metrics_of(place: Place) -> tuple[Metric, ...]:
    found = [metric for metric in METRICS if place in metric.shown]
    return tuple(sorted(found, key=_ORDERS[place]) if place in _ORDERS else found)


def title_of(name: str) -> str:
    """Return a metric's title; one made of its name where a newer server sent it.

    Examples
    --------
    >>> title_of("auc_roc"), title_of("unheard_of")
    ('AUC-ROC', 'Unheard of')
    """
    metric = BY_NAME.get(name)
    return name.replace("_", " ").capitalize() if metric is None else metric.title
