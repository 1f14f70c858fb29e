"""What the verbs that add to a stream have in common: a buffer, times, segments.

The verbs return at once. Arguments are checked here, with the library's own
rules, and appended to the buffer; whoever sends does the rest.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._time.times import column_us, to_us
from streameval.client._buffer.checks import check_segment_columns, check_stream_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval.client._buffer.buffer import Buffer
    from streameval.client._buffer.clock import Times
    from streameval.client._buffer.segments import Segments


class RowVerbs:
    """One stream to add to.

    The verbs check their arguments like those of `streameval.Evaluator`, raise
    the same errors with the same words, and return at once.

    Wherever they take ``at``, it is when the *prediction* was made, as an aware
    datetime or a numpy datetime64 (which is UTC). Without it a row is stamped
    when it is added, and dated by the server's clock when it is sent: this
    machine's clock may be wrong. Wherever they take ``segments``, it says which
    slices a row belongs to, by keys that the stream declares.

    Rows travel in batches, also with those of other callers. What only the
    server can refuse, an undeclared key or a time in the future, costs the
    whole batch; `flush` reports it.
    """

    def __init__(self, buffer: Buffer, name: str) -> None:
        self._buffer = buffer
        self._lane = buffer.lane(check_stream_name(name))

    @property
    def name(self) -> str:
        """Name of the stream, for instance ``fraud/v3``."""
        return self._lane.stream

    def _when_and_where(
        self, at: Any, segments: Mapping[str, Any] | None, rows: int, *, like: str
    ) -> tuple[Times, Segments]:
        slices = check_segment_columns(segments, rows, like=like) if segments else ()
        return self._lane.stamps.now() if at is None else times_of(at, rows), slices


def times_of(at: Any, rows: int) -> Times:
    """Return one time for all rows, or one for each."""
    if isinstance(at, datetime | np.datetime64):
        return to_us(at)
    return column_us(at, rows)


def own(column: Any, given: Any) -> Any:
    """Return a column that is not the caller's memory."""
    return column if isinstance(given, list | tuple) else column.copy()
