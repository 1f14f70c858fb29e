"""Batches that are split when one is refused, and pieces by their epochs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import StreamEvalError
from streameval.client._delivery.numbered_upload import UploadRefusal
from streameval.kafka._delivery import producer_name
from streameval.kafka._piece_range import MAX_ATTEMPTS, MAX_OFFSET, MAX_PIECE_OFFSETS, PieceRange
from streameval.kafka._row_batches import MAX_BATCH_BYTES, MAX_BATCH_ROWS, RowBatch

OLD = "event time must not be older than retention"
FUTURE = "event time must not lie in the future"


def batch(size: int, id_bytes: int = 4) -> RowBatch:
    return RowBatch(
        "s",
        is_labels=False,
        ids=[f"{number:0{id_bytes}}" for number in range(size)],
        values=[0.5] * size,
        places=list(range(size)),
        times=list(range(100, 100 + size)),
        segments={"k": ["v"] * size},
    )


def split(field: str, message: str, code: int = 3) -> tuple[list[list[int]], list[int]]:
    parts, wrong = batch(6).split(UploadRefusal(1, message, code, field))
    return [part.places for part in parts], wrong.places


def test_refusals() -> None:
    assert split("predictions.ids[2]", "id") == ([[0, 1, 3, 4, 5]], [2])
    assert split("predictions.event_times_us[2]", OLD) == ([[3, 4, 5]], [0, 1, 2])
    assert split("predictions.event_times_us[2]", FUTURE) == ([[0, 1]], [2, 3, 4, 5])
    assert split("predictions.event_times_us[5]", OLD) == ([], [0, 1, 2, 3, 4, 5])
    assert split("predictions.clusters", "no cluster") == ([], [0, 1, 2, 3, 4, 5])
    assert split("predictions.segments[0].key", "undeclared") == ([], [0, 1, 2, 3, 4, 5])
    assert split("", "too long", code=8) == ([[0, 1, 2], [3, 4, 5]], [])
    one = batch(1).split(UploadRefusal(1, "too long", 8, ""))
    assert (one[0], one[1].places) == ([], [0])


@pytest.mark.parametrize(("size", "id_bytes"), [(1, 9), (40_000, 8), (20_000, 120)])
def test_bounded(size: int, id_bytes: int) -> None:
    parts = list(batch(size, id_bytes).bounded())
    assert [place for part in parts for place in part.places] == list(range(size))
    assert all(len(part) <= MAX_BATCH_ROWS for part in parts)
    assert all(part.message(1).ByteSize() <= MAX_BATCH_BYTES for part in parts)
    assert all(len(part.segments["k"]) == len(part.times) == len(part) for part in parts)


ranges = st.builds(
    lambda base, length, attempt: PieceRange(base, base + length, attempt),
    st.integers(0, MAX_OFFSET - MAX_PIECE_OFFSETS),
    st.integers(0, MAX_PIECE_OFFSETS),
    st.integers(0, MAX_ATTEMPTS),
)


@given(piece=ranges, other=ranges)
def test_epochs(piece: PieceRange, other: PieceRange) -> None:
    """An epoch names its piece, fits the wire, and grows with the offsets."""
    assert PieceRange.of_epoch(piece.epoch) == piece
    assert 1 < piece.epoch < 1 << 63
    if piece.base < other.base:
        assert piece.epoch < other.epoch


def test_the_ends_of_epochs() -> None:
    with pytest.raises(StreamEvalError, match="is above"):
        _ = PieceRange(MAX_OFFSET, MAX_OFFSET + 1).epoch
    with pytest.raises(StreamEvalError, match="was begun 8 times"):
        PieceRange(3, 4, MAX_ATTEMPTS).again()


@given(topic=st.text("abc._-", min_size=1, max_size=249), partition=st.integers(0, 1 << 31))
def test_producer_names(topic: str, partition: int) -> None:
    name = producer_name("group", "cluster", topic, partition)
    assert len(name.encode()) <= 128
    assert name.endswith(f"/{partition}")
    assert name != producer_name("other", "cluster", topic, partition)
