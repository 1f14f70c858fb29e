"""The cells in which cases are counted by groups of clusters.

A score below 0 or above 1 keeps 8 significant bits; one in [0, 1] keeps 8 of its distance
from the nearer end. So the cells depend on the score alone, neither on the resolution nor on
the scale of the whole, and sums are the same in any order.

Cells are numbered in order. A score below 1 gets its number on the probability scale (below 0
both scales agree), less 1: so the cell of 0 is far from the least positive ones only in the
gap that a `NumberLayout` omits. A score from 1 on gets its number on the plain scale; these
numbers follow at once, without room for distances from 1 that no double has.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from streameval._counts.cell_layout import cell_edges, cell_keys
from streameval._counts.keys import HALF_KEY, ONE_KEY, to_key
from streameval._counts.resolution import MAX_BITS
from streameval._counts.scatter import rank_numbers

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.resolution import Scale

CLUSTER_BITS = 8
"""Significant bits of a score that a group keeps."""


def cell_numbers(scores: FloatArray, bits: int = CLUSTER_BITS) -> IntArray:
    """Return the number of each score's cell. O(n).

    Parameters
    ----------
    scores : float64[n]
        Finite.
    bits : int
        Significant bits that are kept, of scores in [0, 1] from the nearer end; 1 to 11.

    Examples
    --------
    >>> numbers = cell_numbers(np.array([-1.3, 0.0, 0.3, 0.99, 1.0, 1.1, 1.7]), 2)
    >>> (numbers[1], np.diff(numbers)[-2:].tolist())
    (np.int64(-1), [0, 1])
    >>> edges_of_numbers(numbers, 2).tolist()
    [-1.5, 0.0, 0.25, 0.98828125, 1.0, 1.0, 1.5]
    """
    shift = np.int64(MAX_BITS - bits)
    above = scores >= 1.0
    if above.any():
        numbers = cell_keys(np.minimum(scores, 1.0), "probability") >> shift
        numbers[above] = (to_key(scores[above]) >> shift) + (_one(bits) - (ONE_KEY >> shift))
    else:
        numbers = cell_keys(scores, "probability") >> shift
    numbers -= np.int64(1)
    return numbers


def coarse_numbers(numbers: IntArray, cell_bits: int, scale: Scale, bits: int) -> IntArray:
    """Return the number of the cell in which each finer cell lies, as `cell_numbers` of its edge.

    Most numbers only lose bits. The lower edge is looked at where the two ways of numbering
    differ: from 1/2 to 1 on the plain scale, and so near 1 on the probability scale that edges
    are rounded. O(n).

    Parameters
    ----------
    numbers : int64[n]
        Numbers of cells in a `cell_layout`.
    cell_bits, scale
        The resolution and scale of these cells.
    bits : int
        As of `cell_numbers`.

    Examples
    --------
    >>> numbers = cell_keys(np.array([-1.3, 0.0, 0.3, 0.99, 1.0, 1.7]), "plain") >> 45
    >>> edges_of_numbers(coarse_numbers(numbers, 8, "plain", 2), 2).tolist()
    [-1.5, 0.0, 0.25, 0.98828125, 1.0, 1.5]
    """
    if cell_bits < bits:
        return cell_numbers(cell_edges(numbers, cell_bits, scale), bits)
    shift = np.int64(MAX_BITS - cell_bits)
    coarse = numbers >> np.int64(cell_bits - bits)
    coarse -= np.int64(1)
    if scale == "plain":
        start, end = HALF_KEY >> shift, ONE_KEY >> shift
        above = numbers >= end
        coarse[above] += _one(bits) - (ONE_KEY >> np.int64(MAX_BITS - bits))
        differs = (numbers >= start) & ~above
    else:
        # Down to this distance from 1 all cells have edges that are doubles.
        nearest = to_key(np.array([min(2.0 ** (cell_bits - MAX_BITS), 0.5)]))[0]
        differs = numbers >= (2 * HALF_KEY - nearest) >> shift
    if differs.any():
        coarse[differs] = cell_numbers(cell_edges(numbers[differs], cell_bits, scale), bits)
    return coarse


def edges_of_numbers(numbers: IntArray, bits: int = CLUSTER_BITS) -> FloatArray:
    """Return the lower edge of each cell, given its number. O(n)."""
    one = _one(bits)
    numbers = numbers + np.int64(1)
    edges = cell_edges(np.minimum(numbers, one), bits, "probability")
    above = numbers >= one
    if above.any():
        plain = numbers[above] + ((ONE_KEY >> np.int64(MAX_BITS - bits)) - one)
        edges[above] = cell_edges(plain, bits, "plain")
    return edges


@cache
def _one(bits: int) -> np.int64:
    """Return one more than the number of the greatest double below 1 on the probability scale."""
    nearest = 2 * HALF_KEY - to_key(np.array([2.0**-53]))
    return np.int64((nearest >> np.int64(MAX_BITS - bits))[0] + 1)


def cluster_edges(scores: FloatArray) -> FloatArray:
    """Return the lower edge of each score's cell; -inf stays. O(n)."""
    scored = np.isfinite(scores)
    edges = np.full(scores.size, -np.inf)
    edges[scored] = edges_of_numbers(cell_numbers(scores[scored]))
    return edges


def coarse_cells(
    scores: FloatArray, bits: int = CLUSTER_BITS
) -> tuple[FloatArray, npt.NDArray[np.int32]]:
    """Return the distinct edges of scores' cells, ascending, and the cell of each. O(n).

    Parameters
    ----------
    scores : float64[n]
        -inf of misses, which are in a cell of their own.
    bits : int
        As of `cell_numbers`.
    """
    missed = np.isneginf(scores)
    if missed.any():
        edges, ranked = coarse_cells(scores[~missed], bits)
        ranks = np.zeros(scores.size, dtype=np.int32)
        ranks[~missed] = ranked + np.int32(1)
        return np.concatenate(([-np.inf], edges)), ranks
    numbers, ranks = rank_numbers(cell_numbers(scores, bits))
    return edges_of_numbers(numbers, bits), ranks
