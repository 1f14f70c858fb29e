"""One value of the caller's: what it is, and how a message shows it.

It may be an object of any class, whose methods raise what they like. While it is
read that is caught, and chained to the refusal; showing it never fails.
"""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.errors import InvalidInputError

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray


def scalar(value: Any, what: str, field: str, index: int | None) -> Any:
    """Return a zero-dimensional array or tensor as the scalar that it holds."""
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
    """Return an argument that is a real number as a float, infinite if it is beyond one.

    Raises
    ------
    InvalidInputError
        When it is none.
    """
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
    """Return an argument that is a number from 0 to 1, or refuse it."""
    number = real(value, field)
    if not 0 <= number <= 1:
        message = f"{field} must be between 0 and 1, got {shown(value)}"
        raise InvalidInputError(message, field=field)
    return number


def optional_real(value: Any, field: str) -> float | None:
    """Return None for None, and otherwise the same as `real`."""
    return None if value is None else real(value, field)


def reals(values: Any, field: str) -> FloatArray:
    """Return an argument of any shape as float64, or refuse it. O(n)."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(values, dtype=np.float64)
    except Exception as error:
        raise unreadable(field, error, field, None) from error


def is_number(value: Any) -> bool:
    """Tell whether a scalar is a real number: not a boolean, not a duration."""
    if isinstance(value, bool | np.bool_ | np.timedelta64):  # numpy calls a duration an integer
        return False
    if isinstance(value, numbers.Real):
        return True
    # Decimal is a Number without being a Real; complex numbers have no order.
    return isinstance(value, numbers.Number) and not isinstance(value, numbers.Complex)


def shown(value: Any) -> str:
    """Return a value as a message shows it: numbers bare, the rest quoted, all short."""
    try:
        text = str(value) if isinstance(value, numbers.Number | np.generic) else repr(value)
    except Exception:  # noqa: BLE001 - an integer of 5,000 digits, say; the message must not fail
        text = f"a value of type {type(value).__name__}"
    return truncated(text, 40)


def truncated(text: str, most: int = 200) -> str:
    """Return a text, or its beginning."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def quoted(text: str, most: int = 150) -> str:
    """Return a text in quotes, or the beginning of that."""
    return truncated(repr(text[:most]), most)


def unreadable(what: str, error: Exception, field: str, index: int | None) -> InvalidInputError:
    """Return the refusal of a value whose own methods failed."""
    message = f"{what} cannot be read{at_row(index)}: {truncated(str(error))}"
    return InvalidInputError(message, field=field, index=index)


def at_row(index: int | None) -> str:
    """Return where a message says that a value stood."""
    return "" if index is None else f" at index {index}"
