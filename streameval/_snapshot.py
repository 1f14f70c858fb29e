"""Snapshots: the metrics of one revision, immutable.

Metrics, each one pass over the positives, are computed when the snapshot is taken.
Intervals and bounds are computed when they are first read, from the same immutable
counts, so that taking a live snapshot stays cheap.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from streameval._common.errors import InvalidInputError
from streameval._common.plain_values import plain
from streameval._common.result import Result, Shown
from streameval._common.tables import Table
from streameval._common.values import shown
from streameval._metric_registry import BY_NAME, Place, title_of
from streameval._metrics.weighting import ReferenceCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from streameval._common.coverage import Coverage
    from streameval._evaluator_queries import EvaluatorQueries
    from streameval._metrics.confusion import Confusion
    from streameval._metrics.curves import RocHull
    from streameval._metrics.weighting import WeightTotals
    from streameval._uncertainty.interval import Interval

V = TypeVar("V")

_METRICS = tuple(BY_NAME[name] for name in Place.SNAPSHOT.names())
_WITH_INTERVAL = tuple(metric.name for metric in _METRICS if metric.interval)
_WITH_BOUNDS = tuple(metric.name for metric in _METRICS if metric.bounds)
_INTERVALS_NOTE = "  ({:g} % intervals, {})"


class WindowProjection(Protocol):
    """What a window will read once its labels are in, as a snapshot has it."""

    @property
    def figures(self) -> tuple[Any, ...]: ...
    @property
    def assumption(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Snapshot(Result):
    """The metrics of one revision.

    Attributes
    ----------
    revision : int
        Number of mutations included; from a server, its log revision.
    num_cases, num_positive_ref, num_negative_ref : int
        All references, the positives and the negatives, each with its misses.
    num_misses, num_negative_misses : int
        References that were never scored.
    auc_roc, auc_pr, average_precision, prevalence : float
        In [0, 1]; nan where undefined, and then `reasons` says why.
    auc_roc_hull, auc_pr_hull : float
        Areas of the hull and of the achievable PR curve. The hull is chosen on
        the data that it is scored on, so they are optimistic.
    hull : RocHull or None
        The vertices of both; None where a class is absent.
    resolution : int or None
        Significant bits of a score that are kept; None is exact.
    reasons : mapping of str to str
        For each undefined metric ``"EMPTY"``, ``"NO_POSITIVES"`` or
        ``"NO_NEGATIVES"``.
    intervals : mapping of str to Interval
        95 % confidence intervals, of independent cases or clusters; hulls have none.
    bounds : mapping of str to (float, float)
        The limits that contain the exact metrics.
    figures : mapping of str to float
        From a server: the requested metrics, which may be others than those
        above; those above that were not requested are nan.
    window : (datetime, datetime) or None
        Of a window: the time [start, end) that is covered, in whole panes;
        None is all time.
    segment : (str, str) or None
        From a server: the slice, as key and value; None is the whole.
    coverage : Coverage or None
        From a server: the share of predictions whose labels arrived, and their
        delays; None where there were no predictions by id.
    warnings : tuple of str
        Reasons to doubt the metrics.
    weights : WeightTotals or None
        What the references weigh, and Kish's effective numbers; None where each weighs 1.
    operating_point : Confusion or None
        From a server: the counts at the threshold that the stream declares; its rates are
        among `figures`, with intervals. None where it declares none.
    projection : StreamProjection or None
        From a server, if asked for: what the window will read once its labels are in.

    Examples
    --------
    >>> from streameval import Evaluator
    >>> ev = Evaluator()
    >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
    >>> snapshot = ev.snapshot()
    >>> snapshot.auc_roc, snapshot.num_cases, snapshot.revision
    (0.75, 4, 1)
    >>> print(snapshot)
    4 cases at revision 1: 2 positive, 2 negative references
      AUC-ROC              0.750000  0.0000 to 1.0000
      AUC-ROC of the hull  0.875000
      AUC-PR               0.797267  0.0000 to 0.9999
      AUC-PR, achievable   0.887327
      Average precision    0.833333  0.0000 to 0.9999
      Prevalence           0.500000  0.0953 to 0.9047
      (95 % intervals, if cases are independent)
    """

    revision: int
    num_positive_ref: int
    num_negative_ref: int
    auc_roc: float
    auc_roc_hull: float
    auc_pr: float
    auc_pr_hull: float
    average_precision: float
    prevalence: float
    num_misses: int = 0
    num_negative_misses: int = 0
    hull: RocHull | None = None
    resolution: int | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    intervals: Mapping[str, Interval] = field(default_factory=dict, repr=False, hash=False)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict, repr=False, hash=False)
    figures: Mapping[str, float] = field(default_factory=dict)
    window: tuple[datetime, datetime] | None = None
    segment: tuple[str, str] | None = None
    coverage: Coverage | None = None
    warnings: tuple[str, ...] = ()
    weights: WeightTotals | None = None
    operating_point: Confusion | None = None
    projection: WindowProjection | None = None

    @property
    def num_cases(self) -> int:
        """All references, misses included."""
        return self.num_positive_ref + self.num_negative_ref

    @property
    def num_scored(self) -> int:
        """References that have a score: all but the misses."""
        return self.num_cases - self.num_misses - self.num_negative_misses

    def to_dict(self) -> dict[str, Any]:
        """Return the snapshot as plain values that JSON can hold.

        Undefined metrics and limits are None, with the cause in ``reasons``;
        infinite thresholds are ``"Infinity"`` and ``"-Infinity"``, as in
        protobuf's JSON. Computes intervals and bounds. O(G).

        Examples
        --------
        >>> from streameval import Evaluator
        >>> empty = Evaluator().snapshot().to_dict()
        >>> empty["auc_roc"], empty["reasons"]["auc_roc"]
        (None, 'EMPTY')
        """
        return {
            "revision": self.revision,
            "resolution": self.resolution,
            "num_cases": self.num_cases,
            "num_scored": self.num_scored,
            "num_positive_ref": self.num_positive_ref,
            "num_negative_ref": self.num_negative_ref,
            "num_misses": self.num_misses,
            "num_negative_misses": self.num_negative_misses,
            **{name: plain(self._figure(name)) for name in self._names()},
            "reasons": dict(self.reasons),
            "intervals": {
                name: {
                    "lower": plain(interval.lower),
                    "upper": plain(interval.upper),
                    "level": interval.level,
                    "method": interval.method,
                    "design_effect": plain(interval.design_effect),
                }
                for name, interval in self.intervals.items()
            },
            "bounds": {name: [plain(x) for x in pair] for name, pair in self.bounds.items()},
            "hull": None
            if self.hull is None
            else {
                "fp": self.hull.fp.tolist(),
                "tp": self.hull.tp.tolist(),
                "thresholds": [plain(x) for x in self.hull.thresholds.tolist()],
            },
            "window": None if self.window is None else [time.isoformat() for time in self.window],
            "segment": None if self.segment is None else dict([self.segment]),
            "coverage": None if self.coverage is None else self.coverage.to_dict(),
            "warnings": self._all_warnings(),
            "weights": None if self.weights is None else self.weights._asdict(),
            "operating_point": None
            if self.operating_point is None
            else self.operating_point.to_dict(),
            **({} if self.projection is None else {"projection": self.projection.to_dict()}),
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the one row of `to_frame`: `to_row`. O(G)."""
        return [self.to_row()]

    def to_row(self) -> dict[str, Any]:
        """Return the snapshot as one flat row of a table: plain values, no nested ones.

        ``pd.DataFrame([each.to_row() for each in snapshots])`` is a table of them, and so
        is ``pl.DataFrame`` of the same list. Undefined metrics and limits are nan; what a
        snapshot does not have is None. Computes intervals. O(G).

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
        >>> row = ev.snapshot().to_row()
        >>> row["num_cases"], row["auc_roc"], round(row["auc_roc_upper"], 3)
        (4, 0.75, 1.0)
        """
        start, end = self.window or (None, None)
        key, value = self.segment or (None, None)
        return {
            "window_start": start,
            "window_end": end,
            "segment_key": key,
            "segment_value": value,
            "revision": self.revision,
            "resolution": self.resolution,
            "num_cases": self.num_cases,
            "num_scored": self.num_scored,
            "num_positive_ref": self.num_positive_ref,
            "num_negative_ref": self.num_negative_ref,
            "num_misses": self.num_misses,
            "num_negative_misses": self.num_negative_misses,
            **{name: float(self._figure(name)) for name in self._names()},
            **{
                f"{name}_{end}": float(limit)
                for name, interval in self.intervals.items()
                for end, limit in zip(("lower", "upper"), interval, strict=True)
            },
            "threshold": None if self.operating_point is None else self.operating_point.threshold,
            "labelled_share": None if self.coverage is None else self.coverage.labelled_share,
            "warnings": "; ".join(self._all_warnings()),
        }

    def __str__(self) -> str:
        titles = {name: title_of(name) for name in self._names()}
        width = max(map(len, titles.values()))
        lines = [self._summary()]
        lines += [
            f"  {title:<{width}}  {self._value(name)}  {self._interval(name)}".rstrip()
            for name, title in titles.items()
        ]
        level = next((each.level for each in self.intervals.values() if not each.reason), None)
        if level is not None:
            lines.append(_INTERVALS_NOTE.format(100 * level, self._independence()))
        return "\n".join([*lines, *self._notes()])

    def _as_table(self) -> Table:
        level = next((each.level for each in self.intervals.values()), 0.95)
        limits = f"{100 * level:g} % interval, {self._independence()}"
        return Table(
            self._summary(),
            ["", "value", limits],
            [[title_of(name), self._value(name), self._limits(name)] for name in self._names()],
            [note[2:] for note in self._notes()],
        )

    def headline(self) -> Table:
        """Return the counts, AUC-PR, AP and AUC-ROC with their intervals, one in a row."""
        intervals = {name: self.intervals[name] for name in Place.COMPARISON.names()}
        rows = [
            [title_of(name), self._value(name) if math.isnan(each.estimate) else f"{each:.4f}"]
            for name, each in intervals.items()
        ]
        has_limits = any(each.reason is None for each in intervals.values())
        assumed = [_INTERVALS_NOTE.format(95, self._independence())] if has_limits else []
        notes = [note[2:] for note in (*assumed, *self._notes())]
        return Table(self._summary(), (), rows, notes, names=2)

    def _names(self) -> Iterable[str]:
        """Return the names of the metrics that are shown."""
        return self.figures or Place.SNAPSHOT.names()

    def _figure(self, name: str) -> float:
        value: float = self.figures[name] if name in self.figures else getattr(self, name)
        return value

    def _notes(self) -> list[str]:
        """Return the lines below the metrics."""
        notes = []
        if self.window is not None:
            start, end = (time.isoformat(sep=" ").replace("+00:00", "Z") for time in self.window)
            notes.append(f"  from {start} to {end}")
        if self.segment is not None:
            notes.append(f"  where {self.segment[0]} is {self.segment[1] or 'not given'}")
        if self.projection is not None:
            notes += [f"  {line}" for line in str(self.projection).splitlines()]
        if self.operating_point is not None:
            at = self.operating_point
            notes.append(
                f"  at the declared threshold {at.threshold:g}: {at.tp:,g} of "
                f"{at.tp + at.fn:,g} positives flagged, with {at.fp:,g} false positives"
            )
        if self.coverage is not None:
            notes.append(f"  {self.coverage}")
        if self.weights is not None:
            notes.append(f"  {self.weights}")
        return notes + [f"  warning: {warning}" for warning in self._all_warnings()]

    def _all_warnings(self) -> list[str]:
        """Return the reasons to doubt the metrics, then the worst reason to doubt an interval."""
        worst = max(self.intervals.values(), key=_least_effect, default=None)
        found = None if worst is None else worst.warning
        return [*self.warnings, *([] if found is None else [found])]

    def _independence(self) -> str:
        """Return what the intervals assume."""
        effects = [interval.design_effect for interval in self.intervals.values()]
        greatest = max((each for each in effects if not math.isnan(each)), default=1.0)
        if greatest == 1.0:
            return "if cases are independent"
        sampled = "clusters" if self.weights is None else "cases"
        return f"if {sampled} are independent; design effect up to {greatest:.2g}"

    def _summary(self) -> str:
        kept = "" if self.resolution is None else f", {self.resolution} bits of each score"
        missed = self.num_misses + self.num_negative_misses
        unscored = f" ({missed:,} never scored)" if missed else ""
        return (
            f"{self.num_cases:,} cases at revision {self.revision}: {self.num_positive_ref:,} "
            f"positive, {self.num_negative_ref:,} negative references{unscored}{kept}"
        )

    def _value(self, name: str) -> str:
        value = self._figure(name)
        if math.isnan(value):
            return f"undefined ({self.reasons.get(name, 'TOO_FEW')})"
        return f"{value:.6f}"

    def _interval(self, name: str) -> str:
        """Return a metric's interval as text, or why a value has none; empty for a hull."""
        interval = self.intervals.get(name)
        if interval is None or math.isnan(self._figure(name)):
            return ""
        if interval.reason is not None:
            return f"no interval: {interval.reason}"
        return f"{interval.lower:.4f} to {interval.upper:.4f}"

    def _limits(self, name: str) -> str:
        """Return the interval and the bounds of a metric as text."""
        interval = self._interval(name)
        parts = [interval] if interval else []
        limits = self.bounds.get(name)
        if self.resolution is not None and limits is not None and not math.isnan(limits[0]):
            parts.append(f"exact value within {limits[0]:.6f} to {limits[1]:.6f}")
        return "; ".join(parts)


