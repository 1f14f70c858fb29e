"""Detectors as bytes.

Layout, little-endian: the settings; the bands of the reference; means, errors and thetas;
names of segments; evidence; the panes that are open, as rows of those parts and sides that
have cases; alarms; warnings of the reference, if there are any. Floats are written as they are,
so equal detectors have equal bytes.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from streameval._common.frame import Frame, raise_corrupt
from streameval._drift.alarm_codec import decode_alarm, encode_alarm
from streameval._drift.engine import DriftEngine
from streameval._drift.frozen import FrozenReference
from streameval._drift.processes import MAX_BLOCKS, SUMMARIES
from streameval._drift.reference import MAX_BANDS, TABLES, Bands
from streameval._drift.settings import DriftSettings
from streameval._drift.watches import BY_CODE
from streameval._time.times import MAX_TIME_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from streameval._common.frame import Reader
    from streameval._drift.processes import Processes
    from streameval._drift.side_table import PaneSums

FRAME: Final = Frame(b"SVED", 1, "a drift detector")
_SETTINGS = struct.Struct("<qqqdBB")
_WATCH = struct.Struct("<Bd")
_HAS_THRESHOLD, _HAS_CLUSTERS, _IS_PROBABILITY = 1, 2, 4
_SIZES = struct.Struct("<HHHIIH")
_TIMES = struct.Struct("<qqqq")
_PANE = struct.Struct("<qI")
_NAME = struct.Struct("<H")


def encode_engine(engine: DriftEngine) -> bytes:
    """Return a detector's state as bytes. O(state)."""
    frozen, processes = engine.frozen, engine.processes
    open_panes = engine.panes.items()
    places = {name: place for place, name in enumerate(frozen.segments)}
    return FRAME.sealed(
        _settings_bytes(engine.settings),
        _SIZES.pack(
            frozen.bands.edges.size,
            len(frozen.segments),
            processes.starts.size,
            len(open_panes),
            engine.num_alarms,
            len(engine.alarms),
        ),
        _TIMES.pack(engine.now_us, *engine.changed_us, processes.hour),
        frozen.bands.edges.astype("<f8").tobytes(),
        *(frozen.bands.tables[key].astype("<u2").tobytes() for key in TABLES),
        *(each.astype("<f8").tobytes() for each in (frozen.means, frozen.errors, frozen.thetas)),
        *(_NAME.pack(len(name.encode())) + name.encode() for name in frozen.segments),
        *(column.astype(dtype).tobytes() for _, column, dtype in _columns(processes)),
        *(_pane_bytes(pane, sums) for pane, sums in open_panes),
        *(encode_alarm(alarm, places) for alarm in engine.alarms),
        *(_NAME.pack(len(text.encode())) + text.encode() for text in frozen.warnings),
    )


def _pane_bytes(pane: int, sums: PaneSums) -> bytes:
    """Return the sums of an open pane where there are any. O(sums)."""
    at = np.flatnonzero(sums.counts)
    columns = (
        column.ravel()[at].astype(dtype).tobytes()
        for column, dtype in zip(sums, ("<i8", "<i8", "<u8"), strict=True)
    )
    return b"".join((_PANE.pack(pane, at.size), at.astype("<u4").tobytes(), *columns))


def decode_engine(data: bytes | bytearray | memoryview) -> DriftEngine:
    """Return the detector whose bytes these are, or raise CorruptStateError. O(state)."""
    reader = FRAME.reader(data)
    settings = _settings(reader)
    edges, segments, blocks, panes, num_alarms, alarms = reader.fields(_SIZES)
    now_us, scores_us, labels_us, hour = reader.fields(_TIMES)
    if not 0 <= now_us <= MAX_TIME_US or blocks > MAX_BLOCKS or edges >= MAX_BANDS:
        raise_corrupt("the detector's time or sizes are out of range")
    frozen = _frozen(reader, edges, segments, len(settings.sides))
    engine = DriftEngine(settings, frozen, now_us=now_us, changed_us=[scores_us, labels_us])
    _read_processes(reader, engine.processes, blocks)
    engine.processes.hour = hour
    for _ in range(panes):
        _read_pane(reader, engine)
    engine.num_alarms = num_alarms
    engine.alarms = [decode_alarm(reader, settings, frozen.segments) for _ in range(alarms)]
    engine.frozen = replace(frozen, warnings=_warnings(reader))
    return engine


def _warnings(reader: Reader) -> tuple[str, ...]:
    """Read the warnings of the reference, which end the bytes; as a rule there are none."""
    found = []
    while reader.left:
        (size,) = reader.fields(_NAME)
        found.append(_text(reader, size, "a warning"))
    return tuple(found)


