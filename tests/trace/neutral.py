"""Answers as plain JSON values: floats in hexadecimal, times in microseconds, no sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from enum import Enum
from functools import singledispatch
from typing import Any

import numpy as np
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

LEFT_OUT = frozenset({"warnings", "server_warnings", "waits_for", "sentence", "state_bytes"})
"""Fields that hold no figure: sentences, and sizes in memory."""


@singledispatch
def neutral(value: Any) -> Any:
    """Return a message, a result of the library or an array as JSON values."""
    return _public((field.name, getattr(value, field.name)) for field in fields(value))


@neutral.register
def _of_message(value: Message) -> Any:
    return _public((field.name, each) for field, each in value.ListFields())


@neutral.register(int)
@neutral.register(str)
@neutral.register(type(None))
def _of_plain(value: Any) -> Any:
    return value


@neutral.register
def _of_float(value: float) -> str:
    return value.hex() if math.isfinite(value) else repr(value)


@neutral.register
def _of_number(value: np.generic) -> Any:
    return neutral(value.item())


@neutral.register(Timestamp)
@neutral.register(Duration)
def _of_proto_time(value: Any) -> int:
    return value.ToMicroseconds()


@neutral.register
def _of_enum(value: Enum) -> str:
    return value.name


@neutral.register
def _of_datetime(value: datetime) -> str:
    return value.isoformat()


@neutral.register
def _of_timedelta(value: timedelta) -> int:
    return value // timedelta(microseconds=1)


@neutral.register
def _of_mapping(value: Mapping) -> dict[str, Any]:
    return {str(name): neutral(each) for name, each in value.items()}


@neutral.register
def _of_several(value: Iterable) -> list[Any]:
    return [neutral(each) for each in value]


def _public(named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields that hold figures; a `reason` that is a text is a sentence."""
    return {
        name: neutral(each)
        for name, each in named
        if not name.startswith("_")
        and name not in LEFT_OUT
        and not isinstance(each, bytes)
        and not (name == "reason" and isinstance(each, str))
    }
