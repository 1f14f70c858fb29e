"""What a server has no room for is refused before it is queued, to be sent again later.

Asked of every item, in O(1); what is on its way already may go a little beyond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval_server._log.entries import Kind
from streameval_server._model.errors import Code, RequestError
from streameval_server._model.rows import LabelRows, PredictionRows

if TYPE_CHECKING:
    from streameval_server._core.engine import Engine
    from streameval_server._log.entries import Item
    from streameval_server._log.producer_marks import Marks
    from streameval_server._model.limits import Limits

RETRY_AFTER_S = 1.0
"""What a producer is asked to wait when the server cannot take more."""

_NOT_SOON_S = 60.0
"""The same where it takes days."""

_DAY_US = 24 * 3600 * 1_000_000


def check_queue(item: Item, queued_bytes: int, limits: Limits) -> None:
    """Refuse an item when too much waits for the disk; one is always taken."""
    if queued_bytes and queued_bytes + item.nbytes > limits.max_queue_bytes:
        raise _full(
            "QUEUE_FULL", f"{queued_bytes} bytes wait for the disk already: send it again later"
        )


def check_producers(item: Item, marks: Marks, limits: Limits) -> None:
    """Refuse an item of a producer that would be one too many."""
    if item.producer and len(marks) >= limits.max_producers and marks.get(item.producer) is None:
        raise _full(
            "TOO_MANY_PRODUCERS",
            f"there are {limits.max_producers} producers, and no more may be until some have "
            f"been idle for {limits.marks_ttl_us / _DAY_US:g} days: let clients keep their names",
            retry_after_s=_NOT_SOON_S,
        )


def check_memory(item: Item, engine: Engine, limits: Limits) -> None:
    """Refuse an item that counts when counts take too much, one with ids when these do."""
    is_import = item.kind == Kind.IMPORT_STREAM
    if (
        limits.max_state_bytes
        and (item.rows is not None or is_import)
        and engine.memory_bytes > limits.max_state_bytes
    ):
        raise _full(
            "STATE_FULL",
            f"the counts take more than {limits.max_state_bytes} bytes of memory: "
            "delete streams, or give the server more",
        )
    if engine.kept_ids > limits.max_pending_total and (
        isinstance(item.rows, PredictionRows | LabelRows) or is_import
    ):
        raise _full(
            "PENDING_FULL",
            f"{engine.kept_ids} ids wait for their labels or predictions, and the most is "
            f"{limits.max_pending_total}: send labels or retractions, or lower label_ttl",
        )


def _full(reason: str, message: str, *, retry_after_s: float = RETRY_AFTER_S) -> RequestError:
    return RequestError(
        Code.RESOURCE_EXHAUSTED, message, reason=reason, retry_after_s=retry_after_s
    )
