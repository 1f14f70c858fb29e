"""Reads CSV in chunks: its columns as text, so that `_rows` can name the row of a bad value."""

from __future__ import annotations

import codecs
import csv
import io
from collections import deque
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv

from streameval.cli._chunks import (
    BLOCK_BYTES,
    RawChunk,
    UnreadableRow,
    check_columns,
    unpacked,
)
from streameval.cli._file_values import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

_LATIN_1 = "latin-1"


def read_table(path: Path, names: Sequence[str], *, skip: bool = False) -> Iterator[RawChunk]:
    """Yield the chunks of a file.

    Parameters
    ----------
    path : Path
    names : sequence of str
    skip : bool
        Whether to leave out the rows that have too few or too many values or are no UTF-8, and
        to return them apart.

    Raises
    ------
    FileError
        For a header without these columns.
    pyarrow.ArrowException
        For content that is no CSV.
    """
    size = max(path.stat().st_size, 1)
    with unpacked(path) as (source, _):
        check_columns(path, names, _header(path, source.read(BLOCK_BYTES)))
    # Arrow ends at the first row that is no UTF-8: as Latin-1, every row has a text.
    encoding = _LATIN_1 if skip and not _is_utf8(path) else "utf-8"
    given = {name: name.encode().decode(encoding) for name in names}
    skipped = _SkippedRows(encoding)
    with unpacked(path) as (source, raw):
        reader = pyarrow.csv.open_csv(
            source,
            read_options=pyarrow.csv.ReadOptions(
                block_size=BLOCK_BYTES, use_threads=False, encoding=encoding
            ),
            parse_options=pyarrow.csv.ParseOptions(
                invalid_row_handler=skipped.add if skip else None
            ),
            # Strings: `_rows` can then name the row of a bad value, Arrow's casts cannot.
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=list(given.values()),
                column_types=dict.fromkeys(given.values(), pa.string()),
                strings_can_be_null=False,
            ),
        )
        for batch in reader:
            columns = {name: batch.column(column) for name, column in given.items()}
            share = raw.tell() / size
            yield skipped.chunk(columns, share) if skip else RawChunk(columns, share)
        if skip:
            yield skipped.chunk({name: pa.array([], pa.string()) for name in names}, 1.0)


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with unpacked(path) as (source, _):
            while block := source.read(BLOCK_BYTES):
                decoder.decode(block)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _header(path: Path, block: bytes) -> list[str]:
    """Return the names in the first line that is not empty.

    Not by Arrow, which allocates gigabytes for a header with very many names.
    """
    text = io.StringIO(block.decode("utf-8-sig", errors="replace"), newline="")
    try:
        header = next((row for row in csv.reader(text) if row), None)
    except csv.Error as error:
        raise FileError(f"{path}: the header cannot be read: {error}") from None
    if header is None:
        raise FileError(f"{path}: there is no header line")
    return header


class _SkippedRows:
    """The rows of a file that have no columns, and the numbers of the others.

    Arrow reports a row before it returns a batch with a later one.
    """

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._last = 0
        self._waiting: deque[UnreadableRow] = deque()

    def add(self, row: pyarrow.csv.InvalidRow) -> str:
        """Note a row with too few or too many values; tell Arrow to leave it out."""
        what = f"Expected {row.expected_columns} columns, got {row.actual_columns}"
        # Arrow counts the header as a row.
        self._waiting.append(UnreadableRow(row.number - 1, row.text.encode(self._encoding), what))
        return "skip"

    def chunk(self, columns: dict[str, pa.Array], progress: float) -> RawChunk:
        """Return the next rows, with their numbers, and the rows left out up to there."""
        count = len(next(iter(columns.values())))
        numbers = self._numbers(count)
        self._last = int(numbers[-1]) if count else self._last
        unreadable: list[UnreadableRow] = []
        while self._waiting and self._waiting[0].number <= self._last + 1:
            unreadable.append(self._waiting.popleft())
            self._last = max(self._last, unreadable[-1].number)
        if self._encoding != _LATIN_1:
            return RawChunk(columns, progress, numbers, unreadable)
        rows = zip(*(column.to_pylist() for column in columns.values()), strict=True)
        kept: list[int] = []
        texts: list[list[str]] = []
        for index, row in enumerate(rows):
            values = [value.encode(_LATIN_1) for value in row]
            try:
                texts.append([value.decode() for value in values])
                kept.append(index)
            except UnicodeDecodeError as error:
                what = f"it is not UTF-8: {error}"
                unreadable.append(UnreadableRow(int(numbers[index]), b",".join(values), what))
        text = {
            name: pa.array([row[place] for row in texts], pa.string())
            for place, name in enumerate(columns)
        }
        return RawChunk(text, progress, numbers[kept], sorted(unreadable))

    def _numbers(self, count: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the next rows: those after the last one that are not left out."""
        skipped = np.array([each.number for each in self._waiting], dtype=np.int64)
        first = self._last + 1
        candidates = np.arange(first, first + count + skipped.size, dtype=np.int64)
        return candidates[~np.isin(candidates, skipped)][:count]
