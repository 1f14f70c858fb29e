"""The rows of an event, and why other rows cannot be counted."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from streameval._common.errors import InvalidInputError
from streameval._common.names import id_of
from streameval._common.times import read_time_us
from streameval._common.values import shown
from streameval._counts.columns import check_score
from streameval._counts.weight_columns import check_unit
from streameval._counts.weights import WEIGHT_UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval._common.labels import Labels


MAX_CLUSTER_CHARS = 1_024
"""Length of a cluster's key: a column of keys takes the longest one's memory for each row."""


class Reason(enum.Enum):
    """Why an event or a row is not counted."""

    NOTHING_SELECTED = "nothing_selected"
    """Neither a score nor a label is where the mapping says."""
    SCORE = "score"
    """The score is no finite number."""
    SEVERAL_SCORES = "several_scores"
    """A row has a score a class, and the mapping does not say which class."""
    CLASS = "class"
    """The row has no such class."""
    LABEL = "label"
    """The label is missing, or neither positive nor negative."""
    ID = "id"
    """The row has no id, one that is too long, or a number that may stand for several."""
    TIME = "time"
    """The time cannot be read."""
    WEIGHT = "weight"
    """The weight or the label probability cannot be taken, or the stream takes none."""
    CLUSTER = "cluster"
    """The row has no cluster, or one that is no text or integer, or the stream declares none."""
    SEGMENT = "segment"
    """A segment's value is no text, number or boolean, or is too long."""
    LENGTH = "length"
    """Two columns, or a tensor and its shape, have different numbers of rows; or the payload has
    too many, or is too long."""
    STREAM = "stream"
    """The name of the stream needs a header that the event does not have."""
    UNREADABLE = "unreadable"
    """The payload is no JSON or no event, or a selector's function cannot be applied to it."""


class RowError(Exception):
    """A row, or an event, that cannot be counted; caught in this package."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


NO_SEGMENTS: Mapping[str, str] = {}


class PayloadRow(NamedTuple):
    """One prediction, one label, or both.

    Parameters
    ----------
    stream : str
        The stream that it is for.
    id : str
        What joins a prediction with its label.
    score : float or None
        None for a label alone.
    label : bool or None
        None for a prediction alone.
    time_us : int or None
        When it was predicted, in microseconds since 1970.
    segments : dict of str to str
        Every key of the mapping; "" is no value.
    weight : float or None
        Of the label: rounded, divided by the label probability already; None
        is 1, and for a prediction alone.
    cluster : str or None
        Key of the prediction's cluster; None for a label alone, and without clusters.
    label_time_us : int or None
        When the label became known, in microseconds since 1970.
    """

    stream: str
    id: str
    score: float | None = None
    label: bool | None = None
    time_us: int | None = None
    segments: Mapping[str, str] = NO_SEGMENTS
    weight: float | None = None
    cluster: str | None = None
    label_time_us: int | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row, or an event, that is not counted.

    Attributes
    ----------
    reason : Reason
    message : str
        What is wrong, with the value, and what to do.
    row : int or None
        The row in its payload, from 0; None for the whole event.
    """

    reason: Reason
    message: str
    row: int | None = None


@dataclass(slots=True)
class Extraction:
    """What one event gives.

    Attributes
    ----------
    rows : list of PayloadRow
    refusals : list of Refusal
    is_ignored : bool
        Whether the event is not for this mapping: of another type, or excluded by `when`.
    is_excluded : bool
        Whether it is ignored by `when`, though its type is taken.
    """

    rows: list[PayloadRow] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    is_ignored: bool = False
    is_excluded: bool = False


def score_of(value: Any) -> float:
    """Return a score. A text is refused: whether its sender means a number is not known.

    Examples
    --------
    >>> score_of(1)
    1.0
    """
    if type(value) is float and value - value == 0:  # finite, as a rule
        return value
    try:
        return check_score(value)
    except InvalidInputError as error:
        raise RowError(Reason.SCORE, str(error)) from None


def label_of(value: Any, labels: Labels) -> bool:
    """Return a label.

    Examples
    --------
    >>> from streameval._common.labels import Labels
    >>> label_of("1.0", Labels("true"))
    True
    """
    try:
        return labels.read(value)
    except InvalidInputError as error:
        raise RowError(Reason.LABEL, str(error)) from None


def id_text(value: Any) -> str:
    """Return an id as text."""
    try:
        text = str(id_of(value))
    except InvalidInputError as error:
        raise RowError(Reason.ID, str(error)) from None
    return _encodable(text, Reason.ID, "id")


def time_of(value: Any, unit: str) -> int:
    """Return a time in microseconds since 1970, as `read_time_us` reads it.

    Examples
    --------
    >>> time_of("2026-01-02T03:04:05Z", "") == time_of(1767323045, "s")
    True
    """
    try:
        return read_time_us(value, unit, "time", option='time_unit = "{}"')
    except ValueError as error:
        raise RowError(Reason.TIME, str(error)) from None


def weight_of(weight: Any, label_probability: Any) -> float | None:
    """Return a label's weight, divided by its label probability; None for neither.

    Examples
    --------
    >>> weight_of(0.5, 0.25), weight_of(None, None)
    (2.0, None)
    """
    if weight is None and label_probability is None:
        return None
    try:
        return check_unit(weight, label_probability) / WEIGHT_UNITS
    except InvalidInputError as error:
        raise RowError(Reason.WEIGHT, str(error)) from None


def cluster_of(value: Any) -> str:
    """Return a cluster's key as text; an integer is its decimal digits."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        message = f"cluster must be a text or an integer, got {shown(value)}"
        raise RowError(Reason.CLUSTER, message)
    text = str(value)
    if len(text) > MAX_CLUSTER_CHARS:
        message = f"cluster must be at most {MAX_CLUSTER_CHARS} characters, got {shown(value)}"
        raise RowError(Reason.CLUSTER, message)
    return _encodable(text, Reason.CLUSTER, "cluster")


def text_of(value: Any, reason: Reason, what: str) -> str:
    """Return a segment's value, or a part of a stream's name, as text; a boolean as in JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        # Also every number beyond float64: their rows would share an id.
        raise RowError(reason, f"{what} must be a finite number, got {shown(value)}")
    if isinstance(value, str | int | float):
        return _encodable(str(value), reason, what)
    raise RowError(reason, f"{what} must be a text, number or boolean, got {shown(value)}")


def _encodable(text: str, reason: Reason, what: str) -> str:
    """Return a text, or refuse half a surrogate pair, which JSON can hold and UTF-8 cannot."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        message = f"{what} must be Unicode, got half a surrogate pair in {shown(text)}"
        raise RowError(reason, message) from None
    return text
