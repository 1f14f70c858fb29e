"""Limits of an area that hold whatever the missing labels are.

With m of the unlabelled predictions positive, an area is greatest with the m best of them,
and in each cell with the positives first: exchanging a negative for a positive that ranks
below it raises the ROC curve everywhere. It is least with the m worst, and the negatives
first. So the limits need only a search over m. Between two numbers a < b of it the area
is enclosed by counts that hold no case back:

- AUC-ROC: for every m between, at least the wrongly ordered pairs of a's positives with b's
  negatives are in the wrong order, of at most P_b N_a pairs; the same for the right order.
- Areas in precision-recall space: P times the area is a sum over the positives that grows
  with m, of which there are at least P_a. At a reference prevalence a negative weighs
  least at a and most at b. Average precision of ties is not greatest with the best m
  positive; the sum of the greatest precisions at or below each positive is, and exceeds it.

The numbers are spaced so that P and N change by a small ratio from each to the next: the
result is a proven outer bound, within that ratio of the extremes. Order inside a cell is
bounded as in a bounded evaluator. O(K) for each number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._projection.estimate import state_of_cells
from streameval._time.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.resolution import Scale
    from streameval._counts.state import State

_STEPS = 64
"""Numbers of positives that are tried, about, for each of the two limits."""

_ROUNDING = 2.0**-40
"""Added to both limits: the sums here round to fewer digits than `bounds` allows for."""


@dataclass(frozen=True, slots=True, eq=False)
class PartlyLabelled:
    """The cells of a window whose labels are not all there.

    Attributes
    ----------
    cells : float64[K]
        Lower edges, ascending.
    positives, negatives, unlabelled : int64[K]
        The predictions of each cell by their label.
    scale : {"plain", "probability"}
    misses : (int, int)
        Positive and negative references that were never scored.
    """

    cells: FloatArray
    positives: IntArray
    negatives: IntArray
    unlabelled: IntArray
    scale: Scale
    misses: tuple[int, int] = (0, 0)

    def state(self, positives: IntArray, negatives: IntArray) -> State:
        """Return the state of counts of labels."""
        state = state_of_cells(self.cells, positives, negatives, self.scale)
        return replace(state, missed_positives=self.misses[0], missed_negatives=self.misses[1])

    def labelled(self, extra: IntArray) -> State:
        """Return the state where this many unlabelled of each cell are positive, no others."""
        return self.state(self.positives + extra, self.negatives + self.unlabelled - extra)

    def positive_extra(self, number: int, *, best: bool) -> IntArray:
        """Return how many unlabelled of each cell are positive: the best or worst `number`."""
        order = slice(None, None, -1) if best else slice(None)
        open_cases = self.unlabelled[order]
        before = np.cumsum(open_cases) - open_cases
        taken: IntArray = np.clip(number - before, 0, open_cases)[order]
        return taken

    def steps(self) -> list[int]:
        """Return numbers of positives, ascending, with which P and N change by small ratios."""
        free = int(self.unlabelled.sum())
        few = max(int(self.positives.sum()) + self.misses[0], 1)
        rest = max(int(self.negatives.sum()) + self.misses[1], 1)
        half = np.linspace(0, 1, _STEPS // 2)
        rising = few * ((few + free) / few) ** half - few
        falling = free - (rest * ((rest + free) / rest) ** half - rest)
        chosen = np.concatenate((rising, falling, [0, free]))
        numbers: list[int] = np.unique(np.clip(np.rint(chosen), 0, free).astype(np.int64)).tolist()
        return numbers


def label_limits(
    cases: PartlyLabelled, metric: str, prevalence: float | None
) -> tuple[float, float]:
    """Return limits of an area under any labels of the unlabelled predictions. O(K steps).

    Parameters
    ----------
    cases : PartlyLabelled
    metric : {"auc_roc", "auc_pr", "average_precision"}
    prevalence : float or None
        For areas in precision-recall space, to rescale to.

    Returns
    -------
    lower, upper : float
        An outer bound; [0, 1] where labels could leave a class empty.
    """
    limits = _roc_limits(cases) if metric == "auc_roc" else _pr_limits(cases, metric, prevalence)
    lower, upper = 1.0, 0.0
    for low, high in limits:
        lower, upper = min(lower, low), max(upper, high)
    return max(lower - _ROUNDING, 0.0), min(upper + _ROUNDING, 1.0)


class _Span(NamedTuple):
    """The extra positives of each cell at both ends of a span of their number."""

    best: bool
    fewer: IntArray
    more: IntArray

    @property
    def added(self) -> int:
        """How many labels the ends differ by."""
        return int((self.more - self.fewer).sum())


def _spans(cases: PartlyLabelled) -> Iterator[_Span]:
    """Yield the spans of the worst labels, then of the best."""
    for best in (False, True):
        steps = [cases.positive_extra(number, best=best) for number in cases.steps()]
        for fewer, more in zip(steps, steps[1:] or steps, strict=False):
            yield _Span(best, fewer, more)


def _roc_limits(cases: PartlyLabelled) -> Iterator[tuple[float, float]]:
    missed, missed_negatives = cases.misses
    for span in _spans(cases):
        positives = cases.positives + span.fewer
        negatives = cases.negatives + cases.unlabelled - span.more
        P, N = int(positives.sum()) + missed, int(negatives.sum()) + missed_negatives
        if not P or not N:
            yield 0.0, 1.0
            continue
        share = P / (P + span.added) * (N / (N + span.added))
        lower, upper = Window(cases.state(positives, negatives), 0, 1).bounds("auc_roc")
        yield (1.0, 1 - (1 - upper) * share) if span.best else (lower * share, 0.0)


def _pr_limits(
    cases: PartlyLabelled, metric: str, prevalence: float | None
) -> Iterator[tuple[float, float]]:
    missed, missed_negatives = cases.misses
    odds = None if prevalence is None else prevalence / (1 - prevalence)
    for span in _spans(cases):
        P = int((cases.positives + span.fewer).sum()) + missed
        N = int((cases.negatives + cases.unlabelled - span.more).sum()) + missed_negatives
        if not P or (odds is not None and not N):
            yield 0.0, 1.0
        elif span.best:
            # At a prevalence a negative weighs P/(N odds): the least at the fewest positives.
            weight = 1.0 if odds is None else P / (N + span.added) / odds
            yield 1.0, _greatest_area(cases, span.more, metric, weight, odds is not None) / P
        else:
            weight = 1.0 if odds is None else (P + span.added) / N / odds
            state = cases.labelled(span.fewer)
            lower, _ = _bounds_at(state, metric, weight, odds is not None)
            yield lower * state.P / (P + span.added), 0


def _greatest_area(
    cases: PartlyLabelled, extra: IntArray, metric: str, weight: float, is_rescaled: bool
) -> float:
    """Return the most that the precisions at the positives sum to. O(G)."""
    state = cases.labelled(extra)
    if metric == "average_precision":
        return _greatest_sum(state, weight)
    _, upper = _bounds_at(state, metric, weight, is_rescaled)
    return upper * state.P


def _bounds_at(state: State, metric: str, weight: float, is_rescaled: bool) -> tuple[float, float]:
    """Return the bounds of an area whose negatives have a weight. O(G)."""
    arguments = {"prevalence": state.P / (state.P + state.N * weight)} if is_rescaled else {}
    return Window(state, 0, 1).bounds(metric, **arguments)


def _greatest_sum(state: State, weight: float) -> float:
    """Return a sum of precisions that no order or tie inside the cells exceeds. O(G).

    Each positive has the greatest precision of any point at its rank or below. This grows
    with every exchange that raises the ROC curve; average precision with ties does not.
    """
    groups = state.groups
    found = groups.tp + groups.p
    precision = found / (found + weight * groups.fp)
    best_below = np.maximum.accumulate(precision[::-1])[::-1]
    return float((groups.p * best_below).sum())
