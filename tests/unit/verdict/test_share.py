"""The share that a segment explains: against exact fractions, and populations with known parts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from streameval import Evaluator
from streameval._verdict.share import explained_share

PREVALENCE = 0.25
NAMES = ("IT", "DE", "US")


def state_of(labels, scores, resolution=12):
    ev = Evaluator(resolution=resolution)
    ev.add_cases(labels=labels, scores=scores)
    return ev._view()


def population(rng: np.random.Generator, size: int, apart: dict[str, float], lift=None):
    """Return labels, scores and country; `lift` is added to the scores of a country's negatives."""
    labels, country = rng.random(size) < PREVALENCE, rng.choice(NAMES, size)
    distances = np.array([apart.get(each, 2.0) for each in country])
    scores = rng.normal(distances * labels)
    for name, by in (lift or {}).items():
        scores += by * (~labels & (country == name))
    return labels, scores, country


def shares(before, after) -> dict[str, float | None]:
    found = {}
    for name in NAMES:
        parts = [[column[each[2] == name] for column in each[:2]] for each in (before, after)]
        states = [state_of(*each[:2]) for each in (before, after)]
        found[name] = explained_share(
            *states, *(state_of(*each) for each in parts), prevalence=PREVALENCE
        )
    return found


def exact_share(before, after, name: str, prevalence: Fraction) -> Fraction:
    """Return the share with fractions of cases, in the order of the scores; average precision."""

    def area(cases: dict[float, list[Fraction]]) -> Fraction:
        P, N = (sum(each[side] for each in cases.values()) for side in (0, 1))
        factor = P / N * (1 - prevalence) / prevalence
        tp = fp = total = Fraction(0)
        for score in sorted(cases, reverse=True):
            p, n = cases[score]
            # The interpolated area within a tie, as the mean precision of many pieces.
            pieces = 400
            for piece in range(pieces):
                part = (piece + Fraction(1, 2)) / pieces
                above = tp + part * p
                total += p / pieces * above / (above + (fp + part * n) * factor)
            tp, fp = tp + p, fp + n
        return total / P

    def counted(parts) -> dict[float, list[Fraction]]:
        cases: dict[float, list[Fraction]] = {}
        for labels, scores, times in parts:
            for label, score in zip(labels.tolist(), scores.tolist(), strict=True):
                cases.setdefault(score, [Fraction(0)] * 2)
                row = list(cases[score])
                row[0 if label else 1] += times
                cases[score] = row
        return cases

    whole = [(each[0], each[1], Fraction(1)) for each in (before, after)]
    is_segment = [each[2] == name for each in (before, after)]
    ratio = Fraction(int(is_segment[1].sum()), int(is_segment[0].sum()))
    replaced = [
        (after[0][~is_segment[1]], after[1][~is_segment[1]], Fraction(1)),
        (before[0][is_segment[0]], before[1][is_segment[0]], ratio),
    ]
    first, last, without = (area(counted(each)) for each in ([whole[0]], [whole[1]], replaced))
    return (without - last) / (first - last)


@pytest.mark.slow
def test_it_is_the_share_in_fractions() -> None:
    """Of small populations with ties, whose numbers do not divide one another."""
    rng = np.random.default_rng(1)
    compared = 0
    for size in (37, 53):
        before = population(rng, size, {})
        after = population(rng, size + 6, {"IT": -1.0, "DE": 1.0})
        before, after = ((each[0], np.round(each[1]), each[2]) for each in (before, after))
        for name, found in shares(before, after).items():
            exact = float(exact_share(before, after, name, Fraction(PREVALENCE)))
            assert found is not None
            assert found == pytest.approx(min(max(exact, 0), 1), abs=0.051)
            compared += 0 < exact < 1
    assert compared >= 2


def test_one_country_fell() -> None:
    rng = np.random.default_rng(2)
    before = population(rng, 60_000, {})
    found = shares(before, population(rng, 60_000, {"IT": 0.0}))
    assert found == {"IT": 1.0, "DE": 0.0, "US": 0.0}


def test_two_countries_fell_alike() -> None:
    """Each explains a third to two thirds: the second of them takes what the first one left."""
    rng = np.random.default_rng(3)
    before = population(rng, 60_000, {})
    found = shares(before, population(rng, 60_000, {"IT": 1.0, "DE": 1.0}))
    assert found["IT"] == found["DE"]
    assert found["IT"] in {0.4, 0.5, 0.6}
    assert found["US"] == 0.0


def test_negatives_that_rise_above_all_others() -> None:
    """The other countries' positives lose their place, and are not what explains it."""
    rng = np.random.default_rng(4)
    before = population(rng, 60_000, {})
    found = shares(before, population(rng, 60_000, {}, lift={"IT": 6.0}))
    assert found == {"IT": 1.0, "DE": 0.0, "US": 0.0}


def test_the_size_of_a_segment_counts_as_today() -> None:
    """A country that is worse from the beginning and grows has not become worse: it explains 0."""
    rng = np.random.default_rng(5)
    apart = {"IT": 0.5}
    before, after = population(rng, 90_000, apart), population(rng, 90_000, apart)
    keep = [(each[2] == "IT") | (rng.random(each[2].size) < share)
            for each, share in ((before, 1.0), (after, 0.3))]  # fmt: skip
    before, after = (
        tuple(column[chosen] for column in each)
        for each, chosen in zip((before, after), keep, strict=True)
    )
    found = shares(before, after)
    assert found["IT"] in {0.0, 0.1}


def test_a_coarse_base_and_huge_counts() -> None:
    """Another resolution changes nothing but the order within a cell; counts may be of 2**50."""
    rng = np.random.default_rng(6)
    before, after = population(rng, 30_000, {}), population(rng, 30_000, {"IT": 0.0})
    times = 2**50 // 30_000

    def many(columns, resolution):
        ev = Evaluator(resolution=resolution)
        ev.add_cases(labels=columns[0], scores=columns[1])
        return times_of(ev, times)

    def times_of(ev, times):
        whole = ev
        while times > 1:
            whole, times = whole + whole, times // 2
        return whole._view()

    parts = [[column[each[2] == "IT"] for column in each[:2]] for each in (before, after)]
    found = explained_share(
        many(before, 5), many(after, 12), many(parts[0], 5), many(parts[1], 12),
        prevalence=PREVALENCE,
    )  # fmt: skip
    assert found == 1.0


def test_without_cases_or_a_change_there_is_no_share() -> None:
    rng = np.random.default_rng(7)
    labels, scores, _ = population(rng, 500, {})
    whole, empty = state_of(labels, scores), state_of(labels[:0], scores[:0])
    half = state_of(labels[:250], scores[:250])
    for given in (
        (whole, whole, half, half),
        (whole, half, empty, half),
        (whole, half, half, empty),
        (whole, state_of(labels[labels], scores[labels]), half, half),
    ):
        assert explained_share(*given, prevalence=PREVALENCE) is None
