"""A stream as the parts of a checkpoint: how they are named, encoded and restored.

A stream has a head (the whole's all-time counts and everything small), a part for each
segment key's all-time slices, a part for each pane, one for each pane's label delays, one for
its detector, one for its annotations, and join segments. A part's name is its kind, then its
key or number, then the stream's name:
``stream/NAME``, ``slice/KEY/NAME``, ``pane/START/NAME``, ``delay/START/NAME``,
``alarms/0/NAME``, ``annotations/0/NAME``, ``join/REVISION/NAME``. Exports and `restore_stream` use
the names without the stream's.

The head is JSON (description, counters, segment values), the joiner's counters, and the
whole's all-time counts, each with its length before it.
"""

from __future__ import annotations

import json
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from streameval import CorruptStateError, StreamEvalError
from streameval.kernel import StoredCounts
from streameval_server._model.errors import CorruptLogError
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._state.counting.pane_content import (
    PartsEncoder,
    frozen_parts,
    parts_from_bytes,
)
from streameval_server._state.ids.join_segment import encode_segment
from streameval_server._state.observer import Restoring
from streameval_server._state.segments import WHOLE
from streameval_server._state.stream_state import StreamState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from streameval_server._model.limits import Limits
    from streameval_server._state.observer import PartEncoder

    NamedPart = tuple[str, PartEncoder | None]

_LENGTHS = struct.Struct("<III")

STREAM_PART, JOIN_PART = "stream", "join"
"""The kinds of the parts that no observer has."""


def split_part(part: str) -> tuple[str, str]:
    """Return the stream's name in a part's name, and the name without it."""
    kind, _, rest = part.partition("/")
    if kind == STREAM_PART:
        return rest, kind
    number, _, name = rest.partition("/")
    return name, f"{kind}/{number}"


# -- encoding


def checkpoint_steps(state: StreamState, since: int) -> Iterator[NamedPart | None]:
    """Yield None for each piece of rows that is counted first; then `checkpoint_parts`."""
    while state.counts.has_uncounted:
        state.counts.count_piece()
        yield None
    yield from checkpoint_parts(state, since)


def checkpoint_parts(state: StreamState, since: int) -> Iterator[NamedPart]:
    """Yield a checkpoint's parts except for the ids' segments. O(panes + slices).

    A part that changed after `since` comes with its encoder, which needs no lock; an
    unchanged part comes with None.
    """
    state.counts.flush()
    name = state.info.name
    yield f"{STREAM_PART}/{name}", _head(state) if state.revision > since else None
    for each in state.observers:
        for part in each.to_parts():
            yield f"{part.name}/{name}", part.encoder() if part.revision > since else None


def join_parts(state: StreamState, revision: int, since: int) -> Iterator[tuple[str, bytes | None]]:
    """Yield the parts of ids of a checkpoint at `revision`. O(ids that changed).

    Needs no lock, because no view reads the ids. It must run before anything else is
    applied.
    """
    if state.joins is not None:
        data = state.joins.take_segment(revision, since)
        for number in state.joins.segments:
            yield f"{JOIN_PART}/{number}/{state.info.name}", data if number == revision else None


