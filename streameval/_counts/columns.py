"""The rules for labels, scores and counts, and the messages that refuse them.

The evaluator and the server check their input with these functions, so Python and
gRPC refuse a bad value with the same message, before anything changes.

- A *label* is True or False, a number equal to 1 or 0 (many libraries hand
  return float labels), or the text of one (`_common.labels`). Anything else, missing
  values included, is refused, unless the positive class is declared.
- A *score* is a finite real number of any width; it is kept as float64, so an integer
  above 2**53 is refused: two of them could become one score. Booleans are refused,
  because passing decisions instead of scores is a mistake. -0.0 is 0.0.
- A *count* is an integer, 0 or more; 0 drops the row.

A column is a list, a numpy array, or a column of pandas, polars, pyarrow or torch;
none of these is imported. Cost: O(n), a few passes over arrays; columns of Python
objects are read one by one. If the caller's objects raise while they are read, the
column is refused, with that exception as the cause.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streameval._common.errors import InvalidInputError
from streameval._common.labels import Labels, boolean_of, class_of, is_missing
from streameval._common.values import at_row, is_number, scalar, shown, truncated, unreadable
from streameval._counts.exact import MAX_TOTAL, too_many

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval._common.arrays import BoolArray, FloatArray, IntArray

_MAX_INTEGER = 1 << 53
"""Up to it float64 has every integer."""


def check_columns(
    *,
    labels: Any,
    scores: Any,
    counts: Any = None,
    scale: str = "plain",
    positive: Any = None,
    negative: Any = None,
) -> tuple[BoolArray, FloatArray, IntArray | None]:
    """Read parallel columns of cases, or refuse them.

    Parameters
    ----------
    labels, scores, counts : column
        Of equal length; `counts` may be None.
    scale : {"plain", "probability"}
        "probability" refuses scores outside [0, 1].
    positive, negative : object, optional
        The labels of the two classes, as for `check_labels`.

    Returns
    -------
    labels : bool[n]
    scores : float64[n]
        May still be the caller's own memory.
    counts : int64[n] or None

    Raises
    ------
    InvalidInputError
        With ``field`` and, where one row is at fault, ``index``.

    Examples
    --------
    >>> check_columns(labels=[1, 0], scores=[0.9, float("nan")])
    Traceback (most recent call last):
    streameval.InvalidInputError: score must be finite, got nan at index 1
    """
    label_column = check_labels(labels, positive=positive, negative=negative)
    score_column = check_scores(scores, scale=scale)
    check_length("scores", score_column.size, like="labels", length=label_column.size)
    if counts is None:
        return label_column, score_column, None
    count_column = check_counts(counts)
    check_length("counts", count_column.size, like="labels", length=label_column.size)
    return label_column, score_column, count_column


def column_of_one(value: Any) -> list[Any] | None:
    """Return the column of one row that has a value; None without one."""
    return None if value is None else [value]


def check_length(field: str, size: int, *, like: str, length: int) -> None:
    """Refuse a column whose length differs from another's."""
    if size != length:
        message = f"{field} must have one row for each of {like}, got {size} rows and {length}"
        raise InvalidInputError(message, field=field)


def check_labels(
    labels: Any, *, field: str = "labels", positive: Any = None, negative: Any = None
) -> BoolArray:
    """Read a column of labels: True and False, 1 and 0, or their texts. O(n).

    With a `positive` class they are any values; without a `negative` one the one other class is
    the negative one.
    """
    column = _column(labels, field)
    if positive is not None or negative is not None:
        return _of_classes(_objects(labels, column), (positive, negative), field)
    kind = column.dtype.kind
    if kind == "b":
        return column
    if kind in "iuf":
        # Two comparisons and one "or" reject NaN too: it equals neither.
        is_positive: BoolArray = column == 1
        bad = ~(is_positive | (column == 0))
        if bad.any():
            raise _refused_label(column[_first(bad)], field, _first(bad))
        return is_positive
    return np.fromiter(
        (
            check_label(value, field=field, index=i)
            for i, value in enumerate(_objects(labels, column))
        ),
        dtype=np.bool_,
        count=column.size,
    )


def _of_classes(labels: Any, declared: tuple[Any, Any], field: str) -> BoolArray:
    """Read labels of two classes, each value once where it can be a key. O(n)."""
    classes = Labels(*declared, learns=True, names=("positive=", "negative="))
    known: dict[Any, bool] = {}
    found = np.empty(len(labels), dtype=np.bool_)
    plain = isinstance(labels, np.ndarray) and labels.dtype.kind in "biufUSO"
    for index, label in enumerate(labels.tolist() if plain else labels):
        try:
            found[index] = known[label]
            continue
        except (KeyError, TypeError):  # not read before, or no key
            pass
        try:
            found[index] = classes.read(label)
        except InvalidInputError as error:
            problem, _, remedy = str(error).rpartition(": ")
            message = (
                f"{problem}{at_row(index)}: {remedy}" if problem else f"{error}{at_row(index)}"
            )
            raise InvalidInputError(message, field=field, index=index) from None
        if isinstance(label, Hashable):
            known[label] = bool(found[index])
    return found


