"""Reads named columns from CSV, Parquet and NPZ files, in chunks.

A file is never held whole: a chunk is some tens of thousands of rows, so a file
larger than memory works. CSV columns come as strings, the others in their own
types; what they mean is the business of `_rows`.
"""

from __future__ import annotations

import re
import zipfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.lib.format
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from streameval._errors import StreamEvalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROWS_PER_CHUNK = 1 << 16
CSV_BLOCK_BYTES = 4 << 20
_PLAIN_KINDS = "biufSUM"
SUFFIXES = (".csv", ".csv.gz", ".parquet", ".npz")


class FileError(StreamEvalError):
    """A file that cannot be read; the message names the file and the row."""


@dataclass(frozen=True, slots=True)
class RawChunk:
    """Some rows of a file.

    Attributes
    ----------
    columns : dict of str to pyarrow.Array
        The columns that were asked for, of one length.
    progress : float
        Share of the file that has been read, in [0, 1].
    """

    columns: dict[str, pa.Array]
    progress: float


def read_columns(path: Path, names: Sequence[str]) -> Iterator[RawChunk]:
    """Yield the chunks of a file.

    Parameters
    ----------
    path : Path
        A ``.csv``, ``.csv.gz``, ``.parquet`` or ``.npz`` file.
    names : sequence of str
        Names of columns (CSV, Parquet) or arrays (NPZ).

    Raises
    ------
    FileError
        For a file or column that cannot be read.
    """
    name = path.name.lower()
    if name.endswith((".csv", ".csv.gz")):
        chunks = _csv(path, names)
    elif name.endswith(".parquet"):
        chunks = _parquet(path, names)
    elif name.endswith(".npz"):
        chunks = _npz(path, names)
    else:
        raise FileError(f"{path}: unknown kind of file; use {', '.join(SUFFIXES)}")
    try:
        yield from chunks
    except (OSError, pa.ArrowException, zipfile.BadZipFile, EOFError) as error:
        reason = str(error) if not isinstance(error, OSError) else error.strerror or str(error)
        # Arrow counts the header as a row.
        reason = re.sub(r"Row #(\d+)", lambda row: f"row {int(row[1]) - 1}", reason)
        raise FileError(f"{path}: {reason.splitlines()[0]}") from error


def _require(path: Path, wanted: Sequence[str], present: list[str]) -> None:
    for name in wanted:
        if name not in present:
            raise FileError(f"{path}: no column {name!r}; it has {', '.join(present)}")
        if present.count(name) > 1:
            raise FileError(f"{path}: column {name!r} occurs {present.count(name)} times")


def _csv(path: Path, names: Sequence[str]) -> Iterator[RawChunk]:
    size = max(path.stat().st_size, 1)
    with path.open("rb") as raw:
        source: Any = pa.PythonFile(raw, mode="r")
        if path.suffix.lower() == ".gz":
            source = pa.CompressedInputStream(source, "gzip")
        reader = pyarrow.csv.open_csv(
            source,
            read_options=pyarrow.csv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False),
            # Strings: our own casts know the row of a bad value, Arrow's does not.
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
        _require(path, names, reader.schema.names)
        for batch in reader:
            yield RawChunk({name: batch.column(name) for name in names}, raw.tell() / size)


def _parquet(path: Path, names: Sequence[str]) -> Iterator[RawChunk]:
    with pyarrow.parquet.ParquetFile(path) as file:
        _require(path, names, file.schema_arrow.names)
        total, done = max(file.metadata.num_rows, 1), 0
        for batch in file.iter_batches(batch_size=ROWS_PER_CHUNK, columns=list(names)):
            done += batch.num_rows
            yield RawChunk({name: batch.column(name) for name in names}, done / total)


def _npz(path: Path, names: Sequence[str]) -> Iterator[RawChunk]:
    with zipfile.ZipFile(path) as archive, ExitStack() as stack:
        _require(path, names, [name.removesuffix(".npy") for name in archive.namelist()])
        streams = {name: stack.enter_context(archive.open(f"{name}.npy")) for name in names}
        headers = {name: _npy_header(path, name, stream) for name, stream in streams.items()}
        rows = headers[names[0]][0]
        for name, (count, _) in headers.items():
            if count != rows:
                raise FileError(f"{path}: {names[0]} has {rows} rows, {name} has {count}")
        for start in range(0, rows, ROWS_PER_CHUNK):
            count = min(ROWS_PER_CHUNK, rows - start)
            columns = {
                name: pa.array(_npy_read(stream, headers[name][1], count))
                for name, stream in streams.items()
            }
            yield RawChunk(columns, (start + count) / rows)


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
    if len(shape) != 1 or dtype.kind not in _PLAIN_KINDS:
        raise FileError(f"{path}: {name} is {dtype} of shape {shape}, not one plain column")
    return int(shape[0]), dtype


def _npy_read(stream: IO[bytes], dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    data = stream.read(count * dtype.itemsize)
    if len(data) < count * dtype.itemsize:
        raise EOFError("the file ends early")
    return np.frombuffer(data, dtype=dtype).astype(dtype.newbyteorder("="), copy=False)
