"""Labels: which values are the same class, and which are no label.

Every way in compares labels with these functions: the evaluators, the clients, files, mappings
of payloads, and the adapters. So true, 1, 1.0, "1", "1.0" and "True" are one class at each of
them, and an empty cell is no label at any.
"""

from __future__ import annotations

import math
import numbers
import re
from decimal import Decimal
from typing import Any

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import is_number, scalar, shown, unreadable

Class = int | float | str
"""What a label is compared by: a whole number is an int, a boolean 1 or 0."""

_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?", re.ASCII)
"""A decimal number without leading zeros: "007" is a code, not 7."""

_MAX_NUMBER_CHARS = 64

_WORDS = {"true": 1, "false": 0}
_NO_LABEL = frozenset({"nan", "na", "n/a", "#n/a", "#na", "<na>", "nat", "null", "none", "nil"})
"""Texts, in lower case, by which programs write that a value is missing."""

_NO_VALUE_TYPES = frozenset({"NAType", "NaTType", "MaskedConstant"})
"""The types of missing values of pandas and numpy, which need not be installed."""


def class_of(label: Any, *, field: str = "label", index: int | None = None) -> Class | None:
    """Return what a label is compared by; None for a value that is missing. O(length).

    Texts by which programs write that a value is missing, such as "N/A", are texts here: they
    may be the name of a class. `Labels` refuses them unless they are.

    Raises
    ------
    TypeError
        For what is not one value: a list, a duration, a complex number.
    InvalidInputError
        When the value's own methods raise.

    Examples
    --------
    >>> [class_of(each) for each in (True, 1.0, "1", " True ", "1.000e+00")]
    [1, 1, 1, 1, 1]
    >>> class_of("Fraud"), class_of("007"), class_of(0.5), class_of(float("nan")), class_of("")
    ('Fraud', '007', 0.5, None, None)
    """
    if label is None or type(label).__name__ in _NO_VALUE_TYPES:
        return None
    value = scalar(label, "label", field, index)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return _class_of_text(value.strip())
    try:
        if type(value).__name__ in ("bool", "bool_"):
            return int(value)
        if is_number(value):
            number: Class | None = _class_of_number(value)
            return number
    except Exception as error:
        raise unreadable("label", error, field, index) from error
    if isinstance(value, np.datetime64 | np.timedelta64) and np.isnat(value):
        return None
    raise TypeError(f"label must be one value, got {shown(label)}")


def _class_of_text(text: str) -> Class | None:
    if not text:
        return None
    word = text.lower()
    if word in _WORDS:
        return _WORDS[word]
    if len(word) > _MAX_NUMBER_CHARS or _NUMBER.fullmatch(word) is None:
        return text
    found = _class_of_number(Decimal(word))
    # A text that a float only comes close to, such as 1e-400, is none of the numbers.
    return text if isinstance(found, Decimal) else found


def _class_of_number(value: Any) -> Any:
    """Return a number as int if it is whole, else as float; a Decimal that is near a whole one."""
    if isinstance(value, numbers.Integral):
        return int(value)
    number = float(value)
    if math.isnan(number):
        return None
    if not number.is_integer():
        return number
    return int(value) if value == int(value) else value


def is_missing(found: Class | None) -> bool:
    """Whether what `class_of` returned is no label: nothing, or a text by which it is written.

    Examples
    --------
    >>> is_missing(class_of("N/A")), is_missing(class_of(0))
    (True, False)
    """
    return found is None or (isinstance(found, str) and found.lower() in _NO_LABEL)


def boolean_of(label: Any, *, field: str = "label", index: int | None = None) -> bool | None:
    """Return a label whose classes are 1 and 0; None for every other value. O(length).

    Raises InvalidInputError when the value's own methods raise.

    Examples
    --------
    >>> boolean_of("1.0"), boolean_of(False), boolean_of("N/A"), boolean_of(2)
    (True, False, None, None)
    """
    try:
        found = class_of(label, field=field, index=index)
    except TypeError:
        return None
    return None if found not in (0, 1) else found == 1


