"""The frozen reference: bands of scores, the value of each band, the means to compare with.

Scores are cut into at most 64 bands at the reference's quantiles, so that the reference
takes half a KB whatever it was made of. A case has the value of its band, in the reference
and later alike, so the cut costs a little power and no bias.

Theta, the mean below which a process gains evidence, is the reference's mean less two
standard errors and the tolerance. The standard error is computed from independent cases,
and, where there are any, from the window's panes and from clusters as blocks; the largest
counts, unless the panes depend on one another over hours (`slow`). It allows for one more case,
of the worst value, which the reference may lack.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._counts.state import LABELS
from streameval._drift.slow import SlowDependence, slow_dependence, variance_of_sums
from streameval._drift.watches import UNITS, Side, WatchRows, side_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.state import State
    from streameval._drift.watches import Population, Value

    Tables = Mapping[tuple[Population, Value], npt.NDArray[np.uint16]]

MAX_BANDS: Final = 64
MIN_CASES: Final = 30
"""The fewest positives and negatives of a reference, and cases that a segment's mean is of."""
MIN_BLOCKS: Final = 8
STANDARD_ERRORS: Final = 2.0
TABLES: Final[tuple[tuple[Population, Value], ...]] = (
    ("positives", "precision"),
    ("negatives", "loss"),
    ("positives", "rank"),
    ("negatives", "rank"),
    ("predictions", "rank"),
)
"""The tables of values by band, in the order of their bytes."""


class ReferenceCases(NamedTuple):
    """The cases to compare with, the panes that they are the sum of, and when these begin.

    No panes, or no starts, if they are not known.
    """

    state: State
    panes: Sequence[State] = ()
    starts_us: Sequence[int] = ()

    def cells(self) -> Cells:
        """Return the scored cases. O(n)."""
        return cells_of_state(self.state)


class Mean(NamedTuple):
    """The mean of a side's values in a reference, from 0 to 1, and its standard error.

    `slow` says how cases depend on one another over hours; None where that is not seen.
    """

    value: float
    error: float
    cases: int
    slow: SlowDependence | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Bands of scores and the values of each.

    Attributes
    ----------
    edges : float64[bands - 1]
        The lower ends of all bands but the lowest, ascending.
    tables : mapping of (population, value) to uint16[bands]
        In units of 1/65535.
    """

    edges: FloatArray
    tables: Tables

    def of(self, scores: FloatArray) -> IntArray:
        """Return the band of each score. O(n log bands)."""
        return np.searchsorted(self.edges, scores, side="right")


class Cells(NamedTuple):
    """Cases of a reference: one row for each distinct score and class."""

    labels: BoolArray
    scores: FloatArray
    counts: IntArray


def cells_of_state(state: State) -> Cells:
    """Return the scored cases of a state. O(n)."""
    runs = state.counts.runs
    return Cells(
        np.repeat(LABELS, [len(run) for run in runs]),
        np.concatenate([run.scores for run in runs]),
        np.concatenate([run.multiplicities() for run in runs]),
    )


def check_reference(state: State, what: str = "the reference") -> Cells:
    """Return a reference's cases, or refuse it. O(n)."""
    if state.weighted is not None:
        message = f"{what} has weights: alarms count cases; leave the weights out"
        raise InvalidInputError(message, field="reference")
    cells = cells_of_state(state)
    for label, noun in ((True, "positives"), (False, "negatives")):
        number = int(cells.counts[cells.labels == label].sum())
        if number < MIN_CASES:
            found = f"has {number} scored {noun}" if number else f"has no scored {noun}"
            message = f"{what} {found}, at least {MIN_CASES} are needed: take a longer window"
            raise InvalidInputError(message, field="reference")
    return cells


def bands_of(cells: Cells, threshold: float) -> Bands:
    """Return bands at quantiles of each class, an edge at the threshold, and their values."""
    quarters = MAX_BANDS // 2 - 1
    edges = [
        class_quantiles(cells.scores[chosen], cells.counts[chosen], quarters)
        for chosen in (cells.labels, ~cells.labels)
    ]
    if math.isfinite(threshold):
        edges.append(np.array([threshold]))
    cut = np.unique(np.concatenate(edges))
    bands = np.searchsorted(cut, cells.scores, side="right")
    p, n = (
        np.bincount(bands[chosen], cells.counts[chosen], minlength=cut.size + 1)
        for chosen in (cells.labels, ~cells.labels)
    )
    return Bands(cut, _tables(p.astype(np.float64), n.astype(np.float64)))


