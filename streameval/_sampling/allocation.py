"""How many predictions to label in each band of score, so that a metric is known best.

Of a band with N predictions that wait, over which the metric's gradient has the standard
deviation S, the sample takes n in proportion to N S, at least one and at most all; a drawn
case stands for N/n. Bands are runs of neighbouring cells, cut so that the sum of N S, and with
it the variance of the metric, is least.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.keywords import by_keyword
from streameval._common.names import check_ids
from streameval._common.result import Result
from streameval._common.values import is_number, real, shown
from streameval._counts.columns import check_length, check_scores
from streameval._counts.resolution import quantise
from streameval._evaluator_queries import EvaluatorQueries
from streameval._metric_registry import BY_NAME, HEADLINE
from streameval._projection.delay_counts import CELL_BITS
from streameval._sampling.cell_gradient import cell_gradient
from streameval._sampling.draw import CHUNK_ROWS, check_seed, draw_rows, readable
from streameval._sampling.neyman import apportion, best_cuts, label_shares, runs_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.resolution import Scale
    from streameval._metric_registry import Metric

MAX_BANDS = 12
_RUNS = 96
"""Runs of cells, of about equal density of labels, between which bands are cut."""

_MIN_BAND_LABELS = 8
"""Labels of a band, on average: smaller samples have fewer bands."""


@dataclass(frozen=True, slots=True, eq=False)
class SampledBand(Result):
    """A band of score, and how many of its predictions to label.

    Attributes
    ----------
    lower, upper : float
        Scores from `lower` to below `upper`; -inf in the first band, +inf in the last.
    waiting : int
        Predictions that wait for their label.
    to_label : int
        How many of them to draw, at random: 1 or more.
    """

    lower: float
    upper: float
    waiting: int
    to_label: int

    @property
    def label_probability(self) -> float:
        """The probability of each of them to be drawn: above 0 and at most 1."""
        return self.to_label / self.waiting


@dataclass(frozen=True, slots=True, eq=False)
class LabelSample(Result):
    """Ids to label, each with the probability with which it was to be drawn.

    `LabelJoiner.sample_for_labels` and `LabelAllocation.draw` return it.

    Attributes
    ----------
    ids : tuple of str or bytes
        In random order, which tells nothing of the score. Text where an id is UTF-8.
    label_probabilities : float64[n]
        Of each id: give it back with the label, as `label_probability`.
    seed : int
        With the same predictions, labels and arguments it draws the same ids.
    allocation : LabelAllocation
        How many of each band.
    """

    ids: tuple[str | bytes, ...] = field(repr=False)
    label_probabilities: FloatArray = field(repr=False)
    seed: int
    allocation: LabelAllocation = field(repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each id. O(size)."""
        return [
            {"id": each, "label_probability": probability}
            for each, probability in zip(self.ids, self.label_probabilities.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class LabelAllocation(Result):
    """How many predictions to label in each band of score.

    `allocate_labels` returns it.

    Attributes
    ----------
    metric : str
        The metric that the labels are to narrow most.
    bands : tuple of SampledBand
        Lowest scores first; every prediction that waits is in one.
    is_proportional : bool
        Whether each band gets labels in proportion to its predictions, because too little
        is known: a class has no label yet, or the metric is infinite.
    """

    metric: str
    bands: tuple[SampledBand, ...]
    is_proportional: bool

    @property
    def size(self) -> int:
        """How many predictions to label."""
        return sum(band.to_label for band in self.bands)

    @property
    def waiting(self) -> int:
        """How many predictions wait for their label."""
        return sum(band.waiting for band in self.bands)

    @property
    def min_label_probability(self) -> float:
        """The least probability of a prediction to be drawn.

        Declare it where the labels are counted: no drawn case weighs more than 1 over it.
        """
        return min(band.label_probability for band in self.bands)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each band, the lowest scores first. O(bands)."""
        return [row for band in self.bands for row in band.to_rows()]

    @by_keyword
    def draw(self, *, ids: Any, scores: Any, seed: int = 0) -> LabelSample:
        """Draw the ids to label: of each band, as many as it says.

        Parameters
        ----------
        ids : column of str, bytes or int, or callable
            The ids of all predictions that wait, each once, in any order. A callable takes
            rows, an int64 array, and returns their ids: it is called for some thousand at a
            time, so that millions need not be in memory together.
        scores : column of float
            The scores that were given to `allocate_labels`, in the order of `ids`.
        seed : int
            From 0 to 2^64 - 1. The same ids and seed give the same draw.

        Raises
        ------
        InvalidInputError
            When a value is invalid, an id comes twice, or the allocation was made for
            other scores.

        Notes
        -----
        O(n), some 1.5 us and 40 bytes an id. In each band a simple random sample without
        replacement: the n ids with the least keyed hash (BLAKE2b) of the N that wait, so
        each has the probability n/N, and any n of them are as likely as any other.

        Examples
        --------
        >>> from streameval import Evaluator, allocate_labels
        >>> allocation = allocate_labels(Evaluator(), scores=[0.1, 0.4, 0.8], size=2)
        >>> sample = allocation.draw(ids=["a", "b", "c"], scores=[0.1, 0.4, 0.8], seed=7)
        >>> len(sample), sample.label_probabilities.round(3)
        (2, array([0.667, 0.667]))
        """
        values = check_scores(scores)
        keys = None if callable(ids) else check_ids(ids)
        if keys is not None:
            check_length("scores", values.size, like="ids", length=len(keys))

        def ids_of(rows: IntArray) -> list[bytes]:
            return check_ids(ids(rows)) if keys is None else [keys[row] for row in rows.tolist()]

        number = check_seed(seed)
        bands = self._bands_of(values)
        to_label = np.array([band.to_label for band in self.bands])
        rows = draw_rows(ids_of, bands, to_label, number)
        probabilities = np.array([band.label_probability for band in self.bands])[bands[rows]]
        probabilities.flags.writeable = False
        chosen = tuple(map(readable, ids_of(rows)))
        return LabelSample(chosen, probabilities, number, self)

    def _bands_of(self, scores: FloatArray) -> NDArray[np.int8]:
        """Return the band of each score, or refuse other scores. O(n log bands)."""
        lowest = np.array([band.lower for band in self.bands])
        bands = np.empty(scores.size, dtype=np.int8)
        for start in range(0, scores.size, CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            bands[part] = np.searchsorted(lowest, scores[part], side="right") - 1
        found = [int(np.count_nonzero(bands == band)) for band in range(lowest.size)]
        if found != [band.waiting for band in self.bands]:
            message = (
                f"the labels were allocated to {self.waiting} predictions, and these "
                f"{scores.size} scores are of others: give the scores given to allocate_labels"
            )
            raise InvalidInputError(message, field="scores")
        return bands

    def __str__(self) -> str:
        """Return a line for each band, the highest scores first."""
        head = f"{self.size:,} of {self.waiting:,} predictions to label, for {self.metric}"
        if self.is_proportional:
            head += ": in proportion, for there is no gradient yet"
        rows = [
            f"  {band.lower:>12.6g} to {band.upper:<12.6g} {band.to_label:>9,} of "
            f"{band.waiting:>11,}  {band.label_probability:.4f}"
            for band in reversed(self.bands)
        ]
        return "\n".join((head, *rows))


@by_keyword
def allocate_labels(
    labelled: EvaluatorQueries, *, scores: Any, size: int, metric: str = HEADLINE, **arguments: Any
) -> LabelAllocation:
    """Return how many of the predictions that wait to label in each band of score.

    The labels would narrow the interval of the metric most: a band gets them in proportion
    to its predictions times the standard deviation of the metric's gradient there.

    Parameters
    ----------
    labelled : Evaluator or Window
        The labelled cases of the same time. They are counted as they are: only
        predictions that wait are drawn. Where they declare a `min_label_probability`, no
        band is drawn with less.
    scores : column of float
        Of the predictions that wait for their label, in any order.
    size : int
        How many to label, from 1 to as many as wait.
    metric : str
        One with a gradient in the table of metrics: areas, rates at a `threshold`,
        prevalence, Brier score, log loss.
    **arguments
        Those of the method of that name: ``threshold=0.5``, ``prevalence=0.1``.

    Returns
    -------
    LabelAllocation
        At most 12 bands, with 8 labels or more on average.

    Raises
    ------
    InvalidInputError
        When no prediction waits, the size is not from 1 to as many as wait, the declared
        `min_label_probability` takes a larger size, the metric has no gradient, the labelled
        cases have clusters, which take no weights, or another value is invalid.
    TypeError
        When the method of that name takes no such argument.

    Notes
    -----
    O(n log n). Weighted by 1/probability, the drawn cases estimate the counts of all
    predictions that wait without bias, whatever the labelled cases say; these only decide
    how precise the estimate is. Source: Neyman (1934), with a quarter of the labels spread
    evenly.

    Examples
    --------
    >>> import numpy as np
    >>> from streameval import Evaluator, allocate_labels
    >>> rng = np.random.default_rng(1)
    >>> ev = Evaluator()
    >>> labels = rng.random(2_000) < 0.05
    >>> ev.add_cases(labels=labels, scores=rng.normal(2.0 * labels))
    >>> waiting = rng.normal(2.0 * (rng.random(50_000) < 0.05))
    >>> allocation = allocate_labels(ev, scores=waiting, size=1_000)
    >>> allocation.size, len(allocation.bands)
    (1000, 12)
    >>> low, high = allocation.bands[0], allocation.bands[-1]
    >>> high.label_probability > 10 * low.label_probability
    True
    """
    if not isinstance(labelled, EvaluatorQueries):
        message = f"labelled must be an Evaluator or a Window, got {shown(labelled)}"
        raise InvalidInputError(message, field="labelled")
    view = labelled._view()
    if view.clusters.num_groups:
        message = "where clusters are declared labels take no probability: sample without clusters"
        raise InvalidInputError(message, field="labelled")
    row = _metric(metric, arguments)
    values = check_scores(scores, scale=view.scale)
    if not values.size:
        raise InvalidInputError("no prediction waits for its label", field="scores")
    floor = view.min_label_probability or 0.0
    budget = _size(size, values.size, floor)
    cells, counts = _cells_of(values, view.scale)
    number = max(1, min(MAX_BANDS, budget // _MIN_BAND_LABELS))
    # Each band may have to round its least number of labels up.
    number = min(number, max(1, budget - math.ceil(floor * values.size)))
    found = cell_gradient(view, cells, counts, row, arguments)
    spread = None
    if found is None:
        runs = runs_of(label_shares(counts, None), number)
        firsts = np.arange(int(runs[-1]) + 1)
    else:
        runs = runs_of(label_shares(counts, found.spread()), _RUNS)
        costs = found.band_costs(runs, counts, int(runs[-1]) + 1)
        firsts = best_cuts(costs, min(number, int(runs[-1]) + 1))
        spread = costs[firsts, [*firsts[1:], runs[-1] + 1]]
    starts = np.searchsorted(runs, firsts)
    waiting = np.add.reduceat(counts, starts)
    if spread is not None:
        spread = spread / waiting
    least = np.minimum(np.maximum(np.ceil(waiting * floor).astype(np.int64), 1), waiting)
    to_label = apportion(label_shares(waiting, spread), least, waiting, budget)
    edges = [-np.inf, *cells[starts[1:]].tolist(), np.inf]
    return LabelAllocation(
        row.name,
        tuple(map(SampledBand, edges[:-1], edges[1:], waiting.tolist(), to_label.tolist())),
        found is None,
    )


def _cells_of(values: FloatArray, scale: Scale) -> tuple[FloatArray, IntArray]:
    """Return the lower edges of the cells that have scores, ascending, and how many. O(n log n)."""
    parts = [
        np.unique(
            quantise(values[start : start + CHUNK_ROWS], CELL_BITS, scale), return_counts=True
        )
        for start in range(0, values.size, CHUNK_ROWS)
    ]
    cells, at = np.unique(np.concatenate([edges for edges, _ in parts]), return_inverse=True)
    counts: IntArray = np.zeros(cells.size, dtype=np.int64)
    np.add.at(counts, at, np.concatenate([counts for _, counts in parts]))
    return cells, counts


def _metric(name: str, arguments: dict[str, Any]) -> Metric:
    """Return a metric that has a gradient, with what it needs; refuse another."""
    metric = BY_NAME.get(name) if isinstance(name, str) else None
    if metric is None or metric.gradient is None:
        known = ", ".join(sorted(each.name for each in BY_NAME.values() if each.gradient))
        message = f"labels cannot be allocated for {shown(name)}; they can for: {known}"
        raise InvalidInputError(message, field="metric")
    missing = metric.missing(arguments)
    if missing is not None:
        message = f"{name} needs a {missing}: {missing}=..."
        raise InvalidInputError(message, field=missing)
    prevalence = arguments.get("prevalence")
    if prevalence is not None:
        if not metric.is_rescaled:
            message = f"{name} does not depend on a prevalence"
            raise InvalidInputError(message, field="prevalence")
        if not 0 < real(prevalence, "prevalence") < 1:
            message = f"prevalence must be between 0 and 1, got {shown(prevalence)}"
            raise InvalidInputError(message, field="prevalence")
    return metric


def _size(size: Any, waiting: int, floor: float) -> int:
    if not isinstance(size, int | np.integer) or not is_number(size):
        raise InvalidInputError(f"size must be an integer, got {shown(size)}", field="size")
    if not 1 <= size <= waiting:
        message = f"size must be from 1 to the {waiting} predictions that wait, got {size}"
        raise InvalidInputError(message, field="size")
    if size < floor * waiting:
        message = (
            f"size must be at least {math.ceil(floor * waiting)} to draw each of {waiting} "
            f"predictions with min_label_probability={floor:g}, got {size}"
        )
        raise InvalidInputError(message, field="size")
    return int(size)
