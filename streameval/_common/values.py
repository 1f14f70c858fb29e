"""Reading one value that the caller passed, and showing it in a message.

The value may be an object of any class, and its methods may raise any exception.
An exception while the value is read becomes the cause of an `InvalidInputError`;
formatting a value for a message never raises.
"""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streameval._common.arrays import FloatArray


def scalar(value: Any, what: str, field: str, index: int | None) -> Any:
    """Return a zero-dimensional array or tensor as its scalar, other values unchanged."""
    if isinstance(value, numbers.Number | np.generic | str):
        return value
    try:
        if not hasattr(value, "__array__"):
            return value
        array = np.asarray(value)
    except Exception as error:
        raise unreadable(what, error, field, index) from error
    return array[()] if array.ndim == 0 else value


def real(value: Any, field: str) -> float:
    """Return a real number as a float; numbers beyond float64 become infinite.

    Raises
    ------
    InvalidInputError
        When the argument is no real number.
    """
    if type(value) is float:
        return value
    number = scalar(value, field, field, None)
    if not is_number(number):
        message = f"{field} must be a number, got {shown(value)}"
        raise InvalidInputError(message, field=field)
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    except Exception as error:
        raise unreadable(field, error, field, None) from error


def share(value: Any, field: str) -> float:
    """Return an argument as a float from 0 to 1, or refuse it."""
    number = real(value, field)
    if not 0 <= number <= 1:
        message = f"{field} must be between 0 and 1, got {shown(value)}"
        raise InvalidInputError(message, field=field)
    return number


def optional_real(value: Any, field: str) -> float | None:
    """Return None for None, and otherwise `real(value, field)`."""
    return None if value is None else real(value, field)


def reals(values: Any, field: str) -> FloatArray:
    """Return an array-like argument as float64, or refuse it. O(n)."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(values, dtype=np.float64)
    except Exception as error:
        raise unreadable(field, error, field, None) from error


def is_number(value: Any) -> bool:
    """Return whether a scalar is a real number: not a boolean, not a duration."""
    if isinstance(value, bool | np.bool_ | np.timedelta64):  # a timedelta64 is an np.integer
        return False
    if isinstance(value, numbers.Real):
        return True
    # Decimal is a Number but not a Real; complex numbers have no order.
    return isinstance(value, numbers.Number) and not isinstance(value, numbers.Complex)


def shown(value: Any) -> str:
    """Return a value as text for a message: numbers bare, others quoted, at most 40 characters.

    O(1), whatever is in a text, list or dictionary.
    """
    try:
        text = _beginning(value, 40)
    except Exception:  # noqa: BLE001 - for example an integer of 5,000 digits
        text = f"a value of type {type(value).__name__}"
    return truncated(text, 40)


def _beginning(value: Any, length: int) -> str:
    """Return the first `length` characters of a value's text, or some more."""
    if type(value) is str:
        return repr(value[: length + 1])
    if type(value) is list:
        return _between("[]", (("", each) for each in value), length)
    if type(value) is dict:
        pairs = ((f"{_beginning(key, length)}: ", each) for key, each in value.items())
        return _between("{}", pairs, length)
    return str(value) if isinstance(value, numbers.Number | np.generic) else repr(value)


def _between(brackets: str, parts: Iterable[tuple[str, Any]], length: int) -> str:
    """Return the beginning of a container's text, of its parts with what precedes each."""
    text = brackets[0]
    for before, part in parts:
        comma = ", " if len(text) > 1 else ""
        text += comma + before
        text += _beginning(part, max(0, length - len(text)))
        if len(text) > length:
            return text
    return text + brackets[1]


def truncated(text: str, max_length: int = 200) -> str:
    """Return a text, cut to `max_length` characters."""
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."


def quoted(text: str, max_length: int = 150) -> str:
    """Return a text in quotes, cut to `max_length` characters."""
    return truncated(repr(text[:max_length]), max_length)


def unreadable(what: str, error: Exception, field: str, index: int | None) -> InvalidInputError:
    """Return the error for a value whose own methods raised."""
    message = f"{what} cannot be read{at_row(index)}: {truncated(str(error))}"
    return InvalidInputError(message, field=field, index=index)


def at_row(index: int | None) -> str:
    """Return the part of a message that names the row, if any."""
    return "" if index is None else f" at index {index}"
