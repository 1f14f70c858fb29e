"""Cuts files into pieces, which are the batches of a load.

The same content gives the same pieces each time, whatever sizes the readers' chunks have: a
piece ends after `PIECE_ROWS` rows, or `PIECE_BYTES`, and at the end of a file. So a load that
was broken off finds the place where it was, and a file that is added at the end of a
directory changes none of the pieces before it. Rows that are rejected are left out before
pieces are cut, so files without these rows would give the same pieces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval.cli._columns import Origin
from streameval.cli._file_values import RowFault
from streameval.cli._good_rows import read_good_rows
from streameval.cli._rows import read_rows
from streameval.client._buffer.buffer import Buffer
from streameval.client._buffer.case_verbs import CaseVerbs
from streameval.client._buffer.id_verbs import IdVerbs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from streameval.cli._rejects import RejectedRows
    from streameval.cli._rows import FileColumns, FileRows
    from streameval.client._buffer.columns import Columns
    from streameval.client._buffer.stream_buffer import StreamBuffer

PIECE_ROWS = 16_384
PIECE_BYTES = 1 << 20

_FIELD_REASONS = {
    "score": RowFault.SCORE,
    "label_prob": RowFault.WEIGHT,
    "label": RowFault.LABEL,
    "id": RowFault.ID,
    "at": RowFault.TIME,
    "weight": RowFault.WEIGHT,
    "cluster": RowFault.CLUSTER,
    "segment": RowFault.SEGMENT,
}
"""By what the field of a verb's error begins with."""


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Some rows of a file, as they are sent.

    Attributes
    ----------
    path : Path
    first_row, last_row : int
        In the file, from 1.
    rows : int
        How many rows of the file; those with a weight of 0 are not in `columns`.
    columns : Columns
        Checked, for one batch.
    positives, labels : int
        How many labels are positive, and how many are of rows of their own, by id.
    oldest, newest : datetime64 or None
        The earliest and the latest event time; None without times.
    progress : float
        Share of all files that has been read, in [0, 1].
    """

    path: Path
    first_row: int
    last_row: int
    rows: int
    columns: Columns
    positives: int
    labels: int
    oldest: np.datetime64 | None
    newest: np.datetime64 | None
    progress: float


def read_pieces(
    path: Path, layout: FileColumns, stream: str, rejects: RejectedRows | None = None
) -> Iterator[FilePiece]:
    """Yield the pieces of a file, or of all files of a directory.

    Memory holds a chunk and a piece.

    Parameters
    ----------
    path : Path
    layout : FileColumns
    stream : str
    rejects : RejectedRows, optional
        Takes the rows that cannot be counted; without it, the first one is an error.

    Raises
    ------
    FileError
        For a file, column or row that cannot be read, and for values that no stream takes.
    """
    checks = _RowChecks(stream, layout)
    if rejects is None:
        chunks = read_rows(path, layout)
    else:
        chunks = read_good_rows(path, layout, checks.checked_by(rejects), rejects.add)
    held: list[FileRows] = []
    size = 0
    for chunk in chunks:
        if held and chunk.path != held[0].path:
            yield from checks.pieces(_joined(held))
            held, size = [], 0
        held.append(chunk)
        size += chunk.count
        if size >= PIECE_ROWS:
            rows = _joined(held)
            whole = size - size % PIECE_ROWS
            for start in range(0, whole, PIECE_ROWS):
                yield from checks.pieces(rows.between(start, start + PIECE_ROWS))
            held, size = [rows.between(whole, size)] if whole < size else [], size - whole
    if held:
        yield from checks.pieces(_joined(held))


class _CheckedColumns(Buffer):
    """Stands where a client's buffer stands: hands out what a verb has checked."""

    def __init__(self) -> None:
        super().__init__(capacity=1, batch_rows=1, when_full="drop", start=lambda: False)
        self.checked: list[Any] = []

    def add_rows(self, stream: StreamBuffer, rows: Any) -> None:  # noqa: ARG002 - the signature
        self.checked.append(rows)


