"""The file of a push's rejected rows, and their counts by reason.

Before anything is sent, a pass checks the files and replaces this file as a whole: so
a push that is broken off at any moment and run again neither doubles nor loses a row in it.

Which rows are rejected depends on the files alone, except for rows dated in the future: some
minutes later they would be accepted. They stay rejected while this file lists them, so that a
load that continues cuts the same pieces.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.atomic_file import write_atomically
from streameval._common.errors import StreamEvalError
from streameval.cli._columns import Origin
from streameval.cli._file_values import RowFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streameval.cli._good_rows import BadRow
    from streameval.cli._rows import FileRows

SUFFIXES = (".ndjson", ".jsonl")
MAX_FUTURE = np.timedelta64(5, "m")
"""How far ahead of now a time may lie, as servers allow it."""

Row = tuple[str, int]
"""The path of a file and the number of a row."""


class RejectedRows:
    """The rejected rows of one pass over the files.

    Parameters
    ----------
    write : callable
        Called with the line of each.
    latest : datetime64
        Rows with a later time are rejected.
    earlier : set of tuple of str and int
        Rows that were rejected for their time before.

    Attributes
    ----------
    counts : Counter of RowFault
    first : dict of RowFault to str
        The first row of each reason, and what is wrong with it.
    """

    def __init__(
        self, write: Callable[[str], object], latest: np.datetime64, earlier: frozenset[Row]
    ) -> None:
        self.counts: Counter[RowFault] = Counter()
        self.first: dict[RowFault, str] = {}
        self._write = write
        self._latest = latest
        self._earlier = earlier

    def add(self, bad: BadRow) -> None:
        """Write a row, and count it."""
        if not self.counts[bad.reason]:
            self.first[bad.reason] = f"{bad.path}: row {bad.number}: {bad.what}"
        self.counts[bad.reason] += 1
        line = bad.values | {
            "streameval_reason": bad.reason.value,
            "streameval_message": bad.what,
            "streameval_file": _name(bad.path),
            "streameval_row": bad.number,
        }
        self._write(json.dumps(line, allow_nan=False) + "\n")

    def check(self, rows: FileRows) -> None:
        """Raise RowError for the first row whose time lies in the future, or did. O(rows)."""
        if not rows.times.size:
            return
        is_late = rows.times > self._latest
        if self._earlier:
            name = _name(rows.path)
            is_late |= [(name, number) in self._earlier for number in rows.numbers.tolist()]
        if is_late.any():
            index = int(np.argmax(is_late))
            what = f"event time must not lie in the future, got {rows.times[index]}Z"
            raise Origin(rows.path, rows.numbers).row_error(index, RowFault.STORE, what)


class RejectsFile:
    """Where a push writes its rejected rows.

    Parameters
    ----------
    path : Path
    inputs : sequence of Path
        The files and directories that are pushed.

    Raises
    ------
    StreamEvalError
        When the path does not name an NDJSON file, is one of the inputs, or has other content.
    """

    def __init__(self, path: Path, inputs: Sequence[Path]) -> None:
        if not path.name.lower().endswith(SUFFIXES):
            raise StreamEvalError(
                f"--rejects must name an NDJSON file, {' or '.join(SUFFIXES)}, got {path}"
            )
        target = path.resolve()
        for each in inputs:
            if target == each.resolve() or each.resolve() in target.parents:
                raise StreamEvalError(
                    f"--rejects {path} is among the files to push, {each}: write it elsewhere"
                )
        self.path = path
        self._latest = np.datetime64("now", "us") + MAX_FUTURE
        self._earlier = _earlier(path)

    @contextmanager
    def writing(self) -> Iterator[RejectedRows]:
        """Take the rejected rows of the first pass; replace the file when it ends without error."""
        with (
            write_atomically(self.path, replace=True) as partial,
            partial.open("w", encoding="utf-8") as text,
        ):
            yield RejectedRows(text.write, self._latest, self._earlier)

    def counting(self) -> RejectedRows:
        """Return what takes the rejected rows of a later pass: they are in the file already."""
        return RejectedRows(len, self._latest, self._earlier)


def _earlier(path: Path) -> frozenset[Row]:
    """Return the rows of an earlier file that were rejected for their time. O(its rows)."""
    if not path.exists():
        return frozenset()
    found = set()
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                if row["streameval_reason"] == RowFault.STORE.value:
                    found.add((str(row["streameval_file"]), int(row["streameval_row"])))
    except (ValueError, KeyError, TypeError):
        raise StreamEvalError(
            f"{path} exists, and is no file of rejected rows: move it, or write to another name"
        ) from None
    return frozenset(found)


def _name(path: Path) -> str:
    return str(path.resolve())
