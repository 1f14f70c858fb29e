"""A column of any values as its distinct values and a code for each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import shown
from streameval._counts.columns import read_column

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from streameval._common.arrays import IntArray


class Factor(NamedTuple):
    """The distinct values of a column, ascending where they have an order, and each row's code.

    A missing value (None, NaN, a null of pandas, polars or pyarrow) is None.
    """

    values: list[Any]
    codes: IntArray


def factor_of(values: Any, field: str) -> Factor:
    """Return the factor of one column. O(n log n).

    Raises
    ------
    InvalidInputError
        When it is no column, or a value cannot be hashed.

    Examples
    --------
    >>> factor_of(["US", "DE", None, "US"], "by")
    Factor(values=['DE', 'US', None], codes=array([1, 0, 2, 1]))
    """
    each: list[Any]
    if isinstance(values, list | tuple):
        each = list(values)  # numpy would turn the numbers of a mixed list into text
    else:
        column = read_column(values, field)
        if column.dtype.kind in "biuSU" and not isinstance(values, np.ma.MaskedArray):
            distinct, codes = np.unique(column, return_inverse=True)
            return Factor(distinct.tolist(), codes.astype(np.int64))
        if column.dtype.kind == "M":
            column = column.astype("datetime64[us]")  # in nanoseconds, `tolist` gives integers
        each = values.tolist() if isinstance(values, np.ma.MaskedArray) else column.tolist()
    places: dict[Hashable, int] = {}
    codes = np.empty(len(each), dtype=np.int64)
    for index, value in enumerate(each):
        try:
            codes[index] = places.setdefault(None if is_missing(value) else value, len(places))
        except TypeError:
            message = f"{field} must have values that can be hashed, got {shown(value)}"
            raise InvalidInputError(
                f"{message} at index {index}", field=field, index=index
            ) from None
    return _sorted(list(places), codes)


def factor_of_columns(columns: Mapping[str, Any], field: str) -> Factor:
    """Return the factor of the combinations of several columns, as tuples. O(n log n)."""
    if not columns:
        raise InvalidInputError(f"{field} must name at least one column, got none", field=field)
    parts = [factor_of(values, f"{field}[{name!r}]") for name, values in columns.items()]
    for name, part in zip(columns, parts, strict=True):
        if part.codes.size != parts[0].codes.size:
            message = (
                f"{field}[{name!r}] must have one row for each of the other columns, "
                f"got {part.codes.size} rows and {parts[0].codes.size}"
            )
            raise InvalidInputError(message, field=field)
    stacked = np.stack([part.codes for part in parts], axis=1)
    distinct, codes = np.unique(stacked, axis=0, return_inverse=True)
    values = [
        tuple(part.values[code] for part, code in zip(parts, row, strict=True))
        for row in distinct.tolist()
    ]
    return Factor(values, codes.astype(np.int64).reshape(-1))


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or a null of pandas.

    A null of pandas is not even comparable with itself.
    """
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 - only missing values differ from themselves
    except (TypeError, ValueError):
        return not isinstance(value, np.ndarray | list | tuple | dict | set)


def _sorted(values: list[Any], codes: IntArray) -> Factor:
    """Order the values, a missing one last; they keep the order of arrival where they have none."""
    try:
        order = sorted(range(len(values)), key=lambda i: (values[i] is None, values[i]))
    except TypeError:
        order = sorted(range(len(values)), key=lambda i: values[i] is None)
    place = np.empty(len(values), dtype=np.int64)
    place[order] = np.arange(len(values))
    return Factor([values[i] for i in order], place[codes])
