"""Cells: a score reduced to a few significant bits, so that the state stays bounded.

An evaluator with ``resolution=b`` keeps `b` significant bits of each score: it
counts the case at the *lower edge* of the score's cell. A cell is a range of doubles
that agree in the leading bits of their order-preserving integer key (the IEEE 754
bits read as sign and magnitude). So the relative width of a cell depends on `b`
alone, at every magnitude, and no range of scores has to be declared.

Invariants, on both scales and at every `b`:

- *monotone*: a higher score never gets a lower edge, so the order of cases is
  kept between cells and lost only inside one;
- *idempotent*: an edge is its own edge, and it is in its cell, so a threshold at
  an edge splits the cases exactly;
- *nested*: ``quantise(quantise(x, b), c) == quantise(x, c)`` for ``c <= b``, so
  lowering the resolution later, or in another order, gives the same state;
- *ending*: below one significant bit the exponent's bits are dropped too, and at
  `MIN_BITS` one cell has every score, so any cap on cells can be met.

Cost: O(n), a few passes of integer arithmetic over the scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from streameval._common.errors import InvalidInputError
from streameval._counts.keys import (
    HALF_KEY,
    LARGEST_KEY,
    floor_key,
    from_key,
    next_key,
    to_key,
)

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray

Scale: TypeAlias = Literal["plain", "probability"]

MAX_BITS = 53
"""Bits: the significant bits of a double, with which cells are single scores."""
MIN_BITS = -11
"""Bits: all 64 bits of the key are dropped, which leaves a single cell."""

_LARGEST = np.finfo(np.float64).max
_MANTISSA_BITS = 52


def quantise(scores: npt.NDArray[np.float64], bits: int, scale: Scale = "plain") -> FloatArray:
    """Return the lower edge of each score's cell.

    Parameters
    ----------
    scores : float64[n]
        Finite scores; on the probability scale between 0 and 1.
    bits : int
        Significant bits to keep, from `MIN_BITS` to `MAX_BITS`.
    scale : {"plain", "probability"}
        "plain" keeps significant bits of the score. "probability" keeps bits of the score
        up to 1/2 and bits of 1 - score above, so that cells are as fine near 1 as near 0:
        probabilities are dense at both ends.

    Returns
    -------
    float64[n]
        Finite, never above the score, in the same cell as it. -0.0 becomes 0.0.

    Raises
    ------
    InvalidInputError
        A score outside [0, 1] on the probability scale, with its index.

    Notes
    -----
    The edge is the floor of the key. Clearing mantissa bits would round negative
    scores up, across the edge. If the floor of a cell of huge negative scores is
    -inf, its edge is the lowest finite double, which is in that cell.

    Examples
    --------
    >>> import numpy as np
    >>> quantise(np.array([0.7, -0.7, 5.0]), 3).tolist()
    [0.625, -0.75, 5.0]
    >>> quantise(np.array([0.001, 0.999]), 1, "probability").tolist()
    [0.0009765625, 0.998046875]
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scale == "probability":
        _check_probabilities(scores)
        return _quantise_probability(scores, _dropped(bits))
    dropped = _dropped(bits)
    if dropped <= _MANTISSA_BITS:
        return _lower_edges(scores, dropped)
    return from_key(floor_key(to_key(scores), dropped))


def are_lower_edges(scores: FloatArray, bits: int, scale: Scale = "plain") -> bool:
    """Return whether `quantise` surely leaves ascending scores as they are. One pass.

    Parameters
    ----------
    scores : float64[n]
        Finite, ascending.
    bits, scale
        As for `quantise`.

    Returns
    -------
    bool
        True if all are their cells' lower edges. False also where that is not clear: below
        one significant bit, for scores that the scale does not have, and for the lowest double.

    Examples
    --------
    >>> import numpy as np
    >>> are_lower_edges(np.array([-0.75, 0.625, 5.0]), 3)
    True
    >>> are_lower_edges(np.array([0.7]), 3)
    False
    """
    dropped = _dropped(bits)
    if not scores.size:
        return True
    if dropped > _MANTISSA_BITS:
        return False
    # The bits that a resolution drops are zero in the key if they are zero in the double.
    low = (1 << dropped) - 1
    if scale == "plain":
        return not int(np.bitwise_or.reduce(scores.view(np.int64))) & low
    if scores[0] < 0.0 or scores[-1] > 1.0:
        return False
    upper = int(np.searchsorted(scores, 0.5))
    parts = (scores[:upper], 1.0 - scores[upper:])
    return not any(int(np.bitwise_or.reduce(part.view(np.int64))) & low for part in parts)


