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
    """Restoring reads a part once, when its stream is made."""
    storage = MemoryStorage()
    parts = LazyParts.holding({"marks": b"1", "stream/a": b"22", "stream/b": b"333"})
    writer = CheckpointWriter(Checkpoint(3, 3, parts, ()), None)
    while (manifest := writer.step(storage)) is None:
        pass
    read: list[str] = []
    stored = storage.read_part

    def noted(part: str, revision: int) -> bytes:
        read.append(part)
        return stored(part, revision)

    monkeypatch.setattr(storage, "read_part", noted)
    again = Manifest.from_bytes(manifest.to_bytes()).read(storage)
    assert (list(again), read) == (["marks", "stream/a", "stream/b"], [])
    assert again["stream/b"] == b"333"
    assert again.of({"own": "stream/a"})["own"] == b"22"
    assert read == ["stream/b", "stream/a"]