def export_parts(state: StreamState) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield all parts in the form that `restore_stream` takes.

    The callables that encode them need no lock; ids are copied at once, O(ids).
    """
    for part, data in checkpoint_parts(state, -1):
        assert data is not None
        yield split_part(part)[1], data
    if state.joins is not None and state.kept_ids:
        table = state.joins.table
        ids = encode_segment(table, table.used(), [])
        yield f"{JOIN_PART}/0", lambda: ids


def content_parts(state: StreamState) -> Iterator[tuple[str, bytes]]:
    """Yield everything in a canonical form, equal for equal streams. O(bytes)."""
    for part, data in checkpoint_parts(state, -1):
        assert data is not None
        yield part, data()
    if state.joins is not None:
        yield f"{JOIN_PART}/{state.info.name}", state.joins.to_bytes()


def _head(state: StreamState) -> PartsEncoder:
    info, store = state.info, state.counts.store
    fields = {
        "name": info.name,
        "create_us": info.create_us,
        "create_revision": info.create_revision,
        "settings": info.settings.to_fields(),
        "revision": state.revision,
        "total": state.total,
        "sources": state.sources,
        "values": state.segments.values,
        "overflowed": state.segments.overflowed,
        "now_us": store.panes.now_us,
        "floor_us": store.floor_us,
        "beyond_retention": state.counts.beyond_retention,
    }
    if state.weighed is not None:
        fields["weighed"] = state.weighed
    if state.lag_us:
        fields["lag_us"] = state.lag_us
    text = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    joins = b"" if state.joins is None else state.joins.state_to_bytes()

    def prefix(counts: int) -> bytes:
        return _LENGTHS.pack(len(text), len(joins), counts) + text + joins

    return PartsEncoder(frozen_parts({WHOLE: store.whole}), prefix)


# -- decoding


def decode_head(head: bytes) -> tuple[dict[str, Any], tuple[bytes, bytes]]:
    """Return a head's fields, and the bytes of the joiner's counters and of the counts.

    Raises
    ------
    CorruptStateError
        When it ends too soon.
    LookupError, TypeError, ValueError, struct.error
        When it is not a head at all.
    """
    lengths = _LENGTHS.unpack_from(head)
    if len(head) != _LENGTHS.size + sum(lengths):
        raise CorruptStateError("the head ends too soon")
    at = _LENGTHS.size
    blobs = []
    for length in lengths:
        blobs.append(head[at : at + length])
        at += length
    fields = json.loads(blobs[0])
    return fields, (blobs[1], blobs[2])


def restore_stream(
    limits: Limits,
    revision: int,
    parts: Mapping[str, bytes],
    unverified: list[StoredCounts] | None = None,
) -> StreamState:
    """Return the stream that a checkpoint at `revision` has.

    Parameters
    ----------
    parts
        By their names without the stream's, as `split_part` gives them.
    unverified
        Takes counts that stay bytes until they are read, for `verify_counts`; None decodes all.

    Raises
    ------
    CorruptLogError
        When they are not what `checkpoint_parts` and `join_parts` yielded.
    """
    try:
        return _restored(limits, revision, parts, unverified)
    except (StreamEvalError, struct.error, LookupError, TypeError, ValueError) as error:
        raise _unreadable(error) from error


def verify_counts(unverified: Sequence[StoredCounts]) -> None:
    """Check the counts that restored streams have not decoded. O(bytes).

    Raises
    ------
    CorruptLogError
        As `restore_stream`, of the first that is not what was written.
    """
    try:
        StoredCounts.verify(unverified)
    except CorruptStateError as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> CorruptLogError:
    return CorruptLogError(f"a stream in the checkpoint cannot be read: {error}")


@lru_cache(maxsize=256)
def _settings(text: str) -> StreamSettings:
    """Return settings from JSON; streams whose settings are written the same share one object."""
    return StreamSettings.of_fields(json.loads(text))


def _restored(
    limits: Limits,
    revision: int,
    parts: Mapping[str, bytes],
    unverified: list[StoredCounts] | None,
) -> StreamState:
    fields, (joins, counts) = decode_head(parts[STREAM_PART])
    settings = _settings(json.dumps(fields["settings"]))
    info = StreamInfo(fields["name"], fields["create_us"], fields["create_revision"], settings)
    state = StreamState(info, limits, fields["now_us"])
    state.set_revision(fields["revision"])
    state.total = fields["total"]
    state.weighed = fields.get("weighed")
    state.sources = fields["sources"]
    state.segments.restore(fields["values"])
    state.segments.overflowed = fields["overflowed"]
    state.counts.beyond_retention = fields["beyond_retention"]
    store = state.counts.store
    store.floor_us = fields["floor_us"]
    store.slices.update(parts_from_bytes(counts, settings.scale, unverified))
    ids = state.keep_ids() if joins else None
    followers = {kind: each for each in state.observers for kind in each.KINDS}
    origin = Restoring(revision, state.segments.names, unverified)
    segments: dict[int, bytes] = {}
    for part, data in parts.items():
        kind, _, number = part.partition("/")
        if kind == JOIN_PART:
            segments[int(number)] = data
        elif kind in followers:
            followers[kind].from_part(kind, int(number), data, origin)
        elif kind != STREAM_PART:
            raise CorruptStateError(f"there is a part {part} that the stream does not keep")
    store.recount_memory()
    if ids is not None:
        ids.restore(revision, segments)
        ids.state_from_bytes(joins)
        ids.lag_us = fields.get("lag_us", 0)
    return state
