"""The base of the verbs that add rows to a stream, and the arguments that they share.

The verbs return at once: they check their arguments with the library's rules and append
to the buffer. The sender does the rest.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._time.times import column_us, to_us
from streameval.client._buffer.checks import check_segment_columns, check_stream_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval._row_codec.segments import Segments
    from streameval.client._buffer.buffer import Buffer
    from streameval.client._buffer.columns import Times


class RowVerbs:
    """The verbs that add rows to one stream.

    The verbs check their arguments as `streameval.Evaluator` does, raise
    the same errors with the same messages, and return at once.

    The argument ``at`` is the time of the *prediction*, an aware datetime or a
    numpy datetime64 (which is UTC). Without it a row is stamped when it is
    added, and dated by the server's clock when it is sent, because this
    machine's clock may be wrong. The argument ``segments`` names the slices of
    a row, by keys that the stream declares.

    Rows are sent in batches, together with rows of other callers. An error that
    only the server can detect, such as an undeclared key or a time in the
    future, refuses the whole batch; `flush` reports it.
    """

    def __init__(self, buffer: Buffer, name: str) -> None:
        self._buffer = buffer
        self._stream_buffer = buffer.stream_buffer(check_stream_name(name))

    @property
    def name(self) -> str:
        """Name of the stream, for instance ``fraud/v3``."""
        return self._stream_buffer.stream

    def _times_and_segments(
        self, at: Any, segments: Mapping[str, Any] | None, rows: int, *, like: str
    ) -> tuple[Times, Segments]:
        slices = check_segment_columns(segments, rows, like=like) if segments else ()
        return self._stream_buffer.stamps.now() if at is None else times_of(at, rows), slices


def times_of(at: Any, rows: int) -> Times:
    """Return one time for all rows, or one for each. O(rows)."""
    if isinstance(at, datetime | np.datetime64):
        return to_us(at)
    return column_us(at, rows)


def copy_if_shared(column: Any, given: Any) -> Any:
    """Return a checked column that does not share memory with the caller's column. O(rows)."""
    return column if isinstance(given, list | tuple) else column.copy()
