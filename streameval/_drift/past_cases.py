"""Cases of before as rows of a detector: what is kept of panes, by their time.

A pane that is kept is one observation, at its end: it does not say when in it cases came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval._counts.resolution import quantise
from streameval._drift.side_table import CLUSTER_GROUPS, DriftRows, RowKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._counts.resolution import Scale
    from streameval._counts.state import State
    from streameval._drift.settings import DriftSettings


class PastCases(NamedTuple):
    """The cases of panes: a row for each score and class of a pane.

    Attributes
    ----------
    rows : DriftRows
        Without groups of clusters.
    starts_us, ends_us : int64[n]
        The time of each row's pane.
    clusters : DriftRows or None
        The groups of the clusters of the same cases, by coarse cells of scores.
    cluster_ends_us : int64[m]
    left_out : int
        Cases of panes with weights.
    """

    rows: DriftRows
    starts_us: IntArray
    ends_us: IntArray
    clusters: DriftRows | None
    cluster_ends_us: IntArray
    left_out: int

    @classmethod
    def of(
        cls,
        panes: Sequence[tuple[int, int, State]],
        settings: DriftSettings,
        resolution: int | None,
    ) -> PastCases:
        """Return the cases of panes with their start and end in microseconds. O(cells)."""
        kept = [each for each in panes if each[2].weighted is None]
        runs = [run for *_, state in kept for run in state.counts.runs]
        scores = np.concatenate([np.zeros(0), *(run.scores for run in runs)])
        none = np.zeros(0, dtype=np.int64)
        counts = np.concatenate([none, *(run.multiplicities() for run in runs)])
        sizes = np.array([len(run) for run in runs], dtype=np.int64)
        # Of each state the positives, then the negatives.
        labels = np.repeat(np.arange(len(runs)) % 2 == 0, sizes)
        sizes = sizes.reshape(-1, 2).sum(axis=1)
        if resolution is not None:
            scale: Scale = "probability" if settings.is_probability else "plain"
            scores = quantise(scores, resolution, scale)
        starts, ends = (np.array([each[at] for each in kept], dtype=np.int64) for at in (0, 1))
        clusters, cluster_sizes = None, np.zeros(len(kept), dtype=np.int64)
        if settings.has_clusters:
            clusters, cluster_sizes = _cluster_rows([state for *_, state in kept])
        return cls(
            _rows(labels, scores, counts),
            np.repeat(starts, sizes),
            np.repeat(ends, sizes),
            clusters,
            np.repeat(ends, cluster_sizes),
            sum(sum(state.num_scored) for *_, state in panes if state.weighted is not None),
        )


def _rows(labels: BoolArray, scores: FloatArray, counts: IntArray) -> DriftRows:
    return DriftRows(labels.view(np.uint8) + np.uint8(RowKind.NEGATIVE_CASE), scores, counts)


def _cluster_rows(states: Sequence[State]) -> tuple[DriftRows, IntArray]:
    """Return the rows of the states' tables of clusters, and how many each state has."""
    tables = [state.clusters for state in states]
    scored = [np.isfinite(each.edges) for each in tables]
    known = list(zip(tables, scored, strict=True))
    codes, edges, counts = (
        np.concatenate([getattr(each, name)[rows] for each, rows in known] or [np.zeros(0)])
        for name in ("codes", "edges", "counts")
    )
    groups = codes.astype(np.int64) // 2 % CLUSTER_GROUPS
    rows = _rows(codes % 2 == 1, edges, counts.astype(np.int64))._replace(groups=groups)
    return rows, np.array([each.sum() for each in scored], dtype=np.int64)
