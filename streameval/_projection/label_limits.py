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
from typing import TYPE_CHECKING

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


def _spans(cases: PartlyLabelled, *, best: bool) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the extra positives at both ends of each span of their number."""
    steps = [cases.positive_extra(number, best=best) for number in cases.steps()]
    yield from zip(steps, steps[1:] or steps, strict=False)


def _roc_limits(cases: PartlyLabelled) -> Iterator[tuple[float, float]]:
    missed, missed_negatives = cases.misses
    for best in (False, True):
        for fewer, more in _spans(cases, best=best):
            positives = cases.positives + fewer
            negatives = cases.negatives + cases.unlabelled - more
            P, N = int(positives.sum()) + missed, int(negatives.sum()) + missed_negatives
            if not P or not N:
                yield 0.0, 1.0
                continue
            added = int((more - fewer).sum())
            share = P / (P + added) * (N / (N + added))
            lower, upper = Window(cases.state(positives, negatives), 0, 1).bounds("auc_roc")
            yield (1.0, 1 - (1 - upper) * share) if best else (lower * share, 0.0)


def _pr_limits(
    cases: PartlyLabelled, metric: str, prevalence: float | None
) -> Iterator[tuple[float, float]]:
    missed, missed_negatives = cases.misses
    odds = None if prevalence is None else prevalence / (1 - prevalence)
    for best in (False, True):
        for fewer, more in _spans(cases, best=best):
            added = int((more - fewer).sum())
            least = int((cases.positives + fewer).sum()) + missed
            negatives = int((cases.negatives + cases.unlabelled - more).sum()) + missed_negatives
            if not least or (odds is not None and not negatives):
                yield 0.0, 1.0
                continue
            # At a prevalence a negative weighs P/(N odds): the least at the fewest positives.
            weight = 1.0
            if odds is not None:
                ratio = least / (negatives + added) if best else (least + added) / negatives
                weight = ratio / odds
            counted = more if best else fewer
            state = cases.state(
                cases.positives + counted, cases.negatives + cases.unlabelled - counted
            )
            if best and metric == "average_precision":
                yield 1.0, _greatest_sum(state, weight) / least
                continue
            own = None if odds is None else state.P / (state.P + state.N * weight)
            arguments = {} if own is None else {"prevalence": own}
            lower, upper = Window(state, 0, 1).bounds(metric, **arguments)
            yield (1.0, upper * state.P / least) if best else (lower * state.P / (least + added), 0)


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
