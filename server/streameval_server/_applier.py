"""Between committer and engine: a bounded backlog of durable entries.

`push` is called by the committing thread and `step` by the applying one;
each counter has one writer, so no lock is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval_server._checkpoint import Checkpoint
    from streameval_server._engine import Engine
    from streameval_server._entries import Entry
    from streameval_server._limits import Limits


class Applier:
    """Feeds durable entries to the engine in chunks."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        raise NotImplementedError

    @property
    def lag_rows(self) -> int:
        """Rows pushed and not applied yet. Safe to read from any thread."""
        raise NotImplementedError

    def push(self, entries: Sequence[Entry], nbytes: int) -> None:
        """Queue entries that are durable; `nbytes` is their size in the log."""
        raise NotImplementedError

    def step(self) -> bool:
        """Apply at most about `Limits.apply_rows` rows; say whether there are more.

        Takes a checkpoint when one is due. Not to be called at the same time
        as the engine's `view`.
        """
        raise NotImplementedError

    def request_checkpoint(self) -> None:
        """Make the next `step` take a checkpoint, due or not."""
        raise NotImplementedError

    def take_checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint that waits to be written, once."""
        raise NotImplementedError
