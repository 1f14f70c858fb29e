"""``streameval sample``: which predictions to label next, with the file that comes back."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table

from streameval._common.atomic_file import write_atomically
from streameval._common.errors import StreamEvalError
from streameval._metric_registry import title_of
from streameval.cli._options import parse_part
from streameval.cli._output import out, print_json, say
from streameval.client._wire.selection import Selection

if TYPE_CHECKING:
    from pathlib import Path

    from streameval.client import StreamLabelSample

COLUMNS = ("id", "label_probability", "label")
"""The file's columns; the reviewers fill the last one in."""


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """What the commands that sample have in common.

    Attributes
    ----------
    size : int
    metric : str
    threshold, prevalence : float or None
    seed : int or None
    csv : Path or None
        The file to write drawn ids to.
    ids : bool
        Whether to draw ids for the JSON.
    as_json : bool
    window : str or None
    start, end : str or None
        A time span in place of a window.
    segment : str or None
    """

    size: int
    metric: str
    threshold: float | None
    prevalence: float | None
    seed: int | None
    csv: Path | None
    ids: bool
    as_json: bool
    window: str | None
    start: str | None
    end: str | None
    segment: str | None

    @property
    def draw_ids(self) -> bool:
        """Whether to draw ids; refuses to draw them for a table."""
        if self.ids and self.csv is None and not self.as_json:
            raise StreamEvalError("--ids needs --json, or give --csv FILE: the table has no ids")
        return self.ids or self.csv is not None

    def selection(self, stream: str) -> Selection:
        """Return which predictions."""
        part = parse_part(self.window, self.segment, self.start, self.end)
        return Selection(stream=stream, **part)

    def write(self, stream: str, sample: StreamLabelSample) -> None:
        """Write the file, and print the table or JSON."""
        if self.csv is not None:
            write_csv(self.csv, sample)
        if self.as_json:
            print_json(sample.to_dict())
        else:
            print_sample(stream, sample)
            if self.csv is not None:
                say(f"{len(sample):,} ids to label are in {self.csv}: fill in the column label")


def write_csv(file: Path, sample: StreamLabelSample) -> None:
    """Write drawn ids with their probabilities to a new file that only its owner can read."""
    with write_atomically(file) as partial, partial.open("w", newline="", encoding="utf-8") as text:
        rows = csv.writer(text)
        rows.writerow(COLUMNS)
        for id_, probability in zip(sample.ids, sample.label_probabilities, strict=True):
            rows.writerow((id_, repr(probability), ""))


def print_sample(stream: str, sample: StreamLabelSample) -> None:
    """Print how many of each band to label, the highest scores first."""
    say(
        f"{sample.size:,} of {sample.waiting:,} predictions of {stream} to label, for "
        f"{title_of(sample.metric)}, at revision {sample.revision} with seed {sample.seed}"
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("scores from", "to below", "waiting", "to label", "probability"):
        table.add_column(title, justify="right")
    for band in reversed(sample.bands):
        table.add_row(
            f"{band.lower:.6g}",
            f"{band.upper:.6g}",
            f"{band.waiting:,}",
            f"{band.to_label:,}",
            f"{band.label_probability:.4f}",
        )
    out.print(table)
    if sample.window is not None:
        start, end = (each.isoformat() for each in sample.window)
        out.print(f"covers {start} to {end}", soft_wrap=True)
    if sample.is_proportional:
        out.print(
            "note: in proportion to the predictions, for too little is labelled yet",
            soft_wrap=True,
        )
    for warning in sample.warnings:
        say(f"note: {warning}")
