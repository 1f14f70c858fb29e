"""Many small pieces of one stream's rows as few large ones, in an order that means the same.

Cases and misses only add up: their order does not matter. What is done to an
*id* keeps its order: predicting, labelling and taking back one id is sent as it
was done. Different ids do not know each other, so their rows may change places,
and alternating calls still make large batches: within a phase all predictions
go first, then the labels, then the retractions; a phase ends where an id would
overtake itself.

Cost: O(rows), and a set of the ids where kinds alternate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.client._buffer.columns import CaseRows, MissRows, joined
from streameval.client._buffer.id_columns import LabelRows, PredictionRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval.client._buffer.columns import Rows
    from streameval.client._buffer.id_columns import IdRows

PREDICTION, LABEL, RETRACTION = 0, 1, 5
"""Ranks in a phase. Labels have four, by whether they carry a time and a score."""

# Joined misses stay below half of what may be counted; larger ones go alone.
_JOINED_MISSES = 1 << 61


def label_rank(*, timed: bool, scored: bool) -> int:
    """Return the rank of labels that carry these columns.

    Examples
    --------
    >>> label_rank(timed=False, scored=False), label_rank(timed=True, scored=True)
    (1, 4)
    """
    return LABEL + timed + 2 * scored


def rank_of(rows: IdRows) -> int:
    """Return where rows stand in a phase; rows of one rank can be joined."""
    if isinstance(rows, PredictionRows):
        return PREDICTION
    if isinstance(rows, LabelRows):
        return label_rank(timed=rows.times is not None, scored=rows.scores is not None)
    return RETRACTION


def phases(ids: Sequence[str], ranks: Sequence[int]) -> list[int]:
    """Return where phases begin and end in rows done one after the other. O(rows).

    Examples
    --------
    >>> phases(["a", "b", "a", "b"], [0, 0, 1, 1])  # the labels of two predictions
    [0, 4]
    >>> phases(["a", "a", "a"], [0, 5, 0])  # predicted again after it was taken back
    [0, 2, 3]
    """
    edges = [0]
    if len(set(ids)) < len(ids):
        highest: dict[str, int] = {}
        for row, (id_, rank) in enumerate(zip(ids, ranks, strict=True)):
            if highest.get(id_, 0) > rank:
                edges.append(row)
                highest.clear()
            highest[id_] = rank
    edges.append(len(ids))
    return edges


def coalesce_id_rows(pieces: Sequence[IdRows]) -> Sequence[IdRows]:
    """Return pieces of rows by id as few pieces, which mean the same in their order."""
    if len(pieces) < 2:
        return pieces
    done: list[IdRows] = []
    phase: dict[int, list[IdRows]] = {}
    ids: dict[int, set[str]] = {}
    for piece in pieces:
        rank = rank_of(piece)
        if any(rank < other and not ids[other].isdisjoint(piece.ids) for other in phase):
            done += _joined_phase(phase)
            phase, ids = {}, {}
        phase.setdefault(rank, []).append(piece)
        ids.setdefault(rank, set())
        if rank != PREDICTION:  # nothing has a lower rank
            ids[rank].update(piece.ids)
    return done + _joined_phase(phase)


def _joined_phase(phase: dict[int, list[IdRows]]) -> list[IdRows]:
    return [joined(phase[rank]) for rank in sorted(phase)]


def coalesce_cases(pieces: Sequence[CaseRows | MissRows]) -> Sequence[Rows]:
    """Return cases and misses as few pieces. O(rows).

    Cases with counts stay as they are: a joined total might be too large where
    each is not.
    """
    if len(pieces) < 2:
        return pieces
    plain: dict[tuple[bool, ...], list[CaseRows]] = {}
    misses: dict[tuple[object, ...], MissRows] = {}
    rows: list[Rows] = []
    for piece in pieces:
        if isinstance(piece, MissRows):
            key = (piece.times, piece.segments)
            before = misses.get(key)
            both = piece if before is None else before + piece
            if before is not None and max(both.positives, both.negatives) >= _JOINED_MISSES:
                rows.append(before)
                both = piece
            misses[key] = both
        elif piece.counts is None:
            plain.setdefault(piece.shape, []).append(piece)
        else:
            rows.append(piece)
    rows += [joined(same) for same in plain.values()]
    rows += misses.values()
    return rows
