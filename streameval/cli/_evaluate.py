"""``streameval evaluate``: all figures of one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._common.errors import StreamEvalError
from streameval._evaluator import Evaluator
from streameval.cli._output import print_json, print_snapshot, progress_bar
from streameval.cli._rows import Layout, read_rows

if TYPE_CHECKING:
    from pathlib import Path

PLOT_SUFFIXES = (".png", ".svg", ".pdf")


def evaluate(
    file: Path,
    *,
    score: str,
    label: str,
    positive: str | None,
    plot: Path | None,
    resolution: int | None,
    as_json: bool,
) -> None:
    """Print a file's figures; write its curves to `plot` when given."""
    if plot is not None and plot.suffix.lower() not in PLOT_SUFFIXES:
        raise StreamEvalError(f"--plot {plot}: use {', '.join(PLOT_SUFFIXES)}")
    evaluator = Evaluator(resolution=resolution)
    with progress_bar(f"reading {file.name}", show=True) as progress:
        for rows in read_rows(file, Layout(score=score, label=label, positive=positive)):
            evaluator.add_cases(labels=rows.labels, scores=rows.scores)
            progress(rows.progress)
    if plot is not None:
        from streameval.cli._plot import draw  # noqa: PLC0415 - matplotlib is slow to import

        draw(evaluator, plot, name=file.stem)
    snapshot = evaluator.snapshot()
    if as_json:
        print_json(snapshot.to_dict())
    else:
        print_snapshot(snapshot, heading=str(file))
