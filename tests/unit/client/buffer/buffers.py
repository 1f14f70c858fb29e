"""A buffer without a sender."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.client._buffer.buffer import Buffer
from streameval.client._buffer.case_verbs import CaseVerbs
from streameval.client._buffer.columns import BufferedCases
from streameval.client._buffer.id_columns import BufferedPredictions
from streameval.client._buffer.id_verbs import IdVerbs

if TYPE_CHECKING:
    from collections.abc import Callable


class Verbs(CaseVerbs, IdVerbs):
    """All verbs of one stream."""


def stopped_clock() -> int:
    """Return one second, always: all rows share a stamp."""
    return 1_000_000_000


def buffer(
    capacity: int = 10**6,
    batch_rows: int = 10**6,
    when_full: str = "drop",
    clock_ns: Callable[[], int] = stopped_clock,
) -> Buffer:
    """Return a buffer whose rows the test drains itself."""
    return Buffer(
        capacity=capacity,
        batch_rows=batch_rows,
        when_full=when_full,
        start=lambda: True,
        clock_ns=clock_ns,
    )


def taken(box: Buffer) -> tuple[list[tuple[float, bool]], list[str]]:
    """Drain the buffer; return the cases and the ids of predictions, in order."""
    cases, ids = [], []
    for rows in box.take():
        if isinstance(rows, BufferedPredictions):
            ids += rows.ids
        elif isinstance(rows, BufferedCases):
            cases += zip(rows.scores.tolist(), rows.positives.tolist(), strict=True)
    return cases, ids
