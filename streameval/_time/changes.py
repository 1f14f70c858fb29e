"""Effects summed for each pane or slice that they touch, in one pass.

A table of effects touches many panes, and with segments many slices of each. Its
rows are sorted by group once; cases that are added and removed within the table
cancel. The rest is one `Change` for each group: columns to add, columns to remove,
misses, and the coverage. Evaluators, panes and slices all apply the same `Change`.

Cost: O(n log n), and about 20 us a group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.unsorted_cases import UnsortedCases
from streameval._counts.weights import WEIGHT_UNITS
from streameval._time.coverage import EDGES, LABELABLE, LABELLED, CoverageCell, bands_of
from streameval._time.distinct import distinct_values
from streameval._time.effects import (
    NEGATIVE_CASES,
    NEGATIVE_MISSES,
    POSITIVE_CASES,
    POSITIVE_MISSES,
    Effect,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streameval._common.arrays import IntArray
    from streameval._counts.resolution import Scale
    from streameval._evaluator import Evaluator
    from streameval._time.effects import CodeArray, Effects

_CASE_WEIGHTS = POSITIVE_CASES + NEGATIVE_CASES
_IS_BANDED = (LABELABLE != 0) | (LABELLED != 0)


# The label of the case that each kind of effect adds or removes.
_LABEL_OF_KIND = {int(kind): bool(POSITIVE_CASES[kind]) for kind in Effect if _CASE_WEIGHTS[kind]}
_ADDED_LABEL = {kind: label for kind, label in _LABEL_OF_KIND.items() if _CASE_WEIGHTS[kind] > 0}
_REMOVED_LABEL = {kind: label for kind, label in _LABEL_OF_KIND.items() if _CASE_WEIGHTS[kind] < 0}


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What a table of effects does to one group.

    Attributes
    ----------
    added, removed : UnsortedCases or None
        No score of a class, of a group of clusters and of a weight is in both.
    missed_positives, missed_negatives : int
        References that were never scored, added.
    coverage : CoverageCell
        Counts of the effects, to be merged into the group's coverage.
    """

    added: UnsortedCases | None
    removed: UnsortedCases | None
    missed_positives: int
    missed_negatives: int
    coverage: CoverageCell

    @classmethod
    def by_group(
        cls, effects: Effects, groups: IntArray, *, scale: Scale = "plain"
    ) -> Iterator[tuple[int, Change]]:
        """Yield each group's change, in order of the groups.

        Parameters
        ----------
        effects : Effects
        groups : int64[n]
            The group of each effect: the start of its pane (`Grid.starts_of`), a
            number made of pane and slice, or 0 for all.
        scale : {"plain", "probability"}
            Selects the bands of score of the coverage.

        Examples
        --------
        >>> from streameval._time.effects import Effects
        >>> effects = Effects(
        ...     kinds=np.array([Effect.PREDICTED, Effect.LABELLED_POSITIVE], dtype=np.uint8),
        ...     event_us=np.array([5, 5]), at_us=np.array([6, 6]), scores=np.array([0.7, 0.7]),
        ...     codes=np.zeros((2, 0), dtype=np.uint16),
        ... )
        >>> [(group, change)] = Change.by_group(effects, np.array([60, 60]))
        >>> group, change.added.scores, change.coverage.coverage.labelled
        (60, array([0.7]), 1)
        """
        if not len(effects):
            return
        keys, index = distinct_values(groups)
        kinds = effects.kinds
        flat = np.bincount(index * len(Effect) + kinds, minlength=keys.size * len(Effect))
        effect_counts = flat.reshape(keys.size, len(Effect))
        missed = np.stack(
            (effect_counts @ POSITIVE_MISSES, effect_counts @ NEGATIVE_MISSES), axis=1
        )
        rows = zip(
            keys.tolist(),
            effect_counts,
            missed.tolist(),
            _cases(effects, index, keys.size),
            _bands(effects, index, keys.size, scale),
            strict=True,
        )
        for key, happened, (positives, negatives), (added, removed), bands in rows:
            cell = CoverageCell.of(happened.copy(), *bands, scale=scale)
            yield key, cls(added, removed, positives, negatives, cell)

    @property
    def affects_counts(self) -> bool:
        """Whether it changes an evaluator, and not the coverage alone."""
        return bool(self.added or self.removed or self.missed_positives or self.missed_negatives)

    def apply_to(self, evaluator: Evaluator) -> None:
        """Change an evaluator. O(n), and O(n + cells) if cases are removed."""
        if self.added:
            evaluator._add_rows(self.added)
        if self.removed:
            evaluator._remove_rows(self.removed)
        if self.missed_positives or self.missed_negatives:
            evaluator.add_misses(self.missed_positives)
            evaluator.add_negative_misses(self.missed_negatives)


