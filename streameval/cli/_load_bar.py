"""The progress line of a load on a terminal: share, rows per second, time left."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from streameval.cli import _output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Task, TaskID

    from streameval.cli._pieces import Piece


class LoadProgress:
    """What a load has done; shown when there is a terminal."""

    def __init__(self, bar: Progress | None, task: TaskID | None) -> None:
        self._bar = bar
        self._task = task
        self._rows = 0

    def count(self, piece: Piece) -> None:
        """Count the rows of a piece."""
        self._rows += piece.rows

    def show(self, share: float) -> None:
        """Show the share of all files that is done, in [0, 1], and the rows so far."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=share, rows=self._rows)


class _RowsPerSecond(ProgressColumn):
    """Rows per second since the beginning."""

    def render(self, task: Task) -> Text:
        """Return the column of a task."""
        elapsed_s = task.elapsed
        rate = task.fields["rows"] / elapsed_s if elapsed_s else 0.0
        return Text(f"{rate:,.0f} rows/s")


@contextmanager
def load_bar(title: str) -> Iterator[LoadProgress]:
    """Show a line on a terminal's stderr while the block runs; nothing elsewhere."""
    if not _output.err.is_terminal:
        yield LoadProgress(None, None)
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        _RowsPerSecond(),
        TimeRemainingColumn(),
        console=_output.err,
        transient=True,
    )
    with bar:
        yield LoadProgress(bar, bar.add_task(title, total=1.0, rows=0))
