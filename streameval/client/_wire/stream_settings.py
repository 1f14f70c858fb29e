"""The settings of a stream that a caller can give, as a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from streameval._common.errors import InvalidInputError
from streameval._common.names import segment_key_problem
from streameval._common.values import real, shown
from streameval._counts.cluster_keys import check_cluster_groups
from streameval.client._wire.alarm_settings import AlarmSettings
from streameval.client._wire.selection import check_names, duration
from streameval.v1 import stream_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import timedelta


class ChangedSettings(TypedDict, total=False):
    """Settings that `Client.update_stream` can change; see `StreamSettings`."""

    retention: timedelta
    label_ttl: timedelta
    relabel_ttl: timedelta
    max_pending: int
    orphans: Literal["drop", "miss"]
    expired: Literal["drop", "negative"]
    segment_keys: Iterable[str]
    threshold: float | None
    cost_fp: float | None
    cost_fn: float | None
    alarms: AlarmSettings | None


class NewSettings(ChangedSettings, total=False):
    """Settings that `Client.create_stream` takes; see `StreamSettings`."""

    pane: timedelta
    resolution: int
    scale: Literal["plain", "probability"]
    cluster_key: str
    cluster_groups: int


_CHOICES: dict[str, dict[str, int]] = {
    "orphans": {
        "drop": stream_pb2.ORPHAN_POLICY_DROP,
        "miss": stream_pb2.ORPHAN_POLICY_MISS,
    },
    "expired": {
        "drop": stream_pb2.EXPIRY_POLICY_DROP,
        "negative": stream_pb2.EXPIRY_POLICY_NEGATIVE,
    },
    "scale": {
        "plain": stream_pb2.SCALE_PLAIN,
        "probability": stream_pb2.SCALE_PROBABILITY,
    },
}
_DECLARED_NUMBERS = frozenset({"threshold", "cost_fp", "cost_fn"})
_SPANS = ("pane", "retention", "label_ttl", "relabel_ttl")


def settings_message(settings: Mapping[str, Any]) -> stream_pb2.StreamSettings:
    """Return the given settings as a message; the server has defaults for the others.

    Raises
    ------
    InvalidInputError
        When a value is invalid.
    TypeError
        When there is no setting of a given name.
    """
    message = stream_pb2.StreamSettings()
    for name, value in settings.items():
        if name in _SPANS:
            getattr(message, name).CopyFrom(duration(value, field=name))
        elif name == "segment_keys":
            message.segment_keys.extend(check_names(value, field=name))
        elif name in {"cluster_key", "cluster_groups"}:
            _set_clusters(message, name, value)
        elif name in {"resolution", "max_pending"}:
            _set_number(message, name, value)
        elif name in {*_DECLARED_NUMBERS, "alarms"}:
            _set_declared(message, name, value)
        elif name not in _CHOICES:
            raise TypeError(f"there is no setting {name!r}")
        else:
            choices = _CHOICES[name]
            if value not in choices:
                known = " or ".join(map(repr, choices))
                raise InvalidInputError(f"{name} must be {known}, got {value!r:.60}", field=name)
            setattr(message, name, choices[value])
    return message


def _set_clusters(message: stream_pb2.StreamSettings, name: str, value: Any) -> None:
    if name == "cluster_groups":
        message.cluster_groups = check_cluster_groups(value) or 0
        return
    if isinstance(value, str):
        problem = segment_key_problem(value, name)
    else:
        problem = f"cluster_key must be a string, got {value!r:.60}"
    if problem is not None:
        raise InvalidInputError(problem, field=name)
    message.cluster_key = value


def _set_declared(message: stream_pb2.StreamSettings, name: str, value: Any) -> None:
    if value is None:  # named by an update, it declares none any more
        return
    if name in _DECLARED_NUMBERS:
        setattr(message, name, real(value, name))
        return
    if not isinstance(value, AlarmSettings):
        text = f"alarms must be AlarmSettings or None, got {shown(value)}"
        raise InvalidInputError(text, field=name)
    message.alarms.CopyFrom(value.to_message())


def _set_number(message: stream_pb2.StreamSettings, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError(f"{name} must be a positive integer, got {value!r:.60}", field=name)
    try:
        setattr(message, name, value)
    except ValueError:
        raise InvalidInputError(f"{name} is too large, got {value}", field=name) from None
