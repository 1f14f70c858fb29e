"""Windows of weighted cases: any window is the evaluator of its cases, decayed or not."""

from __future__ import annotations

import math
import re
import struct
import zlib
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import (
    CorruptStateError,
    Evaluator,
    InvalidInputError,
    WindowedEvaluator,
    compare,
)
from streameval.kernel import PaneState, decayed_window

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
UNIT = 2**16
SETTINGS = {"resolution": 12, "max_cells": 16_384}

_weights = st.one_of(st.just(1.0), st.integers(1, 2**20).map(lambda units: units / UNIT))
_ages = st.one_of(st.integers(0, 300), st.integers(0, 10 * 24 * 60))
_events = st.lists(
    st.tuples(st.booleans(), st.sampled_from([0.1, 0.25, 0.5, 0.9]), _weights, _ages), max_size=25
)


def at(age_minutes: int) -> datetime:
    return NOON - age_minutes * MINUTE


def columns(events: list[tuple]) -> dict[str, list]:
    """Return events as the arguments of `WindowedEvaluator.add_cases`."""
    labels, scores, weights = ([event[i] for event in events] for i in range(3))
    times = [at(event[3]) for event in events]
    return {"labels": labels, "scores": scores, "weights": weights, "at": times}


def filled(events: list[tuple]) -> WindowedEvaluator:
    windowed = WindowedEvaluator()
    windowed.advance(NOON)
    for label, score, weight, age in events:
        windowed.add_case(label, score, weight=weight, at=at(age))
    windowed._check()
    return windowed


def sample(seed: int, size: int, *, pane: timedelta = HOUR) -> WindowedEvaluator:
    """Return some days of weighted cases."""
    rng = np.random.default_rng(seed)
    windowed = WindowedEvaluator(pane=pane)
    labels = rng.random(size) < 0.3
    windowed.add_cases(
        labels=labels,
        scores=rng.normal(size=size) + labels,
        weights=rng.integers(1, 2**18, size=size) / UNIT,
        at=[NOON - int(age) * MINUTE for age in rng.integers(0, 4 * 24 * 60, size=size)],
    )
    return windowed


@given(events=_events, span=st.integers(1, 10 * 24 * 60))
@pytest.mark.slow
def test_a_window_is_the_evaluator_of_its_cases(events: list[tuple], span: int) -> None:
    """Rows or columns, merged panes, and bytes: the sums are exact in any order."""
    windowed = filled(events)
    window = windowed.last(span * MINUTE)
    inside = [event for event in events if window.start <= at(event[3]) < window.end]
    expected = Evaluator(**SETTINGS)
    for label, score, weight, _ in inside:
        expected.add_case(label, score, weight=weight)
    assert window.evaluator() == expected
    assert (window.num_cases, window.num_scored) == (len(inside), len(inside))
    positives = sum(event[0] for event in inside)
    assert f" {positives} positive, {len(inside) - positives} negative" in repr(window)
    assert window.weights == expected.weights
    by_column = WindowedEvaluator()
    by_column.advance(NOON)
    by_column.add_cases(**columns(events[::-1]))
    halves = filled(events[::2])
    halves.merge(filled(events[1::2]))
    assert windowed == by_column == halves == WindowedEvaluator.from_bytes(windowed.to_bytes())
    assert windowed.to_bytes() == by_column.to_bytes() == halves.to_bytes()


@given(events=_events)
@pytest.mark.slow
def test_removal_undoes(events: list[tuple]) -> None:
    """Removing weighted cases leaves what was there before, to the byte."""
    windowed = filled(events)
    before = filled(events[::2]).to_bytes()
    windowed.remove_cases(**columns(events[1::2]))
    assert windowed.to_bytes() == before
    for label, score, weight, age in events[::2]:
        windowed.remove_case(label, score, weight=weight, at=at(age))
    assert windowed.to_bytes() == filled([]).to_bytes()


def test_weights_of_one_are_the_bytes_of_none() -> None:
    """Sums of weights are written only where a weight is not 1."""
    plain, weighted = WindowedEvaluator(), WindowedEvaluator()
    rows = {"labels": [1, 0, 1], "scores": [0.9, 0.4, 0.2], "at": NOON}
    plain.add_cases(**rows)
    weighted.add_cases(**rows, weights=[1, 1, 1], label_probability=1.0)
    assert weighted.to_bytes() == plain.to_bytes()
    weighted.add_case(True, 0.5, weight=2, at=NOON)
    assert WindowedEvaluator.from_bytes(weighted.to_bytes()).to_bytes() == weighted.to_bytes()
    assert weighted.to_bytes() != plain.to_bytes()
    weighted.remove_case(True, 0.5, weight=2, at=NOON)
    assert weighted.to_bytes() == plain.to_bytes()


