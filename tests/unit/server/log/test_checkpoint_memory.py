"""A checkpoint is encoded, and read, a part at a time."""

from __future__ import annotations

from streameval_server._log.checkpoint import (
    PIECE_BYTES,
    Checkpoint,
    CheckpointWriter,
    LazyParts,
    Manifest,
)
from streameval_server._log.storage import MemoryStorage


def test_parts_are_encoded_when_they_are_written():
    """Never more than what one step writes, and the part that it ends in."""
    made: list[str] = []

    def maker(name: str):
        def make() -> bytes:
            made.append(name)
            return bytes(PIECE_BYTES // 2)

        return make

    names = [f"pane/{number}/s" for number in range(10)]
    writer = CheckpointWriter(
        Checkpoint(7, 7, LazyParts({name: maker(name) for name in names}), ()), None
    )
    storage = MemoryStorage()
    assert made == []
    steps = 1
    while (manifest := writer.step(storage)) is None:
        assert len(made) <= 2 * steps + 1
        steps += 1
    assert made == names == sorted(manifest.parts)
    assert manifest.written_bytes == 10 * (PIECE_BYTES // 2)


def test_parts_are_read_when_they_are_needed(monkeypatch):
    """A part alone when it is asked for, those of a stream together, a great one by itself."""
    storage = MemoryStorage()
    great = bytes(PIECE_BYTES + 1)
    written = {"marks": b"1", "stream/a": b"22", "pane/0/a": b"333", "pane/60/a": great}
    parts = LazyParts.holding(written)
    writer = CheckpointWriter(Checkpoint(3, 3, parts, ()), None)
    while (manifest := writer.step(storage)) is None:
        pass
    read: list[list[str]] = []
    stored = storage.read_parts

    def noted(keys: list[tuple[str, int]]) -> list[bytes]:
        read.append([part for part, _ in keys])
        return stored(keys)

    monkeypatch.setattr(storage, "read_parts", noted)
    again = Manifest.from_bytes(manifest.to_bytes()).read(storage)
    assert (list(again), read) == (list(written), [])
    assert again["marks"] == b"1"
    own = again.of({"stream": "stream/a", "pane/0": "pane/0/a", "pane/60": "pane/60/a"})
    assert read == [["marks"], ["stream/a", "pane/0/a"]]
    assert dict(own) == {"stream": b"22", "pane/0": b"333", "pane/60": great}
    assert read == [["marks"], ["stream/a", "pane/0/a"], ["pane/60/a"]]
