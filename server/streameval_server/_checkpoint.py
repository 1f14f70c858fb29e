"""Checkpoints in parts: only what changed is written, and the manifest comes last.

A part is the marks, the table of streams, or one stream's counts. A manifest
names for each part the revision of the checkpoint that wrote it, its length
and its CRC-32. A crash between parts leaves the checkpoint before it current.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from streameval_server._storage import PartRow, Storage

PIECE_BYTES = 1 << 20
"""Longest piece of a part."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What has to be written for the state at one applied revision.

    Attributes
    ----------
    revision : int
        The applied revision at which it was copied.
    received_us : int
        The log's time at that revision.
    changed : mapping of str to bytes
        The parts that changed since the checkpoint before.
    unchanged : tuple of str
        The names of the other parts.
    """

    revision: int
    received_us: int
    changed: Mapping[str, bytes]
    unchanged: tuple[str, ...]


class Manifest:
    """Which parts, written when, make up the current checkpoint."""

    def to_bytes(self) -> bytes:
        """Return it, with a CRC-32 of its own."""
        raise NotImplementedError

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Read it back; CorruptLogError when it is not what was written."""
        raise NotImplementedError


class CheckpointWriter:
    """Writes one checkpoint, a step at a time, between commits."""

    def __init__(self, checkpoint: Checkpoint, before: Manifest | None) -> None:
        raise NotImplementedError

    def step(self, storage: Storage) -> Manifest | None:
        """Write about 1 MiB; return the manifest once it is current."""
        raise NotImplementedError


def pieces(part: str, revision: int, data: bytes) -> Iterator[PartRow]:
    """Cut a part into rows."""
    raise NotImplementedError
