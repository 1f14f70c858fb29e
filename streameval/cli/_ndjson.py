"""Reads NDJSON: one JSON object a line, its keys as columns of text.

Values become text as CSV has it, so that `_rows` interprets both alike and names the row
of a bad one. A key that an object lacks, and null, is a missing value.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streameval.cli._chunks import BLOCK_BYTES, RawChunk, check_columns, unpacked
from streameval.cli._file_values import ROWS_PER_CHUNK, FileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def read_objects(path: Path, names: Sequence[str]) -> Iterator[RawChunk]:
    """Yield the chunks of a file.

    Raises
    ------
    FileError
        For a line that is no JSON object, and when the first chunk has a column nowhere.
    """
    size = max(path.stat().st_size, 1)
    with unpacked(path) as (source, raw):
        rows = (line for line in _lines(path, source) if line.strip())
        for number, chunk in enumerate(iter(lambda: list(islice(rows, ROWS_PER_CHUNK)), [])):
            objects = [
                _object(path, line, number * ROWS_PER_CHUNK + index)
                for index, line in enumerate(chunk, start=1)
            ]
            if number == 0:
                check_columns(path, names, list(dict.fromkeys(k for each in objects for k in each)))
            columns = {
                name: pa.array([_text(each.get(name)) for each in objects], pa.string())
                for name in names
            }
            yield RawChunk(columns, raw.tell() / size)


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


def _object(path: Path, line: bytes, row: int) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8-sig" if row == 1 else "utf-8"))
    # ValueError: invalid JSON or UTF-8, and numbers of thousands of digits.
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: row {row}: it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise FileError(f"{path}: row {row}: it is not a JSON object, {{...}}")
    return value


def _text(value: Any) -> str | None:
    """Return a value as CSV would have it; JSON for nested ones."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
