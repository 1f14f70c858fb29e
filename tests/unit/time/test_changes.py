"""Effects summed by group, against one effect at a time."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Coverage, Evaluator
from streameval._time.changes import apply_one
from streameval._time.coverage import EDGES, bands_of
from streameval._time.effects import COVERAGE
from streameval.kernel import Change, CoverageCell, Effect, Effects, rows_by_group

SCORES = st.sampled_from([-1e9, -2.5, -0.0, 1e-30, 0.3, 0.3001, 0.7, 1e12])
HISTORY = st.lists(
    st.tuples(st.integers(0, 3), SCORES, st.booleans(), st.integers(0, 5)), max_size=30
)
LIVES = [
    [Effect.PREDICTED],
    [Effect.PREDICTED, "label"],
    [Effect.PREDICTED, "label", "unlabel", "label"],
    [Effect.PREDICTED, "label", "unlabel", Effect.RETRACTED],
    [Effect.PREDICTED, Effect.EXPIRED_NEGATIVE],
    ["miss"],
]
WORDS = {
    "label": (Effect.LABELLED_NEGATIVE, Effect.LABELLED_POSITIVE),
    "unlabel": (Effect.UNLABELLED_NEGATIVE, Effect.UNLABELLED_POSITIVE),
    "miss": (Effect.MISSED_NEGATIVE, Effect.MISSED_POSITIVE),
}


def table(history: list[tuple], between: int = 1000) -> tuple[Effects, np.ndarray]:
    """Return the effects on some predictions, and the group of each row."""
    rows = [
        (group, WORDS[step][positive] if isinstance(step, str) else step, score)
        for group, score, positive, life in history
        for step in LIVES[life]
    ]
    effects = Effects(
        np.array([kind for _, kind, _ in rows], dtype=np.uint8),
        np.zeros(len(rows), dtype=np.int64),
        np.zeros(len(rows), dtype=np.int64),
        np.array([np.nan if "MISSED" in kind.name else score for _, kind, score in rows]),
        np.zeros((len(rows), 0), dtype=np.uint16),
    )
    return effects, np.array([group * between for group, _, _ in rows], dtype=np.int64)


@given(history=HISTORY, later=HISTORY, between=st.sampled_from([1, 1000]))
@pytest.mark.slow
def test_groups_equal_one_at_a_time(history: list[tuple], later: list[tuple], between: int) -> None:
    """Evaluators, coverage and bands equal those of single effects, after several tables."""
    evaluators: defaultdict = defaultdict(Evaluator)
    cells: defaultdict = defaultdict(CoverageCell)
    one_by_one: defaultdict = defaultdict(Evaluator)
    single: defaultdict = defaultdict(CoverageCell)
    plain: defaultdict = defaultdict(CoverageCell)
    for part in (history, later):
        effects, groups = table(part, between)
        for group, change in Change.by_group(effects, groups):
            change.apply_to(evaluators[group])
            cells[group].merge(change.coverage)
            if not change.affects_counts:
                assert change.added is change.removed is None
        for group, rows in rows_by_group(groups):
            plain[group].add(effects.kinds[rows], effects.scores[rows])
        for group, kind, score in zip(
            groups.tolist(), effects.kinds.tolist(), effects.scores.tolist(), strict=True
        ):
            apply_one(kind, score, lambda group=group: one_by_one[group])
            single[group].add_one(kind, score)
    assert cells == single == plain
    for group, cell in cells.items():
        cell._check()
        assert evaluators[group] == one_by_one[group]
        assert CoverageCell.from_bytes(cell.to_bytes()) == cell
        assert cell.copy() == cell
    effects, _ = table([*history, *later])
    total = Coverage()
    for cell in cells.values():
        total += cell.coverage
    assert total == _coverage_of(effects.kinds)


@given(history=HISTORY)
def test_what_comes_and_goes_in_one_table_cancels(history: list[tuple]) -> None:
    """No score of a class is both added and removed, so removal never waits for addition."""
    effects, groups = table(history)
    for _, change in Change.by_group(effects, groups):
        if change.added and change.removed:
            added = set(zip(change.added.labels, change.added.scores, strict=True))
            assert not added & set(zip(change.removed.labels, change.removed.scores, strict=True))


@given(scores=st.lists(st.floats(0, 1), min_size=1), at_most=st.integers(1, 12))
def test_bands_by_score_hold_their_predictions(scores: list[float], at_most: int) -> None:
    """Bands are at most `at_most`, tile the line, and count the predictions in them."""
    for scale in ("plain", "probability"):
        cell = CoverageCell(scale)
        kinds = np.full(len(scores), Effect.PREDICTED, dtype=np.uint8)
        cell.add(kinds, np.array(scores))
        labelled = np.array(scores[::3])
        cell.add(np.full(labelled.size, Effect.LABELLED_POSITIVE, np.uint8), labelled)
        bands = cell.by_score(at_most)
        assert 1 <= len(bands) <= at_most
        edges = [bands[0].lower, *(band.upper for band in bands)]
        assert edges[0] == -np.inf
        assert edges[-1] == np.inf
        assert edges[:-1] == [band.lower for band in bands]
        for band in bands:
            assert band.predictions == sum(band.lower <= score < band.upper for score in scores)
            assert band.labelled == sum(band.lower <= score < band.upper for score in labelled)
            assert band.predictions > 0


def test_bands_are_fine_where_scores_are() -> None:
    """Edges ascend; on the probability scale they are mirrored about 1/2."""
    for scale, edges in EDGES.items():
        assert (np.diff(edges) > 0).all()
        assert bands_of(edges, scale).tolist() == list(range(1, edges.size + 1))
    assert np.array_equal(EDGES["probability"], 1 - EDGES["probability"][::-1])
    assert CoverageCell().by_score() == ()


@given(
    scores=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1),
    shares=st.lists(st.floats(0, 1), min_size=1),
)
def test_bands_are_those_of_a_search_among_the_edges(
    scores: list[float], shares: list[float]
) -> None:
    """Any score's band is found by its key, also next to an edge, at zero and at the largest."""
    for scale, given_scores in (("plain", scores), ("probability", shares)):
        edges = EDGES[scale]
        beside = [np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)]
        column = np.concatenate((given_scores, edges, *beside, [0.0, -0.0, 5e-324, 1.0]))
        if scale == "plain":
            column = np.concatenate((column, -column, [np.finfo(np.float64).max]))
        column = column[(column >= 0) & (column <= 1)] if scale == "probability" else column
        expected = np.searchsorted(edges, column, side="right")
        assert bands_of(column, scale).tolist() == expected.tolist()


def _coverage_of(kinds: np.ndarray) -> Coverage:
    """Sum the coverage of each effect, one effect at a time."""
    total = Coverage()
    for kind in kinds.tolist():
        total += Coverage(**{name: int(table[kind]) for name, table in COVERAGE.items()})
    return total