def _text(reader: Reader, size: int, what: str) -> str:
    try:
        return bytes(reader.blob(size)).decode()
    except UnicodeDecodeError:
        raise_corrupt(f"{what} is not UTF-8")


def _settings_bytes(settings: DriftSettings) -> bytes:
    flags = (
        (settings.threshold is not None) * _HAS_THRESHOLD
        | settings.has_clusters * _HAS_CLUSTERS
        | settings.is_probability * _IS_PROBABILITY
    )
    return b"".join(
        (
            _SETTINGS.pack(
                settings.mean_us,
                settings.pane_us,
                settings.maturity_us,
                settings.threshold or 0.0,
                flags,
                len(settings.watches),
            ),
            *(
                _WATCH.pack(watch.code, tolerance)
                for watch, tolerance in zip(settings.watches, settings.tolerances, strict=True)
            ),
        )
    )


def _settings(reader: Reader) -> DriftSettings:
    mean_us, pane_us, maturity_us, threshold, flags, number = reader.fields(_SETTINGS)
    watches = [reader.fields(_WATCH) for _ in range(number)]
    codes = [code for code, _ in watches]
    if (
        not 0 < pane_us <= mean_us
        or maturity_us < 0
        or not number
        or codes != sorted({code for code in codes if code in BY_CODE})
    ):
        raise_corrupt("the detector's settings are out of range")
    return DriftSettings(
        tuple(BY_CODE[code] for code in codes),
        tuple(tolerance for _, tolerance in watches),
        mean_us,
        pane_us,
        maturity_us,
        threshold if flags & _HAS_THRESHOLD else None,
        bool(flags & _HAS_CLUSTERS),
        bool(flags & _IS_PROBABILITY),
    )


def _frozen(reader: Reader, edges: int, segments: int, sides: int) -> FrozenReference:
    cuts = _column(reader, "<f8", (edges,))
    if not (np.diff(cuts) > 0).all():
        raise_corrupt("the detector's bands do not ascend")
    tables = {key: _column(reader, "<u2", (edges + 1,)).astype(np.uint16) for key in TABLES}
    means = _column(reader, "<f8", (sides,))
    errors = _column(reader, "<f8", (sides,))
    thetas = _column(reader, "<f8", (segments + 1, sides))
    if not ((thetas >= 0) & (thetas < 1)).all():
        raise_corrupt("the detector's thetas are out of range")
    names = []
    for _ in range(segments):
        (size,) = reader.fields(_NAME)
        names.append(_text(reader, size, "the name of a segment"))
    return FrozenReference(Bands(cuts, tables), means, errors, thetas, tuple(names))


def _columns(processes: Processes) -> Iterator[tuple[str, npt.NDArray[Any], str]]:
    """Yield the arrays of evidence, in the order of their bytes."""
    yield "starts", processes.starts, "<i8"
    for name in ("fine", "coarse", "hour_sums", "summaries", "parts"):
        yield name, getattr(processes, name), "<f8"
    for name in ("hour_counts", "last", "restarts"):
        yield name, getattr(processes, name), "<i8"


def _read_processes(reader: Reader, processes: Processes, blocks: int) -> None:
    processes.starts = np.zeros(blocks, dtype=np.int64)
    processes.fine = np.zeros((*processes.fine.shape[:2], blocks))
    processes.summaries = np.zeros((SUMMARIES, processes.num_watched, blocks))
    for name, like, dtype in list(_columns(processes)):
        column = _column(reader, dtype, like.shape)
        if dtype == "<f8" and not ((column >= 0) & np.isfinite(column)).all():
            raise_corrupt(f"the detector's {name} are out of range")
        setattr(processes, name, column)
    if not (np.diff(processes.starts) > 0).all():
        raise_corrupt("the detector's blocks do not ascend")


def _read_pane(reader: Reader, engine: DriftEngine) -> None:
    pane, size = reader.fields(_PANE)
    at = reader.column("<u4", size).astype(np.int64)
    shape = engine.frozen.thetas.shape
    if at.size and not ((np.diff(at) > 0).all() and at[-1] < shape[0] * shape[1]):
        raise_corrupt("an open pane has values of unknown parts")
    sums = engine.panes.pane(pane)
    for column, dtype in zip(sums, ("<i8", "<i8", "<u8"), strict=True):
        column.ravel()[at] = reader.column(dtype, size)


def _column(reader: Reader, dtype: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Read an array that may be changed, in the machine's byte order."""
    rows = int(np.prod(shape))
    column = reader.column(dtype, rows).reshape(shape)
    return column.astype(column.dtype.newbyteorder("="))
