"""The committer: the one authority on what is in the log, and in which order.

A step drains the queue into one transaction; only after it is durable do
marks and revision advance and outcomes say so. A failed commit's fate is
unknown, so everything stops there: FAILED until the storage was opened again
and what it holds was read back::

    SERVING --StorageError--> FAILED --recover()--> SERVING
                                └─ an acked entry is gone --> BROKEN

`submit` runs in one thread, `step` and `recover` in one other.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streameval_server._applier import Applier
    from streameval_server._checkpoint import Manifest
    from streameval_server._entries import Item, Outcome
    from streameval_server._errors import StorageError
    from streameval_server._limits import Limits
    from streameval_server._marks import Marks
    from streameval_server._storage import Storage


class State(enum.Enum):
    """Whether the committer serves."""

    SERVING = "serving"
    FAILED = "failed"
    """A write failed: call `recover` until it succeeds, with growing pauses."""
    BROKEN = "broken"
    """The storage lost what was acked, or an entry cannot be applied: stop."""


@dataclass(slots=True)
class StepResult:
    """What a step did.

    Attributes
    ----------
    outcomes : list of Outcome
        In order of submission; give each to its item's owner (`deliver`).
    pushed : bool
        Whether the applier has something new to do.
    more : bool
        Whether another step would find work now.
    blocked : bool
        Whether the applier's lag holds the queue up: step again after it applied.
    """

    outcomes: list[Outcome]
    pushed: bool = False
    more: bool = False
    blocked: bool = False

    def deliver(self) -> None:
        """Settle each outcome with its owner; runs in the thread of the sessions."""
        raise NotImplementedError


class Committer:
    """Orders, logs and acknowledges."""

    marks: Marks
    """Of durable entries; sessions read them."""
    auto_create: bool
    """Whether a batch for an unknown stream makes it."""

    def __init__(
        self,
        storage: Storage,
        applier: Applier,
        limits: Limits,
        *,
        revision: int,
        received_us: int,
        marks: Marks,
        totals: dict[str, int],
        manifest: Manifest | None,
        auto_create: bool = True,
    ) -> None:
        raise NotImplementedError

    @property
    def state(self) -> State:
        """Whether it serves. Safe to read from any thread."""
        raise NotImplementedError

    @property
    def error(self) -> StorageError | None:
        """Why it does not serve."""
        raise NotImplementedError

    @property
    def revision(self) -> int:
        """The last durable revision. Safe to read from any thread."""
        raise NotImplementedError

    @property
    def queued_bytes(self) -> int:
        """Bytes submitted and not drained."""
        raise NotImplementedError

    def submit(self, item: Item) -> None:
        """Queue an item.

        Raises
        ------
        RequestError
            RESOURCE_EXHAUSTED when the queue is full or the state too large,
            UNAVAILABLE when not serving; both with a delay to retry after.
        """
        raise NotImplementedError

    def step(self, now_us: int) -> StepResult:
        """Drain, commit, hand over to the applier; write a bit of a waiting checkpoint.

        Never raises for what the disk does: look at `state` afterwards.
        """
        raise NotImplementedError

    def recover(self) -> StepResult:
        """Open the storage again, read what proved durable, and serve; FAILED if it cannot."""
        raise NotImplementedError
