"""Metrics of counts that are divided into shards: disjoint ranges of scores.

A shard has all cases of a range of scores, and the numbers of cases that rank above it
(`ShardPosition`). Its contribution to each metric is computed from it alone. Two
neighbouring shards add up to the shard of both ranges (`+`), associatively:

- counts, and the doubled number of pairs that positives lose: L = L1 + L2 + 2 N1 P2,
  all integers, so AUC-ROC equals the whole's to the last bit;
- the hull is the hull of the shards' hulls, because a point on or under a chord of its
  own shard is under the whole's hull; it is exact, and so are both hull areas;
- AP and the interpolated area are sums over groups of tied scores, and no group is in
  two shards: they are exact up to the rounding of a sum.

Cost: O(G) for a shard of G groups, O(vertices) to add two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._counts.exact import exact_dot
from streameval._metrics.areas import step_groups
from streameval._metrics.hull import Vertices, hull_vertices, upper_hull
from streameval._metrics.pr_areas import auc_pr_value, average_precision_value
from streameval._metrics.roc_areas import auc_roc_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._counts.groups import Groups
    from streameval._counts.state import State


@dataclass(frozen=True, slots=True)
class ShardPosition:
    """The position of a shard in the whole ranking.

    Attributes
    ----------
    tp, fp : int
        Positives and negatives of the whole with higher scores than the shard's.
    P, N : int
        All positives and negatives of the whole.
    """

    tp: int
    fp: int
    P: int
    N: int


@dataclass(frozen=True, eq=False)
class Shard:
    """The contribution of a range of scores to the metrics of the whole.

    Attributes
    ----------
    position : ShardPosition
        The position in the whole ranking.
    high, low : float
        Its highest and lowest score.
    positives, negatives : int
        Its cases.
    lost : int
        Twice the pairs within it whose negative outscores the positive, plus the ties.
    corners : Vertices
        Vertices of its hull at which positives were gained, in its own counts.
    auc_pr, average_precision : float
        P times its contribution to these areas.
    """

    position: ShardPosition
    high: float
    low: float
    positives: int
    negatives: int
    lost: int
    corners: Vertices
    auc_pr: float
    average_precision: float

    def __add__(self, below: Shard) -> Shard:
        """Return the shard of both ranges; `below` must follow directly. O(vertices)."""
        self._check_follows(below)
        positives, negatives = self.positives + below.positives, self.negatives + below.negatives
        thresholds = np.concatenate((self.corners.thresholds, below.corners.thresholds))
        fp = np.concatenate((self.corners.fp, below.corners.fp + self.negatives))
        tp = np.concatenate((self.corners.tp, below.corners.tp + self.positives))
        chain = _closed(Vertices(thresholds, fp, tp), positives, negatives)
        return Shard(
            position=self.position,
            high=self.high,
            low=below.low,
            positives=positives,
            negatives=negatives,
            lost=self.lost + below.lost + 2 * self.negatives * below.positives,
            corners=_corners(chain),
            auc_pr=self.auc_pr + below.auc_pr,
            average_precision=self.average_precision + below.average_precision,
        )

    def _check_follows(self, below: Shard) -> None:
        expected = replace(
            self.position,
            tp=self.position.tp + self.positives,
            fp=self.position.fp + self.negatives,
        )
        if below.position != expected:
            raise InvalidInputError(
                f"shards must be adjacent: below score {self.low} is {expected}, "
                f"got {below.position}",
                field="shards",
            )
        if not self.low > below.high:
            raise InvalidInputError(
                "shards must share no score and be ordered from high to low: one ends at "
                f"{self.low}, the next begins at {below.high}",
                field="shards",
            )

    @cached_property
    def hull(self) -> Vertices:
        """The hull's vertices from (0, 0) to (N, P), in its own counts."""
        return _closed(self.corners, self.positives, self.negatives)

    def metrics(self) -> dict[str, float]:
        """Return the areas of the whole, once all shards are added; nan if undefined.

        They have the same names as in a snapshot.

        Raises
        ------
        InvalidInputError
            When shards are missing.
        """
        P, N = self.position.P, self.position.N
        if (self.positives, self.negatives) != (P, N):
            raise InvalidInputError(
                f"the shards have {self.positives} of {P} positives and "
                f"{self.negatives} of {N} negatives: some are missing",
                field="shards",
            )
        hull = step_groups(self.hull.thresholds, self.hull.fp, self.hull.tp, P, N)
        pairs = 2 * P * N
        return {
            "auc_roc": (pairs - self.lost) / pairs if pairs else math.nan,
            "auc_roc_hull": auc_roc_value(hull),
            "auc_pr": self.auc_pr / P if P else math.nan,
            "auc_pr_hull": auc_pr_value(hull),
            "average_precision": self.average_precision / P if P else math.nan,
            "prevalence": P / (P + N) if P + N else math.nan,
        }


