"""Labels with weights in pairs of the engine, against a recount and the library."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from streameval import compare_paired
from streameval.statistics import PairCounts, PairRows, PairShape, Place
from streameval_server._model.pair_settings import pair_key
from streameval_server._state.pairs import pair_joiner
from streameval_server._state.pairs.pair_state import compare_counts

from .test_pair_state import UNIT, Log, Recount, acted, applied, cases_of, expected_cases

WEIGHTS = (UNIT // 4, UNIT, 3 * UNIT, 2**31 * UNIT, 0)


def units_of(counts: PairCounts) -> tuple[Counter, Counter]:
    """Return the weights of each model's cases by class and score."""
    found = (Counter(), Counter())
    for model, units in zip(counts.models, found, strict=True):
        for label in (True, False):
            run = model.counts.weighed().run(label)
            for score, size in zip(run.scores.tolist(), run.counts.tolist(), strict=True):
                units[label, score] += size
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.slow
def test_a_pair_with_weights_is_what_a_recount_gives(seed: int) -> None:
    """Cases, their weights and tallies; an id keeps the weight of its first label."""
    log = Log(expired="negative" if seed % 2 else "drop", max_cells=16 if seed > 2 else 4_096)
    acted(log, 20 + seed, 100, WEIGHTS)
    recount = Recount(log)
    for entry in log.entries:
        recount.take(entry)
    pair = applied(log.entries).pairs.get(pair_key("next"))
    pair._check()
    counts = pair.view(0, 0).counts()
    counts._check()
    assert cases_of(counts.totals[0]) == expected_cases(recount, lambda *_: True)
    expected = (Counter(), Counter())
    for (_, _, label, a, b), units in recount.units.items():
        expected[0][label, a] += units
        expected[1][label, b] += units
    assert units_of(counts.totals[0]) == tuple(+each for each in expected)
    tally = {name: size for name, size in pair.joiner.tally.items() if size}
    assert tally == {name: size for name, size in recount.tally.items() if size}


@pytest.mark.parametrize("classes", ["both", "positives"])
@pytest.mark.parametrize("seed", range(3))
def test_figures_are_those_of_compare_paired(seed: int, classes: str) -> None:
    """All figures of the same ids and weights, after relabels, retractions and repeats."""
    rng = np.random.default_rng(seed)
    size = 700
    labels = rng.random(size) < 0.4
    shared = rng.normal(1.2 * labels)
    scores = {"a": np.round(shared + rng.normal(0, 0.8, size), 2), "b": np.round(shared, 2)}
    units = rng.integers(1, 9, size) * UNIT // 4
    if classes == "positives":
        units[~labels] = UNIT
    ids = [b"id-%d" % row for row in range(size)]
    log = Log(max_cells=65_536)
    for stream in ("a", "b"):
        log.predict(stream, ids, scores[stream])
    told = labels ^ (rng.random(size) < 0.1)
    log.label("a", ids, told, units)
    log.label("b", ids, ~told, units + UNIT)  # other weights: repeats, which change nothing
    log.label("b", ids, labels, units)
    log.retract("a", ids[:60])
    kept = slice(60, size)
    counts = applied(log.entries).pairs.get(pair_key("next")).view(0, 0).counts().totals[0]
    assert counts.num_cases == size - 60
    for metric in Place.COMPARISON.names():
        prevalence = 0.1 if metric == "auc_pr" and seed else None
        found = compare_counts(counts, metric, prevalence).comparison(0.9, anytime=False)
        expected = compare_paired(
            labels=labels[kept],
            scores_a=scores["a"][kept],
            scores_b=scores["b"][kept],
            weights=units[kept] / UNIT,
            metric=metric,
            prevalence=prevalence,
            level=0.9,
        )
        assert expected.reason is None
        for name in ("difference", "lower", "upper", "p_value", "e_value", "design_effect"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=1e-9), name
        assert found.a.estimate == pytest.approx(expected.a.estimate, abs=1e-12)


def test_cells_that_are_cut_anew_keep_the_sum_of_weights() -> None:
    """Removals after the scores moved and cells were merged: the grid weighs what models do."""
    rng = np.random.default_rng(5)
    counts, parts = PairCounts.empty(PairShape(16)), []
    for at in range(4):
        scores = rng.normal(2.0 * at, 1.0 + at, (2, 200))
        units = rng.integers(1, 30, 200) * UNIT // 8
        rows = PairRows(rng.random(200) < 0.5, *scores, np.ones(200, np.int64), None, units)
        parts.append(rows)
        other = PairCounts.empty(PairShape(16)).changed(rows)
        counts = counts.merged([other]) if at % 2 else counts.changed(rows)
    for rows in parts:
        counts = counts.changed(rows._replace(signs=-rows.signs).at(np.arange(0, 200, 2)))
    counts._check()
    assert counts.num_cases == 400
    assert counts.grid.cuts is not None
    assert (counts.grid.counted().positives.units > 0).all()
    again = PairCounts.from_bytes(counts.to_bytes(), PairShape(16))
    assert again.to_bytes() == counts.to_bytes()
    found = compare_counts(counts, "auc_roc", None)
    assert np.isfinite(found.difference.estimate)


def test_weights_beyond_what_sums_hold_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted, and those of weight 1 in their batch count."""
    monkeypatch.setattr(pair_joiner, "_MAX_WEIGHED_UNITS", 5 * UNIT)
    log = Log()
    ids = [b"id-%d" % row for row in range(6)]
    for stream in ("a", "b"):
        log.predict(stream, ids, np.arange(6) / 8)
    log.label("a", ids[:2], [True, False], np.array([3, 1]) * UNIT)
    log.label("a", ids[2:], [True, False, True, False], np.array([2, 3, 1, 2]) * UNIT)
    log.label("b", ids[2:4], [True, False], np.array([2, 2]) * UNIT)
    pair = applied(log.entries).pairs.get(pair_key("next"))
    assert pair.joiner.tally["weighted_labels"] == 5
    assert pair.view(0, 0).counts().totals[0].num_cases == 3
