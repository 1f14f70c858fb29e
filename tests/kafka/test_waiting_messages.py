"""Messages that wait in a partition: each once, cut by number, offsets, bytes and time."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("confluent_kafka")

from hypothesis import given
from hypothesis import strategies as st

from streameval.kafka import _waiting_messages
from streameval.kafka._waiting_messages import WaitingMessages

if TYPE_CHECKING:
    from confluent_kafka import Message

HOUR_US = 3_600_000_000


class StubMessage:
    """An offset, a length, and a time in milliseconds."""

    def __init__(self, offset: int, size: int = 1, time_ms: int | None = 7) -> None:
        self._offset = offset
        self._size = size
        self._time_ms = time_ms

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return (0, -1) if self._time_ms is None else (1, self._time_ms)

    def __len__(self) -> int:
        return self._size


def stubs(*messages: StubMessage) -> list[Message]:
    return cast("list[Message]", list(messages))


def dated(*times_us: int | None, first: int = 0) -> list[Message]:
    """Return successive messages of these times."""
    return stubs(
        *(
            StubMessage(first + place, 1, None if time is None else time // 1000)
            for place, time in enumerate(times_us)
        )
    )


@given(runs=st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=5), max_size=6))
def test_each_offset_once(runs: list[list[int]]) -> None:
    """Those before a seek that still come are dropped, in whatever order; gaps are noted."""
    waiting, kept = WaitingMessages(0, HOUR_US), [-1]
    for run in runs:
        waiting.add(stubs(*map(StubMessage, run)))
        for offset in run:
            kept += [offset] if offset > kept[-1] else []
    missing = set(range(kept[-1] + 1)) - set(kept)
    assert {each for start, end in waiting.gaps for each in range(start, end)} == missing
    assert waiting.read_to == kept[-1] + 1
    assert [each.offset() for each in waiting.cut_before(13)] == kept[1:]


@given(
    steps=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    sizes=st.lists(st.integers(0, 9), min_size=12, max_size=12),
)
def test_a_piece_is_as_long_as_it_may_be(steps: list[int], sizes: list[int]) -> None:
    """It has a message at least; one more would be too many, too far or too long."""
    waiting = WaitingMessages(0, HOUR_US)
    offsets = [sum(steps[: place + 1]) for place in range(len(steps))]
    waiting.add(stubs(*(StubMessage(*each) for each in zip(offsets, sizes, strict=False))))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("MESSAGES", 5), ("OFFSETS", 9), ("BYTES", 20)):
            patch.setattr(_waiting_messages, f"MAX_PIECE_{name}", value)
        count, _ = waiting.piece(None)
        cut = len(waiting.cut(count))

    def fits(count: int) -> bool:
        is_near = offsets[count - 1] - offsets[0] < 9
        return count <= 5 and is_near and sum(sizes[:count]) <= 20

    assert cut == max([1, *(count for count in range(1, len(steps) + 1) if fits(count))])


@pytest.mark.parametrize(
    ("times", "bound", "expected"),
    [
        pytest.param((10, 20, 30), 25, (2, False), id="held back"),
        pytest.param((10, 20, 30), 9, (0, False), id="all held back"),
        pytest.param((10, 20, 30), None, (3, False), id="alone"),
        pytest.param((10, 99, 20, 30), 25, (3, False), id="a time in the future"),
        pytest.param((99, 1, 20, 30), 25, (3, False), id="begins in the future"),
        pytest.param((10, 20, 1, 30), 9, (0, False), id="a single old time is none"),
        pytest.param((10, 20, 30, 40, 1, 1, 50), 15, (1, False), id="nor are two"),
        pytest.param((10, 20, 1, 1, 1, 30), 9, (5, False), id="old times let those before go"),
        pytest.param((None, None, 30), 25, (2, False), id="without times at first"),
        pytest.param((10, None, 30), 25, (2, False), id="as the one before"),
        pytest.param((None, None), 25, (2, False), id="without times"),
        pytest.param((10, 20, 131), None, (2, True), id="a piece is no longer than the span"),
        pytest.param((10, 131, 20), None, (3, False), id="in whatever order"),
    ],
)
def test_times_bound_a_piece(
    times: tuple[int | None, ...], bound: int | None, expected: tuple[int, bool]
) -> None:
    seconds = 1_000_000
    waiting = WaitingMessages(0, 120 * seconds)
    waiting.add(dated(*(None if each is None else each * seconds for each in times)))
    assert waiting.piece(None if bound is None else bound * seconds) == expected


def test_the_end_of_a_partition() -> None:
    """It is where nothing more comes; offsets before it that never came are a gap."""
    waiting = WaitingMessages(4, HOUR_US)
    assert (waiting.after_us, waiting.low_us, waiting.is_at_end) == (0, None, False)
    waiting.add(dated(1_000, 2_000, first=4))
    assert (waiting.after_us, waiting.low_us, waiting.is_at_end) == (2_000, 1_000, False)
    waiting.end(5)
    assert not waiting.is_at_end  # of a time before the last message
    waiting.end(9)
    assert (waiting.is_at_end, waiting.gaps) == (True, [(6, 9)])
    waiting.add(dated(None, first=9))
    assert (waiting.after_us, waiting.is_at_end, len(waiting)) == (2_000, False, 3)