def check_scores(scores: Any, *, field: str = "scores", scale: str = "plain") -> FloatArray:
    """Read a column of scores: finite real numbers, as float64. O(n)."""
    values = check_reals(scores, field=field, noun="score")
    if scale == "probability" and values.size and not (values.min() >= 0 and values.max() <= 1):
        index = _first((values < 0) | (values > 1))
        raise _refused_probability(float(values[index]), field, index)
    return values


def check_reals(numbers: Any, *, field: str, noun: str) -> FloatArray:
    """Read a column of finite real numbers, as float64; messages name one by `noun`. O(n)."""
    column = _column(numbers, field)
    kind = column.dtype.kind
    if column.dtype == np.float64:
        values = column
    elif kind == "f":
        # A wider float beyond float64 is refused as infinite, a signalling NaN as NaN.
        with np.errstate(over="ignore", invalid="ignore"):
            values = column.astype(np.float64, copy=False)
    elif kind in "iu":
        values = column.astype(np.float64)
        if column.size and (column.max() > _MAX_INTEGER or column.min() < -_MAX_INTEGER):
            index = _first((column > _MAX_INTEGER) | (column < -_MAX_INTEGER))
            raise _refused_integer(column[index], noun, field, index)
    else:
        values = np.fromiter(
            (
                check_score(value, field=field, index=i, noun=noun)
                for i, value in enumerate(_objects(numbers, column))
            ),
            dtype=np.float64,
            count=column.size,
        )
    finite = np.isfinite(values)
    if not finite.all():
        index = _first(~finite)
        message = f"{noun} must be finite, got {values[index]} at index {index}"
        raise InvalidInputError(message, field=field, index=index)
    if kind == "f" and isinstance(numbers, list | tuple):
        # numpy made floats of the integers among floats: the caller's own values decide.
        for index in np.flatnonzero(np.abs(values) >= _MAX_INTEGER).tolist():
            check_score(numbers[index], field=field, index=index, noun=noun)
    return values


def check_counts(counts: Any, *, field: str = "counts") -> IntArray:
    """Read a column of counts: integers, 0 or more, that add up to less than 2**62. O(n)."""
    column = _column(counts, field)
    kind = column.dtype.kind
    if kind == "f":
        with np.errstate(invalid="ignore"):
            bad = ~((column >= 0) & (column == np.floor(column)) & np.isfinite(column))
        if bad.any():
            raise _refused_count(column[_first(bad)], field, _first(bad))
        if column.size and float(column.max()) >= MAX_TOTAL:
            raise too_many()
        column = column.astype(np.int64)
    elif kind not in "iu":
        whole = [
            check_count(value, field=field, index=i)
            for i, value in enumerate(_objects(counts, column))
        ]
        if sum(whole) >= MAX_TOTAL:
            raise too_many()
        return np.array(whole, dtype=np.int64)
    if column.size:
        if column.min() < 0:
            raise _refused_count(column[_first(column < 0)], field, _first(column < 0))
        largest = int(column.max())
        # A cheap upper bound first; Python integers only where it fails.
        if largest * column.size >= MAX_TOTAL and (
            largest >= MAX_TOTAL or sum(column.tolist()) >= MAX_TOTAL
        ):
            raise too_many()
    return column.astype(np.int64)


def check_label(label: Any, *, field: str = "positive", index: int | None = None) -> bool:
    """Read one label, or refuse it."""
    if type(label) is int and label in (0, 1):
        return label == 1
    positive = boolean_of(label, field=field, index=index)
    if positive is None:
        raise _refused_label(label, field, index)
    return positive


def check_score(
    score: Any,
    *,
    field: str = "score",
    index: int | None = None,
    scale: str = "plain",
    noun: str = "score",
) -> float:
    """Read one score, or another number that messages call `noun`, or refuse it."""
    value = scalar(score, noun, field, index)
    if not is_number(value):
        message = f"{noun} must be a number, got {shown(score)}{at_row(index)}"
        raise InvalidInputError(message, field=field, index=index)
    try:
        number = float(value)
    except (OverflowError, ValueError):  # beyond float64; a signalling NaN of decimal
        number = math.inf
    except Exception as error:
        raise unreadable(noun, error, field, index) from error
    if not math.isfinite(number):
        message = f"{noun} must be finite, got {shown(value)}{at_row(index)}"
        raise InvalidInputError(message, field=field, index=index)
    # Floats are what they say; other numbers were rounded to one.
    if not isinstance(value, float | np.floating) and abs(value) > _MAX_INTEGER:
        raise _refused_integer(value, noun, field, index)
    if scale == "probability" and not 0.0 <= number <= 1.0:
        raise _refused_probability(number, field, index)
    return number + 0.0