def class_quantiles(scores: FloatArray, counts: IntArray, number: int) -> FloatArray:
    """Return the scores that cut cases into `number` + 1 parts, which may repeat. O(n log n)."""
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(counts[order])
    wanted = np.arange(1, number + 1) * int(below[-1]) // (number + 1)
    return scores[order][np.searchsorted(below, wanted, side="right")]


def _tables(p: FloatArray, n: FloatArray) -> Tables:
    P, N = p.sum(), n.sum()
    tp, fp = np.cumsum(p[::-1])[::-1], np.cumsum(n[::-1])[::-1]  # at or above each band
    called = np.maximum(tp + fp, 1)
    # What one more negative in a band takes from average precision: all positives at or
    # below it have one more above them.
    loss = np.cumsum(p * tp / called**2)
    values = {
        ("positives", "precision"): tp / called,
        ("negatives", "loss"): 1 - loss / loss[-1],
        ("positives", "rank"): (N - fp + n / 2) / N,
        ("negatives", "rank"): (tp - p / 2) / P,
        ("predictions", "rank"): (P + N - tp - fp + (p + n) / 2) / (P + N),
    }
    return {key: np.rint(values[key] * UNITS).astype(np.uint16) for key in TABLES}


class Blocks(NamedTuple):
    """Cases by pane or by group of clusters: the cases of a block may depend on one another."""

    cells: Cells
    block_of: IntArray
    starts_us: Sequence[int] = ()


def blocks_of(reference: ReferenceCases) -> list[Blocks]:
    """Return the panes of a reference, and its groups of clusters. O(n)."""
    found = []
    if reference.panes:
        each = [cells_of_state(pane) for pane in reference.panes]
        cells = Cells(*(np.concatenate(columns) for columns in zip(*each, strict=True)))
        pane_of = np.repeat(np.arange(len(each)), [len(pane.counts) for pane in each])
        found.append(Blocks(cells, pane_of, reference.starts_us))
    table = reference.state.clusters
    if table.counts.size:
        rows = np.flatnonzero(np.isfinite(table.edges))
        cells = Cells(table.codes[rows] % 2 == 1, table.edges[rows], table.counts[rows])
        found.append(Blocks(cells, table.groups[rows].astype(np.int64)))
    return found


def side_mean(
    side: Side, cells: Cells, blocks: Sequence[Blocks], bands: Bands, threshold: float
) -> Mean:
    """Return the mean of a side's values over cases, and its standard error. O(n).

    Sums are integers, so that they are the same on every machine.
    """
    values, counts = _values(side, cells, bands, threshold)
    count = int(counts.sum())
    if not count:
        return Mean(math.nan, math.nan, 0)
    total = int((values * counts).sum())
    variance = (count * int((values * values * counts).sum()) - total**2) / (count**3 * UNITS**2)
    slow = None
    for each in blocks:
        values, counts = _values(side, each.cells, bands, threshold)
        totals = np.bincount(each.block_of, values * counts)
        rows = np.bincount(each.block_of, counts)
        # Of each block, how far its sum is from the mean's, exactly.
        residuals = {
            block: int(totals[block]) * count - total * int(rows[block])
            for block in np.flatnonzero(rows).tolist()
        }
        unit = (count * UNITS * int(rows.sum())) ** 2
        if len(residuals) >= MIN_BLOCKS:
            variance = max(variance, variance_of_sums(residuals.values(), unit))
        if each.starts_us:
            timed = [(each.starts_us[block], found) for block, found in residuals.items()]
            slow = slow_dependence(timed, unit, variance)
    if slow is not None:
        variance *= slow.ratio
    mean = total / (count * UNITS)
    return Mean(mean, math.hypot(math.sqrt(variance), mean / (count + 1)), count, slow)


def _values(side: Side, cells: Cells, bands: Bands, threshold: float) -> tuple[IntArray, IntArray]:
    """Return the value of each cell's cases, and how many of them count."""
    rows = WatchRows(cells.labels, cells.scores, bands.of(cells.scores), is_prediction=True)
    is_counted, values = side_values(side, rows, threshold, bands.tables)
    return values, cells.counts * is_counted


def theta_of(mean: Mean, tolerance: float) -> float:
    """Return the mean below which evidence grows; 0 where no fall could be seen."""
    if mean.cases < MIN_CASES:
        return 0.0
    return max(mean.value - STANDARD_ERRORS * mean.error - tolerance, 0.0)
