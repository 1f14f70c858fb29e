"""The whole core, put together: open a storage, recover, and run.

A shell calls, from three places that may be three threads:

- the sessions' thread: ``IngestSession(core.committer, core.limits, wake)``,
  `feed`, `replies`; ``StepResult.deliver``
- the committing thread: ``core.committer.step(now_us)`` whenever something was
  submitted or `more` was said; ``core.committer.recover()`` while FAILED
- the applying thread: ``core.applier.step()`` while it returns True, under the
  lock that queries take for ``core.engine.view(name)``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streameval_server._applier import Applier
    from streameval_server._committer import Committer
    from streameval_server._engine import Engine
    from streameval_server._limits import Limits
    from streameval_server._storage import Storage


@dataclass(frozen=True, slots=True)
class Recovery:
    """How the state was restored.

    Attributes
    ----------
    checkpoint_revision : int
        The checkpoint that was used; 0 when none was.
    checkpoint_error : str or None
        Why the current checkpoint could not be used; the log replaced it.
    replayed : int
        Log entries that were replayed.
    revision : int
        The last durable revision.
    """

    checkpoint_revision: int
    checkpoint_error: str | None
    replayed: int
    revision: int


@dataclass(frozen=True, slots=True)
class Core:
    """A server's sans-I/O parts."""

    limits: Limits
    storage: Storage
    engine: Engine
    applier: Applier
    committer: Committer
    recovery: Recovery

    def drain(self, now_us: int) -> None:
        """Commit and apply all that is queued, write a checkpoint, close the storage.

        For a graceful stop, when no other thread runs the core any more.
        Outcomes are delivered.
        """
        raise NotImplementedError


def open_core(storage: Storage, limits: Limits, *, auto_create: bool = True) -> Core:
    """Open a storage and restore what it holds.

    Raises
    ------
    StorageError
        When the storage cannot be opened or holds what this version does not know.
    CorruptLogError
        When the log is not what was written.
    """
    raise NotImplementedError
