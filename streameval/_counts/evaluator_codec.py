"""Evaluators as bytes, in the lowest format that holds them, and their formats told apart.

Format 1 has neither clusters nor weights (`codec`), format 2 has clusters (`cluster_codec`),
format 3 has weights (`weighted_codec`). No evaluator has both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._counts import cluster_codec, weighted_codec
from streameval._counts.codec import decode_state, encode_state

if TYPE_CHECKING:
    from streameval._counts.state import State


def encode_evaluator(state: State) -> bytes:
    """Return the content of a state as bytes. O(n)."""
    if state.weighted is not None:
        return weighted_codec.encode_weighted(state, state.weighted)
    if state.clusters is not None:
        return cluster_codec.encode_clustered(state, state.clusters)
    return encode_state(state)


def decode_evaluator(data: bytes | bytearray | memoryview) -> State:
    """Return the state that `encode_evaluator` wrote, at revision 0. O(n).

    Raises
    ------
    CorruptStateError
        When the bytes are not exactly that.
    """
    if weighted_codec.FRAME.begins(data):
        return weighted_codec.decode_weighted(data)
    return decode_unweighted(data)


def decode_unweighted(data: bytes | bytearray | memoryview) -> State:
    """Return a state without weights, at revision 0, and refuse one with weights. O(n).

    Raises
    ------
    CorruptStateError
        When the bytes are not exactly that.
    """
    if cluster_codec.FRAME.begins(data):
        return cluster_codec.decode_clustered(data)
    return decode_state(data)
