"""Interprets a file's columns as scores, labels, ids, event times and segments.

Rows are numbered from 1 in each file, without the header; every error names the file
and the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from streameval.cli._columns import (
    LabelReader,
    Origin,
    read_clusters,
    read_groups,
    read_ids,
    read_scores,
    read_text,
    read_times,
    read_weighting,
)
from streameval.cli._directory import files_of
from streameval.cli._file_values import RowFault

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The names of a file's columns; None for a column that is not read.

    Attributes
    ----------
    score, label, id, time : str or None
        Names of columns.
    segments : tuple of str
        Names of the columns of segment values, which are the segment keys.
    by : tuple of str
        Names of the columns to group by, whose values may be missing.
    weight, label_probability, cluster : str or None
        Names of columns.
    positive, negative : str or None
        The labels of the classes; None for 1 and 0, and for the first other value.
    delimiter, decimal : str
        Of CSV: what separates its values, and what stands before the decimals of its numbers.
    time_unit : str
        The unit of times that are numbers; empty if it is not declared.
    """

    score: str | None = None
    label: str | None = None
    id: str | None = None
    time: str | None = None
    segments: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    positive: str | None = None
    negative: str | None = None
    weight: str | None = None
    label_probability: str | None = None
    cluster: str | None = None
    delimiter: str = ","
    decimal: str = "."
    time_unit: str = ""

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        named = (
            *(self.score, self.label, self.id, self.time, *self.segments, *self.by),
            *(self.weight, self.label_probability, self.cluster),
        )
        return list(dict.fromkeys(name for name in named if name is not None))


@dataclass(frozen=True, slots=True)
class FileRows:
    """Some checked rows of a file.

    Attributes
    ----------
    path : Path
        The file.
    numbers : int64[n]
        Their numbers in the file, from 1, ascending.
    scores : float64[n]
        Finite. Empty when the layout has no such column, like the others below.
    labels : bool[n]
    ids : list of str
    times : datetime64[us][n]
        UTC.
    segments : dict of str to list of str
    by : dict of str to list of (str or None)
        None where a value is missing or empty.
    weights, label_probability : float64[n] or None
        Checked; None when the layout has no such column, like the clusters.
    clusters : list of str or None
    count : int
        How many rows.
    progress : float
        Share of the file that has been read, in [0, 1].
    """

    path: Path
    numbers: npt.NDArray[np.int64]
    count: int
    progress: float
    scores: npt.NDArray[np.float64]
    labels: npt.NDArray[np.bool_]
    ids: list[str]
    times: npt.NDArray[np.datetime64]
    segments: dict[str, list[str]] = field(default_factory=dict)
    by: dict[str, list[str | None]] = field(default_factory=dict)
    weights: npt.NDArray[np.float64] | None = None
    label_probability: npt.NDArray[np.float64] | None = None
    clusters: list[str] | None = None

    def between(self, start: int, stop: int) -> FileRows:
        """Return the rows from one place to before another. O(stop - start)."""
        return self._each(lambda column: column[start:stop])

    def take(self, indices: npt.NDArray[np.intp]) -> FileRows:
        """Return the rows at some places. O(indices)."""

        def taken(column: Any) -> Any:
            if isinstance(column, np.ndarray):
                return column[indices]
            return [column[index] for index in indices]

        return self._each(taken)

    def _each(self, take: Callable[[Any], Any]) -> FileRows:
        """Return what a function returns of each column that there is."""

        def taken(column: Any) -> Any:
            return take(column) if column is not None and len(column) else column

        numbers = take(self.numbers)
        return replace(
            self,
            numbers=numbers,
            count=len(numbers),
            scores=taken(self.scores),
            labels=taken(self.labels),
            ids=taken(self.ids),
            times=taken(self.times),
            segments={key: taken(values) for key, values in self.segments.items()},
            by={key: taken(values) for key, values in self.by.items()},
            weights=taken(self.weights),
            label_probability=taken(self.label_probability),
            clusters=taken(self.clusters),
        )

    def weighting(self) -> dict[str, npt.NDArray[np.float64] | None]:
        """Return the keywords by which verbs take weights and label probabilities."""
        return {"weights": self.weights, "label_probability": self.label_probability}


def read_rows(path: Path, layout: FileColumns) -> Iterator[FileRows]:
    """Yield the rows of a file, or of all files of a directory, in chunks.

    Raises
    ------
    FileError
        For a file, column or row that cannot be read.
    """
    readers = column_readers(layout)
    for part in files_of(path):
        before = 0
        for chunk in part.read(layout.columns, delimiter=layout.delimiter, id_name=layout.id):
            count = len(chunk.columns[layout.columns[0]])
            place = Origin(part.path, np.arange(before + 1, before + count + 1, dtype=np.int64))
            yield interpret(chunk.columns, readers, place, progress=chunk.progress)
            before += count


ColumnReader = Callable[[Mapping[str, pa.Array], Origin], dict[str, Any]]
"""Returns fields of `FileRows` from columns at a place, or raises as `interpret` does."""


def column_readers(layout: FileColumns) -> list[ColumnReader]:
    """Return readers that together have all fields of a file's rows.

    Labels are read last: only a row whose other fields are good sets the negative class, which is
    the first value that is not positive.
    """
    labels = LabelReader(layout.positive, layout.negative, layout.decimal)

    def column(columns: Mapping[str, pa.Array], name: str | None) -> pa.Array:
        return pa.array([], pa.string()) if name is None else columns[name]

    def read_all_segments(columns: Mapping[str, pa.Array], place: Origin) -> dict[str, Any]:
        keys = layout.segments
        return {
            "segments": {key: read_text(columns[key], key, RowFault.SEGMENT, place) for key in keys}
        }

    def read_all_clusters(columns: Mapping[str, pa.Array], place: Origin) -> dict[str, Any]:
        name = layout.cluster
        return {"clusters": None if name is None else read_clusters(columns[name], place)}

    return [
        lambda columns, place: {
            "scores": read_scores(column(columns, layout.score), place, layout.decimal)
        },
        lambda columns, place: {"ids": read_ids(column(columns, layout.id), place)},
        lambda columns, place: {
            "times": read_times(
                column(columns, layout.time), place, layout.time or "time", layout.time_unit
            )
        },
        read_all_segments,
        lambda columns, place: {
            "by": {key: read_groups(columns[key], key, place) for key in layout.by}
        },
        read_all_clusters,
        lambda columns, place: read_weighting(
            columns,
            place,
            decimal=layout.decimal,
            weight=layout.weight,
            label_probability=layout.label_probability,
        ),
        lambda columns, place: {"labels": labels.read(column(columns, layout.label), place)},
    ]


def interpret(
    columns: Mapping[str, pa.Array],
    readers: Sequence[ColumnReader],
    place: Origin,
    *,
    progress: float,
) -> FileRows:
    """Return columns as rows. O(rows).

    Raises
    ------
    RowError
        For the first row that cannot be read.
    FileError
        For a column of a wrong kind.
    """
    fields: dict[str, Any] = {}
    for read in readers:
        fields |= read(columns, place)
    return FileRows(
        path=place.path,
        numbers=place.numbers,
        count=len(place.numbers),
        progress=progress,
        **fields,
    )
