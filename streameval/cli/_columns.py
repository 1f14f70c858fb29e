"""Reads the columns of a file, each as one kind of values; an error names the row at fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streameval._common.errors import InvalidInputError
from streameval._counts.weight_columns import check_units
from streameval.cli._file_values import BOOLEAN_LABELS, FileError, Reason, RowError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

_NUMBER = r"^[0-9]+(\.[0-9]*)?$"
_MAX_TIME_US = 1 << 62


class Place(NamedTuple):
    """Where columns were read: the file, and the number of each row in it, from 1."""

    path: Path
    numbers: npt.NDArray[np.int64]

    def row_error(self, index: int, reason: Reason, what: str) -> RowError:
        """Return the error of the row at an index."""
        return RowError(self.path, int(self.numbers[index]), what, reason=reason, index=int(index))

    def column_error(self, what: str) -> FileError:
        """Return the error of a column whose kind no row can have."""
        first = self.numbers[0] if len(self.numbers) else 1
        return FileError(f"{self.path}: row {first}: {what}")


class _Wanted(NamedTuple):
    """What a column holds: its name, its kind of values, and the reason of a row without one."""

    name: str
    values: str
    reason: Reason


_TIMES = _Wanted("time", "a time (ISO 8601, or seconds since 1970)", Reason.TIME)


class LabelReader:
    """Converts columns of labels to booleans, and refuses a third class.

    Without `positive`, labels are 0/1, true/false (any case). With it, that value is
    positive, and the first other value is negative.
    """

    def __init__(self, positive: str | None) -> None:
        self._classes = dict(BOOLEAN_LABELS) if positive is None else {positive: True}
        self._positive = positive
        self._negative: str | None = None

    def read(self, column: pa.Array, place: Place) -> npt.NDArray[np.bool_]:
        """Return whether each label is positive. O(n + distinct labels)."""
        _refuse_missing(column, "label", Reason.LABEL, place)
        try:
            encoded = column.dictionary_encode()
        except pa.ArrowNotImplementedError:
            raise place.column_error(f"label is a {column.type}, not one value") from None
        codes: npt.NDArray[np.int32] = encoded.indices.to_numpy(zero_copy_only=False)
        is_positive = np.zeros(len(encoded.dictionary), dtype=np.bool_)
        for code, value in enumerate(encoded.dictionary.to_pylist()):
            known = self._classify(str(value))
            if known is None:
                bad = int(np.argmax(codes == code))
                raise place.row_error(bad, Reason.LABEL, self._refusal(value))
            is_positive[code] = known
        return is_positive[codes]

    def _classify(self, label: str) -> bool | None:
        if self._positive is None:
            return self._classes.get(label.strip().lower())
        if label not in self._classes and self._negative is None:
            self._negative = label
            self._classes[label] = False
        return self._classes.get(label)

    def _refusal(self, value: object) -> str:
        if self._positive is None:
            return f"label {value!r} is none of 0, 1, true, false; name the class with --positive"
        return f"label {value!r} is neither {self._positive!r} nor {self._negative!r}"


def read_scores(column: pa.Array, place: Place) -> npt.NDArray[np.float64]:
    """Return finite numbers."""
    if pa.types.is_boolean(column.type):
        raise place.column_error("score is a boolean; is this the label column?")
    values = _cast(column, pa.float64(), _Wanted("score", "a number", Reason.SCORE), place)
    scores: npt.NDArray[np.float64] = values.to_numpy(zero_copy_only=False)
    finite = np.isfinite(scores)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise place.row_error(bad, Reason.SCORE, f"score must be finite, got {scores[bad]}")
    return scores


def read_weighting(
    columns: Mapping[str, pa.Array],
    place: Place,
    *,
    weight: str | None,
    label_probability: str | None,
) -> dict[str, Any]:
    """Return the weights and the label probabilities, checked together."""

    def read(name: str | None) -> npt.NDArray[np.float64] | None:
        if name is None:
            return None
        values = _cast(columns[name], pa.float64(), _Wanted(name, "a number", Reason.WEIGHT), place)
        numbers: npt.NDArray[np.float64] = values.to_numpy(zero_copy_only=False)
        return numbers

    weights, probabilities = read(weight), read(label_probability)
    if weights is not None or probabilities is not None:
        try:
            check_units(weights, probabilities, size=len(place.numbers), counts=None)
        except InvalidInputError as error:
            if error.index is None:
                raise
            what = str(error).replace(f" at index {error.index}", "")
            raise place.row_error(error.index, Reason.WEIGHT, what) from None
    return {"weights": weights, "label_probability": probabilities}


def read_clusters(column: pa.Array, place: Place) -> list[str]:
    """Return the keys of clusters as text."""
    if not pa.types.is_integer(column.type) and not _is_text(column):
        raise place.column_error(f"cluster is a {column.type}, not text or an integer")
    return read_text(column, "cluster", Reason.CLUSTER, place)


def read_times(column: pa.Array, place: Place) -> npt.NDArray[np.datetime64]:
    """Return ISO 8601 (UTC unless it says otherwise), timestamps, or seconds since 1970."""
    _refuse_missing(column, "time", Reason.TIME, place)
    is_text = _is_text(column)
    if is_text:
        column = column.cast(pa.string())
        is_number = pc.match_substring_regex(column, _NUMBER).to_numpy(zero_copy_only=False)
    elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        is_number = np.ones(len(column), dtype=np.bool_)
    else:
        is_number = np.zeros(len(column), dtype=np.bool_)
    times_us = np.zeros(len(column), dtype=np.float64)
    if is_number.any():
        # Numbers and text may be in one column: each is read where it is.
        numbers = pc.if_else(pa.array(is_number), column, "0") if is_text else column
        times_us = 1e6 * numbers.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    is_time = (times_us > 0) & (times_us < _MAX_TIME_US)
    times: npt.NDArray[np.datetime64] = np.where(is_time, times_us, 0).astype("datetime64[us]")
    if not is_number.all() or not len(column):
        texts = pc.if_else(pa.array(is_number), "1970-01-02", column) if is_text else column
        texts = _with_zones(texts) if is_text else texts
        read = _cast(texts, pa.timestamp("us", "UTC"), _TIMES, place, column)
        times = np.where(is_number, times, read.to_numpy(zero_copy_only=False))
        is_time |= ~is_number & (times.astype(np.int64) > 0)
    if not is_time.all():
        bad = int(np.argmin(is_time))
        what = f"time must be after 1970 and in seconds, got {column[bad].as_py()!r}"
        raise place.row_error(bad, Reason.TIME, what)
    return times


def _is_text(column: pa.Array) -> bool:
    kind = column.type
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _with_zones(column: pa.Array) -> pa.Array:
    """Add midnight and UTC where they are missing: Arrow requires a time of day and a zone."""
    column = pc.replace_substring_regex(column, r"^(\d+-\d\d-\d\d)$", r"\1T00:00:00")
    return pc.replace_substring_regex(column, r"(T| )([\d:.]+)$", r"\1\2Z")


def read_text(column: pa.Array, name: str, reason: Reason, place: Place) -> list[str]:
    """Return text."""
    values: list[str] = _cast(column, pa.string(), _Wanted(name, "text", reason), place).to_pylist()
    return values


def read_groups(column: pa.Array, name: str, place: Place) -> list[str | None]:
    """Read values to group by; a missing one is None, as is an empty text."""
    wanted = _Wanted(name, "text", Reason.SEGMENT)
    values = iter(_cast(column.drop_null(), pa.string(), wanted, place).to_pylist())
    present = column.is_valid().to_pylist()
    return [(next(values) or None) if there else None for there in present]


def _cast(
    column: pa.Array,
    to: pa.DataType,
    wanted: _Wanted,
    place: Place,
    shown: pa.Array | None = None,
) -> pa.Array:
    """Cast a column; the error names the first bad value, as `shown` in the file. O(n)."""
    shown = column if shown is None else shown
    _refuse_missing(shown, wanted.name, wanted.reason, place)
    try:
        return column.cast(to)
    except pa.ArrowInvalid:
        bad = _first_bad(column, to)
        what = f"{wanted.name} {shown[bad].as_py()!r} is not {wanted.values}"
        raise place.row_error(bad, wanted.reason, what) from None
    except pa.ArrowNotImplementedError:
        what = f"{wanted.name} is a {shown.type}, not {wanted.values}"
        raise place.column_error(what) from None


def _first_bad(column: pa.Array, to: pa.DataType) -> int:
    """Return the place of the first value that cannot be cast, in a column that has one. O(n)."""
    start, stop = 0, len(column)
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            column[start:middle].cast(to)
            start = middle
        except pa.ArrowInvalid:
            stop = middle
    return start


def _refuse_missing(column: pa.Array, name: str, reason: Reason, place: Place) -> None:
    if column.null_count:
        index = int(pc.index(pc.is_null(column), True).as_py())
        raise place.row_error(index, reason, f"{name} is missing")
