"""What the commands print: tables for people, JSON for programs, one line for errors."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from streameval._errors import StreamEvalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streameval._snapshot import Snapshot

WRONG_INPUT = 2

TITLES = {
    "auc_pr": "AUC-PR, interpolated",
    "average_precision": "average precision",
    "auc_roc": "AUC-ROC",
    "auc_pr_hull": "AUC-PR, achievable",
    "auc_roc_hull": "AUC-ROC, hull",
    "prevalence": "prevalence",
}
REASONS = {
    "EMPTY": "no cases yet",
    "NO_POSITIVES": "no positives yet",
    "NO_NEGATIVES": "no negatives yet",
    "TOO_FEW": "too few cases",
}

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Print what is refused, by streameval or the file system, as one line; exit with 2."""
    try:
        yield
    except StreamEvalError as error:
        reason = str(error)
    except OSError as error:
        if error.filename is None:
            raise
        reason = f"{error.filename}: {error.strerror}"
    else:
        return
    print(f"streameval: {reason}", file=sys.stderr)
    raise SystemExit(WRONG_INPUT)


@contextmanager
def progress_bar(title: str, *, show: bool) -> Iterator[Callable[[float], None]]:
    """Show a bar on stderr; yields what moves it to a share in [0, 1]."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not (show and err.is_terminal),
    )
    with bar:
        task = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def print_json(values: object) -> None:
    """Print strict JSON: no NaN, sorted as given."""
    print(json.dumps(values, indent=2, allow_nan=False))


def print_snapshot(snapshot: Snapshot, *, title: str) -> None:
    """Print the figures of a snapshot as a table."""
    misses = snapshot.num_misses + snapshot.num_negative_misses
    references = snapshot.num_positive_ref + snapshot.num_negative_ref
    table = Table(title=title, title_justify="left", box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    for name, text in TITLES.items():
        reason = snapshot.reasons.get(name)
        value = f"{getattr(snapshot, name):.6f}" if reason is None else REASONS[reason]
        table.add_row(text, value)
    table.add_row("positives", f"{snapshot.num_positive_ref:,}")
    table.add_row("negatives", f"{snapshot.num_negative_ref:,}")
    if misses:
        table.add_row("of them never scored", f"{misses:,} of {references:,}")
    out.print(table)
