"""Acknowledged rows that a log no longer has: how they are noticed, and how they are reported.

A log whose end is missing reads like a shorter log. Two witnesses outside of what SQLite reads
contradict it: the acknowledged revision (`acked_revision`), and transactions behind a damaged
frame of the write-ahead log (`wal_scan`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streameval_server._model.errors import CorruptLogError

if TYPE_CHECKING:
    from streameval_server._log.acked_revision import AckedRevision
    from streameval_server._log.wal_scan import WalDamage


class Loss(NamedTuple):
    """Acknowledged rows that a log no longer has.

    Attributes
    ----------
    kept_revision : int
        The last acknowledged row that the log still has; 0 when that is not known.
    acked_revision : int
        The last row that is known to have been acknowledged.
    cause : str
        What was found.
    accepted_us : int
        When the operator accepted it, in microseconds since 1970; 0 before that.
    """

    kept_revision: int
    acked_revision: int
    cause: str
    accepted_us: int = 0

    def __str__(self) -> str:
        """Return which revisions are lost, and why."""
        first, last = self.kept_revision + 1, self.acked_revision
        if first == last:
            return f"revision {last} was acknowledged and is lost: {self.cause}"
        return f"revisions {first} to {last} were acknowledged and are lost: {self.cause}"


class LostRowsError(CorruptLogError):
    """A log has lost acknowledged rows, and no operator has accepted that.

    Attributes
    ----------
    loss : Loss
    """

    def __init__(self, message: str, loss: Loss) -> None:
        super().__init__(message)
        self.loss = loss


def loss_of(
    acked: AckedRevision | None,
    damage: WalDamage | None,
    last: int,
    crc32: int | None,
) -> Loss | None:
    """Return what a log has lost; None when nothing contradicts it.

    Parameters
    ----------
    acked
        The row that was acknowledged, from its own file; None without one.
    damage
        As `find_wal_damage` returned it, before `last` was read.
    last
        The last row of the log.
    crc32
        The checksum of the row `acked.revision` in the log; None when it has no such row.

    Examples
    --------
    >>> loss_of(None, None, 7, None) is None
    True
    >>> from streameval_server._log.acked_revision import AckedRevision
    >>> print(loss_of(AckedRevision(9, 1), None, 7, None))
    revisions 8 to 9 were acknowledged and are lost: the log ends at revision 7
    """
    cause = f"the log ends at revision {last}"
    claims = [0 if acked is None else acked.revision]
    if damage is not None:
        claims.append(damage.revision)
        where = f"frame {damage.frame} of {damage.frames}" if damage.frame else "the header"
        cause += f", because {where} of its write-ahead log is damaged"
    if max(claims) > last:
        return Loss(last, max(claims), cause)
    if acked is not None and crc32 is not None and crc32 != acked.crc32:
        return Loss(
            0, acked.revision, f"row {acked.revision} of the log is not the one acknowledged"
        )
    return None
