"""Chunks of columns, and what all readers of files share: checks, errors, decompression."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from streameval.cli._file_values import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

BLOCK_BYTES = 4 << 20
"""Bytes of text read at once, and the longest row of text."""

PACKED = {".gz": "gzip", ".zst": "zstd"}
"""Compression of text files by their last suffix."""

_MAX_SHOWN_NAMES = 20


class UnreadableRow(NamedTuple):
    """A row that has no columns: its number in the file from 1, its text, and what is wrong."""

    number: int
    text: bytes
    what: str


@dataclass(frozen=True, slots=True)
class RawChunk:
    """Some rows of a file.

    Attributes
    ----------
    columns : dict of str to pyarrow.Array
        The requested columns, of equal length.
    progress : float
        Share of the file that has been read, in [0, 1].
    numbers : int64[n] or None
        The numbers of the rows in the file, from 1; None where none was left out before.
    unreadable : sequence of UnreadableRow
        The rows that were left out; none unless the reader was asked to.
    """

    columns: dict[str, pa.Array]
    progress: float
    numbers: npt.NDArray[np.int64] | None = None
    unreadable: Sequence[UnreadableRow] = ()


def check_columns(path: Path, wanted: Sequence[str], present: list[str]) -> None:
    """Refuse a file that lacks a column, or has it twice."""
    for name in wanted:
        if name not in present:
            shown = ", ".join(present[:_MAX_SHOWN_NAMES])
            more = (
                f" and {len(present) - _MAX_SHOWN_NAMES} more"
                if len(present) > _MAX_SHOWN_NAMES
                else ""
            )
            raise FileError(f"{path}: no column {name!r}; it has {shown}{more}")
        if present.count(name) > 1:
            raise FileError(f"{path}: column {name!r} occurs {present.count(name)} times")


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[pa.NativeFile, pa.NativeFile]]:
    """Open a file that may be compressed; yield its content and the file itself."""
    # Arrow's files, not Python's: Arrow's read-ahead thread may still run when the process
    # exits, and reading a Python file without the interpreter would abort the process.
    with pa.OSFile(os.fsencode(path)) as raw:
        codec = PACKED.get(path.suffix.lower())
        yield pa.CompressedInputStream(raw, codec) if codec else raw, raw
