"""A map of where the library answers: coverage, width and refusals of every figure.

A part of bench/truth.py. Each cell is simulated 1,000 times through the public interface; where
fewer than 94.5 % of its nominal 95 % intervals hold the true value, it is measured on 4,000 other
samples. The textbook's intervals are of the same samples. The file of results has a line for each
figure of each cell; docs/evidence_map.py makes the page's tables and its picture from it.
"""

from __future__ import annotations

import csv
import math
import time
import zlib
from collections import defaultdict
from dataclasses import asdict, fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from map_areas import area_cells, calibration_cells, look_cells, rate_cells
from map_cells import MAX_REFUSED, MAX_WIDTH, MIN_COVERAGE, Row
from map_changes import difference_cells, fall_cells, pair_cells, projection_cells
from map_designs import cluster_cells, sample_cells, weight_cells

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from map_cells import Cell, Found

RESULTS = Path("truth-map.csv")
PARTS = (
    area_cells,
    look_cells,
    rate_cells,
    calibration_cells,
    cluster_cells,
    weight_cells,
    sample_cells,
    difference_cells,
    pair_cells,
    fall_cells,
    projection_cells,
)

REPLICATES, TIMES_REPEATED = 1_000, 4
DOUBTFUL = 0.945
"""A lower coverage is measured again."""


def row_of(cell: Cell, figure: str, found: list[Found]) -> Row:
    """Return the summary of the replicates of one figure."""
    columns = np.array([(f.truth, f.estimate, f.lower, f.upper, *f.textbook) for f in found]).T
    truth, estimate, *limits = columns
    with np.errstate(invalid="ignore"):
        needed = 2 * 1.96 * float(np.nanstd(estimate - truth))
    refused, coverage, width = summary(truth, limits[0], limits[1], needed)
    _, textbook, textbook_width = summary(truth, limits[2], limits[3], needed)
    answers = max(len(found) * (1 - refused), 1)
    return Row(
        part=cell.part,
        figure=figure,
        cell=cell.name,
        positives=cell.positives,
        prevalence=cell.prevalence,
        effective=round(cell.effective.get(figure, cell.positives), 1),
        is_apart=cell.is_apart,
        replicates=len(found),
        refused=refused,
        coverage=coverage,
        error=math.sqrt(max(coverage * (1 - coverage), 1 / answers) / answers),
        width=width,
        textbook=textbook,
        textbook_width=textbook_width,
    )


def summary(
    truth: np.ndarray, lower: np.ndarray, upper: np.ndarray, needed: float
) -> tuple[float, float, float]:
    """Return the share of refusals, the coverage of the rest, and its width over the needed."""
    answered = ~np.isnan(lower)
    refused = 1 - float(answered.mean())
    if not answered.any():
        return refused, math.nan, math.nan
    held = (lower <= truth) & (truth <= upper)
    width = float(np.median((upper - lower)[answered]))
    return refused, float(held[answered].mean()), width / needed if needed else math.inf


def measure(cell: Cell, seed: int, replicates: int, repeated: int) -> list[Row]:
    """Return the rows of a cell; doubtful figures of `repeated` replicates on other numbers."""
    rows = rows_of(cell, cell.figures, [seed, zlib.crc32(cell.name.encode())], replicates)
    doubtful = [row.figure for row in rows if row.coverage < DOUBTFUL] if repeated else []
    again = rows_of(cell, doubtful, [seed, zlib.crc32(cell.name.encode()), 1], repeated)
    better = {row.figure: row for row in again}
    return [better.get(row.figure, row) for row in rows]