def check_count(count: Any, *, field: str = "count", index: int | None = None) -> int:
    """Read one count, or refuse it. A float is a count if it is a whole number."""
    value = scalar(count, "count", field, index)
    try:
        whole = _whole(value)
    except Exception as error:
        raise unreadable("count", error, field, index) from error
    if whole is None:
        raise _refused_count(count, field, index)
    if whole >= MAX_TOTAL:
        raise too_many()
    return whole


def _whole(value: Any) -> int | None:
    """Return a whole number of 0 or more as an int, other values as None."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    if not is_number(value) or not isinstance(value, int | np.integer) or value < 0:
        return None
    return int(value)


def _column(values: Any, field: str) -> npt.NDArray[Any]:
    """Return one-dimensional values as an array, of objects where they are mixed; no nulls."""
    return read_column(values, field, check=check_nulls)


def read_column(
    values: Any, field: str, *, check: Callable[[Any, str], None] | None = None
) -> npt.NDArray[Any]:
    """Return one-dimensional values as an array, after a check of the caller's object. O(n)."""
    if type(values) is np.ndarray:
        column = values
    elif values is None or isinstance(values, str | bytes | bytearray | memoryview | dict | set):
        raise _no_column(values, field)
    else:
        try:
            if check is not None:
                check(values, field)
            # np.asarray turns a nullable pandas column into objects; to_numpy does not.
            column = np.asarray(values.to_numpy() if hasattr(values, "isna") else values)
        except InvalidInputError:
            raise
        except Exception as error:
            raise InvalidInputError(
                f"{field} cannot be read as a column: {truncated(str(error))}", field=field
            ) from error
    if column.ndim == 0:
        raise _no_column(values, field)
    if column.ndim != 1:
        message = f"{field} must be one-dimensional, got an array of shape {column.shape}"
        raise InvalidInputError(message, field=field)
    return column


def check_nulls(values: Any, field: str) -> None:
    """Refuse a column in which its own library reports a missing value."""
    if isinstance(values, np.ma.MaskedArray):
        missing = np.ma.getmaskarray(values)
    elif hasattr(values, "null_count") and hasattr(values, "is_null"):  # polars, pyarrow
        count = values.null_count
        if not (count() if callable(count) else count):
            return
        missing = np.asarray(values.is_null())
    elif hasattr(values, "isna"):  # pandas
        if isinstance(getattr(values, "dtype", None), np.dtype) and values.dtype.kind == "f":
            return  # a plain float column marks missing values as nan
        missing = np.asarray(values.isna())
    else:
        return
    if missing.any():
        index = _first(missing.ravel())
        message = f"{field} must not have missing values, got null at index {index}"
        raise InvalidInputError(message, field=field, index=index)


def _objects(values: Any, column: npt.NDArray[Any]) -> Any:
    """Return the original values where numpy may have converted them to a common type."""
    return values if isinstance(values, list | tuple) else column


def _first(where: npt.NDArray[np.bool_]) -> int:
    return int(np.argmax(where))


def _no_column(values: Any, field: str) -> InvalidInputError:
    got = "None" if values is None else type(values).__name__
    return InvalidInputError(
        f"{field} must be a column (a list or an array), got {got}", field=field
    )


def _refused_label(value: Any, field: str, index: int | None) -> InvalidInputError:
    message = f"label must be True, False, 1 or 0, got {shown(value)}{at_row(index)}"
    return InvalidInputError(f"{message}{_remedy(value, index)}", field=field, index=index)


def _remedy(label: Any, index: int | None) -> str:
    """Return what to write for a label that is a text; empty for what is none, or no label."""
    if not isinstance(label, str | bytes) or is_missing(class_of(label)):
        return ""
    if index is None:
        return f"; if {shown(label)} is the positive class, pass label == {shown(label)}"
    return f"; declare the positive class: positive={shown(label)}, if it is this one"


def _refused_integer(value: Any, noun: str, field: str, index: int | None) -> InvalidInputError:
    message = f"{noun} must be at most 2**53 where it is an integer, got {shown(value)}"
    remedy = "larger ones become equal as floats: subtract a constant from all, or divide them"
    return InvalidInputError(f"{message}{at_row(index)}; {remedy}", field=field, index=index)


def _refused_probability(value: float, field: str, index: int | None) -> InvalidInputError:
    message = f"score must be between 0 and 1 on the probability scale, got {value}{at_row(index)}"
    return InvalidInputError(message, field=field, index=index)


def _refused_count(value: Any, field: str, index: int | None) -> InvalidInputError:
    message = f"count must be a non-negative integer, got {shown(value)}{at_row(index)}"
    return InvalidInputError(message, field=field, index=index)
