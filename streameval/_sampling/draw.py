"""A draw of ids: in each band of score, a simple random sample of a fixed size.

An id's rank is a hash of the id, keyed by the seed; of the N ids of a band the n with the
least ranks are drawn. So each has the probability n/N exactly, as far as BLAKE2b is a random
function of the seed; the size is the budget, not only on average; and the draw depends on
the set of ids and the seed alone, not on the order in which predictions arrived.

Cost: some 1.5 us of the processor and 30 bytes for each id that waits.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import is_number, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from streameval._common.arrays import IntArray

MAX_SEED = 2**64 - 1
CHUNK_ROWS = 65_536
"""Ids that are objects at once."""
_RANK_BYTES = 16


def check_seed(seed: object) -> int:
    """Return a seed, an integer from 0 to 2^64 - 1, or refuse it."""
    number = isinstance(seed, int | np.integer) and is_number(seed)
    if not number or not 0 <= int(seed) <= MAX_SEED:  # type: ignore[call-overload]
        message = f"seed must be an integer from 0 to 2^64 - 1, got {shown(seed)}"
        raise InvalidInputError(message, field="seed")
    return int(seed)  # type: ignore[call-overload, no-any-return]


def draw_rows(
    ids_of: Callable[[IntArray], Sequence[bytes]],
    bands: NDArray[np.int8],
    to_label: IntArray,
    seed: int,
) -> IntArray:
    """Return the rows of the drawn ids, in random order. O(n), and O(m log m) for m drawn.

    Memory: some 30 bytes an id.

    Parameters
    ----------
    ids_of : callable
        Takes rows, at most `CHUNK_ROWS`, and returns their ids.
    bands : int8[n]
        The band of each id.
    to_label : int64[bands]
        How many to draw of each band, 1 or more, at most as many as it has.
    seed : int

    Raises
    ------
    InvalidInputError
        When an id comes twice.
    """
    firsts = np.empty(bands.size, dtype=np.uint64)
    for rows in _chunks(np.arange(bands.size)):
        firsts[rows] = _ranks(ids_of(rows), seed)[:, 0]
    _check_distinct(firsts, ids_of)
    parts = []
    for band, number in enumerate(to_label.tolist()):
        of_band = np.flatnonzero(bands == band)
        own = firsts[of_band]
        own.partition(number - 1)
        # A few more than are drawn where the first halves of ranks are equal.
        parts.append(of_band[firsts[of_band] <= own[number - 1]])
    least = np.concatenate(parts)
    seconds = np.concatenate([_ranks(ids_of(rows), seed)[:, 1] for rows in _chunks(least)])
    order = np.lexsort((seconds, firsts[least], bands[least]))
    starts = np.searchsorted(bands[least][order], np.arange(to_label.size))
    at = bands[least][order]
    drawn = order[np.arange(order.size) - starts[at] < to_label[at]]
    # The first half of a rank says who is drawn, so an order by it would tell the band.
    rows_drawn: IntArray = least[drawn[np.argsort(seconds[drawn])]]
    return rows_drawn


def _chunks(rows: IntArray) -> list[IntArray]:
    """Return rows in parts of `CHUNK_ROWS`."""
    return [rows[start : start + CHUNK_ROWS] for start in range(0, rows.size, CHUNK_ROWS)]


def _ranks(ids: Sequence[bytes], seed: int) -> NDArray[np.uint64]:
    """Return the ranks of ids, each as two words. O(n)."""
    keyed = blake2b(digest_size=_RANK_BYTES, key=seed.to_bytes(8, "little"))
    digests = []
    for id_ in ids:
        rank = keyed.copy()  # quicker than a new one
        rank.update(id_)
        digests.append(rank.digest())
    ranks = np.frombuffer(b"".join(digests), dtype=">u8").reshape(-1, 2)
    return ranks.astype(np.uint64)


def _check_distinct(
    firsts: NDArray[np.uint64], ids_of: Callable[[IntArray], Sequence[bytes]]
) -> None:
    """Refuse an id that comes twice: the first halves of its ranks are equal."""
    ordered = np.sort(firsts)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if repeated.size:
        alike = np.flatnonzero(np.isin(firsts, repeated))
        ids = [id_ for rows in _chunks(alike) for id_ in ids_of(rows)]
        if len(set(ids)) < len(ids):
            raise InvalidInputError("an id comes twice: each waits once", field="ids")


def readable(id_: bytes) -> str | bytes:
    """Return an id as text where it is UTF-8."""
    try:
        return id_.decode()
    except UnicodeDecodeError:
        return id_
