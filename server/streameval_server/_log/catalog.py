"""What the committer knows of each stream: enough to decide, and no counts.

It is a function of the log alone, so the committer's catalogue and the engine's
streams agree at equal revisions. What is known of a stream is immutable: a
transaction in the making keeps its own versions of the streams that it touches.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from streameval.v1 import stream_pb2
from streameval_server._log.entries import Kind
from streameval_server._model.rows import MergeRows
from streameval_server._model.stream_settings import DEFAULTS, StreamSettings, settings_of, updated
from streameval_server._state.stream_file import StreamFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval_server._log.entries import Entry

NO_SOURCES: Mapping[str, int] = MappingProxyType({})


class StreamFacts(NamedTuple):
    """What is known of a stream.

    Attributes
    ----------
    total : int
        References that were accepted.
    settings : StreamSettings
    sources : mapping of str to int
        The last epoch of each source that merged.
    """

    total: int = 0
    settings: StreamSettings = DEFAULTS
    sources: Mapping[str, int] = NO_SOURCES


Catalog = dict[str, StreamFacts]
"""By name. Other threads than the committing one may look up a name."""

NEW = StreamFacts()
"""A stream that is made on first use."""


def administered(known: StreamFacts | None, entry: Entry) -> StreamFacts | None:
    """Return what an entry without rows makes of its stream; None when that is gone.

    Raises
    ------
    RequestError
        When an update cannot be; in the log there is none such.
    """
    request = entry.request
    if isinstance(request, stream_pb2.CreateStreamRequest):
        return StreamFacts(settings=settings_of(request.stream.settings))
    if isinstance(request, StreamFile):
        return StreamFacts(request.total, request.settings, MappingProxyType(dict(request.sources)))
    if isinstance(request, stream_pb2.UpdateStreamRequest):
        assert known is not None
        return known._replace(settings=updated(known.settings, request))
    return None


def note(catalog: Catalog, entry: Entry) -> None:
    """Bring a catalogue up to date with an entry that is durable."""
    name, rows = entry.stream, entry.rows
    if rows is not None:
        known = catalog.get(name, NEW)
        catalog[name] = counted(known, rows.total, rows)
    elif entry.kind in {Kind.CREATE_STREAM, Kind.UPDATE_STREAM, Kind.IMPORT_STREAM}:
        after = administered(catalog.get(name), entry)
        assert after is not None
        catalog[name] = after
    elif entry.kind == Kind.DELETE_STREAM:
        del catalog[name]


def counted(known: StreamFacts, total: int, rows: object) -> StreamFacts:
    """Return what rows make of a stream."""
    sources = known.sources
    if isinstance(rows, MergeRows):
        sources = MappingProxyType({**sources, rows.source: rows.epoch})
    return StreamFacts(known.total + total, known.settings, sources)
