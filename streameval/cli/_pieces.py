"""Cuts files into pieces, which are the batches of a load.

The same content gives the same pieces each time, whatever sizes the readers' chunks have: a
piece ends after `PIECE_ROWS` rows, or `PIECE_BYTES`, and at the end of a file. So a load that
was broken off finds the place where it was, and a file that is added at the end of a
directory changes none of the pieces before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval.cli._file_values import FileError
from streameval.cli._rows import read_rows
from streameval.client._buffer.buffer import Buffer
from streameval.client._buffer.case_verbs import CaseVerbs
from streameval.client._buffer.id_verbs import IdVerbs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from streameval.cli._rows import Layout, Rows
    from streameval.client._buffer.columns import Columns
    from streameval.client._buffer.stream_buffer import StreamBuffer

PIECE_ROWS = 16_384
PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a file, as they are sent.

    Attributes
    ----------
    path : Path
    first_row : int
        In the file, from 1.
    rows : int
        How many rows of the file; those with a weight of 0 are not in `columns`.
    columns : Columns
        Checked, for one batch.
    oldest : datetime64 or None
        The earliest event time; None without times.
    progress : float
        Share of all files that has been read, in [0, 1].
    """

    path: Path
    first_row: int
    rows: int
    columns: Columns
    oldest: np.datetime64 | None
    progress: float


def read_pieces(path: Path, layout: Layout, stream: str) -> Iterator[Piece]:
    """Yield the pieces of a file, or of all files of a directory.

    Memory holds a chunk and a piece.

    Raises
    ------
    FileError
        For a file, column or row that cannot be read, and for values that no stream takes.
    """
    checks = _RowChecks(stream, layout)
    held: list[Rows] = []
    size = 0
    for chunk in read_rows(path, layout):
        if held and chunk.path != held[0].path:
            yield from checks.pieces(_joined(held))
            held, size = [], 0
        held.append(chunk)
        size += chunk.count
        if size >= PIECE_ROWS:
            rows = _joined(held)
            whole = size - size % PIECE_ROWS
            for start in range(0, whole, PIECE_ROWS):
                yield from checks.pieces(_slice(rows, start, start + PIECE_ROWS))
            held, size = [_slice(rows, whole, size)] if whole < size else [], size - whole
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

    def __init__(self, stream: str, layout: Layout) -> None:
        columns = _CheckedColumns()
        super().__init__(columns, stream)
        self._columns = columns
        self._layout = layout

    def pieces(self, rows: Rows) -> Iterator[Piece]:
        """Yield rows as one piece, or as several if they are long.

        Rows are cut as they are in the file, before those with a weight of 0 are left out.
        """
        if not rows.count:
            return
        columns = self._check(rows)
        if columns.wire_bytes > PIECE_BYTES and rows.count > 1:
            middle = rows.count // 2
            yield from self.pieces(_slice(rows, 0, middle))
            yield from self.pieces(_slice(rows, middle, rows.count))
            return
        oldest = rows.times.min() if rows.times.size else None
        yield Piece(rows.path, rows.first_row, rows.count, columns, oldest, rows.progress)

    def _check(self, rows: Rows) -> Columns:
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
            row = rows.first_row + (error.index or 0)
            what = str(error).replace(f" at index {error.index}", "")
            raise FileError(f"{rows.path}: row {row}: {what}") from None
        (columns,) = self._columns.checked
        self._columns.checked.clear()
        if at is None and layout.score is not None:
            # The stamp would differ each time: without one, the server dates the rows.
            columns = replace(columns, times=None)
        result: Columns = columns
        return result


def _slice(rows: Rows, start: int, stop: int) -> Rows:
    return replace(
        rows,
        first_row=rows.first_row + start,
        count=stop - start,
        scores=rows.scores[start:stop],
        labels=rows.labels[start:stop],
        ids=rows.ids[start:stop],
        times=rows.times[start:stop],
        segments={key: values[start:stop] for key, values in rows.segments.items()},
        weights=None if rows.weights is None else rows.weights[start:stop],
        label_probability=(
            None if rows.label_probability is None else rows.label_probability[start:stop]
        ),
        clusters=None if rows.clusters is None else rows.clusters[start:stop],
    )


def _joined(parts: Sequence[Rows]) -> Rows:
    first, last = parts[0], parts[-1]
    if first is last:
        return first

    def arrays(name: str) -> Any:
        columns = [getattr(each, name) for each in parts]
        return None if columns[0] is None else np.concatenate(columns)

    return replace(
        first,
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