def upper_edge(edges: npt.NDArray[np.float64], bits: int, scale: Scale = "plain") -> FloatArray:
    """Return the first double above each cell: the cell is [edge, upper edge).

    Parameters
    ----------
    edges : float64[n]
        Lower edges, or any scores of the cells.
    bits, scale
        As for `quantise`.

    Returns
    -------
    float64[n]
        inf for the cell of the largest double.

    Examples
    --------
    >>> import numpy as np
    >>> upper_edge(np.array([0.625, -0.75, 4.0]), 3).tolist()
    [0.75, -0.625, 5.0]
    """
    edges = np.asarray(edges, dtype=np.float64)
    dropped = _dropped(bits)
    if scale == "probability":
        _check_probabilities(edges)
        if dropped == 64:
            return np.full(edges.shape, np.nextafter(1.0, 2.0))
        low = np.minimum(from_key(next_key(to_key(np.minimum(edges, 0.5)), dropped)), 0.5)
        # The cell's complements are (previous, c]. Below 2**-53 no double lies
        # between 1 - complement and 1, so the next double above the edge ends the cell.
        complement = 1.0 - np.maximum(edges, 0.5)
        previous = from_key(floor_key(np.maximum(to_key(complement) - 1, 0), dropped))
        high = np.maximum(1.0 - previous, np.nextafter(edges, 2.0))
        return np.where(edges < 0.5, low, high)
    key = next_key(to_key(edges), dropped)
    return np.where(key > LARGEST_KEY, np.inf, from_key(np.minimum(key, LARGEST_KEY)))


def largest_bits(
    distinct_edges_a: npt.NDArray[np.float64],
    distinct_edges_b: npt.NDArray[np.float64],
    bits: int,
    max_cells: int,
    scale: Scale = "plain",
) -> int:
    """Return the largest resolution, at most `bits`, whose cells fit `max_cells`.

    Parameters
    ----------
    distinct_edges_a, distinct_edges_b : float64[n], float64[m]
        Scores or edges in use, one array per class; a cell that both classes
        use counts once.
    bits : int
        The present resolution.
    max_cells : int
        How many distinct cells are allowed, at least 1.
    scale : {"plain", "probability"}
        As for `quantise`.

    Returns
    -------
    int
        Between `MIN_BITS`, where one cell is left, and `bits`.

    Notes
    -----
    Cells are nested, so the result depends on the set of scores alone, not on their
    order or on an earlier resolution of some of them. Two neighbours share a cell
    once all bits in which their keys differ are dropped, so one pass counts the
    cells of every resolution: O(n + m) for ascending arrays, O((n + m) log(n + m))
    to sort others.

    Examples
    --------
    >>> import numpy as np
    >>> largest_bits(np.array([1.0, 1.25, 1.5]), np.array([1.0, 1.75, 8.0]), 12, 3)
    2
    """
    if max_cells < 1:
        raise InvalidInputError(f"max_cells must be at least 1, got {max_cells}", field="max_cells")
    dropped = _dropped(bits)
    scores = np.concatenate((distinct_edges_a, distinct_edges_b))
    if len(scores) <= max_cells:
        return bits
    scores.sort(kind="stable")  # a stable sort of two ascending arrays is a merge
    keys = to_key(scores)
    if scale == "probability":
        # Above 1/2 a score is in the cell of its complement, and cells are in reverse order.
        upper = scores >= 0.5
        keys = np.where(upper, -to_key(1.0 - np.maximum(scores, 0.5)), keys)
    # As unsigned numbers, the sign is the highest bit, which is dropped last.
    differing = (keys[1:] ^ keys[:-1]).view(np.uint64)
    if scale == "probability":
        differing[upper[1:] != upper[:-1]] = np.iinfo(np.uint64).max
    # The lowest score starts the first cell; each neighbour that still differs starts another.
    place = len(differing) - max_cells
    last = int(np.partition(differing, place)[place])
    return MAX_BITS - max(dropped, last.bit_length())


def _dropped(bits: int) -> int:
    """Return how many low bits of the key this resolution drops."""
    if not MIN_BITS <= bits <= MAX_BITS:
        raise InvalidInputError(
            f"resolution must be between {MIN_BITS} and {MAX_BITS} bits, got {bits}",
            field="resolution",
        )
    return MAX_BITS - bits


def _check_probabilities(scores: FloatArray) -> None:
    outside = ~((scores >= 0.0) & (scores <= 1.0))
    if outside.any():
        index = int(np.argmax(outside))
        raise InvalidInputError(
            f"score must be between 0 and 1 on the probability scale, "
            f"got {scores[index]} at index {index}",
            field="scores",
            index=index,
        )


def _quantise_probability(scores: FloatArray, dropped: int) -> FloatArray:
    """Return lower edges: floors up to 1/2, mirrored floors (ceilings of 1 - s) above.

    1 - s is exact for s >= 1/2, and so is 1 - its ceiling: both are multiples of
    2**-53. Below one significant bit a ceiling may exceed 1/2; it is limited to 1/2.
    """
    if dropped == 64:
        return np.zeros_like(scores)
    low = from_key(floor_key(to_key(np.minimum(scores, 0.5)), dropped))
    complement = 1.0 - np.maximum(scores, 0.5)
    ceiling = -np.maximum(floor_key(-to_key(complement), dropped), -HALF_KEY)
    return np.where(scores < 0.5, low, 1.0 - from_key(ceiling))


def _lower_edges(scores: FloatArray, dropped: int) -> FloatArray:
    """Return the floors of the keys, computed from the bits of the doubles directly.

    The magnitude is truncated for positive numbers and rounded up for negative ones.
    A carry goes into the exponent, at most to infinity, as long as only mantissa bits
    are dropped.
    """
    raw = scores.view(np.int64)
    last = np.int64((1 << dropped) - 1)
    edges = np.right_shift(raw, 63, out=np.empty_like(raw))  # all bits 1 if negative
    edges &= last
    edges += raw
    edges &= ~last
    lower = edges.view(np.float64)
    lower += 0.0  # -0.0 becomes 0.0
    return np.maximum(lower, -_LARGEST, out=lower)
