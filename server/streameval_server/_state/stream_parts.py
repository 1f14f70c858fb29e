"""A stream as the parts of a checkpoint: how they are named, encoded and restored.

A stream has a head (the whole's all-time counts and everything small), a part for each
segment key's all-time slices, a part for each pane, one for each pane's label delays, one for
its detector, one for its annotations, and join segments: ``stream``, ``slice/KEY``,
``pane/START``, ``delay/START``, ``alarms/0``, ``annotations/0``, ``join/REVISION``.

The head is JSON (description, counters, segment values), the joiner's counters, and the
whole's all-time counts, each with its length before it.
"""

from __future__ import annotations

import json
import struct
from functools import lru_cache, partial
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
from streameval_server._state.ids.join_table import Joins
from streameval_server._state.observer import CheckpointPart, Restoring
from streameval_server._state.segments import WHOLE
from streameval_server._state.stream_state import StreamState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from streameval_server._model.limits import Limits

_LENGTHS = struct.Struct("<III")

STREAM_PART = "stream"


# -- encoding


def stream_parts(state: StreamState) -> Iterator[CheckpointPart]:
    """Yield the parts of a stream except for the segments of its ids. O(panes + slices)."""
    state.counts.flush()
    yield CheckpointPart(STREAM_PART, state.revision, partial(_head, state))
    for each in state.observers:
        yield from each.to_parts()


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
        if kind == Joins.PART:
            segments[int(number)] = data
        elif kind in followers:
            followers[kind].from_part(kind, int(number), data, origin)
        elif kind != STREAM_PART:
            raise CorruptStateError(f"there is a part {part} that the stream does not keep")
    store.recount_memory()
    panes = [pane.start_us for pane in store.panes]
    if panes:
        state.evidence.look_back(panes[0], panes[-1])
    if ids is not None:
        ids.restore(revision, segments)
        ids.state_from_bytes(joins)
        ids.lag_us = fields.get("lag_us", 0)
    return state
