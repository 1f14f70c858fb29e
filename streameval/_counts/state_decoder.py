"""Many evaluators' bytes, read one by one and verified together.

To decode one small state takes some 60 calls of numpy, 0.1 ms, most of it to verify what its
checksum has verified already. A server that starts reads a hundred thousand of them. So they are
verified many at a time (`encoded_states`), and each is decoded when it is first read.

Guarantee: `verify` refuses whatever `decode_evaluator` refuses, with the same error. States are
not to be used before it has returned.

Cost: some 4 us for a state that is returned, 1 us for one that is deferred, and 30 ns a distinct
score.
"""

from __future__ import annotations

import struct

from streameval._counts.codec import FRAME, HEADER, decode_state, settings_of
from streameval._counts.encoded_counts import EncodedCounts
from streameval._counts.encoded_states import CHECKSUM_BYTES, are_valid
from streameval._counts.evaluator_codec import decode_evaluator
from streameval._counts.multiset import ScoreCounts
from streameval._counts.state import State

_PREFIX = struct.Struct("<4sH")

_FORMAT = _PREFIX.pack(FRAME.magic, FRAME.version)
"""What bytes of format 1 begin with; other formats are decoded at once."""

_MIN_BYTES = _PREFIX.size + HEADER.size + CHECKSUM_BYTES

_MAX_DEFERRED_BYTES = 1 << 16
"""Longer states are decoded at once: the work besides that for each score no longer counts."""

_MAX_UNVERIFIED_BYTES = 1 << 20
"""Bytes of states that are verified together."""


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
        self._pending_bytes = 0

    def decode(self, data: bytes) -> State:
        """Return the state that `encode_evaluator` wrote, at revision 0. O(1) if it is small.

        Raises
        ------
        CorruptStateError
            When these bytes are not exactly that, or others that were given before.
        """
        return closed_state(data) if self.defer(data) else decode_evaluator(data)

    def defer(self, data: bytes) -> bool:
        """Let `verify` check a state, and return True, or False if it must be decoded at once.

        O(1), amortised and besides that. After it `closed_state` returns the state.

        Raises
        ------
        CorruptStateError
            When bytes that were given before are not a state.
        """
        size = len(data)
        if not _MIN_BYTES <= size <= _MAX_DEFERRED_BYTES or data[: _PREFIX.size] != _FORMAT:
            return False
        *_, num_p, _, _, num_n, _, _ = HEADER.unpack_from(data, _PREFIX.size)
        if not (0 <= num_p <= size and 0 <= num_n <= size):
            return False
        self._pending.append(data)
        self._pending_bytes += size
        if self._pending_bytes > _MAX_UNVERIFIED_BYTES:
            self.verify()
        return True

    def verify(self) -> None:
        """Check all states that were decoded or deferred since the last call. O(their bytes).

        Raises
        ------
        CorruptStateError
            As `decode_evaluator` of the first that is not what was written.
        """
        pending = self._pending
        self._clear()
        if pending:
            for place in (~are_valid(pending)).nonzero()[0].tolist():
                decode_state(pending[place])


def closed_state(data: bytes) -> State:
    """Return the state that was given to `StateDecoder.defer`, its counts unopened. O(1)."""
    flags, bits, max_cells, missed_p, missed_n, *_ = HEADER.unpack_from(data, _PREFIX.size)
    return State(
        ScoreCounts.closed(EncodedCounts(data)),
        missed_positives=missed_p,
        missed_negatives=missed_n,
        **settings_of(flags, bits, max_cells),
    )