def apply_one(
    kind: int,
    score: float,
    evaluator: Callable[[], Evaluator],
    group: CodeArray | None = None,
    units: int = WEIGHT_UNITS,
) -> None:
    """Apply one effect to an evaluator. O(log n).

    `group` is of its cluster, if there are clusters, `units` the weight of the label.

    `evaluator` is called only if the effect changes counts, so that no pane is made
    for one that does not.
    """
    weight = None if units == WEIGHT_UNITS else units / WEIGHT_UNITS
    if kind in _LABEL_OF_KIND and group is not None:
        groups = np.atleast_1d(group)
        cases = UnsortedCases(
            np.array([_LABEL_OF_KIND[kind]]), np.array([score]), None, clusters=groups
        )
        (evaluator()._add_rows if kind in _ADDED_LABEL else evaluator()._remove_rows)(cases)
    elif kind in _LABEL_OF_KIND and not units:
        return
    elif kind in _ADDED_LABEL:
        evaluator().add_case(_ADDED_LABEL[kind], score, weight=weight)
    elif kind in _REMOVED_LABEL:
        evaluator().remove_case(_REMOVED_LABEL[kind], score, weight=weight)
    elif kind == Effect.MISSED_POSITIVE:
        evaluator().add_misses(1)
    elif kind == Effect.MISSED_NEGATIVE:
        evaluator().add_negative_misses(1)


def rows_by_group(groups: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Yield each group with its rows, in order. O(n log n)."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    cuts = np.flatnonzero(np.diff(ordered)) + 1
    for rows in np.split(order, cuts) if order.size else ():
        yield int(groups[rows[0]]), rows


def _cases(
    effects: Effects, index: IntArray, groups: int
) -> Iterator[tuple[UnsortedCases | None, UnsortedCases | None]]:
    """Yield the cases that each group's evaluator gains, and the cases that it loses."""
    signs = _CASE_WEIGHTS[effects.kinds]
    if effects.units is not None:
        signs = signs * (effects.units > 0)  # of weight 0, a case changes nothing
    rows = np.flatnonzero(signs)
    signs = signs[rows]
    labels = POSITIVE_CASES[effects.kinds] != 0
    cases = UnsortedCases(labels, effects.scores, None, effects.units, effects.clusters).take(rows)
    index = index[rows]
    counts: IntArray | None = None
    if (signs > 0).all():
        kept = _order(index, groups)
    else:
        columns = (cases.units, cases.clusters, cases.scores, cases.labels, index)
        given = [each for each in columns if each is not None]
        order = np.lexsort(given)
        new = np.ones(rows.size, dtype=np.bool_)
        new[1:] = np.any([each[order][1:] != each[order][:-1] for each in given], axis=0)
        firsts = np.flatnonzero(new)
        counts = np.add.reduceat(signs[order], firsts)
        left = counts != 0
        kept, counts = order[firsts[left]], counts[left]
    index, cases = index[kept], replace(cases.take(kept), counts=counts)
    cuts = np.searchsorted(index, np.arange(groups + 1)).tolist()
    for start, end in pairwise(cuts):
        part = slice(start, end)
        if start == end:
            yield None, None
        else:
            yield _signed(cases.take(part))


def _order(index: IntArray, groups: int) -> IntArray:
    """Return the rows in the order of their groups. O(n), O(n log n) with many groups."""
    if groups == 1:
        return np.arange(index.size)
    # numpy sorts numbers of up to 16 bits by radix sort.
    return np.argsort(index.astype(np.uint16) if groups <= 1 << 16 else index, kind="stable")


def _signed(cases: UnsortedCases) -> tuple[UnsortedCases | None, UnsortedCases | None]:
    if cases.counts is None:
        return cases, None
    gained = cases.counts > 0
    lost = replace(cases.take(~gained), counts=-cases.counts[~gained])
    return cases.take(gained) if gained.any() else None, None if gained.all() else lost


def _bands(
    effects: Effects, index: IntArray, groups: int, scale: Scale
) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Yield each group's distinct bands, with their labelable and labelled predictions."""
    rows = np.flatnonzero(_IS_BANDED[effects.kinds])
    kinds = effects.kinds[rows]
    width = EDGES[scale].size + 1
    flat, at = distinct_values(index[rows] * width + bands_of(effects.scores[rows], scale))
    labelable, labelled = np.zeros((2, flat.size), dtype=np.int64)
    np.add.at(labelable, at, LABELABLE[kinds])
    np.add.at(labelled, at, LABELLED[kinds])
    cuts = np.searchsorted(flat, np.arange(groups + 1) * width).tolist()
    for start, end in pairwise(cuts):
        part = slice(start, end)
        yield flat[part] % width, labelable[part], labelled[part]
