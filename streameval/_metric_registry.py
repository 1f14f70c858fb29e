"""The one table of metrics: each row says all that other modules need to know of a metric.

Snapshots, the server's answers, Prometheus, the command line, adapters, Spark, the
page's JavaScript and the documentation's table are made from `METRICS`, so that a new
metric is one function and one row. Rows are resolved when this module is imported;
nothing is looked up by attribute name when a metric is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from streameval._metrics import rate_gradients
from streameval._metrics.areas import AreaQueries
from streameval._metrics.confusion import Confusion
from streameval._metrics.decisions import DecisionQueries
from streameval._metrics.gradients import area_gradient, gain_gradient, normalized_gradient
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
from streameval._metrics.scorecards import ScorecardQueries
from streameval._metrics.skew import SkewQueries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from streameval._counts.groups import Groups
    from streameval._metrics.gradients import Gradient
    from streameval._metrics.influence import Derivatives, Influence
    from streameval._metrics.queries import MetricQueries

MAX_ROUNDING_ULPS = 64
"""A few units in the last place for each term of a sum, and at most 45 for pairwise summation."""


Better: TypeAlias = Literal["higher", "lower", "neither"]
"""Which values of a metric are better."""

IntervalKind: TypeAlias = Literal[
    "delong-newcombe", "influence-logit", "wilson", "square-and-add", "binned-gaps"
]
"""How a confidence interval is made, as `Interval.method` says it."""


class WorstOrder(Enum):
    """Which order of a cell's cases gives a metric its least value."""

    NEGATIVES_FIRST = 1
    ANY = 2  # every order passes through the end of the cell
    ONE_BY_ONE = 3  # negatives first, then the positives untied


@dataclass(frozen=True, slots=True)
class Estimator:
    """A metric as a function of groups, and how it moves with their counts.

    Attributes
    ----------
    value : callable
        (groups, prevalence) to the metric; prevalence is None unless it is rescaled.
    influence : callable
        (groups, prevalence) to the influence of each case.
    derivatives : callable or None
        (groups, prevalence) to the derivatives by each group's counts; None where the
        influence is not accumulated from them.
    counts_misses : bool
        Whether the misses are one more tied group, below every case.
    in_cells : Estimator or None
        Of the same area where groups are cells that hide an order: its mean over the
        orders, to which ties of the metric itself would add a bias. None: itself.
    """

    value: Callable[[Groups, float | None], float]
    influence: Callable[[Groups, float | None], Influence]
    derivatives: Callable[[Groups, float | None], Derivatives] | None = None
    counts_misses: bool = True
    in_cells: Estimator | None = None

    def counted(self, groups: Groups) -> Groups:
        """Return the groups that the functions take, from groups without the misses. O(G)."""
        return groups.with_misses() if self.counts_misses else groups

    def gradient(self, cells: Groups, prevalence: float | None = None) -> Gradient:
        """Return the derivatives by the counts of all cells, made of the influence. O(K)."""
        return area_gradient(cells, self.influence, prevalence, counts_misses=self.counts_misses)


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


@dataclass(frozen=True, slots=True)
class Share:
    """A rate at a threshold as a share of cases, of which its interval is Wilson's.

    Attributes
    ----------
    parts : callable
        A confusion matrix to the cases that count for the share, and the other ones.
    rate : callable
        The share to the metric, increasing.
    """

    parts: Callable[[Confusion], tuple[float, float]]
    rate: Callable[[float], float] = float


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
    interval : IntervalKind or None
        How its confidence interval is made.
    estimator : Estimator or None
        Its value and influence by groups; None where no variance is made of influences.
    share : Share or None
        Of a rate at a threshold.
    gradient : callable or None
        The cells of `cells_of`, and the metric's own arguments, to its `Gradient`; an
        estimator has one. Needs a case of each class that the metric needs.
    bounds : BoundsRule or None
        How it is bounded where scores kept few bits.
    is_served : bool
        Whether requests and Spark columns may name it: it has a value without arguments.
    in_snapshot : bool
        Whether it is a field of `Snapshot`, and so the default of requests.
    is_area : bool
        Whether adapters offer it.
    is_monitored : bool
        Whether the page can order streams by it, and Prometheus by default gets one time
        series of it for each stream: of a rate if the stream declares a threshold, of a cost
        if it declares costs too, of a metric of probabilities if it is on that scale.
    on_page : bool
        Whether the page shows it among a stream's figures.
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
    interval: IntervalKind | None = None
    estimator: Estimator | None = None
    share: Share | None = None
    gradient: Callable[..., Gradient] | None = None
    bounds: BoundsRule | None = None
    is_served: bool = True
    in_snapshot: bool = False
    is_area: bool = False
    is_monitored: bool = False
    on_page: bool = False
    twin: str = ""
    watch: str = ""
    value: Callable[[MetricQueries], float] = field(init=False)

    def __post_init__(self) -> None:
        bound = partial(self.function, **self.arguments) if self.arguments else self.function
        object.__setattr__(self, "value", bound)
        if self.estimator is not None:
            object.__setattr__(self, "gradient", self.estimator.gradient)

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