def shard_of(state: State, position: ShardPosition) -> Shard:
    """Return the contribution of a range of scores to the metrics. O(G).

    Parameters
    ----------
    state : State
        The cases of the range, at least one, and no misses.
    position : ShardPosition
        The position in the whole ranking.

    Examples
    --------
    >>> from streameval import Evaluator
    >>> upper, lower = Evaluator(), Evaluator()
    >>> upper.add_cases(labels=[1, 0], scores=[0.9, 0.7])
    >>> lower.add_cases(labels=[1, 0], scores=[0.4, 0.1])
    >>> whole = shard_of(upper._view(), ShardPosition(0, 0, 2, 2)) + shard_of(
    ...     lower._view(), ShardPosition(1, 1, 2, 2)
    ... )
    >>> whole.metrics()["auc_roc"], (upper + lower).auc_roc()
    (0.75, 0.75)
    """
    scores = [run.scores for run in state.counts.runs]
    high = max(float(column[-1]) for column in scores if column.size)
    low = min(float(column[0]) for column in scores if column.size)
    groups = state.groups
    placed = placed_groups(groups, position)
    return Shard(
        position=position,
        high=high,
        low=low,
        positives=groups.P,
        negatives=groups.N,
        lost=exact_dot(groups.p, 2 * groups.fp + groups.n, 2 * groups.P * groups.N),
        corners=_corners(hull_vertices(groups)),
        auc_pr=auc_pr_value(placed) * position.P if groups.P else 0.0,
        average_precision=average_precision_value(placed) * position.P if groups.P else 0.0,
    )


def placed_groups(groups: Groups, position: ShardPosition) -> Groups:
    """Return a shard's groups with their ranks in the whole. O(G)."""
    return replace(
        groups, tp=groups.tp + position.tp, fp=groups.fp + position.fp, P=position.P, N=position.N
    )


def shard_positions(counts: Sequence[tuple[int, int]]) -> list[ShardPosition]:
    """Return the positions of shards with these (positives, negatives), from high to low. O(n).

    Examples
    --------
    >>> shard_positions([(1, 2), (3, 4)])
    [ShardPosition(tp=0, fp=0, P=4, N=6), ShardPosition(tp=1, fp=2, P=4, N=6)]
    """
    P, N = sum(p for p, _ in counts), sum(n for _, n in counts)
    found, tp, fp = [], 0, 0
    for p, n in counts:
        found.append(ShardPosition(tp, fp, P, N))
        tp, fp = tp + p, fp + n
    return found


def _closed(corners: Vertices, P: int, N: int) -> Vertices:
    """Return the hull of (0, 0), these points and (N, P)."""
    fp = np.concatenate(([0], corners.fp))
    tp = np.concatenate(([0], corners.tp))
    thresholds = np.concatenate(([np.inf], corners.thresholds))
    if (fp[-1], tp[-1]) != (N, P):
        fp, tp = np.append(fp, N), np.append(tp, P)
        thresholds = np.append(thresholds, -np.inf)
    rows = upper_hull(fp, tp)
    return Vertices(thresholds[rows], fp[rows], tp[rows])


def _corners(hull: Vertices) -> Vertices:
    """Return the vertices at which positives were gained, without (0, 0) and an end at -inf."""
    kept = np.isfinite(hull.thresholds)
    return Vertices(hull.thresholds[kept], hull.fp[kept], hull.tp[kept])
