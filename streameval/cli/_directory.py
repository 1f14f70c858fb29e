"""The files of a directory, as Spark and others write it: all of one kind, ordered by name.

Directories named ``key=value`` (Hive's partitions) give a constant column of text to the
files below them. Other names that begin with ``_`` or ``.`` are left out: markers, temporary files.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from streameval.cli._file_values import FileError
from streameval.cli._files import kind_of, read_columns
from streameval.cli._lakes import refuse_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from streameval.cli._chunks import RawChunk

_MISSING = "__HIVE_DEFAULT_PARTITION__"


class DirectoryFile(NamedTuple):
    """One file, the columns that its directories give it, and its share of all files."""

    path: Path
    constants: dict[str, str | None]
    before: float
    share: float

    def read(
        self,
        names: Sequence[str],
        *,
        skip: bool = False,
        delimiter: str = ",",
        id_name: str | None = None,
    ) -> Iterator[RawChunk]:
        """Yield the file's chunks, with the constant columns among those asked for.

        The options mean the same as in `read_columns`.

        Raises
        ------
        FileError
            For a file or column that cannot be read.
        """
        read = [name for name in names if name not in self.constants]
        if not read:
            raise FileError(f"{self.path}: all columns are its directories': name one of the file")
        for chunk in read_columns(self.path, read, skip=skip, delimiter=delimiter, id_name=id_name):
            size = len(chunk.columns[read[0]])
            constants = {
                name: pa.array([self.constants[name]] * size, pa.string())
                for name in names
                if name in self.constants
            }
            yield replace(
                chunk,
                columns=chunk.columns | constants,
                progress=self.before + self.share * chunk.progress,
            )


def files_of(path: Path) -> list[DirectoryFile]:
    """Return a file alone, or the files below a directory, in order of their paths.

    Directories and files are ordered by name, character by character: ``day=10`` is before
    ``day=2``, and capitals are before small letters.

    Raises
    ------
    FileError
        For a directory without such files, or with files of several kinds; for a table of which
        not all files count.
    """
    is_folder = path.is_dir()
    below = list(path.rglob("*")) if is_folder else []
    if is_folder or kind_of(path) == "Parquet":
        refuse_tables(path, below)
    if not is_folder:
        return [DirectoryFile(path, {}, 0.0, 1.0)]
    kinds: dict[str, list[Path]] = {}
    for each in below:
        kind = kind_of(each)
        if kind is not None and _is_data(each.relative_to(path)) and each.is_file():
            kinds.setdefault(kind, []).append(each)
    if not kinds:
        raise FileError(
            f"{path}: a directory without Parquet, NDJSON or CSV files: write its rows as one"
        )
    if len(kinds) > 1:
        raise FileError(f"{path}: a directory of {' and '.join(sorted(kinds))} files: use one kind")
    (found,) = kinds.values()
    share = 1 / len(found)
    return [
        DirectoryFile(each, _partition(each.relative_to(path).parent), number * share, share)
        for number, each in enumerate(sorted(found))
    ]


def _is_data(relative: Path) -> bool:
    # As Spark does: a partition's key may begin with "_".
    return not any(
        part.startswith(".") or (part.startswith("_") and "=" not in part)
        for part in relative.parts
    )


def _partition(relative: Path) -> dict[str, str | None]:
    pairs = [part.split("=", 1) for part in relative.parts if "=" in part]
    return {unquote(key): None if value == _MISSING else unquote(value) for key, value in pairs}
