"""How long labels took: a DDSketch's buckets, kept as two small columns.

A DDSketch (Masson, Rim and Lee 2019) counts values in buckets whose bounds grow by a
constant factor, gamma, so that every quantile has 1 % relative accuracy. A pane keeps only
the buckets that occur, so thousands of panes cost little. Merging adds counts, so it is
exact: the merged sketch equals the sketch of all delays together. The delays of retracted
predictions stay in it.

Cost: O(n log n) to feed n delays, O(buckets) to merge and for quantiles; about 1,500 buckets
span a microsecond to a year.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np

from streameval import CorruptStateError
from streameval.kernel import Effect, distinct_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from streameval.kernel import Effects
    from streameval_server._model.arrays import IntArray

RELATIVE_ACCURACY = 0.01
"""alpha of the paper."""

_GAMMA = (1 + RELATIVE_ACCURACY) / (1 - RELATIVE_ACCURACY)
_LOG_GAMMA = np.log(_GAMMA)
# In the order of operations of Datadog's sketches-py: quantiles equal its own bit for bit.
_BUCKETS_PER_DOUBLING = (
    1 / math.log1p(2 * RELATIVE_ACCURACY / (1 - RELATIVE_ACCURACY)) * math.log(2)
)
_MIDDLE = 2 / (1 + _GAMMA)
"""What lies at most 1 % from both bounds of a bucket, over its upper bound."""

_MIDDLES_US = np.exp2(np.arange(2**15) / _BUCKETS_PER_DOUBLING) * _MIDDLE
"""The middle of each bucket but `_ZERO`. (In numpy 1.26 the quotient of 16-bit integers has 32
bits.)"""

_ZERO = np.int16(-(2**15))
"""The bucket of labels that arrived with their prediction, or before it."""

_BUCKET_BITS = 16
_BUCKET_MASK = (1 << _BUCKET_BITS) - 1

_NO_BUCKETS = np.empty(0, dtype=np.int16)
_NO_COUNTS = np.empty(0, dtype=np.int64)

_LABELLED = np.isin(np.arange(256), (Effect.LABELLED_NEGATIVE, Effect.LABELLED_POSITIVE))


@dataclass(frozen=True, slots=True, eq=False)
class Delays:
    """Label delays in buckets. Immutable.

    Attributes
    ----------
    buckets : int16[n]
        Ascending; bucket i holds delays in (gamma^(i-1), gamma^i] microseconds.
    counts : int64[n]
        How many delays each holds.

    Examples
    --------
    >>> delays = Delays.of(np.array([1_000_000, 2_000_000, 60_000_000]))
    >>> [round(value / 1e6, 1) for value in delays.quantiles_us([0.5, 1])]
    [2.0, 60.0]
    """

    buckets: npt.NDArray[np.int16]
    counts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, delays_us: npt.NDArray[np.int64]) -> Self:
        """Return the buckets of delays; a delay that is not positive counts as zero."""
        return cls(*np.unique(_buckets_of(delays_us), return_counts=True))

    @classmethod
    def merged(cls, parts: Iterable[Self]) -> Self:
        """Return the buckets of all delays together. O(buckets)."""
        parts = [part for part in parts if part.buckets.size]
        if not parts:
            return cls(_NO_BUCKETS, _NO_COUNTS)
        if len(parts) == 1:
            return parts[0]
        # A table of all buckets up to the longest delay; entry 0 counts delays of zero.
        longest = max(int(part.buckets[-1]) for part in parts)
        counts = np.zeros(max(longest, -1) + 2, dtype=np.int64)
        late = counts[1:]
        for part in parts:
            buckets, of_part = part.buckets, part.counts
            if buckets[0] < 0:
                start = int(buckets.searchsorted(0))
                counts[0] += of_part[:start].sum()
                buckets, of_part = buckets[start:], of_part[start:]
            # Twice as fast as `late[buckets] += of_part`, which looks up each place twice.
            np.add.at(late, buckets, of_part)
        # flatnonzero is five times as fast on booleans as on integers.
        used = np.flatnonzero(counts != 0)
        buckets = (used - 1).astype(np.int16)
        if buckets[0] < 0:
            buckets[0] = _ZERO
        return cls(buckets, counts[used])

    def __len__(self) -> int:
        """Return the number of delays. O(buckets)."""
        return int(self.counts.sum())

    def to_bytes(self) -> bytes:
        """Return the two columns, concatenated."""
        return self.buckets.astype("<i2").tobytes() + self.counts.astype("<i8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the delays that `to_bytes` wrote.

        Raises
        ------
        CorruptStateError
            When the bytes are not what `to_bytes` wrote.
        """
        size, rest = divmod(len(data), 10)
        if rest:
            raise CorruptStateError(f"{len(data)} bytes cannot be label delays")
        buckets = np.frombuffer(data, "<i2", size).astype(np.int16)
        counts = np.frombuffer(data, "<i8", size, 2 * size).astype(np.int64)
        if (buckets[1:] <= buckets[:-1]).any() or (counts < 1).any():
            raise CorruptStateError("the label delays contradict themselves")
        return cls(buckets, counts)

    def quantiles_us(self, quantiles: Sequence[float]) -> list[float]:
        """Return quantiles in microseconds, each within 1 %; none without delays. O(buckets).

        Quantile q is the shortest of n delays that at least q * n of them do not exceed. A
        bucket stands for the value that is at most 1 % from both of its bounds.

        Parameters
        ----------
        quantiles : sequence of float
            In [0, 1].
        """
        if not self.buckets.size:
            return []
        through = self.counts.cumsum()
        # A product such as 0.55 * 100 may be a little above the integer that it stands for.
        ranks = np.ceil(np.multiply(quantiles, through[-1]) * (1 - 2**-48)).clip(1)
        found = self.buckets[through.searchsorted(ranks)]
        return [_middle_us(bucket) for bucket in found.tolist()]

    def counts_through(self, bounds_us: tuple[int, ...]) -> list[int]:
        """Return how many delays do not exceed each bound. O(buckets).

        One that exceeds a bound by at most 2 %, in the bound's bucket, may count too.

        Examples
        --------
        >>> delays = Delays.of(np.array([0, 1_000_000, 2_000_000, 60_000_000]))
        >>> delays.counts_through((0, 1_500_000, 3_600_000_000))
        [1, 2, 4]
        """
        bounds = _buckets_of(np.array(bounds_us, dtype=np.int64))
        ends = self.buckets.searchsorted(bounds, side="right")
        through = np.concatenate(([0], self.counts.cumsum()))
        found: list[int] = through[ends].tolist()
        return found

    def sum_us(self) -> float:
        """Return the sum of all delays in microseconds, within 1 %. O(buckets)."""
        start = int(self.buckets.searchsorted(0))
        return float(_MIDDLES_US[self.buckets[start:]] @ self.counts[start:])


