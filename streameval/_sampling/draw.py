"""A draw of ids: in each band of score, a simple random sample of a fixed size.

An id's rank is a hash of the id, keyed by the seed; of the N ids of a band the n with the
least ranks are drawn. So each has the probability n/N exactly, as far as BLAKE2b is a random
function of the seed; the size is the budget, not only on average; and the draw depends on
the set of ids and the seed alone, not on the order in which predictions arrived.

Cost: some 1.5 us of the processor for each id that waits.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import is_number, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import IntArray

MAX_SEED = 2**64 - 1
_RANK_BYTES = 16


def check_seed(seed: object) -> int:
    """Return a seed, an integer from 0 to 2^64 - 1, or refuse it."""
    number = isinstance(seed, int | np.integer) and is_number(seed)
    if not number or not 0 <= int(seed) <= MAX_SEED:  # type: ignore[call-overload]
        message = f"seed must be an integer from 0 to 2^64 - 1, got {shown(seed)}"
        raise InvalidInputError(message, field="seed")
    return int(seed)  # type: ignore[call-overload, no-any-return]


def draw_rows(ids: Sequence[bytes], bands: IntArray, to_label: IntArray, seed: int) -> IntArray:
    """Return the rows of the drawn ids, in random order. O(n log n).

    Parameters
    ----------
    ids : sequence of bytes
        Distinct.
    bands : int64[n]
        The band of each id.
    to_label : int64[bands]
        How many to draw of each band, at most as many as it has.
    seed : int
    """
    keyed = blake2b(digest_size=_RANK_BYTES, key=seed.to_bytes(8, "little"))
    digests = []
    for id_ in ids:
        rank = keyed.copy()  # quicker than a new one
        rank.update(id_)
        digests.append(rank.digest())
    joined = b"".join(digests)
    ranks = np.frombuffer(joined, dtype=">u8").reshape(-1, 2)
    order = np.lexsort((ranks[:, 1], ranks[:, 0], bands))
    starts = np.searchsorted(bands[order], np.arange(to_label.size))
    place = np.arange(order.size) - starts[bands[order]]
    drawn = order[place < to_label[bands[order]]]
    # The first half of a rank says who is drawn, so an order by it would tell the band.
    rows: IntArray = drawn[np.argsort(ranks[drawn, 1])]
    return rows


def readable(id_: bytes) -> str | bytes:
    """Return an id as text where it is UTF-8."""
    try:
        return id_.decode()
    except UnicodeDecodeError:
        return id_
