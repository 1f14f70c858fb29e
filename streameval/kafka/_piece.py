"""A piece of a partition: its messages, read by the mappings into batches and refusals.

The same messages and mappings give the same batches each time, whatever was polled at once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from streameval._common.errors import InvalidInputError
from streameval._common.names import is_at_or_below
from streameval._common.values import truncated
from streameval.kafka._messages import read_message
from streameval.kafka._plain_rows import PlainRows, message_time_us
from streameval.kafka._row_batches import RowBatch
from streameval.payloads import Reason, TooLongError, UnreadableEvent, read_rows, wanted_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from confluent_kafka import Message

    from streameval.payloads import Event, PayloadMapping, PayloadRow

NO_MAPPING = ""
"""Stands for the mapping of what no mapping takes, in counts."""


class RefusedRow(NamedTuple):
    """Rows of a message, or the whole message, that are not counted.

    Attributes
    ----------
    mapping : str
        The stream of the mapping that took it, as declared; empty when none did.
    reason : str
        A `Reason`'s value, or ``store``.
    message : str
    row : int or None
        Its place in the message; None for the whole message, or where it is not known.
    """

    mapping: str
    reason: str
    message: str
    row: int | None = None


@dataclass(slots=True)
class Piece:
    """Messages and what they give.

    Attributes
    ----------
    messages : sequence of Message
    batches : list of RowBatch
        In the order of their first rows.
    refused : dict of int to list of RefusedRow
        By the place of the message.
    rows : Counter
        Predictions and labels by mapping; ``ignored`` messages under `NO_MAPPING`.
    elsewhere : Counter
        Predictions and labels by mapping that are of other servers' streams.
    mappings : dict of str to PayloadMapping
        The mapping that each stream's rows were read by.
    """

    messages: Sequence[Message]
    batches: list[RowBatch] = field(default_factory=list)
    refused: dict[int, list[RefusedRow]] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    elsewhere: Counter[str] = field(default_factory=Counter)
    mappings: dict[str, PayloadMapping] = field(default_factory=dict)

    def refuse(self, place: int, refused: RefusedRow) -> None:
        """Note why something of a message is not counted."""
        self.refused.setdefault(place, []).append(refused)


def read_piece(
    messages: Sequence[Message],
    mappings: Sequence[PayloadMapping],
    streams: Sequence[str] = (),
    max_skew_us: int = 0,
) -> Piece:
    """Return the batches of some messages, of some streams and those below. O(payloads).

    Other partitions may be up to `max_skew_us` behind.

    Nothing that a message may hold makes it raise: it is a refusal of that message.
    """
    return _Reading(messages, mappings, streams, max_skew_us).run()


class _Reading:
    """One piece while it is read."""

    def __init__(
        self,
        messages: Sequence[Message],
        mappings: Sequence[PayloadMapping],
        streams: Sequence[str],
        max_skew_us: int,
    ) -> None:
        self._piece = Piece(messages)
        self._mappings = mappings
        self._streams = streams
        self._types = wanted_types(mappings)
        self._plain = PlainRows.of(mappings)
        if self._plain is not None and not self._is_ours(self._plain.mapping.stream):
            self._plain = None
        self._groups: dict[tuple[object, ...], RowBatch] = {}
        times = [time for each in messages if (time := message_time_us(each)) is not None]
        # The same each time, so that a piece that is made again is the same.
        self._source_us = max(min(times) - max_skew_us, 0) if times else None

    def run(self) -> Piece:
        """Return the piece."""
        piece, place = self._piece, 0
        while place < len(piece.messages):
            if self._plain is not None:
                place = self._read_plain(self._plain, place)
            if place < len(piece.messages):
                self._read_message(piece.messages[place], place)
            place += 1
        piece.batches = [each for batch in self._groups.values() for each in batch.bounded()]
        return piece

    def _read_message(self, message: Message, place: int) -> None:
        piece, value = self._piece, message.value()
        if value is None:  # a tombstone of a compacted topic
            piece.rows[NO_MAPPING] += 1
            return
        try:
            events = read_message(
                message.topic(), message.key(), message.headers(), value, self._types
            )
        except InvalidInputError as error:
            reason = Reason.LENGTH if isinstance(error, TooLongError) else Reason.UNREADABLE
            piece.refuse(place, RefusedRow(NO_MAPPING, reason.value, str(error)))
            return
        except Exception as error:  # noqa: BLE001 - the consumer would read it again for ever
            problem = truncated(f"the message cannot be read: {type(error).__name__}: {error}")
            piece.refuse(place, RefusedRow(NO_MAPPING, Reason.UNREADABLE.value, problem))
            return
        for event in events:
            if isinstance(event, UnreadableEvent):
                refused = RefusedRow(NO_MAPPING, Reason.UNREADABLE.value, event.message)
                piece.refuse(place, refused)
            else:
                self._read_event(event, place)

    def _read_plain(self, plain: PlainRows, start: int) -> int:
        """Add the rows of the simplest messages from a place on; return where they end."""
        run = plain.read(self._piece.messages, start)
        stream = plain.mapping.stream
        found = [(run.predictions, False, run.times), (run.labels, True, run.label_times)]
        if run.labels.places[:1] < run.predictions.places[:1]:
            found.reverse()  # batches are in the order of their first rows
        for columns, is_labels, times in found:
            if not columns.ids:
                continue
            key = (True, bool(times)) if is_labels else (False, bool(times), False)
            batch = self._batch(plain.mapping, stream, *key)
            batch.extend(columns.ids, columns.values, columns.places, times)
            self._piece.rows[stream] += len(columns.ids)
        return run.stop

    def _is_ours(self, stream: str) -> bool:
        return not self._streams or is_at_or_below(self._streams, stream)

    def _batch(self, mapping: PayloadMapping, *key: object) -> RowBatch:
        """Return the batch of a key: its stream, whether of labels, and what else rows share."""
        batch = self._groups.get(key)
        if batch is None:
            stream = str(key[0])
            batch = RowBatch(stream, is_labels=bool(key[1]), source_us=self._source_us)
            self._groups[key] = batch
            self._piece.mappings.setdefault(stream, mapping)
        return batch

    def _read_event(self, event: Event, place: int) -> None:
        """Add the rows of an event, by the first mapping that takes it."""
        piece = self._piece
        for mapping in self._mappings:
            found = read_rows(mapping, event)
            if found.is_ignored:
                continue
            for each in found.refusals:
                refused = RefusedRow(mapping.stream, each.reason.value, each.message, each.row)
                piece.refuse(place, refused)
            rows = found.rows
            if self._streams:
                rows = [row for row in rows if self._is_ours(row.stream)]
                piece.elsewhere[mapping.stream] += _values(found.rows) - _values(rows)
            if rows:
                time_us = message_time_us(piece.messages[place])
                if not self._add_alike(mapping, rows, place, time_us):
                    for row in rows:
                        self._add_row(mapping, row, place, time_us)
            return
        piece.rows[NO_MAPPING] += 1

    def _add_alike(
        self, mapping: PayloadMapping, rows: Sequence[PayloadRow], place: int, time_us: int | None
    ) -> bool:
        """Add predictions that differ in their ids and scores only; False where they do not.

        A message with many rows has such ones. O(rows).
        """
        first, size = rows[0], len(rows)
        if size == 1 or first.score is None:
            return False
        streams, ids, scores, labels, times, segments, _, clusters, _ = zip(*rows, strict=True)
        is_alike = (
            streams.count(first.stream) == times.count(first.time_us) == size
            and labels.count(None) == clusters.count(None) == size
            and segments.count(first.segments) == size
            and None not in scores
        )
        if not is_alike:
            return False
        time = time_us if first.time_us is None else first.time_us
        key = (False, time is not None, False, *first.segments)
        batch = self._batch(mapping, first.stream, *key)
        batch.extend(ids, scores, [place] * size, [] if time is None else [time] * size)
        for name, value in first.segments.items():
            batch.segments.setdefault(name, []).extend([value] * size)
        self._piece.rows[mapping.stream] += size
        return True

    def _add_row(
        self, mapping: PayloadMapping, row: PayloadRow, place: int, time_us: int | None
    ) -> None:
        for is_labels in (False, True):
            if (row.label if is_labels else row.score) is None:
                continue
            # Columns are whole: rows that lack one do not share a batch with others.
            key: tuple[object, ...] = (row.stream, is_labels)
            if is_labels:
                key += (row.label_time_us is not None or time_us is not None,)
            else:
                has_time = row.time_us is not None or time_us is not None
                key += (has_time, row.cluster is not None, *row.segments)
            self._batch(mapping, *key).add(row, place, time_us)
            self._piece.rows[mapping.stream] += 1


def _values(rows: Iterable[PayloadRow]) -> int:
    """Return how many predictions and labels rows have."""
    return sum((row.score is not None) + (row.label is not None) for row in rows)
