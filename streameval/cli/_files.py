"""Reads named columns from CSV, NDJSON, Parquet and NPZ files, in chunks.

A file is never in memory as a whole: a chunk is at most 65,536 rows, so files larger
than memory work, whatever sizes their headers claim and however far they decompress.
Columns of CSV and NDJSON are read as strings, others in their own types; `_rows`
interprets them.
"""

from __future__ import annotations

import io
import lzma
import shlex
import zipfile
import zlib
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.lib.format
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from streameval.cli._chunks import PACKED, RawChunk, check_columns
from streameval.cli._csv import read_table
from streameval.cli._file_values import ROWS_PER_CHUNK, FileError
from streameval.cli._ndjson import read_objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_PLAIN_KINDS = "biufSUM"
_MAX_TEXT_BYTES = 1 << 16
"""Largest text value in an NPZ; chunks of long texts have fewer rows."""
_CHUNK_BYTES = 8 << 20
_NPY_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
_MAX_NPY_HEADER_BYTES = 10_000

_UNREADABLE = (
    OSError,
    EOFError,
    UnicodeError,
    pa.ArrowException,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    # from zipfile: encrypted members, unknown compression
    RuntimeError,
)
_PARQUET_BUFFER_BYTES = 1 << 20
"""Bytes of a column that are read at once."""

_CSV, _NDJSON = (
    tuple(each + packed for each in plain for packed in ("", *PACKED))
    for plain in ((".csv",), (".ndjson", ".jsonl"))
)
SUFFIXES = (*_CSV, *_NDJSON, ".parquet", ".npz")
KINDS = {"Parquet": (".parquet",), "NDJSON": _NDJSON, "CSV": _CSV}
"""The kinds of files that a directory may have, by their suffixes."""


def kind_of(path: Path) -> str | None:
    """Return which of the `KINDS` a file is by its name; None for others."""
    name = path.name.lower()
    return next((kind for kind, suffixes in KINDS.items() if name.endswith(suffixes)), None)


def read_columns(
    path: Path,
    names: Sequence[str],
    *,
    skip: bool = False,
    delimiter: str = ",",
    id_name: str | None = None,
) -> Iterator[RawChunk]:
    """Yield the chunks of a file.

    Parameters
    ----------
    path : Path
        A file with one of the `SUFFIXES`.
    names : sequence of str
        Names of columns (CSV, Parquet), keys of objects (NDJSON) or arrays (NPZ).
    skip : bool
        Whether to leave out rows of text from which no columns can be read, and to return them
        apart. The other kinds have no such rows.
    delimiter : str
        One character, which separates the values of CSV.
    id_name : str or None
        The key of NDJSON whose values are ids: they are read one by one, since an object may
        have a number where another has a text.

    Raises
    ------
    FileError
        For a file or column that cannot be read.
    """
    name = path.name.lower()
    if name.endswith(_CSV):
        chunks = read_table(path, names, skip=skip, delimiter=delimiter)
    elif name.endswith(_NDJSON):
        chunks = read_objects(path, names, skip=skip, id_name=id_name)
    elif name.endswith(".parquet"):
        chunks = _parquet(path, names)
    elif name.endswith(".npz"):
        chunks = _npz(path, names)
    else:
        remedy = f"streameval auc {shlex.quote(str(path))}" if path.suffix == ".txt" else ""
        raise FileError(f"{path}: unknown kind of file; use {', '.join(SUFFIXES)}", remedy=remedy)
    try:
        yield from chunks
    except _UNREADABLE as error:
        advice = "name it by what it is, or write it again"
        raise FileError(f"{path}: {_reason(error).rstrip('.')}: {advice}") from error


def _reason(error: Exception) -> str:
    """Return the message of a library's error."""
    reason = str(error) if not isinstance(error, OSError) else error.strerror or str(error)
    return next(iter(reason.splitlines()), "") or f"the file ends early ({type(error).__name__})"


def _parquet(path: Path, names: Sequence[str]) -> Iterator[RawChunk]:
    # Without a buffer, and with one that Arrow fills ahead, whole row groups are in memory.
    with pyarrow.parquet.ParquetFile(
        path, buffer_size=_PARQUET_BUFFER_BYTES, pre_buffer=False
    ) as file:
        check_columns(path, names, file.schema_arrow.names)
        total, done = max(file.metadata.num_rows, 1), 0
        for batch in file.iter_batches(batch_size=ROWS_PER_CHUNK, columns=list(names)):
            done += batch.num_rows
            columns = {name: _plain(batch.column(name)) for name in names}
            yield RawChunk(columns, done / total)


def _plain(column: pa.Array) -> pa.Array:
    """Return a column without its dictionary, which may have values that no row has."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _npz(path: Path, names: Sequence[str]) -> Iterator[RawChunk]:
    with zipfile.ZipFile(path) as archive, ExitStack() as stack:
        check_columns(path, names, [name.removesuffix(".npy") for name in archive.namelist()])
        streams = {name: stack.enter_context(archive.open(f"{name}.npy")) for name in names}
        headers = {name: _npy_header(path, name, stream) for name, stream in streams.items()}
        rows = headers[names[0]][0]
        for name, (count, _) in headers.items():
            if count != rows:
                raise FileError(f"{path}: {names[0]} has {rows} rows, {name} has {count}")
        widest = max(dtype.itemsize for _, dtype in headers.values())
        step = min(ROWS_PER_CHUNK, _CHUNK_BYTES // widest)
        for start in range(0, rows, step):
            count = min(step, rows - start)
            columns = {
                name: pa.array(_npy_read(stream, headers[name][1], count))
                for name, stream in streams.items()
            }
            yield RawChunk(columns, (start + count) / rows)


def _npy_header(path: Path, name: str, stream: IO[bytes]) -> tuple[int, np.dtype[Any]]:
    try:
        shape, _, dtype = _read_npy_header(stream)
    # Headers are Python literals: invalid ones raise various errors.
    except (ValueError, SyntaxError, TypeError, OverflowError, MemoryError) as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise FileError(f"{path}: {name} is not a numpy array: {reason}") from error
    is_column = len(shape) == 1 and shape[0] >= 0 and dtype.kind in _PLAIN_KINDS
    if not is_column or not 1 <= dtype.itemsize <= _max_item_bytes(dtype):
        raise FileError(f"{path}: {name} is {dtype} of shape {shape}, not one plain column")
    return int(shape[0]), dtype


def _read_npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = numpy.lib.format.read_magic(stream)
    if version not in _NPY_LENGTH_BYTES:
        raise ValueError(f"version {version[0]}.{version[1]} is unknown")
    length = stream.read(_NPY_LENGTH_BYTES[version])
    # Checked here, because numpy reads all of a long header before it refuses it.
    if int.from_bytes(length, "little") > _MAX_NPY_HEADER_BYTES:
        raise ValueError(f"its header is longer than {_MAX_NPY_HEADER_BYTES} bytes")
    header = io.BytesIO(length + stream.read(int.from_bytes(length, "little")))
    if version == (1, 0):
        return numpy.lib.format.read_array_header_1_0(header)
    return numpy.lib.format.read_array_header_2_0(header)


def _max_item_bytes(dtype: np.dtype[Any]) -> int:
    return _MAX_TEXT_BYTES if dtype.kind in "SU" else 8


def _npy_read(stream: IO[bytes], dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    data = stream.read(count * dtype.itemsize)
    if len(data) < count * dtype.itemsize:
        raise EOFError("the file ends early")
    return np.frombuffer(data, dtype=dtype).astype(dtype.newbyteorder("="), copy=False)
