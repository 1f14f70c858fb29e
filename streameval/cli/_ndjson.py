"""Reads NDJSON: one JSON object a line, its keys as columns.

A column of numbers or of booleans stays one, as Parquet has it; every other column becomes text
as CSV has it. So `_rows` interprets all files alike and names the row of a bad value. A key that
an object lacks, and null, is a missing value.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from streameval._common.names import id_of
from streameval.cli._chunks import (
    BLOCK_BYTES,
    RawChunk,
    UnreadableRow,
    check_columns,
    unpacked,
)
from streameval.cli._file_values import ROWS_PER_CHUNK, FileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def read_objects(
    path: Path, names: Sequence[str], *, skip: bool = False, id_name: str | None = None
) -> Iterator[RawChunk]:
    """Yield the chunks of a file.

    Parameters
    ----------
    path : Path
    names : sequence of str
    skip : bool
        Whether to leave out the lines that are no JSON object or whose id is none, and to return
        them apart.
    id_name : str or None
        The key whose values are ids.

    Raises
    ------
    FileError
        For a line that is no JSON object or whose id is none, and when the first chunk that has
        objects has a column nowhere.
    """
    size = max(path.stat().st_size, 1)
    is_checked = False
    with unpacked(path) as (source, raw):
        lines = enumerate((line for line in _lines(path, source) if line.strip()), start=1)
        while chunk := list(islice(lines, ROWS_PER_CHUNK)):
            objects: list[dict[str, Any]] = []
            numbers: list[int] = []
            unreadable: list[UnreadableRow] = []
            for number, line in chunk:
                try:
                    objects.append(_with_id(_object(line, number), id_name))
                except (ValueError, TypeError) as error:
                    if not skip:
                        raise FileError(f"{path}: row {number}: {error}") from None
                    unreadable.append(UnreadableRow(number, line, str(error)))
                else:
                    numbers.append(number)
            if objects and not is_checked:
                check_columns(path, names, list(dict.fromkeys(k for each in objects for k in each)))
                is_checked = True
            columns = {name: _column([each.get(name) for each in objects]) for name in names}
            yield RawChunk(
                columns,
                raw.tell() / size,
                np.array(numbers, dtype=np.int64) if skip else None,
                unreadable,
            )


def _lines(path: Path, source: pa.NativeFile) -> Iterator[bytes]:
    """Yield the lines of a file, none longer than a block."""
    rest = b""
    while block := source.read(BLOCK_BYTES):
        pieces: list[bytes] = (rest + block).split(b"\n")
        # Only the first may have begun in an earlier block.
        if len(pieces[0]) > BLOCK_BYTES:
            raise FileError(f"{path}: a row is longer than {BLOCK_BYTES >> 20} MiB")
        rest = pieces.pop()
        yield from pieces
    yield rest


def _object(line: bytes, row: int) -> dict[str, Any]:
    """Return the object of a line; raise ValueError or TypeError where it has none."""
    try:
        text = line.decode("utf-8-sig" if row == 1 else "utf-8")
        value = json.loads(text, parse_float=_Float)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: {error.object[error.start : error.end]!r}") from None
    # ValueError: invalid JSON, and numbers of thousands of digits.
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise TypeError("it is not a JSON object, {...}")
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise ValueError(f"it is not Unicode: {half!r} is half a surrogate pair") from None
    return value


def _with_id(row: dict[str, Any], name: str | None) -> dict[str, Any]:
    """Return an object whose id is a text; raise InvalidInputError where it has another.

    What an id is does not depend on the rows around it: in a column with texts, numbers would
    become text as they are written.
    """
    value = None if name is None else row.get(name)
    if name is not None and value is not None and not isinstance(value, str):
        row[name] = id_of(value)
    return row


class _Float(float):
    """A number with a point or an exponent, and how it is written.

    Its text is an integer's where it is exactly one: so 17.0 is the id 17, and two ids of more
    digits than a float has stay two.
    """

    def __init__(self, written: str) -> None:
        is_whole = self.is_integer() and abs(self) < 1 << 53
        self.text = str(int(self)) if is_whole else written


def _column(values: list[Any]) -> pa.Array:
    """Return values as numbers or booleans if all are, and no number is changed; else as text."""
    kinds = set(map(type, values)) - {type(None)}
    try:
        if kinds in ({bool}, {int}):
            return pa.array(values)
        is_exact = all(abs(each) < 1 << 53 for each in values if type(each) is int)
        if kinds and kinds <= {int, float, _Float} and is_exact:
            return pa.array(values, pa.float64())
    except (pa.ArrowInvalid, OverflowError):
        pass  # integers of more than 64 bits
    return pa.array([_text(each) for each in values], pa.string())


def _text(value: Any) -> str | None:
    """Return a value as CSV would have it; JSON for nested ones."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, _Float):
        return value.text
    return json.dumps(value)
