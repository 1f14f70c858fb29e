"""What the committer knows of each stream: enough to decide on a request, and no counts.

A catalog is a function of the log alone, so the committer's catalog and the engine's
streams agree at equal revisions. `StreamFacts` are immutable: a transaction keeps its own
versions for the streams that it touches, and discards them if the commit fails.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from streameval_server._log.rows import Kind
from streameval_server._model.alarm_change import AlarmChange
from streameval_server._model.mark import MarkChange
from streameval_server._model.pair_settings import PairCreation, PairDeletion
from streameval_server._model.row_kinds import MergeRows, weighed_after
from streameval_server._model.stream_settings import DEFAULTS, SettingsUpdate, StreamSettings
from streameval_server._model.verdict_change import VerdictChange
from streameval_server._state.pairs.pair_file import PairImport
from streameval_server._state.stream_file import StreamFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval.v1 import ingest_pb2
    from streameval_server._core.entries import Entry, PairChange, StreamChange
    from streameval_server._model.row_kinds import Rows

NO_SOURCES: Mapping[str, int] = MappingProxyType({})


class StreamFacts(NamedTuple):
    """The facts about one stream.

    Attributes
    ----------
    total : int
        References that were accepted.
    settings : StreamSettings
    sources : mapping of str to int
        The last epoch of each source that merged.
    weighed : int or None
        What the references weigh together, in units of 2**-16; None while each weighs 1.
    pairs : tuple of (str, str, str)
        The name and the streams of each pair that it is in, in order.
    """

    total: int = 0
    settings: StreamSettings = DEFAULTS
    sources: Mapping[str, int] = NO_SOURCES
    weighed: int | None = None
    pairs: tuple[tuple[str, str, str], ...] = ()

    def pair_with(self, a: str, b: str) -> str | None:
        """Return the name of the pair of two streams; None when there is none."""
        return next((name for name, *sides in self.pairs if {*sides} == {a, b}), None)

    def sides_of(self, pair: str) -> tuple[str, str] | None:
        """Return the streams of a pair by its name; None when this stream is not in it."""
        return next(((a, b) for name, a, b in self.pairs if name == pair), None)


Catalog = dict[str, StreamFacts]
"""Facts by stream name. Only the committing thread writes; any thread may look up a name."""

NEW = StreamFacts()
"""A stream that its first batch creates."""


def settings_in(
    catalog: Catalog, rows: ingest_pb2.Batch | ingest_pb2.MergeHeader | None
) -> StreamSettings | None:
    """Return the settings of the stream that rows are for; None when there is none. O(1)."""
    facts = None if rows is None else catalog.get(rows.stream)
    return None if facts is None else facts.settings


def is_merged(catalog: Catalog, header: ingest_pb2.MergeHeader | None) -> bool:
    """Return whether a source has merged this epoch or a later one. O(1)."""
    if header is None:
        return False
    return header.epoch <= catalog.get(header.stream, NEW).sources.get(header.source, 0)


def apply_change(facts: StreamFacts | None, change: StreamChange | None) -> StreamFacts | None:
    """Return a stream's facts after a change; None after a deletion, which is no `change`.

    Raises
    ------
    RequestError
        When the update is not possible; the log holds no such update.
    """
    if isinstance(change, StreamSettings):
        return StreamFacts(settings=change)
    if isinstance(change, StreamFile):
        sources = MappingProxyType(dict(change.sources))
        return StreamFacts(change.total, change.settings, sources, change.weighed)
    if isinstance(change, AlarmChange | MarkChange | VerdictChange):
        return facts
    if isinstance(change, SettingsUpdate):
        assert facts is not None
        return facts._replace(settings=change.apply_to(facts.settings))
    return None


def add_rows(facts: StreamFacts, rows: Rows) -> StreamFacts:
    """Return a stream's facts after rows."""
    sources = facts.sources
    if isinstance(rows, MergeRows):
        sources = MappingProxyType({**sources, rows.source: rows.epoch})
    weighed = weighed_after(facts.weighed, facts.total, rows)
    # Not `_replace`, which takes five times as long: this runs twice for each batch.
    return StreamFacts(facts.total + rows.total, facts.settings, sources, weighed, facts.pairs)


def apply_pair_change(facts: StreamFacts, change: PairChange) -> StreamFacts:
    """Return the facts of one stream of a pair after it is made or deleted."""
    if isinstance(change, PairCreation | PairImport):
        made = (change.name, change.a, change.b)
        return facts._replace(pairs=tuple(sorted((*facts.pairs, made))))
    return facts._replace(pairs=tuple(pair for pair in facts.pairs if pair[0] != change.name))


def sides_of(change: PairChange, facts: StreamFacts) -> tuple[str, str]:
    """Return the streams of a pair that is made or deleted, by the facts of either."""
    if isinstance(change, PairDeletion):
        sides = facts.sides_of(change.name)
        assert sides is not None
        return sides
    return change.a, change.b


def record(catalog: Catalog, entry: Entry) -> None:
    """Update a catalog with an entry that is durable."""
    name, rows = entry.stream, entry.rows
    if rows is not None:
        catalog[name] = add_rows(catalog.get(name, NEW), rows)
    elif isinstance(entry.change, PairCreation | PairImport | PairDeletion):
        for each in sides_of(entry.change, catalog[name]):
            catalog[each] = apply_pair_change(catalog[each], entry.change)
    elif entry.change is not None:
        after = apply_change(catalog.get(name), entry.change)
        assert after is not None
        catalog[name] = after
    elif entry.kind == Kind.DELETE_STREAM:
        del catalog[name]
