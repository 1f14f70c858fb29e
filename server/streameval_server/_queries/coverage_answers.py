"""How many predictions of a selection have their label, and how long labels took.

An answer stays cached while the coverages of its panes stay the same. When some of them change,
the unchanged ones are summed once; later answers add the changed ones to this cached sum.

Cost: O(panes) to look up; O(buckets) of the changed panes if the sum of the others is cached.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, NamedTuple

from streameval.v1 import types_pb2
from streameval_server._state.counting.coverage import PaneCoverage

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from typing import Any

    from streameval import Coverage
    from streameval.kernel import PartsCache

_MESSAGE_BYTES = 4_096
"""Memory of a cached answer, with ten bands, three quantiles and eleven buckets."""
_REFERENCE_BYTES = 16
"""Memory of each reference from an answer to a part; the cache counts its own references."""

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


class _Sum(NamedTuple):
    """The sum of the parts that stayed the same.

    Attributes
    ----------
    parts : tuple of weakref.ref
        Held, so that no other reference has the identity of one of these.
    identities : frozenset of int
        The identities of `parts`.
    coverage : PaneCoverage
    """

    parts: tuple[weakref.ref[PaneCoverage], ...]
    identities: frozenset[int]
    coverage: PaneCoverage


class CoverageAnswer(NamedTuple):
    """A message, the parts it was made of, and the sum of the parts that stayed the same."""

    message: types_pb2.Coverage | None
    parts: tuple[weakref.ref[PaneCoverage], ...]
    same: _Sum | None

    @property
    def memory_bytes(self) -> int:
        """Memory, about."""
        size = _MESSAGE_BYTES + _REFERENCE_BYTES * len(self.parts)
        if self.same is None:
            return size
        references = 4 * _REFERENCE_BYTES * len(self.same.parts)
        return size + references + self.same.coverage.memory_bytes


def coverage_of(
    answers: PartsCache[Hashable, Any], key: Hashable, parts: Sequence[PaneCoverage]
) -> types_pb2.Coverage | None:
    """Return the message for all parts together; None without predictions. Never change it.

    Parameters
    ----------
    answers
        The cache.
    key
        Of the selection in it.
    parts : sequence of PaneCoverage
        At least one.
    """

    def answer() -> CoverageAnswer:
        now = tuple(map(weakref.ref, parts))
        before: CoverageAnswer | None = answers.latest(key)
        same, summed = (None, parts) if before is None else _shortened(before, parts, now)
        return CoverageAnswer(coverage_message(summed), now, same)

    found: CoverageAnswer = answers.get(key, parts, answer)
    return found.message


def _shortened(
    before: CoverageAnswer, parts: Sequence[PaneCoverage], now: Sequence[weakref.ref[PaneCoverage]]
) -> tuple[_Sum | None, Sequence[PaneCoverage]]:
    """Return the sum of the unchanged parts, and the parts to add up in place of all parts.

    These are that sum and the changed parts. Fewer than two unchanged parts are not summed.
    """
    # A living object has one weak reference without a callback, so identities compare parts.
    identities = list(map(id, now))
    known = before.same
    if known is not None and known.identities <= set(identities):
        changed = _others(known, parts, identities)
        if len(parts) - len(changed) == len(known.identities):  # each of them once
            return known, [known.coverage, *changed]
    were = set(map(id, before.parts))
    stayed = [(part, each) for part, each in zip(parts, now, strict=True) if id(each) in were]
    references = tuple(each for _, each in stayed)
    found = frozenset(map(id, references))
    if not 2 <= len(found) == len(references):
        return None, parts
    same = _Sum(references, found, PaneCoverage.merged(part for part, _ in stayed))
    return same, [same.coverage, *_others(same, parts, identities)]


def _others(
    same: _Sum, parts: Sequence[PaneCoverage], identities: Sequence[int]
) -> list[PaneCoverage]:
    """Return the parts that a sum does not have."""
    pairs = zip(parts, identities, strict=True)
    return [part for part, identity in pairs if identity not in same.identities]


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
