"""Failpoints: named moments at which a test ends the process, or makes the disk fail.

Off unless armed; a moment then costs one look at an empty dict (about 40 ns).
`serve` arms what STREAMEVAL_FAILPOINTS says::

    STREAMEVAL_FAILPOINTS="disk.append.commit=kill@3"     SIGKILL, the third time
    STREAMEVAL_FAILPOINTS="disk.append.insert=error;recover.opened=kill"

What follows a kill must be as if the machine had stopped there: nothing acked
is lost, nothing counts twice. tests/crash tries every name.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import Final

from streameval_server._log.entries import Kind
from streameval_server._model.errors import StorageError

VARIABLE: Final = "STREAMEVAL_FAILPOINTS"

DRAFTED: Final[dict[int, str]] = {kind: f"draft.{kind.name.lower()}" for kind in Kind}
"""A row of this kind is decided on, and nowhere but in memory."""

NOTED: Final[dict[int, str]] = {kind: f"noted.{kind.name.lower()}" for kind in Kind}
"""An entry of this kind is durable, and the marks and the catalog know it."""

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
"""Every failpoint there is."""

_ACTIONS = ("kill", "error", "count")

_armed: dict[str, tuple[str, int]] = {}
_hits: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Let happen what was armed for this moment; nothing, as a rule. O(1)."""
    if _armed:
        _reached(name)


def _reached(name: str) -> None:
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
    """Arm what a text says, in place of what was armed; nothing, if it is empty.

    Parameters
    ----------
    text : str
        ``NAME=ACTION`` or ``NAME=ACTION@N``, joined by semicolons. ``kill`` ends
        the process, ``error`` raises StorageError (``disk.`` names only), both
        at the N-th time; ``count`` does nothing, and `hits` counts all names.

    Raises
    ------
    ValueError
        When it says something else; nothing was changed.
    """
    armed = dict(_parsed(part) for part in text.split(";") if part)
    _hits.clear()
    _armed.clear()
    _armed.update(armed)


def _parsed(part: str) -> tuple[str, tuple[str, int]]:
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
    """Return how often each name was reached since something was armed."""
    return dict(_hits)
