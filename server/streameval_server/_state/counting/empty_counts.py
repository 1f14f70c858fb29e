"""Counts without cases: one state for all streams of the same settings."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from streameval.kernel import State

if TYPE_CHECKING:
    from streameval.kernel import Scale


@lru_cache
def empty_counts(bits: int | None, scale: Scale, max_cells: int, groups: int) -> State:
    """Return the empty state of all streams with these settings. O(1)."""
    return State.empty(resolution=bits, scale=scale, max_cells=max_cells, cluster_groups=groups)
