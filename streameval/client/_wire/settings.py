"""The settings of a stream or of a pair that a caller can give, as a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from google.protobuf.duration_pb2 import Duration

from streameval._common.errors import InvalidInputError
from streameval._common.names import segment_key_problem
from streameval._common.values import real, shown
from streameval._counts.cluster_keys import check_cluster_groups
from streameval._counts.weight_columns import check_least_probability
from streameval.client._wire.alarm_settings import AlarmSettings
from streameval.client._wire.reader import label
from streameval.client._wire.selection import check_names, duration

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message

    from streameval._common.spans import Span


class ChangedSettings(TypedDict, total=False):
    """Settings that `Client.update_stream` can change; see `StreamSettings`."""

    retention: Span
    label_ttl: Span
    relabel_ttl: Span
    max_pending: int
    orphans: Literal["drop", "miss"]
    expired: Literal["drop", "negative"]
    segment_keys: Iterable[str]
    threshold: float | None
    cost_fp: float | None
    cost_fn: float | None
    min_label_probability: float | None
    alarms: AlarmSettings | None


class NewSettings(ChangedSettings, total=False):
    """Settings that `Client.create_stream` takes; see `StreamSettings`."""

    pane: Span
    resolution: int
    scale: Literal["plain", "probability"]
    cluster_key: str
    cluster_groups: int


class NewPairSettings(TypedDict, total=False):
    """Settings that `Client.create_pair` takes; see `PairSettings`."""

    max_cells: int
    max_pending: int
    prevalence: float
    pane: Span
    retention: Span
    label_ttl: Span
    relabel_ttl: Span


def set_settings(message: Message, known: Container[str], settings: Mapping[str, Any]) -> None:
    """Set the given settings of a message; the server has defaults for the others.

    Parameters
    ----------
    message
        The settings of a stream or of a pair.
    known
        The names of the settings that a caller can give.
    settings
        Each is checked by the type of its field. None declares none: where an update names
        the setting, it is declared no more.

    Raises
    ------
    InvalidInputError
        When a value is invalid.
    TypeError
        When there is no setting of a given name.
    """
    for name, value in settings.items():
        if name not in known:
            raise TypeError(f"there is no setting {name!r}")
        field: Any = message.DESCRIPTOR.fields_by_name[name]
        if field.is_repeated:
            getattr(message, name).extend(check_names(value, field=name))
        elif field.message_type == Duration.DESCRIPTOR:
            getattr(message, name).CopyFrom(duration(value, field=name))
        elif not field.has_presence or value is not None:
            _set(message, field, value)


def _set(message: Message, field: FieldDescriptor, value: Any) -> None:
    name = field.name
    if name == "alarms":
        if not isinstance(value, AlarmSettings):
            text = f"alarms must be AlarmSettings or None, got {shown(value)}"
            raise InvalidInputError(text, field=name)
        message.MergeFrom(type(message)(alarms=value.to_message()))
        return
    try:
        setattr(message, name, _checked(field, value))
    except ValueError as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"{name} is too large, got {shown(value)}", field=name) from None


def _checked(field: FieldDescriptor, value: Any) -> Any:
    """Return a setting as its field holds it, or refuse it."""
    name, problem = field.name, None
    if name == "cluster_groups":
        return check_cluster_groups(value) or 0
    if name == "min_label_probability":
        return check_least_probability(value)
    if field.type == field.TYPE_DOUBLE:
        return real(value, name)
    if field.enum_type is not None:
        choices = {
            label(field.enum_type, number).lower(): number
            for number in field.enum_type.values_by_number
            if number
        }
        if isinstance(value, str) and value in choices:
            return choices[value]
        problem = f"{name} must be {' or '.join(map(repr, choices))}, got {shown(value)}"
    elif field.type == field.TYPE_STRING:
        problem = f"{name} must be a string, got {shown(value)}"
        if isinstance(value, str):
            problem = segment_key_problem(value, name)
    elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
        problem = f"{name} must be a positive integer, got {shown(value)}"
    if problem is not None:
        raise InvalidInputError(problem, field=name)
    return value