def test_altered_bytes_of_weights_are_refused() -> None:
    """Also of the format that had weights in a development version."""
    data = bytearray(WindowedEvaluator().to_bytes())
    data[4] = 2
    data[-4:] = struct.pack("<I", zlib.crc32(bytes(data[:-4])))
    with pytest.raises(CorruptStateError, match="format 2 is unknown; this version reads format 1"):
        WindowedEvaluator.from_bytes(bytes(data))
    good = sample(1, 50).to_bytes()
    for position in range(0, len(good), 7):
        altered = bytearray(good)
        altered[position] ^= 0x20
        with pytest.raises(CorruptStateError):
            WindowedEvaluator.from_bytes(bytes(altered))


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), 2.0**32, 1e-3])
def test_bad_weights_change_nothing(bad: float) -> None:
    """A bad weight of any row refuses all, and time does not pass."""
    windowed = filled([(True, 0.5, 2.0, 5)])
    before = windowed.to_bytes()
    later = NOON + DAY
    refused = "weight must be|would change by more than a thousandth"
    with pytest.raises(InvalidInputError, match=refused):
        windowed.add_cases(labels=[1, 0], scores=[0.5, 0.4], weights=[1, bad], at=later)
    with pytest.raises(InvalidInputError, match=refused):
        windowed.add_case(True, 0.5, weight=bad, at=later)
    for probability in (0, 1.5, float("nan")):
        with pytest.raises(InvalidInputError, match="label probability must be"):
            windowed.add_case(True, 0.5, label_probability=probability, at=later)
    with pytest.raises(InvalidInputError, match=r"no positive case of score 0.5 and weight 3"):
        windowed.remove_case(True, 0.5, weight=3, at=at(5))
    assert windowed.to_bytes() == before
    clustered = WindowedEvaluator(cluster_groups=16)
    with pytest.raises(InvalidInputError, match="declares clusters takes no weights"):
        clustered.add_case(True, 0.5, weight=2, cluster="ann", at=NOON)


def test_all_panes_together_stay_summable() -> None:
    """A case that fits its pane, and not the sum of all, is refused when it comes."""
    windowed = WindowedEvaluator()
    heaviest = {"labels": [1], "scores": [0.5], "weights": [2.0**31]}
    for minute in range(8):
        windowed.add_cases(**heaviest, counts=[2**12 - 1], at=NOON + minute * MINUTE)
    with pytest.raises(InvalidInputError, match=r"below 2\*\*46"):
        windowed.add_cases(**heaviest, counts=[9], at=NOON + 9 * MINUTE)
    assert windowed.last(HOUR).weights.positives == 8 * (2**12 - 1) * 2.0**31
    with pytest.raises(InvalidInputError, match=r"below 2\*\*46"):
        windowed.merge(windowed.copy())


@pytest.mark.parametrize("half_life", [HOUR, DAY, 30 * DAY])
def test_decay_multiplies_the_weights(half_life: timedelta) -> None:
    """A decayed window is the evaluator of its cases, each with both weights."""
    windowed = sample(2, 900)
    window = windowed.decayed(half_life)
    expected = Evaluator(resolution=12)
    for pane in windowed.panes():
        age = max(timedelta(0), windowed.now - pane.end)
        share = round(UNIT * 2.0 ** (-age / half_life)) / UNIT
        for label in (True, False):
            run = pane._view().counts.weighed().run(label)
            each = np.repeat(run.counts / run.cases, run.cases) / UNIT * share
            weights = np.where(each > 0, np.maximum(np.rint(each * UNIT), 1), 0) / UNIT
            scores = np.repeat(run.scores, run.cases)
            kept = weights > 0
            if share:
                expected.add_cases(
                    labels=np.full(kept.sum(), label), scores=scores[kept], weights=weights[kept]
                )
    for name in ("auc_roc", "average_precision", "auc_pr", "prevalence"):
        ours, theirs = window.interval(name), expected.interval(name)
        assert ours.estimate == pytest.approx(theirs.estimate, rel=1e-3)
    assert window.num_cases == sum(
        pane.num_cases for pane in windowed.panes() if (windowed.now - pane.end) < 17 * half_life
    )
    snapshot = window.snapshot()
    assert (snapshot.num_cases, snapshot.weights) == (window.num_cases, window.weights)


def test_an_evaluator_of_a_decayed_window_has_whole_misses() -> None:
    """A miss of age counts as a part of one; the evaluator of the window rounds it down."""
    windowed = sample(3, 50)
    windowed.add_misses(3, at=windowed.now - DAY)
    decayed = windowed.decayed(DAY).evaluator()
    assert decayed.num_misses == 1
    assert Evaluator.from_bytes(decayed.to_bytes()) == decayed


@pytest.mark.parametrize("metric", ["prevalence", "auc_pr", "auc_roc"])
def test_a_decayed_window_of_no_case_has_no_limits(metric: str) -> None:
    """Nothing is undefined but the figure and its limits."""
    window = WindowedEvaluator().decayed(DAY)
    interval = window.interval(metric)
    assert math.isnan(interval.lower)
    assert math.isnan(interval.upper)
    assert interval.reason is not None


