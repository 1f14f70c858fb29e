"""Cells: lower edges, upper edges, nesting, and the resolution that fits a cap."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import InvalidInputError
from streameval._counts import resolution
from streameval._counts.keys import to_key
from streameval._counts.resolution import (
    MAX_BITS,
    MIN_BITS,
    are_lower_edges,
    largest_bits,
    upper_edge,
)
from streameval.kernel import quantise

LARGEST = np.finfo(np.float64).max
TINY = 5e-324
AWKWARD = [
    *(0.0, -0.0, TINY, -TINY, 2.2250738585072014e-308, -2.225073858507201e-308),
    *(1.0, -1.0, 0.5, np.nextafter(0.5, 0), np.nextafter(0.5, 1), np.nextafter(1.0, 0)),
    *(LARGEST, -LARGEST, np.nextafter(LARGEST, 0), -np.nextafter(LARGEST, 0), 1e300, -1e300),
]
finite = st.one_of(st.sampled_from(AWKWARD), st.floats(allow_nan=False, allow_infinity=False))
probability = st.one_of(
    st.sampled_from([s for s in AWKWARD if 0.0 <= s <= 1.0]),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1e-9).map(lambda gap: 1.0 - gap),
)
bits = st.integers(MIN_BITS, MAX_BITS)
cases = st.one_of(
    st.tuples(st.just("plain"), st.lists(finite, min_size=1, max_size=20)),
    st.tuples(st.just("probability"), st.lists(probability, min_size=1, max_size=20)),
)


def by_fractions(score: float, kept: int) -> float:
    """Floor to `kept` significant bits in rational arithmetic, for normal results."""
    if score == 0:
        return 0.0
    exponent = math.frexp(score)[1]
    step = Fraction(2) ** (exponent - kept)
    return float(math.floor(Fraction(score) / step) * step)


@given(st.floats(1e-300, 1e300), st.booleans(), st.integers(1, MAX_BITS))
def test_plain_edge_is_the_floor_to_significant_bits(size, negative, kept):
    """The edge of a normal score is its floor at b significant bits, of either sign."""
    score = -size if negative else size
    assert quantise(np.array([score]), kept)[0] == by_fractions(score, kept)


@given(st.floats(0.5, 1.0, exclude_max=True), st.integers(1, MAX_BITS))
def test_probability_edge_keeps_the_bits_of_the_complement(score, kept):
    """Above 1/2 the edge is 1 - ceil(1 - s), which mirrors the cells below 1/2."""
    complement = 1 - Fraction(score)
    exponent = math.frexp(float(complement))[1]
    step = Fraction(2) ** (exponent - kept)
    expected = 1 - math.ceil(complement / step) * step
    assert Fraction(quantise(np.array([score]), kept, "probability")[0]) == expected


@given(cases, bits, bits)
def test_lower_edges_are_recognised(case, kept, other):
    """What is recognised stays as it is; cells of whole bits are, but for the lowest double."""
    scale, scores = case
    for edges in (np.unique(scores), np.unique(quantise(np.array(scores), other, scale))):
        found = are_lower_edges(edges, kept, scale)
        stays = np.array_equal(quantise(edges, kept, scale), edges)
        assert found == (stays and kept >= 1) or (stays and -LARGEST in edges)


@pytest.mark.parametrize("bad", [-0.5, 1.5])
def test_lower_edges_of_a_scale_are_scores_of_it(bad):
    """Scores that are no probabilities are no edges either; no scores are edges of any cells."""
    assert not are_lower_edges(np.sort([0.5, bad]), 3, "probability")
    assert are_lower_edges(np.array([]), -11, "probability")


@given(cases, bits)
def test_edges_are_finite_ordered_below_and_their_own(case, kept):
    """Monotone, idempotent, never above the score, never -0.0."""
    scale, scores = case
    scores = np.sort(np.array(scores))
    edges = quantise(scores, kept, scale)
    assert np.isfinite(edges).all()
    assert (np.diff(edges) >= 0).all()
    assert (edges <= scores).all()
    assert (quantise(edges, kept, scale) == edges).all()
    assert not np.signbit(edges[edges == 0]).any()


@given(cases, bits, bits)
def test_cells_are_nested(case, a, b):
    """Lowering the resolution in two steps equals lowering it in one."""
    scale, scores = case
    scores = np.array(scores)
    fine, coarse = max(a, b), min(a, b)
    twice = quantise(quantise(scores, fine, scale), coarse, scale)
    assert twice.tobytes() == quantise(scores, coarse, scale).tobytes()


@given(cases, bits)
def test_upper_edge_is_the_first_double_of_another_cell(case, kept):
    """The double below the upper edge is in the cell, the upper edge itself is not."""
    scale, scores = case
    scores = np.array(scores)
    edges = quantise(scores, kept, scale)
    above = upper_edge(edges, kept, scale)
    assert (above > scores).all()
    assert (upper_edge(scores, kept, scale) == above).all()
    last = np.nextafter(above, -np.inf)
    assert (quantise(last, kept, scale) == edges).all()
    inside = above <= (1.0 if scale == "probability" else LARGEST)
    assert (quantise(above[inside], kept, scale) == above[inside]).all()


@given(cases, bits, st.integers(1, 8))
def test_largest_bits_fits_and_the_next_would_not(case, kept, cap):
    """The result fits the cap, and one more bit would not, for any split by class."""
    scale, scores = case
    scores = np.array(scores)
    half = len(scores) // 2
    found = largest_bits(np.unique(scores[:half]), np.unique(scores[half:]), kept, cap, scale)
    assert len(np.unique(quantise(scores, found, scale))) <= cap
    if found < kept:
        assert len(np.unique(quantise(scores, found + 1, scale))) > cap
    assert found == largest_bits(scores[::-1], np.empty(0), kept, cap, scale)


@pytest.mark.parametrize("size", [1, 8_192, 8_193, 20_000])
def test_keys_of_long_columns_are_those_of_their_bits(size):
    """A column's keys are the bits read as sign and magnitude, whatever its length."""
    scores = np.resize(np.array([*AWKWARD, -3.5, 2.25, -1e-9]), size)
    expected = []
    for score in scores.tolist():
        (raw,) = struct.unpack("<Q", struct.pack("<d", score))
        expected.append(raw if raw < 1 << 63 else (1 << 63) - raw)
    assert to_key(scores).tolist() == expected


