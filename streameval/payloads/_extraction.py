"""The rows of an event by a mapping: columns are selected, then read row by row."""

from __future__ import annotations

from functools import partial
from itertools import repeat
from math import isfinite
from typing import TYPE_CHECKING, Any

from streameval._common.errors import InvalidInputError
from streameval._common.labels import class_of
from streameval._common.names import (
    MAX_ID_BYTES,
    MAX_STREAM_NAME,
    id_problem,
    new_stream_name_problem,
    segment_value_problem,
)
from streameval._common.values import shown, truncated
from streameval.payloads._mapping import CLASS
from streameval.payloads._rows import (
    MAX_CLUSTER_CHARS,
    NO_SEGMENTS,
    Extraction,
    PayloadRow,
    Reason,
    Refusal,
    RowError,
    cluster_of,
    id_text,
    label_of,
    score_of,
    text_of,
    time_of,
    weight_of,
)
from streameval.payloads._single_row import read_single_row
from streameval.payloads._tensors import ShapeProblem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from streameval.payloads._event import Event
    from streameval.payloads._mapping import PayloadMapping


_SCORE = ["score"]
_FLOAT = frozenset({float})
_new_row = partial(tuple.__new__, PayloadRow)
"""Makes a row of all its fields, in a quarter of the time that a call takes."""

MAX_EVENT_ROWS = 100_000
"""Rows of one event, a row for each class counted; a row takes far more memory than its bytes."""

_MAX_SHARED_CHARS = MAX_CLUSTER_CHARS + 1
"""Characters kept of a text that all rows share: each row reads it, and refuses a longer text by
its beginning."""


def read_rows(mapping: PayloadMapping, event: Event) -> Extraction:
    """Return the rows of an event by a mapping, and why others are not counted. O(payload).

    One bad row leaves the others. It never raises for what a sender may send: an exception of any
    kind refuses the row, or the event, that caused it.

    Examples
    --------
    >>> from streameval.payloads import Event, PayloadMapping
    >>> mapping = PayloadMapping.of({"preset": "kserve-v1", "stream": "fraud", "types": []})
    >>> found = read_rows(mapping, Event({"predictions": [0.2, "0.9"]}, {"id": "7"}))
    >>> [(row.id, row.score) for row in found.rows]
    [('7/0', 0.2)]
    >>> [(each.row, each.message) for each in found.refusals]
    [(1, "score must be a number, got '0.9'")]
    """
    if mapping.types and event.headers.get("type", "") not in mapping.types:
        return Extraction(is_ignored=True)
    try:
        return _read_rows(mapping, event)
    except Exception as error:  # noqa: BLE001 - of JMESPath's functions, or for want of stack
        return Extraction(refusals=[_refusal_of(error, None)])


def _read_rows(mapping: PayloadMapping, event: Event) -> Extraction:
    selectors = mapping.selectors
    body, headers, attributes, resource = event
    document = {"body": body, "headers": headers, "attributes": attributes, "resource": resource}
    # First: what is not for this mapping need not be readable by its other selectors.
    if "when" in selectors and selectors["when"].select(document) is not True:
        return Extraction(is_ignored=True, is_excluded=True)
    selected = {name: select(document) for name, select in mapping.columns}
    if mapping.has_plain_rows:
        row = read_single_row(mapping, selected)
        if row is not None:
            return Extraction([row])
    return _EventRows(mapping, selected, event).read()


def _are_numbers(scores: list[Any]) -> bool:
    """Return whether all are finite floats, as almost all payloads have them. O(scores)."""
    return _FLOAT.issuperset(map(type, scores)) and all(map(isfinite, scores))


def _refusal_of(error: Exception, row: int | None) -> Refusal:
    if isinstance(error, RowError):
        return Refusal(error.reason, str(error), row)
    if isinstance(error, InvalidInputError):
        return Refusal(Reason.UNREADABLE, str(error), row)
    message = f"the payload cannot be read: {type(error).__name__}: {truncated(str(error))}"
    return Refusal(Reason.UNREADABLE, message, row)