_INTERPOLATED = Estimator(
    value=lambda groups, prevalence: auc_pr_value(groups, prevalence=prevalence),
    influence=auc_pr_influence,
    derivatives=auc_pr_derivatives,
)

METRICS = (
    Metric(
        name="auc_roc",
        watch="placement",
        title="AUC-ROC",
        function=AreaQueries.auc_roc,
        interval="delong-newcombe",
        estimator=Estimator(
            value=lambda groups, _: auc_roc_value(groups),
            influence=lambda groups, _: auc_roc_influence(groups),
        ),
        bounds=BoundsRule(),
        in_snapshot=True,
        is_area=True,
        is_monitored=True,
        on_page=True,
    ),
    Metric(
        name="auc_roc_hull",
        title="AUC-ROC of the hull",
        function=AreaQueries.auc_roc,
        arguments={"hull": True},
        bounds=BoundsRule(WorstOrder.ANY),
        in_snapshot=True,
        is_area=True,
    ),
    Metric(
        name="auc_pr",
        title="AUC-PR",
        function=AreaQueries.auc_pr,
        is_rescaled=True,
        interval="influence-logit",
        estimator=_INTERPOLATED,
        bounds=BoundsRule(),
        in_snapshot=True,
        is_area=True,
        is_monitored=True,
        on_page=True,
    ),
    Metric(
        name="auc_pr_hull",
        title="AUC-PR, achievable",
        function=AreaQueries.auc_pr,
        arguments={"hull": True},
        is_rescaled=True,
        bounds=BoundsRule(WorstOrder.ANY),
        in_snapshot=True,
        is_area=True,
    ),
    Metric(
        name="average_precision",
        watch="ranking",
        title="Average precision",
        function=AreaQueries.average_precision,
        is_rescaled=True,
        interval="influence-logit",
        estimator=Estimator(
            value=lambda groups, prevalence: average_precision_value(groups, prevalence=prevalence),
            influence=average_precision_influence,
            derivatives=average_precision_derivatives,
            counts_misses=False,
            in_cells=_INTERPOLATED,
        ),
        bounds=BoundsRule(WorstOrder.ONE_BY_ONE),
        in_snapshot=True,
        is_area=True,
        on_page=True,
        twin="auc_pr",
    ),
    Metric(
        name="prevalence",
        title="Prevalence",
        function=_prevalence,
        better="neither",
        unit="share",
        interval="wilson",
        in_snapshot=True,
        on_page=True,
        gradient=rate_gradients.prevalence_gradient,
    ),
    Metric(
        name="auc_pr_normalized",
        title="AUC-PR, normalised",
        function=SkewQueries.auc_pr_normalized,
        least=-math.inf,
        bounds=BoundsRule(is_difference=True),
        gradient=normalized_gradient,
    ),
    Metric(
        name="auc_pr_minimum",
        title="AUC-PR, the least possible",
        function=SkewQueries.auc_pr_minimum,
        better="neither",
    ),
    Metric(
        name="auc_prg",
        title="AUC-PRG",
        function=SkewQueries.auc_prg,
        least=-math.inf,
        bounds=BoundsRule(is_difference=True),
        gradient=gain_gradient,
    ),
    Metric(
        name="maximum_f_measure",
        title="Maximum F measure",
        function=RankedQueries.maximum_f_measure,
        is_maximum=True,
        bounds=BoundsRule(WorstOrder.ANY),
    ),
    Metric(
        name="maximum_mcc",
        title="Maximum Matthews correlation",
        function=ScorecardQueries.maximum_mcc,
        is_maximum=True,
        bounds=BoundsRule(WorstOrder.ANY),
    ),
    Metric(
        name="brier_score",
        title="Brier score",
        function=ProbabilityQueries.brier_score,
        better="lower",
        of_probabilities=True,
        gradient=rate_gradients.brier_gradient,
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
    ),
    Metric(
        name="calibration_error",
        title="Calibration error",
        function=ProbabilityQueries.calibration_error,
        better="lower",
        of_probabilities=True,
        interval="binned-gaps",
        gradient=rate_gradients.calibration_error_gradient,
        is_monitored=True,
    ),
    Metric(
        name="observed_expected_ratio",
        title="Observed to expected positives",
        function=ProbabilityQueries.observed_expected_ratio,
        better="neither",
        greatest=math.inf,
        of_probabilities=True,
        interval="wilson",
        gradient=rate_gradients.observed_expected_gradient,
        is_monitored=True,
    ),
    Metric(
        name="ks_statistic",
        title="KS statistic",
        function=ScorecardQueries.ks_statistic,
        is_maximum=True,
    ),
    Metric(
        name="gini",
        title="Gini coefficient",
        function=ScorecardQueries.gini,
        least=-1.0,
        bounds=BoundsRule(),
    ),
    Metric(
        name="r_precision",
        title="R-precision",
        function=RankedQueries.r_precision,
        bounds=BoundsRule(),
        is_served=False,
    ),
    Metric(
        name="reciprocal_rank",
        title="Reciprocal rank",
        function=RankedQueries.reciprocal_rank,
        # Its expectation inside a long tie is summed to a relative 1e-13.
        bounds=BoundsRule(ulps=2048),
        is_served=False,
    ),
    Metric(
        name="precision_at",
        title="Precision at a rank",
        function=RankedQueries.precision_at,
        needs=("rank",),
        bounds=BoundsRule(),
        is_served=False,
    ),
    Metric(
        name="recall_at",
        title="Recall at a rank",
        function=ScorecardQueries.recall_at,
        bounds=BoundsRule(),
        is_served=False,
    ),
    Metric(
        name="lift_at",
        title="Lift at a rank",
        function=ScorecardQueries.lift_at,
        greatest=math.inf,
        bounds=BoundsRule(),
        is_served=False,
    ),
    Metric(
        name="eleven_pt_interp_precision",
        title="Eleven-point precision",
        function=RankedQueries.eleven_pt_interp_precision,
        bounds=BoundsRule(WorstOrder.ANY),
        is_served=False,
    ),
    Metric(
        name="precision",
        watch="precision",
        title="Precision",
        short="prec",
        function=_at_threshold("precision"),
        needs=("threshold",),
        unit="share",
        interval="wilson",
        share=Share(lambda at: (at.tp, at.fp)),
        gradient=rate_gradients.precision_gradient,
        is_served=False,
        is_monitored=True,
    ),
    Metric(
        name="recall",
        watch="recall",
        title="Recall",
        short="recall",
        function=_at_threshold("recall"),
        needs=("threshold",),
        unit="share",
        interval="wilson",
        share=Share(lambda at: (at.tp, at.fn)),
        gradient=rate_gradients.recall_gradient,
        is_served=False,
        is_monitored=True,
    ),
    Metric(
        name="fpr",
        title="False positive rate",
        short="FPR",
        function=_at_threshold("fpr"),
        needs=("threshold",),
        better="lower",
        unit="share",
        interval="wilson",
        share=Share(lambda at: (at.fp, at.tn)),
        gradient=rate_gradients.fpr_gradient,
        is_served=False,
        is_monitored=True,
    ),
    Metric(
        name="specificity",
        title="Specificity",
        function=_at_threshold("specificity"),
        needs=("threshold",),
        unit="share",
        interval="wilson",
        share=Share(lambda at: (at.tn, at.fp)),
        gradient=rate_gradients.specificity_gradient,
        is_served=False,
    ),
    Metric(
        name="f_measure",
        title="F measure",
        short="F",
        function=_at_threshold("f_measure"),
        needs=("threshold",),
        unit="share",
        interval="wilson",
        share=Share(lambda at: (at.tp, at.fp + at.fn), lambda share: 2 * share / (1 + share)),
        gradient=rate_gradients.f_measure_gradient,
        is_served=False,
        is_monitored=True,
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
        interval="wilson",
        share=Share(lambda at: (at.tp + at.fp, at.fn + at.tn)),
        gradient=rate_gradients.flagged_share_gradient,
        is_served=False,
        is_monitored=True,
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
        interval="square-and-add",
        gradient=rate_gradients.expected_cost_gradient,
        is_served=False,
        is_monitored=True,
    ),
)
"""Every metric that has a name; first the metrics of a snapshot, in the order it shows them."""

