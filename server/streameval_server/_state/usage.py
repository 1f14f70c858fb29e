"""The memory of a stream's counts, and its constants: upper bounds."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval.kernel import EncodedCounts, state_bytes, table_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from streameval.kernel import State

    class Holder(Protocol):
        """What takes memory."""

        @property
        def memory_bytes(self) -> int: ...


OVERHEAD_BYTES = 1_344
"""Memory of a tally besides its scores, with its part, its places in dicts and its
share of a view; measured."""

RESTING_BYTES = 512
"""Memory of a pane at rest besides its scores: its objects, its place and share of a view;
measured."""


@dataclass(slots=True)
class StreamUsage:
    """The revision and the memory of one stream, shared by its parts.

    The parts refer to this record and not to the stream, so that a stream is in no reference
    cycle: a deleted stream leaves memory at once, not when the collector runs.

    Attributes
    ----------
    revision : int
        Log revision that is being applied.
    memory_bytes : int
        Approximate upper bound of the memory of what has been counted. Code that changes a
        holder of counts does so within `measuring`.
    num_slices : int
        Slices that rows may be in, besides the whole.
    """

    revision: int
    memory_bytes: int = 0
    num_slices: int = 0

    @contextmanager
    def measuring(self, holder: Holder) -> Iterator[None]:
        """Add to the memory by how much a holder grows in the context, which may not nest."""
        before = holder.memory_bytes
        yield
        self.memory_bytes += holder.memory_bytes - before


def encoded_bytes(data: bytes) -> int:
    """Return the memory of a pane at rest whose counts are kept as these bytes. O(1)."""
    return RESTING_BYTES + EncodedCounts.memory_of(data)


def resting_bytes(state: State) -> int:
    """Return the memory of a pane at rest. O(1)."""
    if state.stored is not None:
        return RESTING_BYTES + state.stored.memory_bytes + table_bytes(state.clusters)
    return RESTING_BYTES + state_bytes(state) + table_bytes(state.clusters)
