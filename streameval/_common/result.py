"""What calls return: one way to be shown, as plain values and as a table, and to be equal.

The equality that `dataclass` generates compares fields with ``==`` from Python 3.13 on, and as
tuples, which take identical objects for equal, before. So whether two results with nan are
equal would depend on the version and on how the nan was made, and with arrays it fails.
"""

from __future__ import annotations

import html
import math
from collections.abc import Collection, Mapping
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from streameval._common.extras import needs_extra
from streameval._common.plain_values import plain_values

if TYPE_CHECKING:
    import pandas as pd

    from streameval._common.arrays import Counts, FloatArray
    from streameval._common.tables import Table

_NAN = object()


class _HasRows(Protocol):
    def to_rows(self) -> list[dict[str, Any]]: ...


class Shown:
    """Base of what is printed and shown in notebooks: ``repr`` is what ``print`` says.

    A class declares `__str__`, or leaves it to `dataclass`; where HTML can say more than text
    it declares `_table`.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # Before `dataclass` would generate another one.
        if cls.__str__ is not object.__str__ and "__repr__" not in vars(cls):
            cls.__repr__ = cls.__str__  # type: ignore[method-assign]

    def _as_table(self) -> Table | None:
        """Return what a notebook shows; None for the text of ``print``."""
        return None

    def _repr_html_(self) -> str:
        table = self._as_table()
        if table is not None:
            return table.as_html()
        return f'<pre style="white-space:pre-wrap">{html.escape(str(self))}</pre>'

    def to_frame(self: _HasRows) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame: one row, or one for each part. O(size).

        Raises
        ------
        MissingExtraError
            When pandas is not installed; the message is the command that installs it.
        """
        with needs_extra("notebook"):
            import pandas as pd  # noqa: PLC0415 - an extra, and slow to import
        return pd.DataFrame(self.to_rows())


class Result(Shown):
    """Base of the frozen dataclasses that calls return; they are declared with ``eq=False``.

    Two results of one class are equal if all their fields are: numbers by value, where nan is
    nan, numeric arrays by shape, type and elements, tuples, lists and mappings by what they
    hold. Equal results have equal hashes, which leave out fields with ``hash=False``.
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values that JSON can hold. O(size).

        None is for nan; times are in ISO 8601, durations in seconds.
        """
        return plain_values(self)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows of `to_frame`, each flat: ``pl.DataFrame`` takes them, too. O(size).

        A ranking has a row for each of what it ranks, columns one for each of their elements,
        another result a single row. Limits are next to their value: ``auc_pr_lower``.
        """
        if isinstance(self, Collection):
            return [row for each in self for row in each.to_rows()]
        values = {each.name: getattr(self, each.name) for each in _fields(self)}
        columns = {name: each for name, each in values.items() if isinstance(each, np.ndarray)}
        return rows_of(columns) if columns else [flat_row(values)]

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(_value(self, each) == _value(other, each) for each in _fields(self))

    def __hash__(self) -> int:
        hashed = (each for each in _fields(self) if each.hash is not False)
        return hash(tuple(_value(self, each) for each in hashed))


def rows_of(columns: Mapping[str, FloatArray | Counts]) -> list[dict[str, Any]]:
    """Return columns of one length as rows. O(size)."""
    rows = zip(*(each.tolist() for each in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def flat_row(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as one row of a table, an interval as its estimate and limits. O(size)."""
    row: dict[str, Any] = {}
    for name, value in values.items():
        if hasattr(value, "estimate"):
            row |= {
                name: value.estimate,
                f"{name}_lower": value.lower,
                f"{name}_upper": value.upper,
            }
        elif isinstance(value, Shown):
            row[name] = str(value)
        else:
            row[name] = value
    return row


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
