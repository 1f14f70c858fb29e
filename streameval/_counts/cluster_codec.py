"""States with clusters as bytes: format 2 of an evaluator, which has one of format 1 inside.

Layout, little-endian: the number of groups, the length of the state without clusters, the
number of rows, and the bytes a count takes; then that state, framed as in format 1; then
the table of the groups' counts, a column each of edges (float64, -inf of misses), codes
(uint16: twice the group, plus 1 for positives) and counts (unsigned); last the CRC-32.
Equal states have equal bytes.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._common.frame import Frame, raise_corrupt
from streameval._counts.cluster_counts import ClusterCounts
from streameval._counts.cluster_keys import MAX_CLUSTER_GROUPS, MIN_CLUSTER_GROUPS
from streameval._counts.codec import FRAME as UNCLUSTERED_FRAME
from streameval._counts.codec import decode_state, encode_state
from streameval._counts.exact import MAX_TOTAL

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common.arrays import IntArray
    from streameval._counts.state import State

FRAME = Frame(UNCLUSTERED_FRAME.magic, 2, UNCLUSTERED_FRAME.name)
_HEADER = struct.Struct("<HqqB")
_WIDTHS = (1, 2, 4, 8)


def encode_clustered(state: State, clusters: ClusterCounts) -> bytes:
    """Return the content of a state and of its clusters as bytes. O(n)."""
    whole = encode_state(state)
    largest = int(clusters.counts.max(initial=0))
    width = next(each for each in _WIDTHS if largest < 1 << (8 * each))
    return FRAME.sealed(
        _HEADER.pack(clusters.num_groups, len(whole), clusters.counts.size, width),
        whole,
        clusters.edges.astype("<f8", copy=False).tobytes(),
        clusters.codes.astype("<u2", copy=False).tobytes(),
        clusters.counts.astype(f"<u{width}").tobytes(),
    )


def decode_clustered(data: bytes | bytearray | memoryview) -> State:
    """Return the state that `encode_clustered` wrote, at revision 0. O(n).

    Raises
    ------
    CorruptStateError
        When the bytes are not exactly that.
    """
    reader = FRAME.reader(data)
    num_groups, length, rows, width = reader.fields(_HEADER)
    if width not in _WIDTHS or not MIN_CLUSTER_GROUPS <= num_groups <= MAX_CLUSTER_GROUPS:
        raise_corrupt(f"the evaluator has {num_groups} groups of clusters, counts of {width} B")
    whole = decode_state(reader.blob(length))
    if rows < 0:
        raise_corrupt(f"the evaluator announces {rows} counts of clusters")
    edges = reader.column("<f8", rows).astype(np.float64)
    codes = reader.column("<u2", rows).astype(np.uint16)
    counts = reader.column(f"<u{width}", rows)
    reader.end()
    clusters = ClusterCounts(num_groups, edges, codes, _checked_counts(counts, width))
    state = replace(whole, clusters=clusters)
    if not clusters.is_table() or not state.is_consistent():
        raise_corrupt("the evaluator's counts of clusters contradict its other counts")
    return state


def _checked_counts(counts: npt.NDArray[Any], width: int) -> IntArray:
    largest = int(counts.max(initial=0))
    if counts.size and not (counts.min() >= 1 and counts.sum(dtype=np.float64) < MAX_TOTAL):
        raise_corrupt("the evaluator has counts of clusters out of range")
    if width != next(each for each in _WIDTHS if largest < 1 << (8 * each)):
        raise_corrupt(f"the evaluator has counts of clusters of {width} B, more than they need")
    return counts.astype(np.int64)