@pytest.mark.parametrize("wrong", [0, -0.5, 1.5, math.nan, "0.5"])
def test_a_window_declares_a_probability_as_an_evaluator_does(wrong: Any) -> None:
    """What is no probability is refused when it is given, and not in the first interval."""
    with pytest.raises(InvalidInputError) as refused:
        Evaluator(min_label_probability=wrong)
    with pytest.raises(InvalidInputError, match=re.escape(str(refused.value))):
        WindowedEvaluator().last(DAY).declaring(wrong)


def test_decay_of_equal_weights_is_that_of_none() -> None:
    """All weights 2: the same figures and almost the same intervals as without weights."""
    rng = np.random.default_rng(5)
    labels = rng.random(4000) < 0.3
    times = [NOON - int(age) * MINUTE for age in rng.integers(0, 3 * 24 * 60, size=4000)]
    rows = {"labels": labels, "scores": rng.normal(size=4000) + labels, "at": times}
    plain, doubled = WindowedEvaluator(), WindowedEvaluator()
    plain.add_cases(**rows)
    doubled.add_cases(**rows, weights=np.full(4000, 2.0))
    one, two = plain.decayed(DAY), doubled.decayed(DAY)
    for name in ("auc_roc", "auc_pr", "average_precision", "prevalence"):
        a, b = one.interval(name), two.interval(name)
        assert a.estimate == pytest.approx(b.estimate, rel=1e-4)
        assert a.width == pytest.approx(b.width, rel=0.03), name
    assert one.interval("recall", threshold=0.5).width == pytest.approx(
        two.interval("recall", threshold=0.5).width, rel=0.03
    )


def test_parts_of_weighted_windows() -> None:
    """The rest of a window without a part, decayed too, is the window of the rest."""
    part, rest = WindowedEvaluator(pane=HOUR), WindowedEvaluator(pane=HOUR)
    rng = np.random.default_rng(4)
    for size, into in ((400, part), (900, rest)):
        labels = rng.random(size) < 0.4
        into.add_cases(
            labels=labels,
            scores=rng.normal(size=size) + labels,
            weights=None if into is part else rng.integers(1, 2**18, size=size) / UNIT,
            at=[NOON - int(age) * MINUTE for age in rng.integers(0, 2 * 24 * 60, size=size)],
        )
    whole = rest.copy()
    whole.merge(part)
    remainder = whole.last(9 * DAY).without(part.last(9 * DAY))
    assert remainder.evaluator() == rest.last(9 * DAY).evaluator()
    decayed = [
        decayed_window(
            [PaneState(p._span_us[0], p._span_us[1], p._view()) for p in ev.panes()],
            24 * 3_600_000_000,
            now_us=whole._panes.now_us,
            empty=ev._empty._view(),
            has_weights=True,
        )
        for ev in (whole, part, rest)
    ]
    left = decayed[0].without(decayed[1])
    assert left.num_cases == rest.last(9 * DAY).num_cases
    for name in ("auc_roc", "average_precision"):
        ours, theirs = left.interval(name), decayed[2].interval(name)
        assert ours.estimate == pytest.approx(theirs.estimate, abs=1e-4)
        assert ours.width == pytest.approx(theirs.width, rel=1e-2)
    assert 0 <= compare(decayed[1], left, metric="auc_roc").p_value <= 1
    with pytest.raises(InvalidInputError, match="both or neither must have cases with weights"):
        whole.decayed(DAY).without(part.decayed(DAY))
    with pytest.raises(InvalidInputError, match="the part has cases that the whole lacks"):
        decayed[1].without(decayed[0])


def test_panes_show_dependence_of_weighted_cases() -> None:
    """The least design effect reads squared weights: unequal ones alone are no dependence."""
    rng = np.random.default_rng(6)
    alone, bursts = WindowedEvaluator(), WindowedEvaluator()
    for ev, shared in ((alone, False), (bursts, True)):
        for minute in range(60):
            labels = rng.random(40) < (rng.beta(0.3, 0.7) if shared else 0.3)
            ev.add_cases(
                labels=labels,
                scores=rng.normal(size=40) + labels,
                weights=rng.integers(1, 2**18, size=40) / UNIT,
                at=NOON + minute * MINUTE,
            )
    assert alone.last(2 * HOUR).interval("prevalence").least_effect == 1.0
    assert bursts.last(2 * HOUR).interval("prevalence").least_effect > 3


def test_exact_prevalence_of_a_window() -> None:
    """The share of weight that is positive, in exact fractions."""
    windowed = sample(7, 200)
    window = windowed.last(2 * DAY)
    sums = {label: Fraction(0) for label in (True, False)}
    for pane in windowed.panes():
        if window.start <= pane.start < window.end:
            for label in (True, False):
                run = pane._view().counts.weighed().run(label)
                sums[label] += Fraction(run.total, UNIT)
    assert window.prevalence == float(sums[True] / (sums[True] + sums[False]))
