"""Evidence grows by at most one a pane on average while nothing has changed, exactly."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from streameval._drift.evidence import FRACTIONS, MAX_FRACTION, advanced, bet_of
from streameval._drift.processes import MAX_BLOCKS, Processes
from streameval._drift.side_table import PaneSums
from streameval._drift.watches import UNITS

THETAS = (0.013, 0.25, 0.7, 0.9987)
SUPPORT = tuple(Fraction(part, 6) for part in range(7))


def laws(theta: Fraction) -> list[dict[Fraction, Fraction]]:
    """Return distributions of one observation whose mean is at least theta: many exactly."""
    found = []
    for low, high in product(SUPPORT, SUPPORT):
        if low <= theta < high:
            found.append({high: (theta - low) / (high - low), low: (high - theta) / (high - low)})
    lowest, middle, highest = SUPPORT[0], SUPPORT[3], SUPPORT[-1]
    share = max(theta - middle / 4, Fraction(0)) / 1
    if share <= Fraction(3, 4):
        found.append({middle: Fraction(1, 4), highest: share, lowest: Fraction(3, 4) - share})
    return found


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize("cases", [1, 2, 15, 10**9])
def test_evidence_less_time_is_a_supermartingale(theta: float, fraction: float, cases: int) -> None:
    """At every node of all paths of three observations, in fractions of the library's floats."""
    exact = Fraction(theta)
    bet = Fraction(float(bet_of(fraction, cases, theta)))
    checked = 0
    for law in laws(exact):
        assert sum(law.values()) == 1
        assert all(share >= 0 for share in law.values())
        assert sum(z * share for z, share in law.items()) >= exact
        nodes = [Fraction(0)]
        for panes in (1, 60, 1):
            following = []
            for evidence in nodes:
                outcomes = {z: advanced(evidence, panes, bet, exact, z) for z in law}
                assert all(value > 0 for value in outcomes.values())
                mean = sum(law[z] * value for z, value in outcomes.items())
                assert mean <= evidence + panes
                following += outcomes.values()
                checked += 1
            nodes = following
    assert checked >= 7


def test_a_lower_mean_gains_evidence() -> None:
    """The property is not that of a process that never grows."""
    exact = Fraction(0.7)
    bet = Fraction(float(bet_of(FRACTIONS[1], 1, 0.7)))
    assert advanced(Fraction(10), 1, bet, exact, exact - Fraction(1, 10)) > 11


@pytest.mark.parametrize("theta", THETAS)
def test_no_observation_takes_more_than_fifteen_sixteenths(theta: float) -> None:
    """So evidence never underflows; bets grow with the number of cases."""
    bets = bet_of(np.array(FRACTIONS), np.array([[1], [2], [10], [10**12]]), theta)
    assert (np.diff(bets, axis=0) > 0).all()
    assert (bets * (1 - theta) <= MAX_FRACTION * (1 + 1e-12)).all()
    assert (advanced(0.0, 1.0, bets, theta, 1.0) > 0.06).all()


@pytest.mark.slow
def test_a_million_panes_are_right_to_a_share_of_1e_minus_8() -> None:
    """No overflow, no underflow: against 40 digits, where evidence goes up and down."""
    theta, bet = 0.9, float(bet_of(FRACTIONS[2], 3, 0.9))
    levels = (0.9, 0.95, 0.82, 1.0, 0.88, 0.86, 0.89)
    evidence = 0.0
    highest = 0.0
    with localcontext() as context:
        context.prec = 40
        exact = Decimal(0)
        for step in range(1_000_000):
            z = levels[step * step % 7]
            evidence = advanced(evidence, 1, bet, theta, z)
            exact = advanced(exact, 1, Decimal(bet), Decimal(theta), Decimal(z))
            highest = max(highest, evidence)
            if evidence > 1e9:
                evidence, exact = 0.0, Decimal(0)
        assert abs(Decimal(evidence) / exact - 1) < Decimal("1e-8")
    assert highest > 1e9


def pane_of(z: float, count: int, shape: tuple[int, int]) -> PaneSums:
    """Return a pane whose means are all z."""
    counts = np.full(shape, count, dtype=np.int64)
    sums = np.full(shape, round(z * count * UNITS), dtype=np.int64)
    return PaneSums(sums, counts, np.zeros(shape, dtype=np.uint64))


