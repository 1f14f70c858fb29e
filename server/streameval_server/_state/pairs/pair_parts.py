"""A pair as the parts of a checkpoint.

``pair/NAME`` is its head (JSON: description, tallies, segment values, evidence) with the rows
that wait to be counted; ``pairall/SLICE/NAME`` a slice's counts of all time;
``pairpane/START/NAME`` a pane; ``pairids/REVISION/NAME`` a segment of its ids.
"""

from __future__ import annotations

import json
import struct
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval import CorruptStateError, StreamEvalError
from streameval.kernel import Frame
from streameval.statistics import PairCounts
from streameval_server._model.errors import CorruptLogError
from streameval_server._model.pair_settings import PairInfo, PairSettings
from streameval_server._state.ids.join_segment import HAS_WEIGHTS
from streameval_server._state.observer import CheckpointPart, MadePart
from streameval_server._state.pairs.pair_joiner import CountedRows
from streameval_server._state.pairs.pair_panes import NONE_SEEN, PairPane
from streameval_server._state.pairs.pair_state import PairState
from streameval_server._state.pairs.pair_table import PairIds, PairTable
from streameval_server._state.pairs.pair_view import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from streameval.kernel import Reader
    from streameval_server._model.arrays import IntArray
    from streameval_server._model.limits import Limits
    from streameval_server._state.pairs.pair_panes import PairPanes

PAIR_PART, _TOTAL, _PANE = "pair", "pairall", "pairpane"
PAIR_KINDS = (PAIR_PART, _TOTAL, _PANE, PairIds.PART)
"""The kinds of a pair's parts."""

_HEAD_FRAME = Frame(b"SVEH", 1, "a pair's head", flags=HAS_WEIGHTS)
_PANE_FRAME = Frame(b"SVEN", 1, "a pane of a pair")
_LENGTHS = struct.Struct("<qqH")
_SLICE = struct.Struct("<qqqqq")
_TOTAL_SEEN = struct.Struct("<qqq")


def pair_parts(state: PairState) -> Iterator[CheckpointPart]:
    """Yield the parts of a pair except for the segments of its ids. O(panes + waiting rows)."""
    counts = state.counts
    counts.count_predicted()
    yield CheckpointPart(PAIR_PART, state.revision, lambda: MadePart(partial(bytes, _head(state))))
    for number in sorted(counts.revisions):
        encoder = partial(_total, counts, number)
        yield CheckpointPart(f"{_TOTAL}/{number}", counts.revisions[number], encoder)
    for pane in counts.panes:
        encoder = partial(_pane, pane.content)
        yield CheckpointPart(f"{_PANE}/{pane.start_us}", pane.content.revision, encoder)


def _head(state: PairState) -> bytes:
    info, counts = state.info, state.counts
    fields = {
        "name": info.name,
        "a": info.a,
        "b": info.b,
        "create_us": info.create_us,
        "create_revision": info.create_revision,
        "settings": info.settings.to_fields(),
        "revision": state.revision,
        "now_us": counts.panes.now_us,
        "tally": state.joiner.tally,
        "beyond_retention": counts.beyond_retention,
        "values": state.segments.values,
        "overflowed": state.segments.overflowed,
        "evidence": {name: list(each) for name, each in state.evidence.items()},
        "look_us": state.look_us,
        "thresholds": list(counts.thresholds),
    }
    if state.joiner.weighed:
        fields["weighed"] = state.joiner.weighed
    text = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    columns: list[bytes] = []
    flags = 0
    keys = state.joiner.ids.table.codes.shape[1]
    if counts.waiting:
        rows = CountedRows.joined(counts.waiting)
        # In a canonical order: expiry in pieces may have appended them in another one.
        keys_of_order = (*rows.codes.T, rows.signs, rows.positive, rows.b, rows.a, rows.event_us)
        arrays: tuple[Any, ...] = rows[:-1]
        kinds: tuple[str, ...] = _KINDS
        if rows.units is not None:
            flags = HAS_WEIGHTS
            keys_of_order, arrays, kinds = (rows.units, *keys_of_order), rows, (*_KINDS, "<i8")
        order = np.lexsort(keys_of_order)
        columns = [
            each[order].astype(kind).tobytes() for each, kind in zip(arrays, kinds, strict=True)
        ]
    lengths = _LENGTHS.pack(len(text), counts.num_waiting, keys)
    return _HEAD_FRAME.sealed(lengths, text, *columns, flags=flags)


_KINDS = ("<i8", "u1", "<f8", "<f8", "<i8", "<u2")


def _total(counts: PairPanes, number: int) -> MadePart:
    seen = _TOTAL_SEEN.pack(*counts.total_seen.get(number, NONE_SEEN))
    cases = counts.totals.get(number)
    return MadePart(lambda: seen + (b"" if cases is None else cases.to_bytes()))


