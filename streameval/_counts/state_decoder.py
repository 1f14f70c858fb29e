"""Many evaluators' bytes, read one by one and verified together.

To decode one small state takes some 60 calls of numpy, 0.1 ms, most of it to verify what its
checksum has verified already. A server that starts reads a hundred thousand of them. So their
columns are verified in one pass over all, and each is decoded when it is first read.

Guarantee: `verify` refuses whatever `decode_evaluator` refuses, with the same error. States are
not to be used before it has returned.

Cost: some 5 us a state, and 20 ns a distinct score.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, cast

import numpy as np

from streameval._counts.codec import (
    FRAME,
    HAS_RESOLUTION,
    HEADER,
    IS_PROBABILITY,
    decode_state,
    settings_of,
)
from streameval._counts.encoded_counts import EncodedCounts
from streameval._counts.evaluator_codec import decode_evaluator
from streameval._counts.exact import MAX_TOTAL
from streameval._counts.resolution import MAX_BITS, MIN_BITS, quantise
from streameval._counts.state import State

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval._counts.resolution import Scale

_PREFIX = struct.Struct("<4sH")
_CHECKSUM_BYTES = 4

_MAX_DEFERRED_BYTES = 1 << 16
"""Longer states are decoded at once: the work besides that for each score no longer counts."""

_MAX_UNVERIFIED_BYTES = 1 << 20
"""Bytes of states that are verified together."""

_MAX_MISSED = 1 << 60
"""With fewer misses and so few bytes, no total comes near the greatest that is allowed."""

_FLAGS = HAS_RESOLUTION | IS_PROBABILITY


class StateDecoder:
    """Decodes evaluators' bytes, in any number.

    Examples
    --------
    >>> from streameval import Evaluator
    >>> ev = Evaluator(resolution=12)
    >>> ev.add_cases(labels=[True, False, True], scores=[0.9, 0.4, 0.4])
    >>> decoder = StateDecoder()
    >>> state = decoder.decode(ev.to_bytes())
    >>> decoder.verify()
    >>> state.num_scores, state.counts.positives.total
    (3, 2)
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        """Forget what is pending."""
        self._pending: list[bytes] = []
        self._columns: dict[tuple[int, int, int], _Columns] = {}
        self._counts: dict[int, list[bytes]] = {1: [], 2: []}
        self._pending_bytes = 0

    def decode(self, data: bytes) -> State:
        """Return the state that `encode_evaluator` wrote, at revision 0. O(1) if it is small.

        Raises
        ------
        CorruptStateError
            When these bytes are not exactly that, or others that were given before.
        """
        deferred = self._deferred(data) if len(data) <= _MAX_DEFERRED_BYTES else None
        if deferred is None:
            return decode_evaluator(data)
        self._pending_bytes += len(data)
        if self._pending_bytes > _MAX_UNVERIFIED_BYTES:
            self.verify()
        return deferred

    def _deferred(self, data: bytes) -> State | None:
        """Note the columns of a state; return it, or None if it must be decoded at once."""
        size = len(data)
        if size < _PREFIX.size + HEADER.size + _CHECKSUM_BYTES:
            return None
        if _PREFIX.unpack_from(data) != (FRAME.magic, FRAME.version):
            return None
        flags, bits, max_cells, missed_p, missed_n, *shapes = HEADER.unpack_from(data, _PREFIX.size)
        num_p, score_p, count_p, num_n, score_n, count_n = shapes
        at = _PREFIX.size + HEADER.size
        counts_p = at + num_p * score_p
        at_n = counts_p + num_p * count_p
        counts_n = at_n + num_n * score_n
        end = counts_n + num_n * count_n
        is_plain = (
            (score_p in {4, 8} and score_n in {4, 8})
            and (count_p in {0, 1, 2} and count_n in {0, 1, 2})
            and (num_p > 0 or (num_p == 0 and not count_p))
            and (num_n > 0 or (num_n == 0 and not count_n))
            and end + _CHECKSUM_BYTES == size
            and not flags & ~_FLAGS
            and (MIN_BITS <= bits <= MAX_BITS if flags & HAS_RESOLUTION else bits == 0)
            and (num_p + num_n <= max_cells < MAX_TOTAL if max_cells else flags != IS_PROBABILITY)
            and (0 <= missed_p < _MAX_MISSED and 0 <= missed_n < _MAX_MISSED)
            and zlib.crc32(data[:end]) == int.from_bytes(data[end:], "little")
        )
        if not is_plain:
            return None
        self._pending.append(data)
        if num_p:
            self._note(flags, bits, score_p, num_p, data[at:counts_p])
            if count_p:
                self._counts[count_p].append(data[counts_p:at_n])
        if num_n:
            self._note(flags, bits, score_n, num_n, data[at_n:counts_n])
            if count_n:
                self._counts[count_n].append(data[counts_n:end])
        return State.closed(
            EncodedCounts(data, tuple(shapes)),
            missed_positives=missed_p,
            missed_negatives=missed_n,
            **settings_of(flags, bits, max_cells),
        )

    def _note(self, flags: int, bits: int, width: int, size: int, scores: bytes) -> None:
        columns = self._columns.get((flags, bits, width))
        if columns is None:
            columns = self._columns[flags, bits, width] = _Columns(flags, bits, width)
        columns.sizes.append(size)
        columns.scores.append(scores)

    def verify(self) -> None:
        """Check all states that were decoded since the last call. O(their bytes).

        Raises
        ------
        CorruptStateError
            As `decode_evaluator` of the first that is not what was written.
        """
        pending, columns, counts = self._pending, self._columns, self._counts
        self._clear()
        is_valid = all(each.are_valid() for each in columns.values()) and all(
            np.frombuffer(b"".join(each), f"<u{width}").all() for width, each in counts.items()
        )
        if not is_valid:
            for data in pending:
                decode_state(data)


class _Columns:
    """Columns of scores of equal settings and width."""

    __slots__ = ("_bits", "_scale", "_width", "scores", "sizes")

    def __init__(self, flags: int, bits: int, width: int) -> None:
        settings = settings_of(flags, bits, 0)
        self._bits: int | None = settings["resolution"]
        self._scale = cast("Scale", settings["scale"])
        self._width = width
        self.sizes: list[int] = []
        self.scores: list[bytes] = []

    def are_valid(self) -> bool:
        """Return whether each column is finite, strictly ascending and of its cells. O(n)."""
        with np.errstate(invalid="ignore"):  # a signalling NaN
            scores = np.frombuffer(b"".join(self.scores), f"<f{self._width}").astype(np.float64)
        if not np.isfinite(scores).all() or np.signbit(scores[scores == 0.0]).any():
            return False
        ends = np.cumsum(np.array(self.sizes))
        ascends = scores[1:] > scores[:-1]
        ascends[ends[:-1] - 1] = True
        return bool(ascends.all()) and self._are_edges(scores)

    def _are_edges(self, scores: FloatArray) -> bool:
        """Return whether all scores are of the scale, and their own cells' lower edges."""
        if self._scale == "probability" and not (scores.min() >= 0.0 and scores.max() <= 1.0):
            return False
        if self._bits is None:
            return True
        return np.array_equal(quantise(scores, self._bits, self._scale), scores)
