"""Chunks of columns, and what all readers of files share: checks, errors, decompression."""

from __future__ import annotations

import os
import shlex
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from streameval.cli._file_values import ColumnError, FileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

BLOCK_BYTES = 4 << 20
"""Bytes of text read at once, and the longest row of text."""

PACKED = (".gz", ".zst")
"""The last suffixes of text files that may be compressed."""

_SIGNATURES = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""How compressed content begins: browsers unpack a file and leave its name as it was."""

_NO_TEXT = {
    b"PK\x03\x04": "a ZIP archive, or an Excel workbook: save the rows as CSV",
    b"\xd0\xcf\x11\xe0": "an Excel workbook: save the rows as CSV",
    b"PAR1\x15": "a Parquet file: name it .parquet",
    b"BZh91AY&SY": "packed by bzip2: unpack it",
    b"\xfd7zXZ\x00": "packed by xz: unpack it",
    b"\xff\xfe": "UTF-16: write it as UTF-8",
    b"\xfe\xff": "UTF-16: write it as UTF-8",
}
"""What other content is, by how it begins."""


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
            raise ColumnError(path, name, present)
        if present.count(name) > 1:
            raise FileError(
                f"{path}: column {name!r} occurs {present.count(name)} times: rename one"
            )


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[pa.NativeFile, pa.NativeFile]]:
    """Open a file of text that may be compressed; yield its content and the file itself.

    Raises
    ------
    FileError
        When it begins as a file of another kind does.
    """
    # Arrow's files, not Python's: Arrow's read-ahead thread may still run when the process
    # exits, and reading a Python file without the interpreter would abort the process.
    with pa.OSFile(os.fsencode(path)) as raw:
        head = raw.read(max(map(len, _NO_TEXT)))
        raw.seek(0)
        for signature, what in _NO_TEXT.items():
            if head.startswith(signature):
                new = path.with_name(f"{path.stem}.utf8{path.suffix}")
                words = shlex.quote(str(path)), shlex.quote(str(new))
                remedy = "iconv -f utf-16 -t utf-8 {} > {}".format(*words)
                is_text = what.startswith("UTF-16")
                raise FileError(f"{path}: it is {what}", remedy=remedy if is_text else "")
        codec = next((_SIGNATURES[each] for each in _SIGNATURES if head.startswith(each)), None)
        yield pa.CompressedInputStream(raw, codec) if codec else raw, raw
