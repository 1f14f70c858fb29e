"""How many predictions of a selection have their label, and how long labels took.

Cost: O(buckets) of each pane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.v1 import types_pb2
from streameval_server._state.counting.coverage import PaneCoverage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval import Coverage

DELAY_QUANTILES = (0.5, 0.9, 0.99)

_HOUR_S, _DAY_S = 3_600, 86_400
DELAY_BOUNDS_S = (
    *(1, 10, 60, 600, _HOUR_S, 6 * _HOUR_S),
    *(_DAY_S, 3 * _DAY_S, 7 * _DAY_S, 30 * _DAY_S, 90 * _DAY_S),
)
"""Upper bounds of the buckets of label delays, in seconds; each is a series in Prometheus."""

_DELAY_BOUNDS_US = tuple(1_000_000 * bound_s for bound_s in DELAY_BOUNDS_S)
_UPPER_BOUNDS_S = tuple(map(float, DELAY_BOUNDS_S))
_SECOND_US = 1_000_000


def counts_message(counts: Coverage) -> types_pb2.Coverage | None:
    """Return the numbers of predictions and labels alone; None without any. O(1)."""
    if not (counts.predictions or counts.orphans):
        return None
    return types_pb2.Coverage(
        predictions=counts.predictions,
        labelled=counts.labelled,
        pending=counts.pending,
        expired=counts.expired,
        orphans=counts.orphans,
        retracted=counts.retracted,
        labelled_share=counts.labelled_share if counts.predictions > counts.retracted else None,
    )


def coverage_message(parts: Sequence[PaneCoverage]) -> types_pb2.Coverage | None:
    """Return the message; None without predictions. O(buckets) of each part."""
    coverage = PaneCoverage.merged(parts)
    counts, delays = coverage.counts, coverage.delays
    message = counts_message(counts)
    if message is None:
        return None
    # Fields that are set one by one take half the time of messages that are copied into this.
    add_band = message.bands.add
    for lower, upper, predictions, labelled in coverage.bands():
        band = add_band()
        band.lower, band.upper, band.predictions, band.labelled = (
            *(lower, upper),
            *(predictions, labelled),
        )
    delays_us = delays.quantiles_us(DELAY_QUANTILES)
    if not delays_us:
        return message
    for quantile, delay_us in zip(DELAY_QUANTILES, delays_us, strict=True):
        delay = message.delays.add(quantile=quantile).delay
        delay.seconds, micros = divmod(round(delay_us), _SECOND_US)
        delay.nanos = 1_000 * micros
    histogram = message.delay_histogram
    histogram.upper_bounds_s.extend(_UPPER_BOUNDS_S)
    histogram.counts.extend(delays.counts_through(_DELAY_BOUNDS_US))
    histogram.total = len(delays)
    histogram.sum_s = delays.sum_us() / 1e6
    return message
