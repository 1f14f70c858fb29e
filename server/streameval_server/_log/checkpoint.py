"""Checkpoints in parts: only changed parts are written, and the manifest comes last.

A part is the producers' marks, or a piece of one stream (`stream_state`). A manifest gives
for each part the revision of the checkpoint that wrote it, its length and its CRC-32. After a
crash between parts the previous checkpoint is still current.
"""

from __future__ import annotations

import json
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from streameval_server._log.failpoints import failpoint
from streameval_server._log.storage import PartRow
from streameval_server._model.errors import CorruptLogError, StorageError

if TYPE_CHECKING:
    from streameval_server._log.storage import PartKey, Storage

PIECE_BYTES = 1 << 20
"""Longest piece of a part in bytes, and about what one step writes."""

FORMAT = 1
"""Version of the manifest."""


class LazyParts(Mapping[str, bytes]):
    """Parts by name that are made when they are read, so that few are in memory at once.

    Parameters
    ----------
    makers : dict of str to callable
        For each part a callable that returns its bytes.

    Examples
    --------
    >>> parts = LazyParts({"a": lambda: b"1", "b": lambda: b"2"})
    >>> parts["a"], list(parts), list(parts.pop_all()), len(parts)
    (b'1', ['a', 'b'], [('a', b'1'), ('b', b'2')], 0)
    """

    def __init__(self, makers: dict[str, Callable[[], bytes]]) -> None:
        self.makers = makers

    @classmethod
    def holding(cls, parts: Mapping[str, bytes]) -> LazyParts:
        """Return parts that are made already."""
        return cls({name: _constant(data) for name, data in parts.items()})

    def __getitem__(self, name: str) -> bytes:
        return self.makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)

    def pop_all(self) -> Iterator[tuple[str, bytes]]:
        """Yield each part and drop what it is made from."""
        while self.makers:
            name = next(iter(self.makers))
            yield name, self.makers.pop(name)()

    def of(self, names: Mapping[str, str]) -> Mapping[str, bytes]:
        """Return some of the parts under other names, given the name here for each."""
        return LazyParts({other: self.makers[name] for other, name in names.items()})


def _constant(data: bytes) -> Callable[[], bytes]:
    return lambda: data


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a checkpoint at one applied revision.

    Attributes
    ----------
    revision : int
        The applied revision at which it was taken.
    received_us : int
        The log's time at that revision.
    changed : LazyParts
        The parts that changed since the previous checkpoint. Any thread may read them.
    unchanged : tuple of str
        The names of the other parts.
    """

    revision: int
    received_us: int
    changed: LazyParts
    unchanged: tuple[str, ...]


class PartEntry(NamedTuple):
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
            When it is not what was written.
        StorageError
            When a newer version wrote it.
        """
        body = data[4:]
        if len(data) < 4 or zlib.crc32(body) != int.from_bytes(data[:4], "little"):
            raise CorruptLogError("the checkpoint's manifest is not what was written")
        try:
            fields = json.loads(body)
            format_ = _integer(fields["format"])
            if format_ == FORMAT:
                known: dict[int, int] = {}
                parts = {name: _entry(numbers, known) for name, numbers in fields["parts"].items()}
                return cls(_integer(fields["revision"]), _integer(fields["received_us"]), parts)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise CorruptLogError(f"the checkpoint's manifest cannot be read: {error}") from error
        raise StorageError(
            f"the checkpoint has format {format_}, this version knows {FORMAT}: "
            "start the release that wrote it, or a newer one"
        )

    def read(self, storage: Storage) -> LazyParts:
        """Return all parts, each read and checked when it is needed, or with others of a stream.

        Reading a part that is not what was written raises CorruptLogError.
        """
        return StoredParts(storage, self.parts)

    @property
    def written_bytes(self) -> int:
        """Bytes of the parts that this checkpoint wrote. O(parts)."""
        return sum(part.length for part in self.parts.values() if part.revision == self.revision)


