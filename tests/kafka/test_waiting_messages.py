"""Messages that wait in a partition: each once, cut by number, offsets and bytes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from hypothesis import given
from hypothesis import strategies as st

from streameval.kafka import _partition
from streameval.kafka._partition import Partition


class StubMessage:
    """An offset and a length."""

    def __init__(self, offset: int, size: int = 1) -> None:
        self._offset = offset
        self._size = size

    def offset(self) -> int:
        return self._offset

    def __len__(self) -> int:
        return self._size


def reading(**keys: Any) -> Partition:
    """Return a partition that reads from offset 0; what it would send to is not there."""
    names = ("delivery", "dead_letters", "metrics", "executor", "locate")
    absent: dict[str, Any] = dict.fromkeys(names)
    partition = Partition("t", 0, mappings=[], streams=(), **absent, **keys)
    partition._is_reading = True
    return partition


@given(runs=st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=5), max_size=6))
def test_each_offset_once(runs: list[list[int]]) -> None:
    """Those before a seek that still come are dropped, in whatever order."""
    partition, kept = reading(), []
    for run in runs:
        partition.add([StubMessage(offset) for offset in run])  # type: ignore[misc]
        kept += [
            offset for place, offset in enumerate(run) if offset > max([-1, *kept, *run[:place]])
        ]
    assert [each.offset() for each in partition._waiting] == kept
    assert partition._waiting_bytes == len(kept)


@given(
    steps=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    sizes=st.lists(st.integers(0, 9), min_size=12, max_size=12),
)
def test_a_piece_is_as_long_as_it_may_be(steps: list[int], sizes: list[int]) -> None:
    """It has a message at least; one more would be too many, too far or too long."""
    partition = reading()
    offsets = [sum(steps[: place + 1]) for place in range(len(steps))]
    messages = [StubMessage(*each) for each in zip(offsets, sizes, strict=False)]
    partition.add(messages)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("MESSAGES", 5), ("OFFSETS", 9), ("BYTES", 20)):
            patch.setattr(_partition, f"MAX_PIECE_{name}", value)
        cut = partition._cut(None)

    def fits(count: int) -> bool:
        is_near = offsets[count - 1] - offsets[0] < 9
        return count <= 5 and is_near and sum(sizes[:count]) <= 20

    assert cut == max([1, *(count for count in range(1, len(steps) + 1) if fits(count))])
