"""Failpoints: named places in the code at which a test can kill the process or fail the disk.

They are off unless armed; a failpoint then costs one check of an empty dict (about 40 ns).
`serve` arms the failpoints named by STREAMEVAL_FAILPOINTS::

    STREAMEVAL_FAILPOINTS="disk.append.commit=kill@3"     SIGKILL at the third hit
    STREAMEVAL_FAILPOINTS="disk.append.insert=error;recover.opened=kill"

After a kill the state must be as if the machine had stopped at that place: nothing that was
acknowledged is lost, nothing counts twice. tests/crash tries every name.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import Final

from streameval_server._log.rows import Kind
from streameval_server._model.errors import StorageError

VARIABLE: Final = "STREAMEVAL_FAILPOINTS"

DRAFTED: Final[dict[int, str]] = {kind: f"draft.{kind.name.lower()}" for kind in Kind}
"""A row of this kind is part of a transaction, in memory only."""

NOTED: Final[dict[int, str]] = {kind: f"noted.{kind.name.lower()}" for kind in Kind}
"""An entry of this kind is durable and recorded in the marks and the catalog."""

NAMES: Final = frozenset(
    {
        # committer: one step, from the queue to the acks
        *DRAFTED.values(),
        "commit.before",
        "commit.after",
        "commit.failed",
        "mark.before",
        *NOTED.values(),
        "push.before",
        "push.after",
        "ack.before",
        "ack.after",
        "ack.reply",
        # applier
        "apply.before",
        "apply.after",
        "checkpoint.taken",
        "checkpoint.copied",
        # checkpoint writer, between commits
        "checkpoint.begin",
        "checkpoint.part.before",
        "checkpoint.part.after",
        "checkpoint.manifest.before",
        "checkpoint.manifest.after",
        "checkpoint.done",
        # compaction, between commits
        "compact.base.before",
        "compact.base.after",
        "compact.dropped",
        "compact.done",
        # after a failed write
        "recover.begin",
        "recover.opened",
        "recover.read",
        "recover.done",
        # start and stop
        "start.opened",
        "start.restored",
        "start.replayed",
        "start.pruned",
        "stop.settled",
        "stop.closed",
        # the disk: within and after each transaction
        "disk.open.file",
        "disk.open.wal",
        "disk.open.schema",
        "disk.open.durable",
        "disk.append.begin",
        "disk.append.insert",
        "disk.append.commit",
        "disk.parts.begin",
        "disk.parts.insert",
        "disk.parts.commit",
        "disk.manifest.begin",
        "disk.manifest.insert",
        "disk.manifest.delete",
        "disk.manifest.commit",
        "disk.base.begin",
        "disk.base.insert",
        "disk.base.delete",
        "disk.base.commit",
        "disk.drop.begin",
        "disk.drop.delete",
        "disk.drop.commit",
        "disk.prune.begin",
        "disk.prune.delete",
        "disk.prune.commit",
        "close.before",
    }
)
"""The names of all failpoints."""

_ACTIONS = ("kill", "error", "count")

_armed: dict[str, tuple[str, int]] = {}
_hits: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Trigger the action armed for this failpoint, if any. O(1)."""
    if _armed:
        _hit(name)


def _hit(name: str) -> None:
    assert name in NAMES, name
    _hits[name] += 1
    action, at = _armed.get(name, ("count", 0))
    if _hits[name] != at:
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "error":
        raise StorageError(f"failpoint {name}")


def arm(text: str) -> None:
    """Replace the armed failpoints by those in a text; an empty text disarms all.

    Parameters
    ----------
    text : str
        ``NAME=ACTION`` or ``NAME=ACTION@N``, joined by semicolons. ``kill`` ends
        the process and ``error`` raises StorageError (``disk.`` names only), both
        at the N-th hit. ``count`` has no effect; while anything is armed, `hits`
        counts all names.

    Raises
    ------
    ValueError
        When the text is malformed; nothing was changed.
    """
    armed = dict(_parse(part) for part in text.split(";") if part)
    _hits.clear()
    _armed.clear()
    _armed.update(armed)


def _parse(part: str) -> tuple[str, tuple[str, int]]:
    name, equals, rest = part.partition("=")
    action, _, at = rest.partition("@")
    if name not in NAMES or not equals:
        raise ValueError(f"there is no failpoint {name!r}")
    if action not in _ACTIONS or (action == "error" and not name.startswith("disk.")):
        raise ValueError(f"failpoint {name} cannot {action!r}: kill, count, or error for a disk")
    if at and not (at.isascii() and at.isdigit() and int(at)):
        raise ValueError(f"failpoint {name} counts from 1, got {at!r}")
    return name, (action, int(at or 1))


def hits() -> dict[str, int]:
    """Return the number of hits of each name since `arm` was called."""
    return dict(_hits)