BY_NAME: Mapping[str, Metric] = {metric.name: metric for metric in METRICS}

HEADLINE = "auc_pr"
"""What is compared, ranked and sorted by where no metric is named."""


def _names(metrics: Iterable[Metric]) -> tuple[str, ...]:
    return tuple(metric.name for metric in metrics)


def _headline_first(metrics: Iterable[Metric]) -> tuple[str, ...]:
    """Order for people: areas in precision-recall space, other areas, hulls, the rest."""
    return _names(
        sorted(
            metrics,
            key=lambda each: (each.better == "neither", each.is_hull, not each.is_rescaled),
        )
    )


SERVED_NAMES = _names(metric for metric in METRICS if metric.is_served)
"""What a request or a column may name."""

RATE_NAMES = _names(metric for metric in METRICS if metric.share)
"""The rates at a threshold, which a request may name, too: a stream has them at its own."""

POINT_NAMES = _names(metric for metric in METRICS if metric.share and metric.is_monitored)
"""Those that are shown, unasked, of a stream that declares a threshold."""

COST_NAMES = _names(metric for metric in METRICS if metric.is_cost)
"""What is shown as well, unasked or by name, of a stream that declares costs of errors."""

SNAPSHOT_METRICS = tuple(metric for metric in METRICS if metric.in_snapshot)
SNAPSHOT_NAMES = _names(SNAPSHOT_METRICS)
"""The fields of a snapshot, in the order in which it shows them."""

