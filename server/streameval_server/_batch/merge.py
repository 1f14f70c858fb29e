"""Merges: states that were aggregated outside the server, from chunks to rows for the log.

A header announces the stream, the source, its epoch, and the length and CRC-32 of the
data. Nothing counts before all data has arrived and is valid. A merge is one entry of
the log. Cost: O(bytes), in one pass and a check of each state.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from streameval import CorruptStateError, InvalidInputError
from streameval.checks import id_problem
from streameval.kernel import decode_evaluator, merge_states
from streameval.v1 import ingest_pb2
from streameval.wire import check_distinct
from streameval_server._batch.chunks import ChunkJoiner
from streameval_server._batch.decode import (
    check_segment_values,
    check_times,
    key_problem,
    refuse,
    undeclared,
)
from streameval_server._model.errors import (
    Code,
    CorruptLogError,
    RefusedError,
    RequestError,
    refused_input,
)
from streameval_server._model.names import MAX_UINT, check_stream_name
from streameval_server._model.row_kinds import MergedState, MergeRows
from streameval_server._model.stream_settings import DEFAULTS, check, first_settings
from streameval_server._state.counting.empty_counts import empty_counts

if TYPE_CHECKING:
    from streameval.kernel import State
    from streameval_server._model.limits import Limits
    from streameval_server._model.stream_settings import StreamSettings

_LENGTH_BYTES = 4

_MAX_SMALL_BYTES = 16 << 10
"""A merge of one state and this many bytes is checked in less than 0.3 ms."""

_ROW_COST_BYTES = 64
"""Applying this many bytes of states costs about as much as applying one row."""


class MergeInbox:
    """Collects the messages of one merge.

    Parameters
    ----------
    limits
        The server's.

    Attributes
    ----------
    header : MergeHeader or None
        None before the first message.
    settings : StreamSettings
        The settings of the stream under which `finish` accepted the merge.
    """

    def __init__(self, limits: Limits) -> None:
        self.header: ingest_pb2.MergeHeader | None = None
        self.settings = DEFAULTS
        self._limits = limits
        self._chunks = ChunkJoiner(0, _invalid)
        self._message: ingest_pb2.MergeStates | None = None

    def feed(self, request: ingest_pb2.MergeRequest) -> None:
        """Accept the next message.

        Raises
        ------
        RequestError
            It ends the call; nothing was changed.
        """
        if self.header is None:
            if not request.HasField("header"):
                raise _invalid("header", "the first message must be header", "HEADER_EXPECTED")
            self.header = request.header
            self._check(self.header)
            self._chunks = ChunkJoiner(self.header.total_bytes, _invalid)
            return
        if not request.HasField("data"):
            raise _invalid("data", "every message after the first must be data", "DATA_EXPECTED")
        self._chunks.add(request.data)

    def _check(self, header: ingest_pb2.MergeHeader) -> None:
        limits = self._limits
        check_stream_name(header.stream, "header.stream", limits.max_stream_name)
        problem = id_problem("source", header.source, limits.max_id_bytes)
        if problem is not None:
            raise _invalid("header.source", problem)
        if not 0 < header.epoch <= MAX_UINT:
            raise _invalid("header.epoch", f"epoch must be from 1 to 2**63 - 1, got {header.epoch}")
        if header.total_bytes > limits.max_merge_bytes:
            raise _too_large(
                "header.total_bytes", "bytes", limits.max_merge_bytes, header.total_bytes
            )

    def is_small(self) -> bool:
        """Return whether `finish` takes less than to hand it to another thread. O(bytes).

        To be called after the last chunk.
        """
        header = self.header
        if header is None or header.total_bytes > _MAX_SMALL_BYTES:
            return False
        try:
            self._message = _parsed(self._chunks.joined())
        except RequestError:
            return True  # `finish` refuses it before it reads a state
        return len(self._message.states) <= 1

    def finish(
        self, now_us: int, settings: StreamSettings | None, *, disputed_us: int | None = None
    ) -> tuple[MergeRows, bytes]:
        """Return the rows and the payload of the log row, after the last chunk. O(bytes).

        Parameters
        ----------
        now_us
            The current time.
        settings
            The stream's; None for a new one, which gets the segment keys of the states.
        disputed_us
            What the time is otherwise while the clock is in doubt.

        Raises
        ------
        RequestError
            When data is missing, damaged, or not a merge that the stream accepts.
        """
        header = self.header
        if header is None:
            raise _invalid("header", "the first message must be header", "HEADER_EXPECTED")
        data = self._chunks.joined()
        if zlib.crc32(data) != header.crc32:
            raise _invalid("header.crc32", "the data is not what was sent: its CRC-32 differs")
        message = _parsed(data) if self._message is None else self._message
        rows = _read(header, message, len(data), self._limits.max_merge_states)
        if settings is None:
            settings = first_settings(
                key
                for state in rows.states
                for key, _ in state.segments
                if key_problem(key) is None
            )
            check(settings, self._limits)
        self.settings = settings
        clocks_us = (now_us, now_us if disputed_us is None else disputed_us)
        empty = empty_counts(
            settings.resolution,
            settings.scale,
            self._limits.pane_cells,
            settings.cluster_groups,
        )
        for place, merged in enumerate(rows.states):
            path = f"states[{place}]"
            self._check_place(merged, path, clocks_us)
            _check_counts(merged.state, path, empty)
        encoded = header.SerializeToString()
        length = len(encoded).to_bytes(_LENGTH_BYTES, "little")
        return rows, length + encoded + data

    def _check_place(self, merged: MergedState, path: str, clocks_us: tuple[int, int]) -> None:
        """Refuse a state of a time or of segments that the stream does not take. O(segments)."""
        settings = self.settings
        try:
            if merged.event_us:
                check_times(
                    merged.event_us, f"{path}.event_time_us", clocks_us, self._limits, settings
                )
            check_distinct([key for key, _ in merged.segments])
            self._check_keys([key for key, _ in merged.segments], f"{path}.segments")
            check_segment_values(merged.segments, f"{path}.segments", self._limits)
        except RefusedError as error:
            raise error.refused.to_error() from None
        except InvalidInputError as error:
            raise refused_input(error, path).to_error() from None

    def _check_keys(self, keys: list[str], path: str) -> None:
        """Refuse keys that the stream lacks, or cannot have. O(keys)."""
        assert self.header is not None
        problems = (key_problem(key) for key in keys)
        for place, problem in enumerate(problems):
            if problem is not None:
                refuse(Code.INVALID_ARGUMENT, problem, f"{path}[{place}].key")
        missing = tuple(key for key in keys if key not in self.settings.segment_keys)
        if missing:
            message = undeclared(self.header.stream, missing, self.settings)
            refuse(Code.INVALID_ARGUMENT, message, f"{path}[{keys.index(missing[0])}].key")


def _check_counts(state: State, path: str, empty: State) -> None:
    """Refuse counts that cannot be merged into the stream, which began as `empty`.

    O(cells).
    """
    if state.max_cells is not None:
        state = state.redeclared(max_cells=None)
    try:
        merge_states([empty, state], revision=0)
    except InvalidInputError as error:
        raise _invalid(f"{path}.evaluator", str(error)) from None


def stored_merge(payload: bytes) -> MergeRows:
    """Return the rows of an accepted merge from its log row. O(bytes).

    Raises
    ------
    CorruptLogError
        When the payload is not a merge.
    """
    size = int.from_bytes(payload[:_LENGTH_BYTES], "little")
    encoded, data = payload[_LENGTH_BYTES : _LENGTH_BYTES + size], payload[_LENGTH_BYTES + size :]
    try:
        return _read(ingest_pb2.MergeHeader.FromString(encoded), _parsed(data), len(data))
    except (DecodeError, RequestError) as error:
        raise CorruptLogError(f"not a merge that this version accepts: {error}") from error


def _parsed(data: bytes) -> ingest_pb2.MergeStates:
    """Return the states as a message. Raises RequestError. O(bytes)."""
    try:
        return ingest_pb2.MergeStates.FromString(data)
    except DecodeError:
        raise _invalid("data", "the data is not an encoded MergeStates") from None


def _read(
    header: ingest_pb2.MergeHeader,
    message: ingest_pb2.MergeStates,
    num_bytes: int,
    max_states: int | None = None,
) -> MergeRows:
    """Return the rows of a merge whose states have a length. Raises RequestError. O(bytes)."""
    if max_states is not None and len(message.states) > max_states:
        raise _too_large("states", "states", max_states, len(message.states))
    states, total = [], 0
    for place, each in enumerate(message.states):
        try:
            state = decode_evaluator(each.evaluator)
        except CorruptStateError as error:
            raise _invalid(f"states[{place}].evaluator", str(error)) from None
        segments = tuple((segment.key, segment.value) for segment in each.segments)
        states.append(MergedState(each.event_time_us, segments, state))
        total += state.num_cases
    return MergeRows(header.source, header.epoch, states, 1 + num_bytes // _ROW_COST_BYTES, total)


def _too_large(field: str, unit: str, limit: int, got: int) -> RequestError:
    message = (
        f"a merge must have at most {limit} {unit}, got {got}: "
        "merge in parts, each with an epoch of its own"
    )
    return RequestError(
        Code.RESOURCE_EXHAUSTED,
        message,
        reason="MERGE_TOO_LARGE",
        violations=((field, message),),
    )


def _invalid(field: str, message: str, reason: str = "INVALID_MERGE") -> RequestError:
    return RequestError(
        Code.INVALID_ARGUMENT, message, reason=reason, violations=((field, message),)
    )
