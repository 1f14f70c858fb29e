"""Tied groups with positives: the input of nearly all metrics, in O(positives).

A metric of the empirical ROC or PR curve depends on a group of tied scores only
through the group's counts and the counts above it. Groups without positives only
add to the false positives of the groups below them. So metrics read one row for
each distinct score *that has positives*: at 5 % prevalence, a twentieth of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of tied scores that have positives, best first.

    Row g describes one distinct score with at least one positive. Between the
    end of row g, at ``fp[g] + n[g]`` false positives, and the start of row
    g + 1, at ``fp[g + 1]``, there are only negatives.

    Attributes
    ----------
    scores : float64[G]
        The distinct scores, strictly decreasing and finite.
    p, n : int64[G]
        Positives (>= 1) and negatives (>= 0) tied at that score.
    tp, fp : int64[G]
        True and false positives that rank strictly above the group.
    missed_positives, missed_negatives : int
        References that were never scored: one more tied group at -inf.
    P, N : int
        All positives and negatives, misses included.
    """

    scores: FloatArray
    p: IntArray
    n: IntArray
    tp: IntArray
    fp: IntArray
    missed_positives: int
    missed_negatives: int
    P: int
    N: int

    @classmethod
    def of_cells(cls, scores: FloatArray, p: IntArray, n: IntArray) -> Groups:
        """Return all cells as rows, best first, also those without positives. O(cells).

        Misses, if any, are the last cell.
        """
        return cls(
            scores=scores,
            p=p,
            n=n,
            tp=np.cumsum(p) - p,
            fp=np.cumsum(n) - n,
            missed_positives=0,
            missed_negatives=0,
            P=int(p.sum()),
            N=int(n.sum()),
        )

    def with_misses(self) -> Groups:
        """Return the groups with the misses as a last group at -inf.

        ROC and PR curves, hulls and interpolated areas count the misses as a
        group. AP, F and the metrics of ranked lists do not: a missed positive adds
        nothing to them. Without missed positives the result is ``self``, because
        missed negatives alone only raise N. O(G).
        """
        if self.missed_positives == 0:
            return self
        scored_p = self.P - self.missed_positives
        scored_n = self.N - self.missed_negatives
        return Groups(
            scores=np.append(self.scores, -np.inf),
            p=_appended(self.p, self.missed_positives),
            n=_appended(self.n, self.missed_negatives),
            tp=_appended(self.tp, scored_p),
            fp=_appended(self.fp, scored_n),
            missed_positives=0,
            missed_negatives=0,
            P=self.P,
            N=self.N,
        )


def _appended(counts: IntArray, last: int) -> IntArray:
    """Return the counts with `last` appended."""
    return np.append(counts, np.int64(last))