class StoredParts(LazyParts):
    """The parts of a manifest, in their storage.

    A query costs more than a small part. So one query reads the small parts of a stream, up to
    `PIECE_BYTES`; larger parts are read one by one, when they are needed.

    Parameters
    ----------
    storage
        Where they are.
    entries : mapping of str to PartEntry
        The manifest's.
    """

    def __init__(self, storage: Storage, entries: Mapping[str, PartEntry]) -> None:
        super().__init__({})
        self._storage = storage
        self._entries = entries

    def __getitem__(self, name: str) -> bytes:
        if name in self.makers:
            return super().__getitem__(name)
        return _read_parts(self._storage, {name: self._entries[name]})[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.makers
        yield from (name for name in self._entries if name not in self.makers)

    def __len__(self) -> int:
        return len(self.makers.keys() | self._entries.keys())

    def of(self, names: Mapping[str, str]) -> Mapping[str, bytes]:
        """Return some of the parts under other names, and read the small ones of them now.

        Raises
        ------
        CorruptLogError
            When one that is read is not what was written.
        """
        together: dict[str, PartEntry] = {}
        left = PIECE_BYTES
        for name in names.values():
            entry = self._entries.get(name)
            if entry is not None and entry.length <= left:
                left -= entry.length
                together[name] = entry
        read = _read_parts(self._storage, together) if together else {}
        if len(read) == len(names):
            return {other: read[name] for other, name in names.items()}
        return LazyParts(
            {
                other: _constant(read[name]) if name in read else partial(self.__getitem__, name)
                for other, name in names.items()
            }
        )


def _read_parts(storage: Storage, entries: Mapping[str, PartEntry]) -> dict[str, bytes]:
    """Return parts, each checked against its entry. O(bytes)."""
    read = storage.read_parts([(name, entry.revision) for name, entry in entries.items()])
    for (name, entry), data in zip(entries.items(), read, strict=True):
        if len(data) != entry.length or zlib.crc32(data) != entry.crc32:
            raise CorruptLogError(f"part {name} of the checkpoint is not what was written")
    return dict(zip(entries, read, strict=True))


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


def _entry(numbers: list[int], known: dict[int, int]) -> PartEntry:
    """Return a part's entry; parts share the numbers of their revisions and lengths."""
    revision, length, crc32 = numbers
    if not (type(revision) is type(length) is type(crc32) is int):
        raise ValueError(f"{numbers!r} are not a part's numbers")
    if not (0 <= revision < 1 << 63 and 0 <= length < 1 << 63 and 0 <= crc32 < 1 << 63):
        raise ValueError(f"{numbers!r} are not a part's numbers")
    return PartEntry(known.setdefault(revision, revision), known.setdefault(length, length), crc32)


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
        self._checkpoint = checkpoint
        self._old: Mapping[str, PartEntry] = {} if before is None else before.parts
        self._kept: Mapping[str, PartEntry] = {} if base is None else base.parts
        self._parts = {name: self._old[name] for name in checkpoint.unchanged}
        self._changed = checkpoint.changed.pop_all()
        self._pieces: deque[PartRow] = deque()
        self.tried: Manifest | None = None

    def step(self, storage: Storage) -> Manifest | None:
        """Encode and write about 1 MiB; return the manifest once it is current."""
        rows: list[PartRow] = []
        size = 0
        while self._has_piece() and (not rows or size + len(self._pieces[0].data) <= PIECE_BYTES):
            rows.append(self._pieces.popleft())
            size += len(rows[-1].data)
        if rows:
            failpoint("checkpoint.part.before")
            storage.write_parts(rows)
            failpoint("checkpoint.part.after")
            return None
        failpoint("checkpoint.manifest.before")
        checkpoint, parts = self._checkpoint, self._parts
        self.tried = manifest = Manifest(checkpoint.revision, checkpoint.received_us, parts)
        superseded = [
            (name, part.revision)
            for name, part in self._old.items()
            if parts.get(name) != part and self._kept.get(name) != part
        ]
        storage.write_manifest(manifest.to_bytes(), superseded)
        failpoint("checkpoint.manifest.after")
        return manifest

    def _has_piece(self) -> bool:
        """Encode the next part if no piece is left; return whether there is one."""
        revision = self._checkpoint.revision
        while not self._pieces:
            part = next(self._changed, None)
            if part is None:
                return False
            name, data = part
            self._parts[name] = PartEntry(revision, len(data), zlib.crc32(data))
            self._pieces.extend(pieces(name, revision, data))
        return True


def pieces(part: str, revision: int, data: bytes) -> Iterator[PartRow]:
    """Split a part into rows."""
    for piece, at in enumerate(range(0, len(data), PIECE_BYTES)):
        yield PartRow(part, revision, piece, data[at : at + PIECE_BYTES])