class _EventRows:
    """Reads the rows of one event.

    Parameters
    ----------
    mapping
        Where they are.
    selected : dict of str to object
        What each selector gave.
    event : Event
        What they were selected of.
    """

    def __init__(self, mapping: PayloadMapping, selected: dict[str, Any], event: Event) -> None:
        self._mapping = mapping
        self._event = event
        names = selected.pop("class_names", None)
        self._names = names if isinstance(names, list) else list(mapping.classes)
        # Once for all rows; of names that are there twice, the first one's place.
        self._places: dict[str, int] = {}
        for place, name in enumerate(self._names):
            if isinstance(name, str):
                self._places.setdefault(name, place)
        self._classes = {class_of(each): place for place, each in enumerate(mapping.classes)}
        selected.setdefault("score", None)
        self._columns = selected

    def read(self) -> Extraction:
        """Return the rows. Raises RowError when the event as a whole has none."""
        columns = self._columns
        for each in columns.values():
            _check_shape(each)
        self._check_selected(columns)
        size, lists = _size_of(columns)
        if not size:
            raise RowError(Reason.NOTHING_SELECTED, "the payload has no rows")
        total = size * max(1, len(self._mapping.classes))
        if total > MAX_EVENT_ROWS:
            message = f"the payload has {total} rows, and the most is {MAX_EVENT_ROWS}"
            raise RowError(Reason.LENGTH, message)
        if size > 1:
            self._columns = columns = {name: _cut(value) for name, value in columns.items()}
        found = Extraction()
        if (not lists or lists == _SCORE) and self._read_scores(size, found):
            return found
        for row in range(size):
            values = {
                name: value[row] if name in lists else value for name, value in columns.items()
            }
            # An id a row, or one for all: then a row's place is added.
            place = row if size > 1 and "id" not in lists else None
            try:
                found.rows.extend(list(self._rows(values, place)))
            except Exception as error:  # noqa: BLE001 - as in `read_rows`
                found.refusals.append(_refusal_of(error, row if size > 1 else None))
        return found

    def _read_scores(self, size: int, found: Extraction) -> bool:
        """Read rows that differ in their scores only: all else is read once.

        Returns False, with nothing found, where they have labels, clusters or classes, or where
        something else than a score is wrong: then each row is read for itself.
        """
        mapping, columns = self._mapping, self._columns
        if mapping.classes or mapping.cluster or columns.get("label") is not None:
            return False
        time_us = None
        try:
            id_ = self._id(columns["id"], None)
            if size > 1:
                self._id(columns["id"], size - 1)  # the longest one
            segments = self._segments(columns) if mapping.segments else NO_SEGMENTS
            if columns.get("time") is not None:
                time_us = time_of(columns["time"], mapping.time_unit)
            stream = self._stream()
        except RowError:
            return False
        scores = columns["score"] if isinstance(columns["score"], list) else [columns["score"]]
        ids = [id_] if size == 1 else [f"{id_}/{row}" for row in range(size)]
        if mapping.class_ is None and _are_numbers(scores):
            shared = map(repeat, (None, time_us, segments, None, None, None))
            found.rows += map(_new_row, zip(repeat(stream), ids, scores, *shared, strict=False))
            return True
        for row, value in enumerate(scores):
            try:
                self._check_selected({"score": value})
                score = self._score(value, mapping.class_)
            except RowError as error:
                found.refusals.append(_refusal_of(error, row if size > 1 else None))
                continue
            found.rows.append(PayloadRow(stream, ids[row], score, None, time_us, segments))
        return True

    def _check_selected(self, values: Mapping[str, Any]) -> None:
        """Refuse an event, or a row, with neither a score nor a label."""
        if values["score"] is None and values.get("label") is None:
            sought = [
                self._mapping.selectors[name].expression
                for name in ("score", "label")
                if name in self._mapping.selectors
            ]
            raise RowError(Reason.NOTHING_SELECTED, f"nothing is at {' or '.join(sought)}")

    def _rows(self, values: Mapping[str, Any], place: int | None) -> Iterator[PayloadRow]:
        """Yield the row of some values, or one a class."""
        mapping = self._mapping
        self._check_selected(values)
        shared: dict[str, Any] = {
            "id": self._id(values["id"], place),
            "segments": self._segments(values),
        }
        if values.get("time") is not None:
            shared["time_us"] = time_of(values["time"], mapping.time_unit)
        score, label = values["score"], values.get("label")
        if score is not None and mapping.cluster:
            shared["cluster"] = self._cluster(values["cluster"])
        if label is not None:
            shared["weight"] = weight_of(values.get("weight"), values.get("label_probability"))
            if values.get("label_time") is not None:
                shared["label_time_us"] = time_of(values["label_time"], mapping.time_unit)
        if not mapping.classes:
            yield PayloadRow(
                stream=self._stream(),
                score=None if score is None else self._score(score, mapping.class_),
                label=None if label is None else label_of(_only(label), mapping.labels),
                **shared,
            )
            return
        true_class = None if label is None else self._class_of(_only(label))
        for number, name in enumerate(mapping.classes):
            yield PayloadRow(
                stream=self._stream(name),
                score=None if score is None else self._score(score, name),
                label=None if true_class is None else number == true_class,
                **shared,
            )

    def _id(self, value: Any, place: int | None) -> str:
        if value is None:
            raise RowError(Reason.ID, f"no id is at {self._mapping.selectors['id'].expression}")
        text = id_text(value)
        if place is not None:
            text = f"{text}/{place}"
        problem = id_problem("id", text, MAX_ID_BYTES)
        if problem is not None:
            raise RowError(Reason.ID, problem)
        return text

    def _cluster(self, value: Any) -> str:
        if value is None:
            message = f"no cluster is at {self._mapping.selectors['cluster'].expression}"
            raise RowError(Reason.CLUSTER, message)
        return cluster_of(value)

    def _class_of(self, label: Any) -> int:
        """Return the place of the class that a label names, by its name or by its place."""
        classes = self._mapping.classes
        try:
            found = class_of(label)
        except TypeError as error:
            raise RowError(Reason.LABEL, str(error)) from None
        if found is not None and found in self._classes:
            return self._classes[found]
        if isinstance(found, int) and 0 <= found < len(classes):
            return found
        known = ", ".join(classes)
        raise RowError(Reason.LABEL, f"label must be one of {known}, got {shown(label)}")

    def _score(self, score: Any, wanted: int | str | None) -> float:
        """Return a row's score; of a score a class the wanted one."""
        if isinstance(score, dict) and wanted is not None:
            if wanted not in score:
                raise RowError(Reason.CLASS, f"there is no class {shown(wanted)} in {shown(score)}")
            return score_of(score[wanted])
        _check_shape(score)
        scores = score if isinstance(score, list) else [score]
        if wanted is None:
            if len(scores) == 1:
                return score_of(scores[0])
            message = f"a row has {len(scores)} scores: declare class, or select one"
            raise RowError(Reason.SEVERAL_SCORES, message)
        if isinstance(wanted, str):
            if wanted not in self._places:
                message = f"there is no class {shown(wanted)} in {shown(self._names)}"
                raise RowError(Reason.CLASS, message)
            wanted = self._places[wanted]
        if not 0 <= wanted < len(scores):
            message = f"there is no class {wanted}: a row has {len(scores)}"
            if scores is not score:
                expression = self._mapping.selectors["score"].expression
                message += f"; if the list is the classes of one row, select [{expression}]"
            raise RowError(Reason.CLASS, message)
        return score_of(scores[wanted])

    def _segments(self, values: Mapping[str, Any]) -> dict[str, str]:
        segments = {}
        for key in self._mapping.segments:
            value = values[f"segments.{key}"]
            text = "" if value is None else text_of(value, Reason.SEGMENT, f"segments.{key}")
            problem = segment_value_problem(text, MAX_ID_BYTES)
            if problem is not None:
                raise RowError(Reason.SEGMENT, problem)
            segments[key] = text
        return segments

    def _stream(self, class_name: str = "") -> str:
        if self._mapping.is_one_stream:
            return self._mapping.stream
        stream = ""
        for text, name in self._mapping.stream_parts:
            stream += text
            if name is not None:
                stream += class_name if name == CLASS else self._placeholder(name)
        problem = new_stream_name_problem(stream[: MAX_STREAM_NAME + 1], MAX_STREAM_NAME)
        if problem is not None:
            raise RowError(Reason.STREAM, problem)
        return stream

    def _placeholder(self, name: str) -> str:
        value = _cut(self._event.named(name))
        if value is None:
            message = f"the stream's name needs the header {name!r}, which the event does not have"
            raise RowError(Reason.STREAM, message)
        return text_of(value, Reason.STREAM, name)


def _cut(value: Any) -> Any:
    return value[:_MAX_SHARED_CHARS] if isinstance(value, str) else value


def _check_shape(value: Any) -> None:
    """Refuse a tensor whose rows are not known."""
    if isinstance(value, ShapeProblem):
        raise RowError(Reason.LENGTH, value.message)


def _size_of(columns: Mapping[str, Any]) -> tuple[int, Collection[str]]:
    """Return the number of rows, and which columns have a value for each of them."""
    names = [name for name, each in columns.items() if isinstance(each, list)]
    if not names:
        return 1, names
    if names == _SCORE:  # as a rule
        return len(columns["score"]), names
    lists = {name: len(columns[name]) for name in names}
    main = next((name for name in ("score", "label") if name in lists), None)
    size = 1 if main is None else lists[main]
    for name, length in lists.items():
        if length != size:
            message = f"{name} has {length} rows where {main or 'the score'} has {size}"
            raise RowError(Reason.LENGTH, message)
    return size, names


def _only(value: Any) -> Any:
    """Return the element of a list of one, as tensors of shape [n, 1] have a row."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value