def rows_of(cell: Cell, figures: Iterable[str], seed: list[int], replicates: int) -> list[Row]:
    """Return the rows of some figures of a cell."""
    rng, found = np.random.default_rng(seed), defaultdict(list)
    wanted = tuple(figures)
    for _ in range(max(replicates // cell.slow, 1) if wanted else 0):
        for figure, each in cell.draw(rng, wanted).items():
            found[figure].append(each)
    return [row_of(cell, figure, each) for figure, each in found.items()]


def cells_of(only: str) -> Iterator[Cell]:
    """Yield the cells of which `part: name` has a text in it."""
    for cell in chain.from_iterable(part() for part in PARTS):
        if only in f"{cell.part}: {cell.name}":
            yield cell


def read_rows(path: Path = RESULTS) -> list[Row]:
    """Return the rows of a file of results."""
    kinds = {each.name: each.type for each in fields(Row)}
    made = {"str": str, "float": float, "int": int, "bool": lambda text: text == "True"}
    with path.open(newline="") as file:
        lines = csv.DictReader(line for line in file if not line.startswith("#"))
        return [
            Row(**{name: made[kinds[name]](text) for name, text in row.items()}) for row in lines
        ]


def print_map(seed: int, only: str, path: Path, *, replicates: int, resume: bool) -> None:
    """Measure the cells, write a line for each figure, and print the summary."""
    begin, kept = time.perf_counter(), read_rows(path) if path.exists() else []
    if not resume:
        kept = [row for row in kept if only not in f"{row.part}: {row.cell}"]
    done = {(row.part, row.cell) for row in kept}
    with path.open("w", newline="") as file:
        file.write(f"# seed {seed}\n")
        writer = csv.DictWriter(file, [each.name for each in fields(Row)], lineterminator="\n")
        writer.writeheader()
        fresh = (
            row
            for cell in cells_of(only)
            if (cell.part, cell.name) not in done
            for row in measure(cell, seed, replicates, TIMES_REPEATED * replicates)
        )
        rows = []
        for row in chain(kept, fresh):
            rows.append(row)
            writer.writerow({name: shown(value) for name, value in asdict(row).items()})
            file.flush()
    print(f"seed {seed}, {time.perf_counter() - begin:.0f} s\n")
    print("\n".join([*table(rows), "", *findings(rows)]))


def shown(value: object) -> object:
    """Return a value as a line of the file has it."""
    return f"{value:.5g}" if isinstance(value, float) else value


HEADINGS = (
    "part",
    "figure",
    "cells",
    "answered",
    "least coverage",
    "below 0.93",
    "width, median",
    "too wide",
    "refused",
    "textbook: least",
    "below 0.93",
)


def table(rows: list[Row]) -> list[str]:
    """Return a line of Markdown for each figure of each part."""
    kinds: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        name, _, at = row.figure.partition(" @ ")
        kinds[row.part, name + (" at another prevalence" if at else "")].append(row)
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---|---|" + "---:|" * (len(HEADINGS) - 2)]
    for part, name in sorted(kinds):
        columns = [part, name, *line_of(kinds[part, name])]
        lines.append("| " + " | ".join(columns) + " |")
    return lines


def line_of(rows: list[Row]) -> list[str]:
    """Return the columns of one figure's cells."""
    answered = [row for row in rows if row.is_answered]
    least = min(answered, key=lambda row: row.coverage, default=None)
    asked = [row for row in answered if row.is_asked]
    textbook = [row for row in rows if not math.isnan(row.textbook)]
    works = [row for row in textbook if row.textbook_works]
    return [
        f"{len(rows)}",
        f"{np.mean([1 - row.refused for row in rows]):.0%}",
        f"{least.coverage:.3f} ± {least.error:.3f}" if least else "-",
        f"{sum(row.is_low for row in rows)}",
        f"{np.median([row.width for row in asked]):.2f}" if asked else "-",
        f"{sum(row.is_wide for row in rows)} of {len(asked)}",
        f"{np.mean([row.refused for row in works]):.0%} of {len(works)}" if works else "-",
        f"{min(row.textbook for row in textbook):.3f}" if textbook else "-",
        f"{sum(row.textbook < MIN_COVERAGE for row in textbook)}" if textbook else "-",
    ]


def findings(rows: list[Row]) -> list[str]:
    """Return what misses a target: a sentence, and a line of Markdown for each cell."""
    asked, works = [row for row in rows if row.is_asked], [r for r in rows if r.textbook_works]
    refused: dict[str, list[float]] = defaultdict(list)
    for row in works:
        refused[f"{row.figure}, {row.part}"].append(row.refused)
    most = {name: float(np.mean(each)) for name, each in refused.items()}
    often = [f"{name} ({share:.0%})" for name, share in most.items() if share > MAX_REFUSED]
    told = (
        f"{sum(row.is_low for row in rows)} of {len(rows):,} figures cover less than "
        f"{MIN_COVERAGE} beyond doubt. {sum(row.is_wide for row in rows)} of {len(asked)} are more "
        f"than {MAX_WIDTH} times as wide as needed. Where the textbook's method works, in "
        f"{len(works)}, {np.mean([row.refused for row in works] or [0]):.1%} of the samples are "
        f"refused; above {MAX_REFUSED:.0%} for {', '.join(often) or 'none'}."
    )
    lines = [
        told,
        "",
        "| figure | cell | misses | coverage | textbook covers |",
        "|---|---|---|---:|---:|",
    ]
    for row in sorted(rows, key=lambda row: (row.part, row.figure, row.cell)):
        coverage = f"{row.coverage:.3f} ± {row.error:.3f}" if row.is_answered else "-"
        textbook = "-" if math.isnan(row.textbook) else f"{row.textbook:.3f}"
        kinds = {
            "coverage": row.is_low,
            f"width {row.width:.2f}": row.is_wide,
            f"refused {row.refused:.0%}": row.textbook_works and row.refused > MAX_REFUSED,
        }
        lines += [
            f"| {row.figure}, {row.part} | {row.cell} | {kind} | {coverage} | {textbook} |"
            for kind, is_so in kinds.items()
            if is_so
        ]
    return lines
