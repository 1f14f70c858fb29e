"""Times: aware datetimes outside, integer microseconds since 1970 inside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.spans import Span, read_span

if TYPE_CHECKING:
    from streameval._common.arrays import IntArray

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

MAX_TIME_US = int((datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) / _MICROSECOND)
"""The latest time that is accepted; the earliest is 0, in 1970."""


def to_us(at: datetime | np.datetime64, *, field: str = "at") -> int:
    """Return a time in microseconds since 1970.

    Parameters
    ----------
    at : datetime or datetime64
        datetime64 has no time zone and is taken as UTC.

    Raises
    ------
    InvalidInputError
        When it is no datetime, has no time zone, or lies before 1970.
    """
    if isinstance(at, np.datetime64):
        if np.isnat(at):
            raise InvalidInputError(f"{field} is missing", field=field)
        return checked_us(int(at.astype("datetime64[us]").astype(np.int64)), field=field)
    if not isinstance(at, datetime):
        raise InvalidInputError(f"{field} must be a datetime, got {at!r}", field=field)
    if at.tzinfo is None:
        raise InvalidInputError(
            f"{field} must have a time zone, got {at!r}; use datetime.now(timezone.utc)",
            field=field,
        )
    return checked_us((at - _EPOCH) // _MICROSECOND, field=field)


def checked_us(time_us: int, *, field: str = "at") -> int:
    """Return a time in microseconds; raise InvalidInputError outside 1970 to 9999."""
    if not 0 <= time_us <= MAX_TIME_US:
        raise InvalidInputError(
            f"{field} must lie between 1970 and 9999, got {time_us} us", field=field
        )
    return time_us


def column_us(at: Any, rows: int, *, field: str = "at") -> IntArray:
    """Return a column of times: one datetime for all rows, or one per row.

    Parameters
    ----------
    at : datetime, sequence of datetime, or datetime64[n]
        datetime64 has no time zone and is taken as UTC.
    rows : int
        How many rows there are.

    Raises
    ------
    InvalidInputError
        With the index of the first time at fault.
    """
    if isinstance(at, datetime):
        return np.full(rows, to_us(at, field=field), dtype=np.int64)
    if isinstance(at, np.ndarray) and at.dtype.kind == "M":
        if np.isnat(at).any():
            index = int(np.isnat(at).argmax())
            raise InvalidInputError(
                f"{field} is missing at index {index}", field=field, index=index
            )
        times = at.astype("datetime64[us]").astype(np.int64)
    else:
        times = np.empty(len(at), dtype=np.int64)
        for index, each in enumerate(at):
            try:
                times[index] = to_us(each, field=field)
            except InvalidInputError as error:
                raise InvalidInputError(
                    f"{error} at index {index}", field=field, index=index
                ) from None
    if times.ndim != 1 or times.size != rows:
        raise InvalidInputError(f"{field} has {times.size} rows, expected {rows}", field=field)
    wrong = (times < 0) | (times > MAX_TIME_US)
    if wrong.any():
        index = int(wrong.argmax())
        raise InvalidInputError(
            f"{field} must lie between 1970 and 9999, got {times[index]} us at index {index}",
            field=field,
            index=index,
        )
    return times


def too_old_error(at_us: int, oldest_us: int, *, index: int | None = None) -> InvalidInputError:
    """Return the error for a time that is older than retention."""
    where = "" if index is None else f" at index {index}"
    got, kept = to_datetime(at_us).isoformat(), to_datetime(oldest_us).isoformat()
    message = f"at is older than retention: got {got}{where}, kept since {kept}"
    return InvalidInputError(message, field="at", index=index)


def check_none_older(times_us: IntArray, oldest_us: int) -> None:
    """Raise InvalidInputError if any of a column of times is older than `oldest_us`. O(n)."""
    older = times_us < oldest_us
    if older.any():
        index = int(older.argmax())
        raise too_old_error(int(times_us[index]), oldest_us, index=index)


def to_datetime(time_us: int) -> datetime:
    """Return a time as a datetime in UTC."""
    return _EPOCH + time_us * _MICROSECOND


def span_us(span: Span, *, field: str) -> int:
    """Return a span in microseconds; raise InvalidInputError unless it is a positive duration."""
    duration = read_span(span, field)
    if duration <= timedelta(0):
        raise InvalidInputError(f"{field} must be positive, got {duration}", field=field)
    return duration // _MICROSECOND
