"""Output of the commands: tables, JSON, progress bars."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, BinaryIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from streameval._common.errors import StreamEvalError
from streameval._common.spans import format_span
from streameval._metric_registry import Place, title_of
from streameval.cli._file_values import FileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from streameval._breakdown.groups import GroupRanking
    from streameval._snapshot import Snapshot
    from streameval.client import StreamReliability

REASONS = {
    "EMPTY": "no labelled cases",
    "NO_POSITIVES": "no positives yet",
    "NO_NEGATIVES": "no negatives yet",
    "TOO_FEW": "too few cases",
    "TOO_FEW_EFFECTIVE": "too few effective cases",
    "TOO_FEW_CLUSTERS": "too few clusters",
    "TOO_COARSE": "clusters keep too few bits of the scores",
    "NOT_PROBABILITIES": "scores are no probabilities",
    "NO_THRESHOLD": "no threshold",
    "NO_COSTS": "no costs",
}

_NO_LIMIT = 100_000


def console() -> Console:
    """Return a console of standard output; in a pipe, tables are as wide as their names."""
    is_limited = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(highlight=False, width=None if is_limited else _NO_LIMIT)


out = console()
err = Console(stderr=True, highlight=False)


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[..., None]]:
    """Show a bar on a terminal's stderr; yield a function that sets it.

    It takes the share that is done, in [0, 1], and for a speed how many rows that was.
    """
    if not err.is_terminal:
        yield lambda _share, _rows=0: None
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )
    task = bar.add_task(title, total=1.0, speed="")

    def show(share: float, rows: int = 0) -> None:
        elapsed_s = bar.tasks[0].elapsed
        speed = f"{rows / elapsed_s:,.0f} rows/s" if rows and elapsed_s else ""
        bar.update(task, completed=share, speed=speed)

    with bar:
        yield show


def print_json(values: object) -> None:
    """Print strict JSON, without NaN, in the order of the values."""
    print(json.dumps(values, indent=2, allow_nan=False))


def say(text: str) -> None:
    """Print a line as it is, however long."""
    out.print(text, soft_wrap=True, markup=False)


def print_table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, names: int = 1) -> None:
    """Print rows below their titles; the first `names` columns are not wrapped."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for place, title in enumerate(titles):
        table.add_column(title, no_wrap=place < names)
    for row in rows:
        table.add_row(*map(Text, row))
    out.print(table)


def print_values(values: Mapping[str, Any]) -> None:
    """Print settings or counters, one a line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    for name, value in values.items():
        shown = format_span(value) if isinstance(value, timedelta) else value
        shown = ", ".join(shown) if isinstance(shown, tuple) else shown
        table.add_row(name.replace("_", " "), Text("none" if shown in ("", None) else str(shown)))
    out.print(table)


@contextmanager
def standard_output() -> Iterator[BinaryIO]:
    """Yield standard output for bytes, flushed at the end.

    Raises
    ------
    StreamEvalError
        When it is a terminal, or its reader ends early.
    """
    if sys.stdout.isatty():
        raise StreamEvalError("- writes bytes to standard output: redirect it, or give a file")
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The interpreter flushes again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise FileError("what read standard output ended early: it is incomplete") from None


def print_backup(file: Path | None, revision: int, size: int, digest: str) -> None:
    """Print the revision, size and hash of a backup: on stderr where it is standard output."""
    console, target = (err, "standard output") if file is None else (out, file)
    console.print(
        f"revision {revision} is in {target}: {size:,} bytes", soft_wrap=True, markup=False
    )
    console.print(f"sha256 {digest}", soft_wrap=True)


def print_snapshot(snapshot: Snapshot, *, heading: str) -> None:
    """Print a snapshot as a table, with intervals and, if scores kept few bits, bounds."""
    out.print(heading, soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column("95 % interval", justify="right")
    if snapshot.resolution is not None:
        table.add_column("exact figure within", justify="right")
    rates = [name for name in Place.DECISION.names() if name in snapshot.figures]
    for name in (*Place.SUMMARY.names(), *rates):
        title = title_of(name)
        reason = snapshot.reasons.get(name)
        if reason is not None:
            table.add_row(title, REASONS[reason])
            continue
        value = snapshot.figures[name] if name in rates else getattr(snapshot, name)
        cells = [title, f"{value:.6f}", _interval(snapshot, name)]
        if snapshot.resolution is not None and name in snapshot.bounds:
            lower, upper = snapshot.bounds[name]
            cells.append(f"{lower:.6f} to {upper:.6f}")
        table.add_row(*cells)
    if snapshot.operating_point is not None:
        table.add_row("Declared threshold", f"{snapshot.operating_point.threshold:g}")
    table.add_row("Positives", f"{snapshot.num_positive_ref:,}")
    table.add_row("Negatives", f"{snapshot.num_negative_ref:,}")
    misses = snapshot.num_misses + snapshot.num_negative_misses
    if misses:
        table.add_row("Of them never scored", f"{misses:,}")
    if snapshot.resolution is not None:
        table.add_row("Bits of a score kept", f"{snapshot.resolution}")
    out.print(table)
    if snapshot.weights is not None:
        out.print(f"{snapshot.weights}", soft_wrap=True)
    if snapshot.projection is not None:
        out.print(f"{snapshot.projection}", soft_wrap=True, markup=False)
    _print_notes(snapshot)


def print_reliability(found: StreamReliability, *, heading: str) -> None:
    """Print a reliability table and its figures."""
    out.print(heading, soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("scores", "cases", "positives", "mean score", "observed", "95 % interval"):
        table.add_column(title, justify="right")
    for row in found.to_rows():
        table.add_row(
            f"{row['lower']:.4g} to {row['upper']:.4g}",
            f"{row['counts']:,}",
            f"{row['positives']:,}",
            f"{row['mean_score']:.4f}",
            f"{row['observed_rate']:.4f}",
            f"{row['rate_lower']:.4f} to {row['rate_upper']:.4f}",
        )
    out.print(table)
    out.print(
        f"{found.observed_positives:,} positives, {found.expected_positives:,.1f} expected: "
        f"ratio {found.observed_expected_ratio:.4f}",
        soft_wrap=True,
    )
    out.print(f"calibration error {found.calibration_error:.4f}", soft_wrap=True)
    _print_notes(found)


def _print_notes(snapshot: Snapshot | StreamReliability) -> None:
    """Print the time that a snapshot covers, its labels and its warnings."""
    if snapshot.window is not None:
        start, end = (f"{time:%Y-%m-%d %H:%M:%S}" for time in snapshot.window)
        out.print(f"covers {start} to {end} UTC", soft_wrap=True)
    if snapshot.coverage is not None:
        out.print(f"{snapshot.coverage}", soft_wrap=True)
    for warning in snapshot.warnings:
        out.print(f"note: {warning}", soft_wrap=True, markup=False)


def print_ranking(ranking: GroupRanking, *, heading: str) -> None:
    """Print groups as a table, in their order."""
    out.print(heading, soft_wrap=True, markup=False)
    out.print(str(ranking), soft_wrap=True, markup=False)


def _interval(snapshot: Snapshot, name: str) -> str:
    interval = snapshot.intervals.get(name)
    if interval is None:
        return ""
    if interval.reason is not None:
        return f"no interval: {interval.reason}"
    return f"{interval.lower:.4f} to {interval.upper:.4f}"
