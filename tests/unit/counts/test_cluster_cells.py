"""Cells by which cases are compared are found by the numbers of finer cells, not by their edges."""

from __future__ import annotations

import numpy as np
import pytest

from streameval._common.arrays import FloatArray
from streameval._counts.cell_layout import cell_keys
from streameval._counts.cluster_cells import cell_numbers, coarse_numbers
from streameval._counts.resolution import MAX_BITS
from streameval.kernel import Scale, cell_edges, quantise

BITS = (1, 4, 5, 6, 8, 12, 14, 15, 20, 30, 40, 50, 51, 52, 53)


def _scores(scale: Scale) -> FloatArray:
    """Return scores of all magnitudes, many of them next to 0, 1/2 and 1."""
    rng = np.random.default_rng(25)
    share, octaves = rng.random(800), rng.integers(0, 1_070, 800)
    near_one = 1 - share * 2.0 ** -rng.integers(1, 54, 800)
    around = [np.nextafter(at, to) for at in (0.5, 1.0) for to in (0.0, 0.5, 1.0)]
    parts = [share, near_one, share * 2.0**-octaves, [0.0, 0.5, 1.0, *around]]
    if scale == "plain":
        large = np.exp(rng.normal(0, 50, 800))
        parts += [-share, -near_one, 1 + share, large, -large, [np.nextafter(1, 2), -1.0, -0.5]]
    return np.unique(np.concatenate(parts)) + 0.0


@pytest.mark.parametrize("scale", ["plain", "probability"])
@pytest.mark.parametrize("bits", BITS)
def test_coarse_numbers_are_those_of_the_lower_edges(bits: int, scale: Scale) -> None:
    """The number of a fine cell leads to the coarse cell of its lower edge, in any order."""
    edges = np.unique(quantise(_scores(scale), bits, scale))
    numbers = np.unique(cell_keys(_scores(scale), scale) >> np.int64(MAX_BITS - bits))
    kept = cell_keys(edges, scale) >> np.int64(MAX_BITS - bits)
    for coarse in (2, 5, 8):
        found = coarse_numbers(numbers, bits, scale, coarse)
        assert np.array_equal(found, cell_numbers(cell_edges(numbers, bits, scale), coarse))
        assert np.array_equal(
            coarse_numbers(kept, bits, scale, coarse), cell_numbers(edges, coarse)
        )
        backwards = coarse_numbers(numbers[::-1], bits, scale, coarse)
        assert np.array_equal(backwards[::-1], found)