def test_processes_add_what_the_definition_adds() -> None:
    """Two sides, bets, blocks, and the hourly copy, against the recursion in fractions."""
    thetas = np.array([[0.8, 0.3, 0.5, 0.5]])
    processes = Processes(thetas, 2, 10 * 60_000_000, 1000)
    assert processes.panes_an_hour == 6
    rng = np.random.default_rng(3)
    fine = [[Fraction(0)] * len(FRACTIONS) for _ in range(2)]
    coarse = [[Fraction(0)] * len(FRACTIONS) for _ in range(2)]
    hours: dict[int, list[tuple[int, int]]] = {}
    panes = sorted((3 + rng.choice(200, size=90, replace=False)).tolist())
    first = panes[0]
    assert first % 6 > 0
    for before, pane in pairwise([None, *panes]):
        count = int(rng.integers(1, 5))
        total = int(rng.integers(count * UNITS // 2, count * UNITS))
        sums = PaneSums(
            np.full((1, 4), total), np.full((1, 4), count), np.zeros((1, 4), dtype=np.uint64)
        )
        if before is not None and pane // 6 > before // 6:
            processes.close_hour()
        processes.observe(pane, sums, sums.counts)
        elapsed = 1 if before is None else min(pane - before, 6)
        hours.setdefault(pane // 6, []).append((total, count))
        for side, place in product(range(2), range(len(FRACTIONS))):
            bet = Fraction(float(bet_of(FRACTIONS[place], count, thetas[0, side])))
            z = Fraction(total, count * UNITS)
            theta = Fraction(thetas[0, side])
            fine[side][place] = advanced(fine[side][place], elapsed, bet, theta, z)
    processes.close_hour()
    for hour, rows in hours.items():
        elapsed = min(6, (hour + 1) * 6 - first)
        total, count = (sum(column) for column in zip(*rows, strict=True))
        for side, place in product(range(2), range(len(FRACTIONS))):
            bet = Fraction(float(bet_of(FRACTIONS[place], count, thetas[0, side])))
            z = Fraction(total, count * UNITS)
            theta = Fraction(thetas[0, side])
            coarse[side][place] = advanced(coarse[side][place], elapsed, bet, theta, z)
    np.testing.assert_allclose(processes.fine.sum(axis=-1), np.array(fine, dtype=float), rtol=1e-12)
    np.testing.assert_allclose(processes.coarse, np.array(coarse, dtype=float), rtol=1e-12)
    whole = (sum(map(sum, fine)) + sum(map(sum, coarse))) / 16
    assert processes.evidence(slice(0, 2)) == pytest.approx(float(whole), rel=1e-12)


def test_weights_of_e_processes_add_up_to_at_most_one() -> None:
    """With bets that win nothing an e-process is the sum of its weights."""
    thetas = np.array([[0.5, 0.5], [0.5, 0.5]])
    processes = Processes(thetas, 1, 3_600_000_000, 50)
    pane = pane_of(0.5, 2, (2, 2))
    exactly_theta = pane._replace(sums=np.full((2, 2), UNITS), counts=np.full((2, 2), 2))
    for index in range(2_000):
        processes.observe(index, exactly_theta, exactly_theta.counts)
    total = processes.part_values(slice(0, 1))[1]
    assert 0.9 < total < 1


def test_blocks_cover_all_time_and_stay_few() -> None:
    """The newest hours have blocks of their own; older ones are wider, in proportion."""
    processes = Processes(np.array([[0.5, 0.5]]), 1, 60_000_000, 10_000)
    for hour in range(3_000):
        processes.observe(hour * 60, pane_of(0.6, 1, (1, 2)), np.ones((1, 2), dtype=np.int64))
        assert processes.starts.size <= MAX_BLOCKS
        assert (np.diff(processes.starts) > 0).all()
    assert processes.starts[0] == 0
    assert processes.starts[-1] == 2_999 * 60
    assert processes.summaries[0, 0].sum() == 3_000
    ages = 3_000 * 60 - processes.starts
    assert (ages[1:-2] / ages[2:-1] < 6).all()


@pytest.mark.nightly
def test_two_hundred_thousand_panes_of_all_processes_stay_finite() -> None:
    """Four months of minutes, with a segment that stays bad all the time."""
    thetas = np.array([[0.8, 0.5, 0.5], [0.9, 0.0, 0.0]])
    processes = Processes(thetas, 2, 60_000_000, 525_600)
    pane = pane_of(0.85, 2, (2, 3))
    pane.sums[:, 1:] = UNITS
    independent = np.full((2, 3), 2)
    for index in range(200_000):
        if index % 60 == 0 and index:
            processes.close_hour()
        processes.observe(index, pane, independent)
    for name in ("fine", "coarse", "parts", "summaries"):
        column = getattr(processes, name)
        assert np.isfinite(column).all()
    assert (processes.fine[0].sum(axis=-1) > 0).all()
    assert processes.evidence(slice(0, 1)) < 525_600