NO_DELAYS = Delays(_NO_BUCKETS, _NO_COUNTS)


def delays_by_group(effects: Effects, groups: IntArray) -> dict[int, Delays]:
    """Return the delays of the labels among effects, by group. O(n log n).

    Parameters
    ----------
    effects : Effects
    groups : int64[n]
        The group of each effect.
    """
    rows = np.flatnonzero(_LABELLED[effects.kinds])
    if not rows.size:
        return {}
    keys, places = distinct_values(groups[rows])
    buckets = _buckets_of(effects.at_us[rows] - effects.event_us[rows]).astype(np.int64)
    pairs, index = distinct_values(places << _BUCKET_BITS | (buckets - int(_ZERO)))
    counts = np.bincount(index)
    found = ((pairs & _BUCKET_MASK) + int(_ZERO)).astype(np.int16)
    cuts = np.searchsorted(pairs, np.arange(keys.size + 1) << _BUCKET_BITS).tolist()
    return {
        # Copies, because a view keeps the columns of all groups in memory.
        key: Delays(found[start:end].copy(), counts[start:end].copy())
        for key, (start, end) in zip(keys.tolist(), pairwise(cuts), strict=True)
    }


def _middle_us(bucket: int) -> float:
    """Return the value at most 1 % from both bounds of a bucket."""
    if bucket == _ZERO:
        return 0.0
    return math.pow(2.0, bucket / _BUCKETS_PER_DOUBLING) * _MIDDLE


def _buckets_of(delays_us: IntArray) -> npt.NDArray[np.int16]:
    late = np.ceil(np.log(np.maximum(delays_us, 1)) / _LOG_GAMMA).astype(np.int16)
    return np.where(delays_us > 0, late, _ZERO)
