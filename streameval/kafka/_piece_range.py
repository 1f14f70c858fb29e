"""The offsets of a piece, and the epoch of a producer that declares them.

A piece is cut where the consumer is, so its length is not a function of its place. The epoch
under which it is sent has both: the next process after a crash asks for the producer's epoch, and
so knows which messages the batches were made of.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from streameval._common.errors import StreamEvalError

_LENGTH_BITS = 14
_ATTEMPT_BITS = 3

MAX_PIECE_OFFSETS = (1 << _LENGTH_BITS) - 1
"""Offsets of a piece, gaps included."""

MAX_ATTEMPTS = (1 << _ATTEMPT_BITS) - 1

MAX_OFFSET = (1 << (63 - _LENGTH_BITS - _ATTEMPT_BITS)) - 2
"""The last offset of a partition that an epoch can name: 7e13."""

UNUSED_EPOCH = 1
"""The epoch of a producer that has not sent any piece; every piece's epoch is above it."""


@dataclass(frozen=True, slots=True)
class PieceRange:
    """Successive offsets of a partition.

    Attributes
    ----------
    base, end : int
        The first offset, and the one after the last.
    attempt : int
        0; more when the piece could not be made as before, and is sent again as a whole.

    Examples
    --------
    >>> piece = PieceRange(1_000, 1_250)
    >>> PieceRange.of_epoch(piece.epoch) == piece
    True
    >>> piece.epoch < piece.again().epoch < PieceRange(1_001, 1_002).epoch
    True
    """

    base: int
    end: int
    attempt: int = 0

    @property
    def epoch(self) -> int:
        """The epoch that declares it: higher for later offsets, and for later attempts."""
        if self.end > MAX_OFFSET:
            raise StreamEvalError(f"offset {self.end} is above {MAX_OFFSET}, the most possible")
        head = (self.base + 1) << _ATTEMPT_BITS | self.attempt
        return head << _LENGTH_BITS | (self.end - self.base)

    @classmethod
    def of_epoch(cls, epoch: int) -> PieceRange:
        """Return the piece of an epoch."""
        length = epoch & MAX_PIECE_OFFSETS
        head = epoch >> _LENGTH_BITS
        base = (head >> _ATTEMPT_BITS) - 1
        return cls(base, base + length, head & MAX_ATTEMPTS)

    def again(self) -> PieceRange:
        """Return the same offsets under the next epoch.

        Raises
        ------
        StreamEvalError
            When that was done too often.
        """
        if self.attempt == MAX_ATTEMPTS:
            raise StreamEvalError(
                f"the piece at offset {self.base} was begun {MAX_ATTEMPTS + 1} times, with other "
                "rows each time: leave the mappings as they are until it is durable"
            )
        return replace(self, attempt=self.attempt + 1)
