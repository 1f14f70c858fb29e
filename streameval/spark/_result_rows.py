"""One row of metrics for a group: its columns, and how they are filled.

The columns have the names that a `Snapshot` has: the counts, the metrics (null
where undefined, and ``reasons`` says why), ``intervals`` and ``bounds`` by
metric.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streameval._common.errors import InvalidInputError
from streameval._metric_registry import BY_NAME, Place
from streameval._uncertainty.intervals import check_level
from streameval.spark._arrow import columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import types as st

    from streameval._evaluator import Evaluator
    from streameval._uncertainty.limits import Limits

_LIMITS = "struct<lower: double, upper: double>"


@dataclass(frozen=True, slots=True)
class RowMetrics:
    """The metrics of a row.

    Attributes
    ----------
    names : tuple of str
        In the order of their columns.
    level : float
        Nominal coverage of the intervals.
    """

    names: tuple[str, ...]
    level: float

    @property
    def with_interval(self) -> list[str]:
        """Those that have intervals."""
        return [name for name in self.names if BY_NAME[name].interval]

    @property
    def with_bounds(self) -> list[str]:
        """Those that have bounds."""
        return [name for name in self.names if BY_NAME[name].bounds]

    @property
    def columns(self) -> st.StructType:
        """The columns of the result, after the groups'."""
        counts = "num_cases long, num_positive_ref long, num_negative_ref long, resolution int"
        figures = [f"{name} double" for name in self.names]
        nested = [
            f"{column} struct<{', '.join(f'{name}: {_LIMITS}' for name in names)}>"
            for column, names in (("intervals", self.with_interval), ("bounds", self.with_bounds))
            if names
        ]
        return columns(", ".join([counts, *figures, *nested, "reasons map<string, string>"]))


def row_metrics(
    metrics: Iterable[str] | None, level: float, *, known: tuple[str, ...]
) -> RowMetrics:
    """Check which metrics a caller names; by default a snapshot's metrics."""
    check_level(level)
    if isinstance(metrics, str):
        raise InvalidInputError(f"metrics must be a list, got {metrics!r}", field="metrics")
    names = tuple(dict.fromkeys(Place.SNAPSHOT.names() if metrics is None else metrics))
    named = Place.REQUEST.names()
    for index, name in enumerate(names):
        if name not in named:
            message = f"no figure is called {name!r}: choose from {', '.join(named)}"
            raise InvalidInputError(message, field="metrics", index=index)
        if name not in known:
            message = f"{name} cannot be put together from shards: choose from {', '.join(known)}"
            raise InvalidInputError(message, field="metrics", index=index)
    if not names:
        raise InvalidInputError("metrics must name at least one figure", field="metrics")
    return RowMetrics(names, level)


def row_of(ev: Evaluator, chosen: RowMetrics) -> dict[str, Any]:
    """Return the metrics of an evaluator as a row. O(G) for each."""
    figures, reasons = {}, {}
    for name in chosen.names:
        try:
            figures[name] = BY_NAME[name].value(ev)
        except InvalidInputError:  # scores outside [0, 1]
            figures[name] = math.nan
            reasons[name] = "NOT_PROBABILITIES"
    intervals = {}
    for name in chosen.with_interval:
        intervals[name] = (math.nan, math.nan)
        if reasons.get(name) != "NOT_PROBABILITIES":
            interval = ev.interval(name, level=chosen.level)
            intervals[name] = (interval.lower, interval.upper)
    bounds: dict[str, Limits] = {name: ev.bounds(name) for name in chosen.with_bounds}
    return filled(
        positives=ev.num_positive_ref,
        negatives=ev.num_negative_ref,
        resolution=ev.resolution,
        figures=figures,
        intervals=intervals,
        bounds=bounds,
        reasons=reasons,
    )


def filled(
    *,
    positives: int,
    negatives: int,
    resolution: int | None,
    figures: Mapping[str, float],
    intervals: Mapping[str, Limits],
    bounds: Mapping[str, Limits],
    reasons: Mapping[str, str],
) -> dict[str, Any]:
    """Return a row; nan becomes null, with its reason."""
    undefined = {
        name: BY_NAME[name].undefined_reason(positives=positives, negatives=negatives)
        for name, value in figures.items()
        if math.isnan(value)
    }
    row: dict[str, Any] = {
        "num_cases": positives + negatives,
        "num_positive_ref": positives,
        "num_negative_ref": negatives,
        "resolution": resolution,
        **{name: _defined(value) for name, value in figures.items()},
        "reasons": list((undefined | dict(reasons)).items()),
    }
    for column, limits in (("intervals", intervals), ("bounds", bounds)):
        if limits:
            row[column] = {
                name: {"lower": _defined(lower), "upper": _defined(upper)}
                for name, (lower, upper) in limits.items()
            }
    return row


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
