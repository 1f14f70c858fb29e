"""Refuses tables of Delta Lake, Apache Iceberg and Apache Hudi.

Their folders keep the files of rows that were replaced or deleted: which files are the table is
written in a log that their own libraries read.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from streameval.cli._file_values import FileError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class _Lake(NamedTuple):
    """A kind of table: its name, where its log is, and what reads its current rows."""

    name: str
    mark: str
    package: str
    imports: str
    read: str


_DELTA = _Lake(
    "Delta Lake",
    "_delta_log",
    "deltalake",
    "deltalake",
    "deltalake.DeltaTable(sys.argv[1]).to_pyarrow_table()",
)
_HUDI = _Lake(
    "Apache Hudi",
    ".hoodie",
    "hudi",
    "hudi",
    "pyarrow.Table.from_batches(hudi.HudiTable(sys.argv[1]).read())",
)
_ICEBERG = _Lake(
    "Apache Iceberg",
    "metadata",
    "'pyiceberg[pyarrow]'",
    "pyiceberg.table",
    "pyiceberg.table.StaticTable.from_metadata(sys.argv[1]).scan().to_arrow()",
)
_METADATA = re.compile(r"v?(\d+).*\.metadata\.json(\.gz)?")


def refuse_tables(path: Path, below: Iterable[Path]) -> None:
    """Refuse a path that is a table, or lies in one, or has one below it. O(paths).

    Parameters
    ----------
    path : Path
        What the user named.
    below : iterable of Path
        All that is below it.

    Raises
    ------
    FileError
        With a command that writes the table's rows to a file.
    """
    for folder in dict.fromkeys((path, *path.parents, *path.absolute().parents)):
        for lake in (_DELTA, _HUDI, _ICEBERG):
            if os.path.isdir(folder / lake.mark):  # noqa: PTH112 - no error without access
                _refuse(path, folder / lake.mark, lake)
    for each in below:
        for lake in (_DELTA, _HUDI, _ICEBERG):
            if each.name == lake.mark:
                _refuse(path, each, lake)


def _refuse(path: Path, log: Path, lake: _Lake) -> None:
    """Refuse a table by the folder of its log; a folder of that name may be another one's."""
    table: Path = log.parent
    if lake is _ICEBERG:
        found = log.glob("*.metadata.json*")
        names = [match for each in found if (match := _METADATA.fullmatch(each.name))]
        if not names:
            return
        table = log / max(names, key=lambda each: int(each[1]))[0]
    # Next to the table: in it, the file would be refused as a part of it.
    rows = log.parent.absolute() if log.parent.name in ("", "..") else log.parent
    rows = rows.with_name(f"{rows.name}.rows.parquet")
    script = (
        f"import sys, pyarrow.parquet, {lake.imports}; "
        f"pyarrow.parquet.write_table({lake.read}, sys.argv[2])"
    )
    raise FileError(
        f"{path}: {log} makes it a table of {lake.name}, whose folder also has the files of "
        "replaced and deleted rows. Write its rows to a file, and give that",
        remedy=f"pip install pyarrow {lake.package} && python -c {shlex.quote(script)} "
        f"{shlex.quote(str(table))} {shlex.quote(str(rows))}",
    )