class HasSnapshot(Shown, ABC):
    """Base of evaluators and windows: they are shown by the headline figures of a snapshot."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return the figures."""

    def __str__(self) -> str:
        """Return the counts, AUC-PR, AP and AUC-ROC with their intervals, as a table. O(G)."""
        return self._as_table().as_text()

    def to_dict(self) -> dict[str, Any]:
        """Return ``snapshot().to_dict()``: plain values that JSON can hold. O(G)."""
        return self.snapshot().to_dict()

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the one row of `to_frame`: ``snapshot().to_row()``. O(G)."""
        return self.snapshot().to_rows()

    def plot(self, curve: str = "pr", **options: Any) -> Any:
        """Draw a curve with its interval; a notebook shows it.

        Parameters
        ----------
        curve : {"pr", "roc", "threshold", "reliability"}
            Precision against recall, the ROC curve, precision, recall and F against the
            threshold, or the observed rate against the score.
        **options
            As of the display's `from_evaluator`: ``name=``, ``ax=``, ``log=True``,
            ``hull=False``, ``threshold=0.5``.

        Returns
        -------
        PrecisionRecallDisplay, RocCurveDisplay, ThresholdDisplay or ReliabilityDisplay
            With the axes as ``ax_``, and the figure as ``figure_``.

        Raises
        ------
        InvalidInputError
            For another curve.
        MissingExtraError
            When matplotlib is not installed; the message is the command that installs it.

        Notes
        -----
        O(n) for n distinct scores. See :mod:`streameval.display`.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
        >>> ev.plot("roc", name="model", ax=Figure().subplots()).line_.get_label()
        'model: AUC-ROC 0.750 (0.000 to 1.000)'
        """
        # By name: it stands above this module, and only a picture needs it.
        displays = import_module("streameval.display").DISPLAYS
        if curve not in displays:
            message = f"curve must be {', '.join(map(repr, displays))}, got {shown(curve)}"
            raise InvalidInputError(message, field="curve")
        return displays[curve].from_evaluator(self, **options)

    def _as_table(self) -> Table:
        table, settings = self.snapshot().headline(), self._settings()
        return table._replace(notes=[*table.notes, settings]) if settings else table

    def _settings(self) -> str:
        """Return the settings that the figures do not show; empty for none."""
        return ""


def take_snapshot(queries: EvaluatorQueries) -> Snapshot:
    """Return the metrics of one revision. O(G); intervals and bounds are computed when read.

    Parameters
    ----------
    queries : EvaluatorQueries
        Queries of immutable counts: `RevisionQueries`, or a window.
    """
    view = queries._view()
    references = ReferenceCounts.of(view)
    # A metric of a snapshot is a field of it, by its name.
    values: dict[str, Any] = {metric.name: metric.value(queries) for metric in _METRICS}
    return Snapshot(
        revision=view.revision,
        num_positive_ref=references.positives,
        num_negative_ref=references.negatives,
        num_misses=references.missed_positives,
        num_negative_misses=references.missed_negatives,
        weights=queries.weights,
        **values,
        hull=queries.roc_hull() if view.P and view.N else None,
        resolution=view.resolution,
        reasons={
            metric.name: metric.undefined_reason(positives=view.P, negatives=view.N)
            for metric in _METRICS
            if math.isnan(values[metric.name])
        },
        intervals=_Lazy(_WITH_INTERVAL, queries.interval),
        bounds=_Lazy(_WITH_BOUNDS, queries.bounds),
    )


class _Lazy(Mapping[str, V]):
    """Values by name, each computed when it is read; the view caches them."""

    def __init__(self, names: Sequence[str], compute: Callable[[str], V]) -> None:
        self._names = tuple(names)
        self._compute = compute

    def __getitem__(self, name: str) -> V:
        if name not in self._names:
            raise KeyError(name)
        return self._compute(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[object, ...]:
        return dict, (dict(self),)


def _least_effect(interval: Interval) -> float:
    """Return how much dependence inside panes there is at least, 0 where nothing is known."""
    return 0.0 if math.isnan(interval.least_effect) else interval.least_effect
