"""Checkpoints in parts: only changed parts are written, and the manifest comes last.

A part is the producers' marks, or a piece of one stream (`stream_state`). A manifest gives
for each part the revision of the checkpoint that wrote it, its length and its CRC-32. After a
crash between parts the previous checkpoint is still current.
"""

from __future__ import annotations

import json
import zlib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval_server._log.failpoints import failpoint
from streameval_server._log.storage import PartRow
from streameval_server._model.errors import CorruptLogError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from streameval_server._log.storage import PartKey, Storage

PIECE_BYTES = 1 << 20
"""Longest piece of a part in bytes, and about what one step writes."""

FORMAT = 3
"""Version of the manifest.

Format 3 has refusals in the producers' marks; format 2, which has none, is read too. Format 1
has no panes, slices and joins, so the whole log is replayed to get them.
"""

_OLDEST_FORMAT = 2


class OldCheckpointError(CorruptLogError):
    """A checkpoint of a format that lacks a part of the state."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a checkpoint at one applied revision.

    Attributes
    ----------
    revision : int
        The applied revision at which it was taken.
    received_us : int
        The log's time at that revision.
    changed : mapping of str to bytes
        The parts that changed since the previous checkpoint.
    unchanged : tuple of str
        The names of the other parts.
    """

    revision: int
    received_us: int
    changed: Mapping[str, bytes]
    unchanged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartEntry:
    """A manifest's entry for a part: the revision that wrote it, and how to verify it."""

    revision: int
    length: int
    crc32: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The parts that make up a checkpoint.

    Attributes
    ----------
    revision, received_us : int
        As in `Checkpoint`.
    parts : mapping of str to PartEntry
    """

    revision: int
    received_us: int
    parts: Mapping[str, PartEntry]

    def keys(self) -> dict[str, int]:
        """Return the revision of each part."""
        return {name: part.revision for name, part in self.parts.items()}

    def to_bytes(self) -> bytes:
        """Encode it, preceded by its CRC-32."""
        body = json.dumps(
            {
                "format": FORMAT,
                "revision": self.revision,
                "received_us": self.received_us,
                "parts": {
                    name: [part.revision, part.length, part.crc32]
                    for name, part in self.parts.items()
                },
            },
            separators=(",", ":"),
        ).encode()
        return zlib.crc32(body).to_bytes(4, "little") + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Decode it.

        Raises
        ------
        CorruptLogError
            When it is not what was written, or its format is too old.
        StorageError
            When a newer version wrote it.
        """
        body = data[4:]
        if len(data) < 4 or zlib.crc32(body) != int.from_bytes(data[:4], "little"):
            raise CorruptLogError("the checkpoint's manifest is not what was written")
        try:
            fields = json.loads(body)
            format_ = _integer(fields["format"])
            if _OLDEST_FORMAT <= format_ <= FORMAT:
                parts = {name: _entry(numbers) for name, numbers in fields["parts"].items()}
                return cls(_integer(fields["revision"]), _integer(fields["received_us"]), parts)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise CorruptLogError(f"the checkpoint's manifest cannot be read: {error}") from error
        if format_ < _OLDEST_FORMAT:
            raise OldCheckpointError(f"the checkpoint has format {format_}, which has no panes")
        raise StorageError(
            f"the checkpoint has format {format_}, this version knows {FORMAT}: "
            "start the release that wrote it, or a newer one"
        )

    def read(self, storage: Storage) -> dict[str, bytes]:
        """Read all parts. O(bytes).

        Raises
        ------
        CorruptLogError
            When a part is not what was written.
        """
        found: dict[str, bytes] = {}
        for name, part in self.parts.items():
            data = storage.read_part(name, part.revision)
            if len(data) != part.length or zlib.crc32(data) != part.crc32:
                raise CorruptLogError(f"part {name} of the checkpoint is not what was written")
            found[name] = data
        return found


def part_keys(manifest: Manifest | None) -> set[PartKey]:
    """Return the keys of the parts that a manifest names; none without a manifest."""
    return set() if manifest is None else set(manifest.keys().items())


def read_base(storage: Storage) -> Manifest | None:
    """Return the manifest of the log's base; None when the log is whole.

    Raises
    ------
    CorruptLogError
        When it is not what was written.
    """
    data = storage.base()
    return None if data is None else Manifest.from_bytes(data)


def _entry(numbers: list[object]) -> PartEntry:
    revision, length, crc32 = map(_integer, numbers)
    return PartEntry(revision, length, crc32)


def _integer(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r} is not one of its numbers")
    return value


class CheckpointWriter:
    """Writes one checkpoint, a step at a time, between commits.

    Parameters
    ----------
    checkpoint
        To be written.
    before
        The current manifest, which names the unchanged parts.
    base
        The log's base, whose parts must not be deleted.

    Attributes
    ----------
    tried : Manifest or None
        The manifest, once the writer has tried to make it current.
    """

    def __init__(
        self, checkpoint: Checkpoint, before: Manifest | None, base: Manifest | None = None
    ) -> None:
        revision = checkpoint.revision
        old: Mapping[str, PartEntry] = {} if before is None else before.parts
        kept: Mapping[str, PartEntry] = {} if base is None else base.parts
        parts = {name: old[name] for name in checkpoint.unchanged}
        self._pieces: deque[PartRow] = deque()
        for name, data in checkpoint.changed.items():
            parts[name] = PartEntry(revision, len(data), zlib.crc32(data))
            self._pieces.extend(pieces(name, revision, data))
        self.tried: Manifest | None = None
        self._manifest = Manifest(revision, checkpoint.received_us, parts)
        self._superseded = [
            (name, part.revision)
            for name, part in old.items()
            if parts.get(name) != part and kept.get(name) != part
        ]

    def step(self, storage: Storage) -> Manifest | None:
        """Write about 1 MiB; return the manifest once it is current."""
        rows: list[PartRow] = []
        size = 0
        while self._pieces and (not rows or size + len(self._pieces[0].data) <= PIECE_BYTES):
            rows.append(self._pieces.popleft())
            size += len(rows[-1].data)
        if rows:
            failpoint("checkpoint.part.before")
            storage.write_parts(rows)
            failpoint("checkpoint.part.after")
            return None
        failpoint("checkpoint.manifest.before")
        self.tried = self._manifest
        storage.write_manifest(self._manifest.to_bytes(), self._superseded)
        failpoint("checkpoint.manifest.after")
        return self._manifest


def pieces(part: str, revision: int, data: bytes) -> Iterator[PartRow]:
    """Split a part into rows."""
    for piece, at in enumerate(range(0, len(data), PIECE_BYTES)):
        yield PartRow(part, revision, piece, data[at : at + PIECE_BYTES])