SUMMARY_NAMES = _headline_first(SNAPSHOT_METRICS)
"""The same in the order of the command line's table."""

INTERVAL_NAMES = tuple(sorted(_names(metric for metric in METRICS if metric.interval)))
BOUNDED_NAMES = tuple(sorted(_names(metric for metric in METRICS if metric.bounds)))
"""What `bounds` takes."""

COMPARED_NAMES = _headline_first(metric for metric in METRICS if metric.estimator)
"""What streams, slices and pairs of models are compared by."""

RANKED_RATE_NAMES = _names(
    metric for metric in METRICS if metric.is_at_threshold and metric.better != "neither"
)
"""What streams and slices that have a threshold, and costs, are compared by as well."""

AREA_NAMES = _headline_first(metric for metric in METRICS if metric.is_area)
"""What adapters offer."""

PROJECTED_NAMES = _names(metric for metric in METRICS if metric.is_area and metric.is_monitored)
"""What is projected, unasked, of windows whose labels are still to come."""

MONITORED_NAMES = tuple(
    sorted(
        _names(
            metric
            for metric in METRICS
            if metric.is_monitored and metric.is_served and not metric.of_probabilities
        )
    )
)
ORDERED_NAMES = (
    *MONITORED_NAMES,
    *(name for name in POINT_NAMES + COST_NAMES if name in RANKED_RATE_NAMES),
)
"""What the page orders streams by."""

CALIBRATION_NAMES = _names(
    metric for metric in METRICS if metric.is_monitored and metric.of_probabilities
)
"""What is shown of streams on the probability scale."""

PAGE_NAMES = tuple(sorted(_names(metric for metric in METRICS if metric.on_page)))
"""A stream's figures on the page, in their order."""


def title_of(name: str) -> str:
    """Return a metric's title; one made of its name where a newer server sent it.

    Examples
    --------
    >>> title_of("auc_roc"), title_of("unheard_of")
    ('AUC-ROC', 'Unheard of')
    """
    metric = BY_NAME.get(name)
    return name.replace("_", " ").capitalize() if metric is None else metric.title
