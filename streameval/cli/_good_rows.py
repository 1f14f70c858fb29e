"""The rows of files that can be counted; each other one is handed over, with its reason.

A chunk that has a bad row is read column by column: halves that can be read are taken as they
are, the others halved again, down to the row. So a row is good if it is good alone, and b bad
rows of n cost O(n log b + b log n).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from streameval.cli._columns import Origin
from streameval.cli._directory import files_of
from streameval.cli._file_values import FileRowError, RowFault
from streameval.cli._rows import column_readers, interpret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from streameval.cli._chunks import RawChunk, UnreadableRow
    from streameval.cli._rows import ColumnReader, FileColumns, FileRows

    Check = Callable[[int, int], None]


class BadRow(NamedTuple):
    """A row that is not counted.

    Attributes
    ----------
    path : Path
    number : int
        In the file, from 1.
    reason : RowFault
    what : str
        What is wrong, with the value.
    values : dict of str to object
        The columns that are read, or what there is of the row: plain values for JSON.
    """

    path: Path
    number: int
    reason: RowFault
    what: str
    values: dict[str, object]


def read_good_rows(
    path: Path,
    layout: FileColumns,
    check: Callable[[FileRows], None],
    reject: Callable[[BadRow], None],
) -> Iterator[FileRows]:
    """Yield the good rows of a file, or of all files of a directory, in chunks.

    Parameters
    ----------
    path : Path
    layout : FileColumns
    check : callable
        Raises RowError for the first of some rows that is not to be counted though it can be
        read.
    reject : callable
        Called with each other row, in the order of a chunk's rows.

    Raises
    ------
    FileError
        For a file or column that cannot be read.
    """
    readers = column_readers(layout)
    for part in files_of(path):
        before = 0
        for chunk in part.read(
            layout.columns, skip=True, delimiter=layout.delimiter, id_name=layout.id
        ):
            count = len(chunk.columns[layout.columns[0]])
            reading = _CheckedChunk(part.path, chunk, count, before)
            before += count
            rows = reading.rows(readers, check)
            for bad in sorted(reading.bad, key=lambda each: each.number):
                reject(bad)
            if rows is not None:
                yield rows


class _CheckedChunk:
    """One chunk while its bad rows are found.

    Attributes
    ----------
    bad : list of BadRow
    """

    def __init__(self, path: Path, chunk: RawChunk, count: int, before: int) -> None:
        self.bad = [_without_columns(path, each) for each in chunk.unreadable]
        numbers = chunk.numbers
        if numbers is None:
            numbers = np.arange(before + 1, before + count + 1, dtype=np.int64)
        self._place = Origin(path, numbers)
        self._columns: Mapping[str, pa.Array] = chunk.columns
        self._progress = chunk.progress

    def rows(
        self, readers: Sequence[ColumnReader], check: Callable[[FileRows], None]
    ) -> FileRows | None:
        """Return the rows that are good; None without one."""
        if not self._place.numbers.size:
            return None
        try:
            rows = self._interpret(readers)
        except FileRowError:
            for read in readers:
                self._drop_bad(read)
            if not self._place.numbers.size:
                return None
            rows = self._interpret(readers)
        try:
            check(rows)
        except FileRowError:
            found = rows
            kept = self._drop(lambda start, stop: check(found.between(start, stop)))
            rows = rows.take(np.flatnonzero(kept))
        return rows if rows.count else None

    def _interpret(self, readers: Sequence[ColumnReader]) -> FileRows:
        return interpret(self._columns, readers, self._place, progress=self._progress)

    def _drop_bad(self, read: ColumnReader) -> None:
        """Leave out the rows that a reader refuses."""
        columns, place = self._columns, self._place

        def check(start: int, stop: int) -> None:
            part = {name: column[start:stop] for name, column in columns.items()}
            read(part, Origin(place.path, place.numbers[start:stop]))

        self._drop(check)

    def _drop(self, check: Check) -> npt.NDArray[np.bool_]:
        """Leave out the rows that a check refuses; return which ones are kept."""
        kept = np.ones(len(self._place.numbers), dtype=np.bool_)
        for index, error in _bad_rows(len(kept), check):
            kept[index] = False
            values = {name: _plain(column[index]) for name, column in self._columns.items()}
            number = int(self._place.numbers[index])
            self.bad.append(BadRow(self._place.path, number, error.reason, error.what, values))
        if not kept.all():
            mask = pa.array(kept)
            self._columns = {name: each.filter(mask) for name, each in self._columns.items()}
            self._place = self._place._replace(numbers=self._place.numbers[kept])
        return kept


def _bad_rows(count: int, check: Check) -> Iterator[tuple[int, FileRowError]]:
    """Yield the rows that a check refuses, in their order, each with its error."""
    waiting = [(0, count)] if count else []
    while waiting:
        start, stop = waiting.pop()
        try:
            check(start, stop)
        except FileRowError as error:
            if stop - start == 1:
                yield start, error
            else:
                middle = (start + stop) // 2
                waiting += [(middle, stop), (start, middle)]


def _without_columns(path: Path, row: UnreadableRow) -> BadRow:
    text = row.text.decode("utf-8", errors="replace")
    return BadRow(path, row.number, RowFault.UNREADABLE, row.what, {"streameval_text": text})


def _plain(value: pa.Scalar) -> object:
    """Return a value as JSON has it; as text where JSON has no such value."""
    kind = value.type
    if not value.is_valid or pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return value.as_py()
    if pa.types.is_floating(kind):
        number = value.as_py()
        return number if np.isfinite(number) else str(number)
    try:
        return value.cast(pa.string()).as_py()
    except pa.ArrowException:
        return str(value)
