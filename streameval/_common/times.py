"""Reads times: ISO 8601, or numbers since 1970; one rule for files, mappings and HTTP."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from streameval._common.values import shown

TIME_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Nanoseconds in a unit of times that are numbers."""

EARLIEST_US, LATEST_US = 10**14, 10**16
"""Numbers of a unit that are not declared are times of 1973 to 2286: of another unit, such a
number is none."""

_LIKELY_US = range(946_684_800 * 10**6, 4_102_444_800 * 10**6)
"""2000 to 2100: a unit that gives such a time is proposed."""

_CLOCK = r"[Tt ]\d\d(:?\d\d(:?\d\d([.,]\d+)?)?)?(Z|[+-]\d\d(:?\d\d)?)?"
_ISO = re.compile(rf"\d{{4}}-\d\d-\d\d({_CLOCK})?|\d{{8}}{_CLOCK}", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d+([.,]\d*)?(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_DATE = re.compile(r"((?:19|20)\d\d)(0[1-9]|1[0-2])([0-3]\d)\d*")
_ZONE = re.compile(r"\s*(UTC|GMT|Z)$", re.IGNORECASE)
_MAX_DIGITS = 30
_EXAMPLE = "ISO 8601, for instance 2026-11-26T19:46:00Z"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _WrongTimeError(Exception):
    """A value is no time: what it must be, what to write instead, and a unit to declare."""

    def __init__(self, must: str, write: str = "", unit: str = "") -> None:
        super().__init__(must, write, unit)
        self.must = must
        self.write = write
        self.unit = unit


def read_time_us(value: Any, unit: str, name: str, *, option: str) -> int:
    """Return a time in microseconds since 1970; what is behind them is cut off. O(length).

    Parameters
    ----------
    value : str, int or float
        ISO 8601 in its extended or basic form, with any number of digits of a second behind a
        point or comma, in UTC unless it has an offset; or a number of `unit`, also as text.
    unit : {"", "s", "ms", "us", "ns"}
        Empty is not declared: seconds, if that gives a time of 1973 to 2286.
    name : str
        What the caller calls the value.
    option : str
        How the caller declares a unit, with ``{}`` in place of it.

    Raises
    ------
    ValueError
        With the name, the value and what to do.

    Examples
    --------
    >>> option = "--time-unit {}"
    >>> read_time_us("20261126T194600,123456789+01", "", "t", option=option)
    1795718760123456
    >>> read_time_us("1795718760123", "ms", "t", option=option)
    1795718760123000
    >>> read_time_us(20261126, "", "t", option=option)
    Traceback (most recent call last):
    ValueError: t must be unambiguous, got 20261126: write 2026-11-26, or give --time-unit s
    """
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise _not_time()
        number: int | float | None = None if isinstance(value, str) else value
        if isinstance(value, str) and _ISO.fullmatch(value) is None:
            number = _number(value.strip())
        return _of_text(value) if number is None else _of_number(number, unit)
    except _WrongTimeError as error:
        give = f"give {option.format(error.unit)}" if error.unit else ""
        write = f"write {error.write}" if error.write else ""
        remedy = ", or ".join(each for each in (write, give) if each)
        message = f"{name} must be {error.must}, got {shown(value)}"
        raise ValueError(f"{message}: {remedy}" if remedy else message) from None


def _not_time() -> _WrongTimeError:
    return _WrongTimeError("a time", _EXAMPLE)


def _number(text: str) -> int | float | None:
    """Return the number that a text is, None for another text."""
    if _NUMBER.fullmatch(text) is None:
        return None
    is_whole = text.isdigit() and len(text) < _MAX_DIGITS
    return int(text) if is_whole else float(text.replace(",", "."))


def _of_text(text: str) -> int:
    if _ISO.fullmatch(text) is None:
        text = re.sub(r"\s+(?=[+-]\d)", "", _ZONE.sub("Z", text.strip()))
    if _ISO.fullmatch(text) is None:
        raise _not_time()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _not_time() from None
    # Without an offset it is UTC, as servers in containers write it.
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    time_us = (moment - _EPOCH) // timedelta(microseconds=1)
    if time_us <= 0:
        raise _WrongTimeError("after 1970")
    return time_us


def _of_number(number: float, unit: str) -> int:
    """Return a number of a unit in microseconds; refuse one that is likelier of another unit."""
    if isinstance(number, float) and not math.isfinite(number):
        raise _not_time()
    time_us = _in_us(number, unit or "s")
    if EARLIEST_US <= time_us < LATEST_US:
        return time_us
    likely = next((each for each in TIME_UNITS if _in_us(number, each) in _LIKELY_US), None)
    if likely is not None:
        raise _WrongTimeError(f"a likely time in {unit or 's'} since 1970", unit=likely)
    if time_us <= 0:
        raise _WrongTimeError("after 1970")
    if unit and time_us < LATEST_US:
        return time_us
    date = _DATE.fullmatch(str(number))
    if date is not None:
        raise _WrongTimeError("unambiguous", "-".join(date.groups()), "s")
    raise _WrongTimeError(f"a likely time in {unit or 's'} since 1970", _EXAMPLE, "s")


def _in_us(number: float, unit: str) -> int:
    """Return a number of a unit in microseconds: exact if it is whole, else the nearest one."""
    if isinstance(number, float) and not number.is_integer():
        return round(number * TIME_UNITS[unit] / 1000)
    return int(number) * TIME_UNITS[unit] // 1000
