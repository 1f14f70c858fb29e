"""Reads the columns of a file, each as one kind of values; an error names the row at fault."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streameval._common.errors import InvalidInputError
from streameval._common.labels import Labels
from streameval._common.names import id_of
from streameval._common.times import EARLIEST_US, LATEST_US, TIME_UNITS, read_time_us
from streameval._common.values import shown
from streameval._counts.columns import check_score
from streameval._counts.weight_columns import check_units
from streameval.cli._file_values import FileError, FileRowError, RowFault

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

_INTEGER = re.compile(r"\s*[+-]?\d{1,400}\s*", re.ASCII)
_COMMA = re.compile(r"\s*[+-]?\d+,\d+(e[+-]?\d+)?\s*", re.IGNORECASE)
_WHOLE = r"^\d{1,18}$"
_ISO = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?)?$"


class Origin(NamedTuple):
    """Where columns were read: the file, and the number of each row in it, from 1."""

    path: Path
    numbers: npt.NDArray[np.int64]

    def row_error(self, index: int, reason: RowFault, what: str) -> FileRowError:
        """Return the error of the row at an index."""
        return FileRowError(
            self.path, int(self.numbers[index]), what, reason=reason, index=int(index)
        )

    def column_error(self, what: str) -> FileError:
        """Return the error of a column whose kind no row can have."""
        first = self.numbers[0] if len(self.numbers) else 1
        return FileError(f"{self.path}: row {first}: {what}")


class _Wanted(NamedTuple):
    """What a column holds: its name, its kind of values, and the reason of a row without one."""

    name: str
    values: str
    reason: RowFault


class LabelReader:
    """Converts columns of labels to booleans, as `Labels` reads each of them.

    Without `negative`, the first value that is not positive is the negative class.
    """

    def __init__(
        self, positive: str | None, negative: str | None = None, decimal: str = "."
    ) -> None:
        names = ("--positive", "--negative")
        self._labels = Labels(positive, negative, learns=True, names=names)
        self._decimal = decimal

    def read(self, column: pa.Array, place: Origin) -> npt.NDArray[np.bool_]:
        """Return whether each label is positive. O(n + distinct labels)."""
        _refuse_missing(column, "label", RowFault.LABEL, place)
        try:
            encoded = column.dictionary_encode()
        except pa.ArrowNotImplementedError:
            raise place.column_error(f"label is a {column.type}, not one value") from None
        codes: npt.NDArray[np.int32] = encoded.indices.to_numpy(zero_copy_only=False)
        is_positive = np.zeros(len(encoded.dictionary), dtype=np.bool_)
        for code, value in enumerate(encoded.dictionary.to_pylist()):
            is_comma = self._decimal == "," and _COMMA.fullmatch(str(value)) is not None
            try:
                is_positive[code] = self._labels.read(
                    value.replace(",", ".") if is_comma else value
                )
            except InvalidInputError as error:
                bad = int(np.argmax(codes == code))
                raise place.row_error(bad, RowFault.LABEL, str(error)) from None
        return is_positive[codes]


def read_scores(column: pa.Array, place: Origin, decimal: str = ".") -> npt.NDArray[np.float64]:
    """Return finite numbers."""
    if pa.types.is_boolean(column.type):
        raise place.column_error("score is a boolean; is this the label column?")
    scores = _read_numbers(column, "score", RowFault.SCORE, place, decimal)
    for index in () if pa.types.is_floating(column.type) else _large(scores):
        value = column[index].as_py()
        try:
            check_score(int(value) if _INTEGER.fullmatch(str(value)) else scores[index])
        except InvalidInputError as error:
            raise place.row_error(index, RowFault.SCORE, str(error)) from None
    finite = np.isfinite(scores)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise place.row_error(bad, RowFault.SCORE, f"score must be finite, got {scores[bad]}")
    return scores


def _large(numbers: npt.NDArray[np.float64]) -> list[int]:
    """Return the places of numbers that may have been other integers."""
    found: list[int] = np.flatnonzero(np.abs(numbers) >= 1 << 53).tolist()
    return found


def read_weighting(
    columns: Mapping[str, pa.Array],
    place: Origin,
    *,
    decimal: str = ".",
    weight: str | None,
    label_probability: str | None,
) -> dict[str, Any]:
    """Return the weights and the label probabilities, checked together."""

    def read(name: str | None) -> npt.NDArray[np.float64] | None:
        if name is None:
            return None
        return _read_numbers(columns[name], name, RowFault.WEIGHT, place, decimal)

    weights, probabilities = read(weight), read(label_probability)
    if weights is not None or probabilities is not None:
        try:
            check_units(weights, probabilities, size=len(place.numbers), counts=None)
        except InvalidInputError as error:
            if error.index is None:
                raise
            what = str(error).replace(f" at index {error.index}", "")
            raise place.row_error(error.index, RowFault.WEIGHT, what) from None
    return {"weights": weights, "label_probability": probabilities}


def _read_numbers(
    column: pa.Array, name: str, reason: RowFault, place: Origin, decimal: str
) -> npt.NDArray[np.float64]:
    """Return a column's numbers; text may have blanks around, and has one decimal sign."""
    wanted, shown = _Wanted(name, "a number", reason), column
    if _is_text(column):
        column = pc.utf8_trim_whitespace(column.cast(pa.string()))
        if decimal == ",":
            # A point may separate thousands here: a value that has one is no number.
            column = pc.replace_substring(pc.replace_substring(column, ".", "?"), ",", ".")
        elif pc.any(pc.match_substring_regex(column, r"^[+-]?\d*,\d+$")).as_py():
            wanted = wanted._replace(
                values="a number: if commas stand before decimals, give --decimal ,"
            )
    if pa.types.is_integer(column.type):
        _refuse_missing(column, name, reason, place)
        values = column.cast(pa.float64(), safe=False)
    else:
        values = _cast(column, pa.float64(), wanted, place, shown)
    numbers: npt.NDArray[np.float64] = values.to_numpy(zero_copy_only=False)
    return numbers


