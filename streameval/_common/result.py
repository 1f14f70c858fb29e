"""Equality of results: by value, the same on every Python.

The equality that `dataclass` generates compares fields with ``==`` from Python 3.13 on, and as
tuples, which take identical objects for equal, before. So whether two results with nan are
equal would depend on the version and on how the nan was made, and with arrays it fails.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any

import numpy as np

_NAN = object()


class Result:
    """Base of the frozen dataclasses that calls return; they are declared with ``eq=False``.

    Two results of one class are equal if all their fields are: numbers by value, where nan is
    nan, numeric arrays by shape, type and elements, tuples, lists and mappings by what they
    hold. Equal results have equal hashes, which leave out fields with ``hash=False``.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(_value(self, each) == _value(other, each) for each in _fields(self))

    def __hash__(self) -> int:
        hashed = (each for each in _fields(self) if each.hash is not False)
        return hash(tuple(_value(self, each) for each in hashed))


def _fields(result: Any) -> tuple[Field[Any], ...]:
    return fields(result)


def _value(result: Any, field: Field[Any]) -> Any:
    return _comparable(getattr(result, field.name))


def _comparable(value: Any) -> Any:
    """Return what compares equal, and has the same hash, for equal values. O(size)."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f":  # one zero, one nan
            value = np.where(np.isnan(value), np.nan, value + 0.0)
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return frozenset((key, _comparable(each)) for key, each in value.items())
    if isinstance(value, tuple | list):
        return tuple(map(_comparable, value))
    return _NAN if isinstance(value, float | np.floating) and math.isnan(value) else value
