"""Reads CSV in chunks: its columns as text, so that `_rows` can name the row of a bad value.

Python's csv module says what a row is. Where a block has no quote, and nothing is wrong, every
line is a row: there Arrow reads the same values in a twentieth of the time.
"""

from __future__ import annotations

import codecs
import csv
import io
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


def read_table(
    path: Path, names: Sequence[str], *, skip: bool = False, delimiter: str = ","
) -> Iterator[RawChunk]:
    """Yield the chunks of a file.

    Parameters
    ----------
    path : Path
    names : sequence of str
    skip : bool
        Whether to leave out the rows that have too few or too many values or are no UTF-8, and
        to return them apart.
    delimiter : str
        One character.

    Raises
    ------
    FileError
        For a header without these columns, for content that is no CSV, and, unless they are
        skipped, for the first unreadable row.
    """
    size = max(path.stat().st_size, 1)
    with unpacked(path) as (source, raw):
        header, text = _read_header(path, source, delimiter)
        header = [each if each in names else each.strip() for each in header]
        _check_header(path, names, header, delimiter)
        places = {name: header.index(name) for name in names}
        before = 0
        is_last = False
        while not is_last:
            block = source.read(BLOCK_BYTES >> 2)
            is_last = not block
            text += block
            end = len(text) if is_last else max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
            columns = _plain_columns(text[:end], len(header), places, delimiter)
            wrong: dict[int, str] = {}
            rows: list[list[str]] = []
            if columns is None:
                rows, end = _rows(text, delimiter, is_last=is_last)
                wrong = _wrong_rows(rows, len(header), places)
                columns = _columns(rows, wrong, places)
            if wrong and not skip:
                raise FileError(f"{path}: row {before + min(wrong) + 1}: {wrong[min(wrong)]}")
            count = len(next(iter(columns.values()))) + len(wrong)
            text = text[end:]
            if len(text) > BLOCK_BYTES or (is_last and text):
                raise FileError(f"{path}: row {before + count + 1}{_open_quote(text)}")
            numbers = np.setdiff1d(np.arange(count), list(wrong)) + before + 1 if skip else None
            unreadable = [
                UnreadableRow(before + index + 1, _line(rows[index], delimiter), what)
                for index, what in wrong.items()
            ]
            before += count
            yield RawChunk(columns, raw.tell() / size, numbers, unreadable)


def _read_header(path: Path, source: pa.NativeFile, delimiter: str) -> tuple[list[str], bytes]:
    """Return the names of the columns, and what was read behind them."""
    text, is_last = b"", False
    while not is_last:
        block = source.read(BLOCK_BYTES >> 2)
        is_last = not block
        text = (text + block).removeprefix(codecs.BOM_UTF8)
        if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise FileError(f"{path}: it is UTF-16: write it as UTF-8")
        rows, end = _rows(text, delimiter, is_last=is_last, limit=1)
        if rows:
            return rows[0], text[end:]
        if len(text) > BLOCK_BYTES:
            raise FileError(f"{path}: the header{_open_quote(text)}")
    raise FileError(f"{path}: there is no header line: write one, such as label,score")


def _plain_columns(
    text: bytes, width: int, places: dict[str, int], delimiter: str
) -> dict[str, pa.Array] | None:
    """Return the columns of whole lines; None where a line may not be a good row."""
    # Arrow takes a byte order mark at the start of a block for none of its content.
    if b'"' in text or text.startswith(codecs.BOM_UTF8):
        return None
    wanted = [str(place) for place in places.values()]
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(text),
            read_options=pyarrow.csv.ReadOptions(
                column_names=[str(place) for place in range(width)],
                block_size=len(text) + 1,
                use_threads=False,
            ),
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
            # Strings: `_rows` can then name the row of a bad value, Arrow's casts cannot.
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.string()),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    return {name: table[str(place)].combine_chunks() for name, place in places.items()}


def _rows(
    text: bytes, delimiter: str, *, is_last: bool, limit: int | None = None
) -> tuple[list[list[str]], int]:
    """Return the rows that end in a text, without empty lines, and how many bytes they take."""
    # What is no UTF-8 becomes halves of surrogate pairs, which cannot be encoded again.
    lines = io.StringIO(text.decode(errors="surrogateescape"), newline="").readlines()
    if lines and not is_last:
        lines.pop()  # it may go on
    is_ended = False

    def feed() -> Iterator[str]:
        nonlocal is_ended
        yield from lines
        is_ended = True

    csv.field_size_limit(2 * BLOCK_BYTES)
    reader = csv.reader(feed(), delimiter=delimiter)
    rows: list[list[str]] = []
    done = 0
    for row in reader:
        if is_ended:
            break  # inside quotes
        done = reader.line_num
        if row:
            rows.append(row)
        if len(rows) == limit:
            break
    return rows, len(_bytes("".join(lines[:done])))


def _wrong_rows(rows: list[list[str]], width: int, places: dict[str, int]) -> dict[int, str]:
    """Return what is wrong with each row that has no columns, by its place."""
    wrong = {}
    if not set(map(len, rows)) <= {width}:
        for index, row in enumerate(rows):
            if len(row) != width:
                wrong[index] = f"Expected {width} columns, got {len(row)}"
    for place in places.values():
        column = [row[place] if len(row) == width else "" for row in rows]
        if not _is_utf8("".join(column)):
            for index, value in enumerate(column):
                if not _is_utf8(value):
                    wrong[index] = f"it is not UTF-8: {_bytes(value)!r}"
    return wrong


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _columns(
    rows: list[list[str]], wrong: dict[int, str], places: dict[str, int]
) -> dict[str, pa.Array]:
    good = [row for index, row in enumerate(rows) if index not in wrong] if wrong else rows
    return {
        name: pa.array([row[place] for row in good], pa.string()) for name, place in places.items()
    }


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _line(row: list[str], delimiter: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="").writerow(row)
    return _bytes(text.getvalue())


def _open_quote(text: bytes) -> str:
    """Return what is wrong with a text that has no whole row."""
    if len(text) > BLOCK_BYTES:
        return f" is longer than {BLOCK_BYTES >> 20} MiB: is a quote left open?"
    return f": a quote is left open: {text[:40].decode(errors='replace')!r}"


def _check_header(path: Path, names: Sequence[str], header: list[str], delimiter: str) -> None:
    """Refuse a header without the columns; say so where it has another delimiter."""
    other = next((each for each in ";\t|," if each in header[0] and len(header) == 1), None)
    if other is not None and other != delimiter:
        shown = "'\\t'" if other == "\t" else f"'{other}'"
        raise FileError(f"{path}: its columns are separated by {shown}: give --delimiter {shown}")
    check_columns(path, names, header)
