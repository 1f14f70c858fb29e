"""Interprets a file's columns as scores, labels, ids, event times and segments.

Rows are numbered from 1 in each file, without the header; every error names the file
and the row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streameval._common.errors import InvalidInputError
from streameval._counts.weight_columns import check_units
from streameval.cli._directory import files_of
from streameval.cli._file_values import BOOLEAN_LABELS, FileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from streameval.cli._directory import Part

    Fail = Callable[[int, str], FileError]

_NUMBER = r"^[0-9]+(\.[0-9]*)?$"


@dataclass(frozen=True, slots=True)
class Layout:
    """The names of a file's columns; None for those that are not read.

    Attributes
    ----------
    score, label, id, time : str or None
        Names of columns.
    segments : tuple of str
        Names of the columns of segment values, which are the segment keys.
    by : tuple of str
        Names of the columns to group by, whose values may be missing.
    weight, label_probability, cluster : str or None
        Names of columns.
    positive : str or None
        The label of the positive class; None for 0/1/true/false.
    """

    score: str | None = None
    label: str | None = None
    id: str | None = None
    time: str | None = None
    segments: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    positive: str | None = None
    weight: str | None = None
    label_probability: str | None = None
    cluster: str | None = None

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        named = (
            *(self.score, self.label, self.id, self.time, *self.segments, *self.by),
            *(self.weight, self.label_probability, self.cluster),
        )
        return list(dict.fromkeys(name for name in named if name is not None))


@dataclass(frozen=True, slots=True)
class Rows:
    """Some checked rows of a file.

    Attributes
    ----------
    path : Path
        The file.
    first_row : int
        The number of the first of them, from 1.
    scores : float64[n]
        Finite. Empty when the layout has no such column, like the others below.
    labels : bool[n]
    ids : list of str
    times : datetime64[us][n]
        UTC.
    segments : dict of str to list of str
    by : dict of str to list of (str or None)
        None where a value is missing or empty.
    weights, label_probability : float64[n] or None
        Checked; None when the layout has no such column, like the clusters.
    clusters : list of str or None
    count : int
        How many rows.
    progress : float
        Share of the file that has been read, in [0, 1].
    """

    path: Path
    first_row: int
    count: int
    progress: float
    scores: npt.NDArray[np.float64]
    labels: npt.NDArray[np.bool_]
    ids: list[str]
    times: npt.NDArray[np.datetime64]
    segments: dict[str, list[str]] = field(default_factory=dict)
    by: dict[str, list[str | None]] = field(default_factory=dict)
    weights: npt.NDArray[np.float64] | None = None
    label_probability: npt.NDArray[np.float64] | None = None
    clusters: list[str] | None = None

    def weighting(self) -> dict[str, npt.NDArray[np.float64] | None]:
        """Return the keywords by which verbs take weights and label probabilities."""
        return {"weights": self.weights, "label_probability": self.label_probability}


def read_rows(path: Path, layout: Layout) -> Iterator[Rows]:
    """Yield the rows of a file, or of all files of a directory, in chunks.

    Raises
    ------
    FileError
        For a file, column or row that cannot be read.
    """
    labels = LabelReader(layout.positive)
    for part in files_of(path):
        yield from _rows_of(part, layout, labels)


def _rows_of(part: Part, layout: Layout, labels: LabelReader) -> Iterator[Rows]:
    before = 0

    def fail(index: int, what: str) -> FileError:
        return FileError(f"{part.path}: row {before + index + 1}: {what}")

    for chunk in part.read(layout.columns):
        columns = chunk.columns

        def read(name: str | None, columns: dict[str, pa.Array] = columns) -> pa.Array:
            return pa.array([], pa.string()) if name is None else columns[name]

        count = len(columns[layout.columns[0]])
        yield Rows(
            path=part.path,
            first_row=before + 1,
            count=count,
            progress=chunk.progress,
            scores=_scores(read(layout.score), fail),
            labels=labels.read(read(layout.label), fail),
            ids=_strings(read(layout.id), "id", fail),
            times=_times(read(layout.time), fail),
            segments={key: _strings(columns[key], key, fail) for key in layout.segments},
            by={key: _groups(columns[key], key, fail) for key in layout.by},
            clusters=None if layout.cluster is None else _clusters(columns[layout.cluster], fail),
            **_weighting(layout, columns, count, fail),
        )
        before += count


class LabelReader:
    """Converts columns of labels to booleans, and refuses a third class.

    Without `positive`, labels are 0/1, true/false (any case). With it, that value is
    positive, and the first other value is negative.
    """

    def __init__(self, positive: str | None) -> None:
        self._classes = dict(BOOLEAN_LABELS) if positive is None else {positive: True}
        self._positive = positive
        self._negative: str | None = None

    def read(self, column: pa.Array, fail: Fail) -> npt.NDArray[np.bool_]:
        """Return whether each label is positive. O(n + distinct labels)."""
        _refuse_missing(column, "label", fail)
        try:
            encoded = column.dictionary_encode()
        except pa.ArrowNotImplementedError:
            raise fail(0, f"label is a {column.type}, not one value") from None
        codes: npt.NDArray[np.int32] = encoded.indices.to_numpy(zero_copy_only=False)
        is_positive = np.zeros(len(encoded.dictionary), dtype=np.bool_)
        for code, value in enumerate(encoded.dictionary.to_pylist()):
            known = self._classify(str(value))
            if known is None:
                raise fail(int(np.argmax(codes == code)), self._refusal(value))
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


def _scores(column: pa.Array, fail: Fail) -> npt.NDArray[np.float64]:
    if pa.types.is_boolean(column.type):
        raise fail(0, "score is a boolean; is this the label column?")
    values = _cast(column, pa.float64(), "score", "a number", fail)
    scores: npt.NDArray[np.float64] = values.to_numpy(zero_copy_only=False)
    finite = np.isfinite(scores)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise fail(bad, f"score must be finite, got {scores[bad]}")
    return scores


def _weighting(
    layout: Layout, columns: dict[str, pa.Array], count: int, fail: Fail
) -> dict[str, Any]:
    """Read the weights and the label probabilities, checked together."""

    def read(name: str | None) -> npt.NDArray[np.float64] | None:
        if name is None:
            return None
        values = _cast(columns[name], pa.float64(), name, "a number", fail)
        numbers: npt.NDArray[np.float64] = values.to_numpy(zero_copy_only=False)
        return numbers

    weights, label_probability = read(layout.weight), read(layout.label_probability)
    if weights is not None or label_probability is not None:
        try:
            check_units(weights, label_probability, size=count, counts=None)
        except InvalidInputError as error:
            if error.index is None:
                raise
            what = str(error).replace(f" at index {error.index}", "")
            raise fail(error.index, what) from None
    return {"weights": weights, "label_probability": label_probability}


def _clusters(column: pa.Array, fail: Fail) -> list[str]:
    if not pa.types.is_integer(column.type) and not pa.types.is_string(column.type):
        raise fail(0, f"cluster is a {column.type}, not text or an integer")
    return _strings(column, "cluster", fail)


def _times(column: pa.Array, fail: Fail) -> npt.NDArray[np.datetime64]:
    """Read ISO 8601 (UTC unless it says otherwise), timestamps, or seconds since 1970."""
    wanted = "a time (ISO 8601, or seconds since 1970)"
    shown = column
    if (
        pa.types.is_string(column.type)
        and pc.all(pc.match_substring_regex(column, _NUMBER)).as_py()
    ):
        column = column.cast(pa.float64())
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        column = pc.multiply(column.cast(pa.float64()), 1e6).cast(pa.int64(), safe=False)
    elif pa.types.is_string(column.type):
        # Arrow requires a time of day and a zone: add midnight and UTC where they are missing.
        column = pc.replace_substring_regex(column, r"^(\d+-\d\d-\d\d)$", r"\1T00:00:00")
        column = pc.replace_substring_regex(column, r"(T| )([\d:.]+)$", r"\1\2Z")
    values = _cast(column, pa.timestamp("us", "UTC"), "time", wanted, fail, shown)
    times: npt.NDArray[np.datetime64] = values.to_numpy(zero_copy_only=False)
    return times


def _strings(column: pa.Array, name: str, fail: Fail) -> list[str]:
    values: list[str] = _cast(column, pa.string(), name, "text", fail).to_pylist()
    return values


def _groups(column: pa.Array, name: str, fail: Fail) -> list[str | None]:
    """Read values to group by; a missing one is None, as is an empty text."""
    values = iter(_cast(column.drop_null(), pa.string(), name, "text", fail).to_pylist())
    present = column.is_valid().to_pylist()
    return [(next(values) or None) if there else None for there in present]


def _cast(  # noqa: PLR0917 - the cast, and the parts of its error's message
    column: pa.Array,
    to: pa.DataType,
    name: str,
    wanted: str,
    fail: Fail,
    shown: pa.Array | None = None,
) -> pa.Array:
    """Cast a column; the error names the first bad value, as `shown` in the file."""
    shown = column if shown is None else shown
    _refuse_missing(shown, name, fail)
    try:
        return column.cast(to)
    except pa.ArrowInvalid:
        bad = next(i for i, value in enumerate(column) if not _can_cast(value, to))
        raise fail(bad, f"{name} {shown[bad].as_py()!r} is not {wanted}") from None
    except pa.ArrowNotImplementedError:
        raise fail(0, f"{name} is a {shown.type}, not {wanted}") from None


def _can_cast(value: pa.Scalar, to: pa.DataType) -> bool:
    try:
        value.cast(to)
    except pa.ArrowInvalid:
        return False
    return True


def _refuse_missing(column: pa.Array, name: str, fail: Fail) -> None:
    if column.null_count:
        raise fail(int(pc.index(pc.is_null(column), True).as_py()), f"{name} is missing")
