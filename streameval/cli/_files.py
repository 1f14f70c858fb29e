"""Reads scores and labels from CSV, Parquet and NPZ files, in chunks.

A file is never held whole: a chunk is a pair of columns of some tens of
thousands of rows, so a file larger than memory works. Rows are counted from 1,
headers not counted, and every error names the file and the row.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.lib.format
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from streameval._errors import StreamEvalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS_PER_CHUNK = 1 << 16
CSV_BLOCK_BYTES = 4 << 20
SUFFIXES = (".csv", ".csv.gz", ".parquet", ".npz")
BOOLEAN_LABELS = {"1": True, "true": True, "1.0": True, "0": False, "false": False, "0.0": False}


class FileError(StreamEvalError):
    """A file that cannot be evaluated; the message names the file and the row."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a file.

    Attributes
    ----------
    scores : float64[n]
        Finite.
    labels : bool[n]
        Whether each row is positive.
    progress : float
        Share of the file that has been read, in [0, 1].
    """

    scores: npt.NDArray[np.float64]
    labels: npt.NDArray[np.bool_]
    progress: float


class LabelReader:
    """Turns a column of labels into booleans and refuses a third class.

    Without `positive`, labels are 0/1, true/false (any case). With it, that
    value is positive and the first other value that occurs is negative.
    """

    def __init__(self, positive: str | None) -> None:
        self._classes = dict(BOOLEAN_LABELS) if positive is None else {positive: True}
        self._positive = positive
        self._negative: str | None = None

    def read(
        self, column: pa.Array, fail: Callable[[int, str], FileError]
    ) -> npt.NDArray[np.bool_]:
        """Return whether each label is positive. O(n + distinct labels)."""
        if column.null_count:
            raise fail(_first(pc.is_null(column)), "label is missing")
        encoded = column.dictionary_encode()
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


def read_chunks(path: Path, *, score: str, label: str, positive: str | None) -> Iterator[Chunk]:
    """Yield the chunks of a file.

    Parameters
    ----------
    path : Path
        A ``.csv``, ``.csv.gz``, ``.parquet`` or ``.npz`` file.
    score, label : str
        Names of the columns (CSV, Parquet) or arrays (NPZ).
    positive : str or None
        The label that means positive; None for 0/1/true/false.

    Raises
    ------
    FileError
        For a file, column or row that cannot be read.
    """
    name = path.name.lower()
    if name.endswith((".csv", ".csv.gz")):
        columns = _csv_columns(path, score, label)
    elif name.endswith(".parquet"):
        columns = _parquet_columns(path, score, label)
    elif name.endswith(".npz"):
        columns = _npz_columns(path, score, label)
    else:
        raise FileError(f"{path}: unknown kind of file; use {', '.join(SUFFIXES)}")

    labels = LabelReader(positive)
    rows_before = 0

    def fail(index: int, what: str) -> FileError:
        return FileError(f"{path}: row {rows_before + index + 1}: {what}")

    try:
        for score_column, label_column, progress in columns:
            yield Chunk(
                scores=_scores(score_column, fail),
                labels=labels.read(label_column, fail),
                progress=progress,
            )
            rows_before += len(score_column)
    except (OSError, pa.ArrowInvalid, zipfile.BadZipFile, EOFError) as error:
        reason = str(error) if not isinstance(error, OSError) else error.strerror or str(error)
        raise FileError(f"{path}: {reason.splitlines()[0]}") from error


def _scores(column: pa.Array, fail: Callable[[int, str], FileError]) -> npt.NDArray[np.float64]:
    if column.null_count:
        raise fail(_first(pc.is_null(column)), "score is missing")
    if pa.types.is_boolean(column.type):
        raise fail(0, "score is a boolean; is this the label column?")
    try:
        values = column.cast(pa.float64())
    except pa.ArrowInvalid:
        bad = next(i for i, value in enumerate(column) if not _is_number(value))
        raise fail(bad, f"score {column[bad].as_py()!r} is not a number") from None
    except pa.ArrowNotImplementedError:
        raise fail(0, f"score is a {column.type}, not a number") from None
    scores: npt.NDArray[np.float64] = values.to_numpy(zero_copy_only=False)
    finite = np.isfinite(scores)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise fail(bad, f"score must be finite, got {scores[bad]}")
    return scores


def _is_number(value: pa.Scalar) -> bool:
    try:
        value.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _first(mask: pa.Array) -> int:
    return int(pc.index(mask, True).as_py())


def _require(path: Path, wanted: tuple[str, str], present: list[str]) -> None:
    for name in wanted:
        if name not in present:
            raise FileError(f"{path}: no column {name!r}; it has {', '.join(present)}")


def _csv_columns(path: Path, score: str, label: str) -> Iterator[tuple[pa.Array, pa.Array, float]]:
    size = max(path.stat().st_size, 1)
    with path.open("rb") as raw:
        source: Any = pa.PythonFile(raw, mode="r")
        if path.suffix.lower() == ".gz":
            source = pa.CompressedInputStream(source, "gzip")
        # Strings first: our own cast knows the row of a bad value, Arrow's does not.
        reader = pyarrow.csv.open_csv(
            source,
            read_options=pyarrow.csv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={score: pa.string(), label: pa.string()},
                strings_can_be_null=False,
            ),
        )
        _require(path, (score, label), reader.schema.names)
        for batch in reader:
            yield batch.column(score), batch.column(label), raw.tell() / size


def _parquet_columns(
    path: Path, score: str, label: str
) -> Iterator[tuple[pa.Array, pa.Array, float]]:
    with pyarrow.parquet.ParquetFile(path) as file:
        _require(path, (score, label), file.schema_arrow.names)
        total, done = max(file.metadata.num_rows, 1), 0
        for batch in file.iter_batches(batch_size=ROWS_PER_CHUNK, columns=[score, label]):
            done += batch.num_rows
            yield batch.column(score), batch.column(label), done / total


def _npz_columns(path: Path, score: str, label: str) -> Iterator[tuple[pa.Array, pa.Array, float]]:
    with zipfile.ZipFile(path) as archive:
        _require(path, (score, label), [name.removesuffix(".npy") for name in archive.namelist()])
        with archive.open(f"{score}.npy") as scores, archive.open(f"{label}.npy") as labels:
            (rows, score_type), (label_rows, label_type) = (
                _npy_header(path, score, scores),
                (_npy_header(path, label, labels)),
            )
            if rows != label_rows:
                raise FileError(f"{path}: {score} has {rows} rows, {label} has {label_rows}")
            for start in range(0, rows, ROWS_PER_CHUNK):
                count = min(ROWS_PER_CHUNK, rows - start)
                yield (
                    pa.array(_npy_read(scores, score_type, count)),
                    pa.array(_npy_read(labels, label_type, count)),
                    (start + count) / rows,
                )


def _npy_header(path: Path, name: str, stream: IO[bytes]) -> tuple[int, np.dtype[Any]]:
    try:
        version = numpy.lib.format.read_magic(stream)
        read = (
            numpy.lib.format.read_array_header_1_0
            if version == (1, 0)
            else numpy.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(stream)
    except ValueError as error:
        raise FileError(f"{path}: {name} is not a numpy array: {error}") from error
    if len(shape) != 1 or dtype.hasobject:
        raise FileError(f"{path}: {name} is {dtype} of shape {shape}, not one plain column")
    return int(shape[0]), dtype


def _npy_read(stream: IO[bytes], dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    data = stream.read(count * dtype.itemsize)
    if len(data) < count * dtype.itemsize:
        raise EOFError("the file ends early")
    return np.frombuffer(data, dtype=dtype)