class _RowChecks(CaseVerbs, IdVerbs):
    """Checks rows as the client's verbs do, and cuts them to the size of a batch."""

    def __init__(self, stream: str, layout: FileColumns) -> None:
        columns = _CheckedColumns()
        super().__init__(columns, stream)
        self._columns = columns
        self._layout = layout

    def pieces(self, rows: FileRows) -> Iterator[FilePiece]:
        """Yield rows as one piece, or as several if they are long.

        Rows are cut as they are in the file, before those with a weight of 0 are left out.
        """
        if not rows.count:
            return
        columns = self._check(rows)
        if columns.wire_bytes > PIECE_BYTES and rows.count > 1:
            middle = rows.count // 2
            yield from self.pieces(rows.between(0, middle))
            yield from self.pieces(rows.between(middle, rows.count))
            return
        yield FilePiece(
            rows.path,
            int(rows.numbers[0]),
            int(rows.numbers[-1]),
            rows.count,
            columns,
            positives=int(rows.labels.sum()),
            labels=rows.count if self._layout.score is None else 0,
            oldest=rows.times.min() if rows.times.size else None,
            newest=rows.times.max() if rows.times.size else None,
            progress=rows.progress,
        )

    def checked_by(self, rejects: RejectedRows) -> Callable[[FileRows], None]:
        """Return what raises RowError for the first row that a stream or `rejects` refuses."""

        def check(rows: FileRows) -> None:
            self._check(rows)
            rejects.check(rows)

        return check

    def _check(self, rows: FileRows) -> Columns:
        layout = self._layout
        at = rows.times if layout.time is not None else None
        segments = rows.segments or None
        try:
            if layout.id is None:
                self.add_cases(
                    labels=rows.labels,
                    scores=rows.scores,
                    at=at,
                    segments=segments,
                    clusters=rows.clusters,
                    **rows.weighting(),
                )
            elif layout.score is None:
                self.label_cases(ids=rows.ids, labels=rows.labels, **rows.weighting())
            else:
                self.log_cases(
                    ids=rows.ids,
                    scores=rows.scores,
                    at=at,
                    segments=segments,
                    clusters=rows.clusters,
                )
        except InvalidInputError as error:
            place = Origin(rows.path, rows.numbers)
            if error.index is None:
                raise place.column_error(str(error)) from None
            what = str(error).replace(f" at index {error.index}", "")
            raise place.row_error(error.index, _reason(error.field), what) from None
        (columns,) = self._columns.checked
        self._columns.checked.clear()
        if at is None and layout.score is not None:
            # The stamp would differ each time: without one, the server dates the rows.
            columns = replace(columns, times=None)
        result: Columns = columns
        return result


def _reason(field: str) -> RowFault:
    """Return the reason of a row, by the argument of a verb that refuses it."""
    return next(reason for name, reason in _FIELD_REASONS.items() if field.startswith(name))


def _joined(parts: Sequence[FileRows]) -> FileRows:
    first, last = parts[0], parts[-1]
    if first is last:
        return first

    def arrays(name: str) -> Any:
        columns = [getattr(each, name) for each in parts]
        return None if columns[0] is None else np.concatenate(columns)

    return replace(
        first,
        numbers=arrays("numbers"),
        progress=last.progress,
        count=sum(each.count for each in parts),
        scores=arrays("scores"),
        labels=arrays("labels"),
        ids=[id_ for each in parts for id_ in each.ids],
        times=arrays("times"),
        segments={
            key: [value for each in parts for value in each.segments[key]] for key in first.segments
        },
        weights=arrays("weights"),
        label_probability=arrays("label_probability"),
        clusters=(
            None
            if first.clusters is None
            else [key for each in parts for key in each.clusters or ()]
        ),
    )