def test_one_cell_always_fits():
    """Both signs and all magnitudes are in one cell in the end, with a finite edge."""
    scores = np.array([s for s in AWKWARD if s != 0] + [0.0])
    assert largest_bits(scores, scores[:0], 12, 1) == MIN_BITS
    assert set(quantise(scores, MIN_BITS)) == {-LARGEST}
    inside = scores[(scores >= 0) & (scores <= 1)]
    assert largest_bits(inside, scores[:0], 12, 1, "probability") == MIN_BITS
    assert set(quantise(inside, MIN_BITS, "probability")) == {0.0}


def test_all_bits_keep_the_score():
    """With 53 bits a score is its own edge, on both scales."""
    scores = np.random.default_rng(1).random(1000)
    assert (quantise(scores, MAX_BITS) == scores).all()
    assert (quantise(scores, MAX_BITS, "probability") == scores).all()


def test_cells_of_probabilities_are_symmetric():
    """The set of edges is its own mirror image about 1/2."""
    grid = np.arange(1, 2**12) / 2**12
    edges = np.unique(quantise(grid, 4, "probability"))
    inner = edges[(edges > 2**-11) & (edges < 1 - 2**-11)]
    assert (inner == 1.0 - inner[::-1]).all()


@pytest.mark.parametrize("bad", [-0.25, 1.5, math.nan, math.inf])
def test_scores_that_are_no_probabilities_are_refused(bad):
    """The message names the first invalid score's index."""
    with pytest.raises(InvalidInputError, match="between 0 and 1") as caught:
        quantise(np.array([0.2, bad, 7.0]), 12, "probability")
    assert (caught.value.field, caught.value.index) == ("scores", 1)


def test_settings_out_of_range_are_refused():
    """More bits than a double has, and a cap of no cells, are refused."""
    with pytest.raises(InvalidInputError, match="got 54"):
        quantise(np.array([1.0]), 54)
    with pytest.raises(InvalidInputError, match="max_cells must be at least 1"):
        largest_bits(np.array([1.0]), np.array([2.0]), 12, 0)


def test_nothing_to_quantise():
    """Empty arrays are accepted."""
    nothing = np.empty(0)
    assert len(quantise(nothing, 12)) == 0
    assert largest_bits(nothing, nothing, 12, 1) == 12


def test_docstrings():
    """The examples in the module run."""
    import doctest

    assert doctest.testmod(resolution).failed == 0
