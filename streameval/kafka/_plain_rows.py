"""Rows of the simplest messages: JSON objects with scalars where a plain mapping looks for them.

They are what most topics have, and reading one as `read_rows` does takes seven times as long as
parsing it. Whatever is not as simple is left to `read_rows`, with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from streameval.payloads._body import SCAN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Message

    from streameval.payloads import PayloadMapping

_KEYS = {"score", "label", "id", "time"}
_BODY = "body."
_MAX_ID_CHARS = 32
"""A character has at most four bytes, so that such an id is short enough."""


@dataclass(slots=True)
class PlainColumns:
    """Predictions, or labels: parallel columns.

    Attributes
    ----------
    places : list of int
        Of the messages.
    ids : list of str
    values : list of float or of bool
    """

    places: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class PlainRun:
    """The rows of successive messages.

    All of the messages have times, or none.

    Attributes
    ----------
    stop : int
        The place of the first message that is not among them.
    predictions, labels : PlainColumns
    times, label_times : list of int
        Of the predictions' and the labels' messages, in microseconds since 1970; empty when
        they have none.
    """

    stop: int
    predictions: PlainColumns = field(default_factory=PlainColumns)
    labels: PlainColumns = field(default_factory=PlainColumns)
    times: list[int] = field(default_factory=list)
    label_times: list[int] = field(default_factory=list)


def message_time_us(message: Message) -> int | None:
    """Return the time of a message, which its rows have if their payload has none."""
    kind, time_ms = message.timestamp()
    return time_ms * 1000 if kind and time_ms > 0 else None


class PlainRows:
    """Reads messages without headers by a plain mapping: one stream, fields of the body by name.

    Attributes
    ----------
    mapping : PayloadMapping
    """

    def __init__(self, mapping: PayloadMapping) -> None:
        self.mapping = mapping
        fields = {
            name: each.expression.removeprefix(_BODY) for name, each in mapping.selectors.items()
        }
        self._score = fields.get("score")
        self._label = fields.get("label")
        self._time = fields.get("time")
        self._id = fields["id"]

    @staticmethod
    def of(mappings: Sequence[PayloadMapping]) -> PlainRows | None:
        """Return a reader if the first mapping is plain and takes every message; else None."""
        mapping = mappings[0]
        is_plain = (
            "{" not in mapping.stream
            and not (mapping.types or mapping.classes or mapping.segments)
            and mapping.class_ is None
            and mapping.positive is None
            and mapping.selectors.keys() <= _KEYS
            and all(
                each.expression.startswith(_BODY)
                and each.expression.removeprefix(_BODY).isidentifier()
                for each in mapping.selectors.values()
            )
        )
        return PlainRows(mapping) if is_plain else None

    def read(self, messages: Sequence[Message], start: int) -> PlainRun:
        """Return the rows of the simplest messages from a place on, up to the first other one.

        O(payloads). A run is read at once, since what is done for each message counts.
        """
        run = PlainRun(start)
        times: list[int] = []
        label_times: list[int] = []
        score_key, label_key, id_key, time_key = self._score, self._label, self._id, self._time
        has_times = start < len(messages) and message_time_us(messages[start]) is not None
        # Bound once: looking up six methods takes as long as decoding a message's text.
        add_time, add_label_time = times.append, label_times.append
        predictions, labels = run.predictions, run.labels
        add_scored, add_scored_id = predictions.places.append, predictions.ids.append
        add_labelled, add_labelled_id = labels.places.append, labels.ids.append
        add_score, add_label = predictions.values.append, labels.values.append
        place = start
        for place in range(start, len(messages)):
            message = messages[place]
            value = message.value()
            if value is None or message.headers():
                break
            try:
                text = value.decode()
                body, end = SCAN(text, 0)
            except (ValueError, RecursionError, StopIteration):
                break
            if type(body) is not dict or end != len(text):
                break
            get = body.get
            id_: Any = get(id_key)
            score = None if score_key is None else get(score_key)
            label = None if label_key is None else get(label_key)
            kind, time_ms = message.timestamp()
            is_plain = (
                type(id_) is str
                and 0 < len(id_) <= _MAX_ID_CHARS
                and id_.isprintable()  # a lone surrogate is not
                # x - x is 0 for a finite number only.
                and (score is None or (type(score) is float and score - score == 0))
                and (
                    score is not None
                    if label is None
                    else type(label) is bool or (type(label) is int and label in (0, 1))
                )
                and (time_key is None or get(time_key) is None)
                and (time_ms > 0 if kind else False) is has_times
            )
            if not is_plain:
                break
            if score is not None:
                add_time(time_ms)
                add_scored(place)
                add_scored_id(id_)
                add_score(score)
            if label is not None:
                add_label_time(time_ms)
                add_labelled(place)
                add_labelled_id(id_)
                add_label(bool(label))
        else:
            place = len(messages)
        run.stop = place
        if has_times:
            run.times = [time_ms * 1000 for time_ms in times]
            run.label_times = [time_ms * 1000 for time_ms in label_times]
        return run
