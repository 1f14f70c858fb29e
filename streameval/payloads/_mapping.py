"""A mapping: where in a payload the score, the label, the id and what belongs to them are."""

from __future__ import annotations

import string
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from streameval._common.errors import InvalidInputError
from streameval._common.labels import Labels, class_of
from streameval._common.names import MAX_STREAM_NAME, new_stream_name_problem, segment_key_problem
from streameval._common.times import TIME_UNITS
from streameval._common.values import quoted, shown
from streameval.payloads._presets import ONE_ROW, PRESETS
from streameval.payloads._selectors import Selector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


CLASS = "class"
"""The placeholder of a stream's name that stands for the class."""


_SELECTORS = (
    *("score", "label", "id", "time", "when", "class_names"),
    *("weight", "label_probability", "label_time", "cluster"),
)
"""The keys of one expression each."""

_PLAIN_COLUMNS = {"score", "label", "id", "time"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadMapping:
    """Where in a payload the rows are.

    Selectors are JMESPath over ``{"body": ..., "headers": {...}, "attributes": {...},
    "resource": {...}}``; log records have the last two. A selector that gives a list gives a
    value a row; any other value is every row's. Of a payload with several rows,
    and one id, the id of a row is ``{id}/{row}``, from 0.

    Parameters
    ----------
    stream : str
        The stream's name. ``{name}`` in it is the header of that name, else the attribute of a
        log record or of its resource (``{service.name}``), and ``{class}`` the class, with
        `classes`.
    score, label, id : str
        Selectors; `id` and one of the others are required.
    time : str
        Selector of the time of the prediction: ISO 8601, or a number of `time_unit`. Without
        it, or where it selects nothing, the time at which the server gets the row.
    time_unit : {"s", "ms", "us", "ns"}
        Of times that are numbers. Default: s, for numbers that are times of 1973 to 2286.
    segments : dict of str to str
        Selectors by segment key. What they do not select is no value.
    weight, label_probability : str
        Selectors of a label's weight, from 0 to 2**31, and of the probability with which
        its row was chosen to be labelled: the weight is divided by it. What they do not select
        is 1; of a row without a label they are not read.
    label_time : str
        Selector of the time at which a label became known, as `time`: its delay is measured to
        it. Without it, or where it selects nothing, the time at which the server gets it.
    cluster : str
        Selector of the cluster of a prediction, a text or an integer, for a stream that declares
        clusters: every prediction then needs one.
    types : sequence of str
        Events of other types are ignored; empty takes all.
    when : str
        Selector that must give true for the event to count; empty takes all.
    class_ : int or str, optional
        ``class`` in a file: the class whose score counts, where a row has a score a class: its
        place, from 0, or its name.
    class_names : str
        Selector of the names of the classes, in the order of a row's scores; without it,
        `classes`, or the keys of a row's scores.
    classes : sequence of str
        The classes' names, to count every class in a stream of its own; a label is then the
        name, or the place, of the true class.
    positive, negative : str, int, float or bool, optional
        The labels of the two classes; every other one is refused. Default: 1 or true, and 0 or
        false; without `negative` a positive that is one of them has the other as its negative.

    Attributes
    ----------
    selectors : dict of str to Selector
        The compiled selectors, by the names of their keys.
    stream_parts : tuple of (str, str or None)
        The stream's name in pieces: a text, and the placeholder behind it.
    is_one_stream : bool
        Whether there is no placeholder.
    columns : tuple of (str, callable)
        What selects the values of rows, by name: every selector but `when`.
    labels : Labels
        Reads labels of these classes.
    has_plain_rows : bool
        Whether a row has a score, a label, an id and a time at most, and goes to one stream.

    Raises
    ------
    InvalidInputError
        With the key at fault as its ``field``.

    Examples
    --------
    >>> from streameval.payloads import Event, read_rows
    >>> mapping = PayloadMapping.of({"preset": "kserve-v2", "stream": "fraud/v3"})
    >>> body = {"id": "a", "outputs": [{"name": "p", "shape": [2], "data": [0.1, 0.9]}]}
    >>> event = Event(body, {"type": "org.kubeflow.serving.inference.response", "id": "7"})
    >>> [(row.id, row.score) for row in read_rows(mapping, event).rows]
    [('a/0', 0.1), ('a/1', 0.9)]
    """

    stream: str
    score: str = ""
    label: str = ""
    id: str = ""
    time: str = ""
    time_unit: str = ""
    segments: Mapping[str, str] = field(default_factory=dict)
    weight: str = ""
    label_probability: str = ""
    label_time: str = ""
    cluster: str = ""
    types: Sequence[str] = ()
    when: str = ""
    class_: int | str | None = None
    class_names: str = ""
    classes: Sequence[str] = ()
    positive: Any = None
    negative: Any = None
    selectors: dict[str, Selector] = field(init=False, repr=False, compare=False)
    stream_parts: tuple[tuple[str, str | None], ...] = field(init=False, repr=False, compare=False)
    is_one_stream: bool = field(init=False, repr=False, compare=False)
    columns: tuple[tuple[str, Callable[[Mapping[str, Any]], Any]], ...] = field(
        init=False, repr=False, compare=False
    )
    labels: Labels = field(init=False, repr=False, compare=False)
    has_plain_rows: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stream_parts", _parts_of(self.stream))
        is_one_stream = all(name is None for _, name in self.stream_parts)
        object.__setattr__(self, "is_one_stream", is_one_stream)
        self._check_values()
        object.__setattr__(self, "labels", Labels(self.positive, self.negative))
        expressions = {
            name: getattr(self, name) for name in _SELECTORS if getattr(self, name) != ""
        }
        if "id" not in expressions:
            message = "id is needed: it joins predictions with labels, and drops repeats"
            raise InvalidInputError(message, field="id")
        if not expressions.keys() & {"score", "label"}:
            raise InvalidInputError("give a score, a label, or both", field="score")
        _check_sampling(expressions)
        selectors = {name: Selector(each, name) for name, each in expressions.items()}
        for key, expression in self.segments.items():
            problem = segment_key_problem(key)
            if problem is not None:
                raise InvalidInputError(problem, field="segments")
            selectors[f"segments.{key}"] = Selector(expression, f"segments.{key}")
        object.__setattr__(self, "selectors", selectors)
        columns = tuple((name, each.select) for name, each in selectors.items() if name != "when")
        object.__setattr__(self, "columns", columns)
        has_plain_rows = (
            is_one_stream
            and not self.classes
            and self.class_ is None
            and {name for name, _ in columns} <= _PLAIN_COLUMNS
        )
        object.__setattr__(self, "has_plain_rows", has_plain_rows)

    def _check_values(self) -> None:
        placeholders = {name for _, name in self.stream_parts if name is not None}
        example = "".join(text + ("x" if name else "") for text, name in self.stream_parts)
        problem = new_stream_name_problem(example, MAX_STREAM_NAME)
        if problem is not None:
            raise InvalidInputError(problem, field="stream")
        if bool(self.classes) != (CLASS in placeholders):
            message = "classes and a stream with {class} in its name need each other"
            raise InvalidInputError(message, field="classes")
        if len({class_of(each) for each in self.classes}) < len(self.classes):
            message = f"classes has two names of one value: {shown(list(self.classes))}"
            raise InvalidInputError(message, field="classes")
        if self.classes and (self.class_ is not None or self.positive is not None):
            message = "classes count every class: give no class and no positive with them"
            raise InvalidInputError(message, field="classes")
        if self.time_unit and self.time_unit not in TIME_UNITS:
            message = f"time_unit must be s, ms, us or ns, got {shown(self.time_unit)}"
            raise InvalidInputError(message, field="time_unit")
        if self.class_ is not None and (
            isinstance(self.class_, bool) or not isinstance(self.class_, int | str)
        ):
            message = f"class must be a place or a name, got {shown(self.class_)}"
            raise InvalidInputError(message, field="class")

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> PayloadMapping:
        """Return the mapping of a table, as configuration files have it.

        Parameters
        ----------
        table : dict
            The parameters by name, ``class`` for `class_`, and ``preset``: one of `PRESETS`,
            whose keys the table's own replace.

        Raises
        ------
        InvalidInputError
            Also for a key that does not exist.
        """
        given = dict(table)
        preset = given.pop("preset", None)
        if preset is not None and (not isinstance(preset, str) or preset not in PRESETS):
            message = f"preset must be one of {', '.join(PRESETS)}, got {shown(preset)}"
            raise InvalidInputError(message, field="preset")
        known_keys = dict(PRESETS[preset]) if preset is not None else {}
        if not (known_keys.get("label") or given.get("label")):
            known_keys.pop("label_probability", None)  # it belongs to a label
        merged = {**known_keys, **given}
        if preset in ONE_ROW and merged.keys() & {"class", "classes"} and merged.get("score"):
            merged["score"] = f"[{merged['score']}]"  # its list is the classes of the only row
        known = {each.name.rstrip("_"): each for each in fields(cls) if each.init}
        for name, value in merged.items():
            if name not in known:
                message = f"a mapping has no {quoted(name)}: one of {', '.join(known)}"
                raise InvalidInputError(message, field=name)
            _check_type(name, value)
        if "stream" not in merged:
            raise InvalidInputError("stream is needed: the name of the stream", field="stream")
        return cls(**{known[name].name: value for name, value in merged.items()})

    def to_table(self) -> dict[str, Any]:
        """Return the table that `of` makes this mapping of; a preset's keys are its own. O(keys).

        Examples
        --------
        >>> mapping = PayloadMapping.of({"stream": "fraud", "id": "body.id", "score": "body.p"})
        >>> mapping.to_table()
        {'stream': 'fraud', 'score': 'body.p', 'id': 'body.id'}
        """
        table = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.init and value not in ("", None, (), [], {}):
                name = each.name.rstrip("_")
                table[name] = tuple(value) if name in ("types", "classes") else value
        return table


def mappings_of(tables: object) -> list[PayloadMapping]:
    """Return the mappings of ``[[ingest]]`` tables, in their order.

    Raises
    ------
    InvalidInputError
        Its message begins with the table's place, from 1.
    """
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise InvalidInputError("ingest must be tables: [[ingest]]", field="ingest")
    mappings = []
    for number, table in enumerate(tables, start=1):
        try:
            mappings.append(PayloadMapping.of(table))
        except InvalidInputError as error:
            message = f"ingest {number}: {error}"
            raise InvalidInputError(message, field=error.field) from None
    return mappings


def wanted_types(mappings: Sequence[PayloadMapping]) -> frozenset[str] | None:
    """Return the types of events that a mapping takes, None where one takes all. O(types).

    Examples
    --------
    >>> feedback = PayloadMapping.of({"preset": "seldon", "stream": "fraud/v3"})
    >>> "io.seldon.serving.inference.request" in wanted_types([feedback])
    False
    >>> wanted_types([feedback, PayloadMapping.of({"preset": "ndjson", "stream": "s"})])
    """
    if not all(each.types for each in mappings):
        return None
    return frozenset(name for each in mappings for name in each.types)


def _parts_of(stream: object) -> tuple[tuple[str, str | None], ...]:
    """Return a stream's name in pieces: texts, and the placeholders behind them."""
    if not isinstance(stream, str):
        raise InvalidInputError(f"stream must be a name, got {shown(stream)}", field="stream")
    try:
        parts = list(string.Formatter().parse(stream))
    except ValueError as error:
        raise InvalidInputError(f"stream: {error}", field="stream") from None
    for _, name, form, conversion in parts:
        is_name = name is None or all(part.isidentifier() for part in name.split("."))
        if form or conversion or not is_name:
            message = f"stream may have {{header}} in its name, got {quoted(stream)}"
            raise InvalidInputError(message, field="stream")
    return tuple((text, name) for text, name, _, _ in parts)


def _check_sampling(expressions: Mapping[str, str]) -> None:
    """Refuse weights and clusters of rows that take none."""
    weights = [name for name in ("weight", "label_probability") if name in expressions]
    of_labels = weights + ["label_time"] * ("label_time" in expressions)
    if of_labels and "label" not in expressions:
        text = f"{of_labels[0]} belongs to a label: give a label"
        raise InvalidInputError(text, field=of_labels[0])
    if "cluster" not in expressions:
        return
    if "score" not in expressions:
        raise InvalidInputError("a cluster belongs to a score: give a score", field="cluster")
    if weights:
        message = f"a stream with clusters takes no weights: give a cluster or a {weights[0]}"
        raise InvalidInputError(message, field="cluster")


def _check_type(name: str, value: object) -> None:
    """Refuse a key whose value is of another type than its parameter."""
    expected: tuple[type, ...] = (str,)
    if name == "segments":
        expected = (dict,)
    elif name in ("types", "classes"):
        expected = (list, tuple)
    elif name in ("class", "positive", "negative"):
        return  # checked where they are read
    if not isinstance(value, expected):
        message = f"{name} must be a {expected[0].__name__}, got {shown(value)}"
        raise InvalidInputError(message, field=name)
    if expected == (list, tuple):
        assert isinstance(value, list | tuple)
        if not all(isinstance(each, str) and each for each in value):
            raise InvalidInputError(f"{name} must be texts, got {shown(value)}", field=name)
        if len(set(value)) != len(value):
            raise InvalidInputError(f"{name} has one twice: {shown(value)}", field=name)