def read_ids(column: pa.Array, place: Origin) -> list[str]:
    """Return ids as text: each number as `id_of` reads it."""
    if _is_text(column) or pa.types.is_integer(column.type):
        return read_text(column, "id", RowFault.ID, place)
    _refuse_missing(column, "id", RowFault.ID, place)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    # Floats keep their width, by which `id_of` knows what they may stand for.
    values = column.to_numpy() if pa.types.is_floating(column.type) else column.to_pylist()
    ids = []
    for index, value in enumerate(values):
        try:
            found = id_of(value)
            ids.append(found if isinstance(found, str) else found.decode())
        except UnicodeDecodeError:
            what = f"id must be text in UTF-8, got {shown(value)}"
            message = f"{what}: write it as text, for instance in hexadecimal"
            raise place.row_error(index, RowFault.ID, message) from None
        except (InvalidInputError, TypeError) as error:
            raise place.row_error(index, RowFault.ID, str(error)) from None
    return ids


def read_clusters(column: pa.Array, place: Origin) -> list[str]:
    """Return the keys of clusters as text."""
    if not pa.types.is_integer(column.type) and not _is_text(column):
        raise place.column_error(f"cluster is a {column.type}, not text or an integer")
    return read_text(column, "cluster", RowFault.CLUSTER, place)


def read_times(column: pa.Array, place: Origin, name: str, unit: str) -> npt.NDArray[np.datetime64]:
    """Return times as `read_time_us` reads each of them; O(n), and faster for usual columns."""
    _refuse_missing(column, name, RowFault.TIME, place)
    if pa.types.is_duration(column.type) or pa.types.is_time(column.type):
        raise place.column_error(f"{name} is a {column.type}, not a date or a date with a time")
    if _is_text(column):
        column = pc.utf8_trim_whitespace(column.cast(pa.string()))
    times_us, is_read = _usual_times(column, unit)
    for index in np.flatnonzero(~is_read):
        value = column[int(index)]
        try:
            times_us[index] = read_time_us(_plain(value), unit, name, option="--time-unit {}")
        except ValueError as error:
            raise place.row_error(int(index), RowFault.TIME, str(error)) from None
    return times_us.astype("datetime64[us]")


def _usual_times(
    column: pa.Array, unit: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return times in microseconds, and which of them are sure, of a column of one kind."""
    kind = column.type
    if _is_text(column) and pc.all(pc.match_substring_regex(column, _WHOLE)).as_py():
        column = column.cast(pa.int64())
    elif _is_text(column) and pc.all(pc.match_substring_regex(column, _ISO)).as_py():
        # Arrow requires a time of day and a zone.
        column = pc.replace_substring_regex(column, r"^(\d+-\d\d-\d\d)$", r"\1T00:00:00")
        column = pc.replace_substring_regex(column, r"([T ][\d:.]+)$", r"\1Z")
        kind = pa.timestamp("us", "UTC")
    times_us = np.zeros(len(column), dtype=np.int64)
    try:
        if pa.types.is_integer(column.type):
            numbers = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
            per_us = TIME_UNITS[unit or "s"]
            times_us = numbers * (per_us // 1000) if per_us >= 1000 else numbers // 1000
            # A product beyond 64 bits is none of these.
            is_likely = np.abs(numbers) < LATEST_US * 1000 // max(per_us, 1)
            return times_us, is_likely & (times_us >= EARLIEST_US) & (times_us < LATEST_US)
        if pa.types.is_temporal(kind):
            moments = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
            times_us = moments.cast(pa.int64()).to_numpy(zero_copy_only=False).copy()
            return times_us, times_us > 0
    except pa.ArrowException:
        pass
    return times_us, np.zeros(len(column), dtype=np.bool_)


def _plain(value: pa.Scalar) -> object:
    """Return a value as Python has it, a moment as text, a decimal as the number that it is."""
    if pa.types.is_temporal(value.type):
        return value.cast(pa.string()).as_py()
    found = value.as_py()
    if not pa.types.is_decimal(value.type):
        return found
    return int(found) if found == int(found) else float(found)


def _is_text(column: pa.Array) -> bool:
    kind = column.type
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def read_text(column: pa.Array, name: str, reason: RowFault, place: Origin) -> list[str]:
    """Return text."""
    values: list[str] = _cast(column, pa.string(), _Wanted(name, "text", reason), place).to_pylist()
    return values


def read_groups(column: pa.Array, name: str, place: Origin) -> list[str | None]:
    """Read values to group by; a missing one is None, as is an empty text."""
    wanted = _Wanted(name, "text", RowFault.SEGMENT)
    values = iter(_cast(column.drop_null(), pa.string(), wanted, place).to_pylist())
    present = column.is_valid().to_pylist()
    return [(next(values) or None) if there else None for there in present]


def _cast(
    column: pa.Array,
    to: pa.DataType,
    wanted: _Wanted,
    place: Origin,
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


def _refuse_missing(column: pa.Array, name: str, reason: RowFault, place: Origin) -> None:
    if column.null_count:
        index = int(pc.index(pc.is_null(column), True).as_py())
        raise place.row_error(index, reason, f"{name} is missing")