def _pane(changing: PairPane) -> MadePart:
    pane = changing.copy()

    def encode() -> bytes:
        pieces: list[bytes] = []
        for number in sorted({*pane.counts, *pane.seen}):
            cases = pane.counts.get(number)
            data = b"" if cases is None else cases.to_bytes()
            pieces += [_SLICE.pack(number, *pane.seen.get(number, NONE_SEEN), len(data)), data]
        return _PANE_FRAME.sealed(*pieces)

    return MadePart(encode)


def restore_pair(limits: Limits, revision: int, parts: Mapping[str, bytes]) -> PairState:
    """Return the pair that a checkpoint at `revision` has, by names without its own.

    Raises
    ------
    CorruptLogError
        When they are not what was yielded.
    """
    try:
        return _restored(limits, revision, parts)
    except (StreamEvalError, struct.error, LookupError, TypeError, ValueError) as error:
        raise CorruptLogError(f"a pair in the checkpoint cannot be read: {error}") from error


def _restored(limits: Limits, revision: int, parts: Mapping[str, bytes]) -> PairState:
    fields, (reader, rows, keys) = _head_of(parts)
    settings = PairSettings.of_fields(fields["settings"])
    names = (fields["name"], fields["a"], fields["b"])
    info = PairInfo(*names, fields["create_us"], fields["create_revision"], settings)
    state = PairState(info, limits, fields["now_us"])
    state.revision = state.counts.revision = fields["revision"]
    state.joiner.tally.update(fields["tally"])
    state.joiner.weighed = fields.get("weighed", 0)
    state.segments.restore(fields["values"])
    state.segments.overflowed = fields["overflowed"]
    state.evidence = {name: Evidence(*each) for name, each in fields["evidence"].items()}
    state.look_us = fields["look_us"]
    counts = state.counts
    counts.thresholds = (fields["thresholds"][0], fields["thresholds"][1])
    counts.beyond_retention = fields["beyond_retention"]
    if rows:
        counts.waiting = [_read_rows(reader, rows, keys)]
        counts.num_waiting = rows
    reader.end()
    segments: dict[int, bytes] = {}
    for part, data in parts.items():
        kind, _, text = part.partition("/")
        if kind == _TOTAL:
            number = int(text)
            counts.total_seen[number] = _TOTAL_SEEN.unpack_from(data)
            if len(data) > _TOTAL_SEEN.size:
                shape = counts.shape_of(number)
                counts.totals[number] = PairCounts.from_bytes(data[_TOTAL_SEEN.size :], shape)
            counts.revisions[number] = revision
        elif kind == _PANE:
            counts.panes.put(int(text), _read_pane(state, data, revision))
        elif kind == PairIds.PART:
            segments[int(text)] = data
        elif kind != PAIR_PART:
            raise CorruptStateError(f"{part} is no part of a pair")
    state.joiner.ids.restore(revision, segments)
    counts.recount_memory()
    return state


def pair_fields(parts: Mapping[str, bytes]) -> dict[str, Any]:
    """Return what the head of a pair says of it, by name.

    Raises
    ------
    CorruptStateError, LookupError, TypeError, ValueError
        When it is not a head.
    """
    return _head_of(parts)[0]


def _head_of(parts: Mapping[str, bytes]) -> tuple[dict[str, Any], tuple[Reader, int, int]]:
    """Return a head's fields, and what reads its waiting rows, their number and their keys."""
    reader = _HEAD_FRAME.reader(parts[PAIR_PART])
    length, rows, keys = reader.fields(_LENGTHS)
    fields: dict[str, Any] = json.loads(bytes(reader.blob(length)))
    return fields, (reader, rows, keys)


def _read_rows(reader: Reader, rows: int, keys: int) -> CountedRows:
    columns = [reader.column(kind, rows) for kind in _KINDS[:-1]]
    codes = reader.column("<u2", rows * keys).reshape(rows, keys).astype(np.uint16)
    units: IntArray | None = None
    if reader.flags & HAS_WEIGHTS:
        units = reader.column("<i8", rows).astype(np.int64)
    if units is not None and not ((units > 0) & (units <= PairTable.MAX_UNITS)).all():
        raise CorruptStateError("the waiting rows of a pair have weights out of range")
    event_us, positive, a, b, signs = columns
    return CountedRows(
        event_us.astype(np.int64),
        positive.astype(np.bool_),
        a.astype(np.float64),
        b.astype(np.float64),
        signs.astype(np.int64),
        codes,
        units,
    )


def _read_pane(state: PairState, data: bytes, revision: int) -> PairPane:
    counts = state.counts
    pane = PairPane(counts.shape, counts.thresholds, revision)
    reader = _PANE_FRAME.reader(data)
    while reader.left:
        number, a, b, both, length = reader.fields(_SLICE)
        if a or b or both:
            pane.seen[number] = (a, b, both)
        if length:
            pane.counts[number] = PairCounts.from_bytes(bytes(reader.blob(length)), counts.shape)
    reader.end()
    return pane