class Labels:
    """Reads labels of two classes.

    Parameters
    ----------
    positive : object, optional
        The positive class. By default 1, and 0 is the negative one.
    negative : object, optional
        The negative class. By default the other one of 1 and 0, if `positive` is one of them.
    learns : bool
        Whether with a positive class and no negative one the first other value becomes the
        negative one, as in a file of two classes; otherwise that value is refused.
    names : tuple of (str, str)
        What the caller calls `positive` and `negative`, for remedies in messages.

    Raises
    ------
    InvalidInputError
        When a class is no value, or both are one.

    Examples
    --------
    >>> labels = Labels("fraud", "legit")
    >>> labels.read("fraud"), labels.read("legit")
    (True, False)
    >>> labels.read("pending")
    Traceback (most recent call last):
    streameval.InvalidInputError: label 'pending' is neither 'fraud' nor 'legit': leave such rows \
out, or replace the value
    """

    def __init__(
        self,
        positive: Any = None,
        negative: Any = None,
        *,
        learns: bool = False,
        names: tuple[str, str] = ("positive", "negative"),
    ) -> None:
        self._names = names
        self._is_plain = positive is None
        self._learns = learns
        if negative is not None and positive is None:
            message = f"{names[1]} is the other class: give {names[0]} too"
            raise InvalidInputError(message, field="negative")
        first = 1 if positive is None else self._declared(positive, "positive")
        second = None if negative is None else self._declared(negative, "negative")
        if second is None and first in (0, 1) and (self._is_plain or not learns):
            second = 1 - int(first)
        if first == second:
            message = f"{names[0]} and {names[1]} are one class, {shown(positive)}"
            raise InvalidInputError(message, field="negative")
        self._classes: dict[Class, bool] = {first: True}
        if second is not None:
            self._classes[second] = False

    def _declared(self, value: Any, field: str) -> Class:
        try:
            found = class_of(value, field=field)
        except TypeError:
            found = None
        if found is None:
            message = f"{self._names[field == 'negative']} must be a label, got {shown(value)}"
            raise InvalidInputError(message, field=field)
        return found

    def read(self, label: Any) -> bool:
        """Return whether a label is positive. O(length).

        Raises
        ------
        InvalidInputError
            When it is missing, or of neither class. The message has the value and what to do.
        """
        if type(label) is str and label in self._classes:
            return self._classes[label]  # a class that is a text is its own
        try:
            found = class_of(label)
        except TypeError as error:
            raise self._refused(str(error)) from None
        if found in self._classes:
            return self._classes[found]
        if is_missing(found):
            raise self._refused(f"label is missing, got {shown(label)}: leave the row out")
        assert found is not None
        if self._is_plain:
            message = f"label must be true, false, 0 or 1, got {shown(label)}"
            raise self._refused(f"{message}: declare {self._names[0]}")
        near = self._differs_in_case(found)
        if near is not None:
            message = f"label {shown(label)} differs from {shown(near)} in case only"
            raise self._refused(f"{message}: write one class in one way")
        if len(self._classes) > 1:
            first, second = map(shown, self._classes)
            message = f"label {shown(label)} is neither {first} nor {second}"
            raise self._refused(f"{message}: leave such rows out, or replace the value")
        if not self._learns:
            message = f"label {shown(label)} is not {shown(next(iter(self._classes)))}"
            raise self._refused(f"{message}: if it is the other class, declare {self._names[1]}")
        self._classes[found] = False
        return False

    def _differs_in_case(self, found: Class) -> Class | None:
        """Return the class that a label is if upper and lower case are one; None for none."""
        if not isinstance(found, str):
            return None
        texts = (each for each in self._classes if isinstance(each, str))
        return next((each for each in texts if each.casefold() == found.casefold()), None)

    @staticmethod
    def _refused(message: str) -> InvalidInputError:
        return InvalidInputError(message, field="label")
