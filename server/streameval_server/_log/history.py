"""The history of a log: its number, and what it has lost."""

from __future__ import annotations

import json
import secrets
import time
import zlib
from dataclasses import dataclass, replace

from streameval_server._log.loss import Loss
from streameval_server._model.errors import CorruptLogError


@dataclass(frozen=True, slots=True)
class History:
    """What a log knows of its own history. Each accepted loss begins another one.

    Attributes
    ----------
    number : int
        A random number: rows that were acknowledged under it are in the log. Positive and below
        2**63.
    losses : tuple of Loss
        What operators have accepted, oldest first.
    """

    number: int
    losses: tuple[Loss, ...] = ()

    @classmethod
    def begin(cls) -> History:
        """Return a new history."""
        return cls(new_number())

    def renewed(self) -> History:
        """Return the same history under another number: what was acknowledged may be missing."""
        return replace(self, number=new_number())

    def after(self, loss: Loss) -> History:
        """Return the history that begins where an operator accepts a loss now.

        A repetition of the last loss, after a start that was killed, replaces it.
        """
        accepted = loss._replace(accepted_us=time.time_ns() // 1000)
        before = (
            self.losses[:-1] if self.losses and self.losses[-1][:2] == loss[:2] else self.losses
        )
        return History(new_number(), (*before, accepted))

    def to_bytes(self) -> bytes:
        """Encode it, preceded by its CRC-32."""
        fields = {
            "number": self.number,
            "losses": [list(loss) for loss in self.losses],
        }
        body = json.dumps(fields, separators=(",", ":")).encode()
        return zlib.crc32(body).to_bytes(4, "little") + body

    @classmethod
    def from_bytes(cls, data: bytes) -> History:
        """Decode it.

        Raises
        ------
        CorruptLogError
            When it is not what was written.
        """
        body = data[4:]
        if len(data) < 4 or zlib.crc32(body) != int.from_bytes(data[:4], "little"):
            raise CorruptLogError("the log's history is not what was written")
        try:
            fields = json.loads(body)
            losses = tuple(Loss(*loss) for loss in fields["losses"])
            return cls(int(fields["number"]), losses)
        except (ValueError, TypeError, LookupError) as error:
            raise CorruptLogError(f"the log's history cannot be read: {error}") from error


def new_number() -> int:
    """Return a random number for a history."""
    return secrets.randbelow((1 << 63) - 1) + 1
