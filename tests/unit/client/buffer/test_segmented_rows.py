"""Cases with segments, added one at a time: their segments, times and checks, without the lock."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import pytest

from streameval import InvalidInputError
from streameval.client import ClosedError
from streameval.client._buffer import checks
from streameval.client._buffer.buffer import Buffer
from streameval.client._buffer.columns import CaseRows
from streameval.client._buffer.unlocked_rows import UnlockedList

from .unlocked_rows import MIN_BURST_ROWS, Verbs, buffer, stop_ticks

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval.client._buffer.columns import Rows

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIRST = [(-1.0, True, {"plan": "free"})] * MIN_BURST_ROWS


@pytest.fixture
def no_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock, and let no ticker revoke grants."""
    stop_ticks(monkeypatch)


def burst(stream: Verbs) -> None:
    """Add rows until further ones are granted without the lock."""
    for score, positive, segments in FIRST:
        stream.add_case(positive, score, segments=segments)


def contents(pieces: list[Rows]) -> list[tuple[float, bool, dict[str, str]]]:
    """Return score, label and segments of each case, sorted by score."""
    found = []
    for rows in pieces:
        assert isinstance(rows, CaseRows)
        for row, (score, positive) in enumerate(zip(rows.scores, rows.positives, strict=True)):
            values = {each.key: each.values[each.codes[row]] for each in rows.segments}
            own = {key: value for key, value in values.items() if value}
            found.append((float(score), bool(positive), own))
    return sorted(found, key=lambda row: row[0])


@pytest.mark.usefixtures("no_ticks")
def test_cases_of_a_burst_need_no_lock_and_keep_their_segments() -> None:
    """Each case has its own keys and values, whatever those of its neighbours are."""
    box = buffer()
    stream = Verbs(box, "s")
    burst(stream)
    kinds = [
        {"country": "US"},
        {"country": "DE", "plan": "paid"},
        {"plan": "paid", "country": "DE"},
        MappingProxyType({"plan": "free"}),
        {"country": "Curaçao", "plan": None},
        {"country": ""},
        {},
    ]
    for kind in kinds:  # a mapping is checked when it is first seen, without the lock
        stream.add_case(False, -0.5, segments=kind)
    wanted = []
    with box.lock:
        for i in range(70):
            segments = kinds[i % 6]
            stream.add_case(i % 3 == 0, float(i), segments=segments)
            own = {key: value for key, value in segments.items() if value}
            wanted.append((float(i), i % 3 == 0, own))
    box.collect_unlocked()
    assert box.accepted == MIN_BURST_ROWS + len(kinds) + 70
    taken = box.take()
    assert contents(taken)[MIN_BURST_ROWS + len(kinds) :] == wanted


def test_cases_have_the_stamp_of_their_grant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case that is added under the lock has the current stamp, one of a grant the grant's."""
    stop_ticks(monkeypatch)
    now = [1_000_000_000]
    box = buffer(clock_ns=lambda: now[0])
    stream = Verbs(box, "s")
    burst(stream)
    now[0] += 30_000_000
    stream.add_case(True, 1.0, segments={"plan": "free"})
    box.collect_unlocked()
    stream.add_case(True, 2.0, segments={"plan": "free"})
    (rows,) = box.take()
    assert rows.times.tolist() == [-1_000_001] * (MIN_BURST_ROWS + 1) + [-1_030_001]


@pytest.mark.usefixtures("no_ticks")
def test_cases_with_a_time_go_beside_those_without() -> None:
    """Cases with times, with segments, both or neither are all drained once."""
    box = buffer()
    stream = Verbs(box, "s")
    burst(stream)
    stream.add_case(True, 1.0, segments={"plan": "free"})
    stream.add_case(True, 2.0, at=NOON, segments={"plan": "paid"})
    stream.add_case(True, 3.0, at=NOON)
    stream.add_case(True, 4.0)
    stream.add_case(True, 5.0, segments={"plan": "paid"}, weight=2.0)
    taken = box.take()
    assert contents(taken) == [
        *FIRST,
        (1.0, True, {"plan": "free"}),
        (2.0, True, {"plan": "paid"}),
        (3.0, True, {}),
        (4.0, True, {}),
        (5.0, True, {"plan": "paid"}),
    ]


BAD_SEGMENTS = {
    "a number": ({"k": 1}, "segments['k']", "segment value must be a string, got 1"),
    "a bool": ({"k": True}, "segments['k']", "segment value must be a string, got True"),
    "bytes": ({"k": b"1"}, "segments['k']", "segment value must be a string, got b'1'"),
    "unhashable": ({"k": ["1"]}, "segments['k']", "segment value must be a string, got ['1']"),
    "a key": ({1: "1"}, "segments", "a segment key must be a string, got 1"),
    "pairs": ([("k", "1")], "segments", "segments must be a mapping of keys to values"),
    "text": ("k", "segments", "segments must be a mapping of keys to values"),
}


@pytest.mark.usefixtures("no_ticks")
@pytest.mark.parametrize(("segments", "field", "text"), BAD_SEGMENTS.values(), ids=BAD_SEGMENTS)
def test_bad_segments_are_refused_at_the_call(segments: object, field: str, text: str) -> None:
    """Valid segments that look alike do not make them pass, and a refusal adds nothing."""
    box = buffer()
    stream = Verbs(box, "s")
    burst(stream)
    for value in ("1", "True"):
        stream.add_case(True, 0.0, segments={"k": value})
    for _ in range(2):
        with pytest.raises(InvalidInputError) as caught:
            stream.add_case(True, 7.0, segments=segments)
        assert caught.value.field == field
        assert text in str(caught.value)
    for score, label in ((float("nan"), True), (0.5, 2)):
        with pytest.raises(InvalidInputError):
            stream.add_case(label, score, segments={"k": "1"})
    assert contents(box.take()) == [*FIRST, (0.0, True, {"k": "1"}), (0.0, True, {"k": "True"})]


@pytest.mark.usefixtures("no_ticks")
def test_more_segments_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases in the buffer keep their segments when what was checked is forgotten."""
    monkeypatch.setattr(checks, "_MAX_SEGMENT_SETS", 2)
    box = buffer()
    stream = Verbs(box, "s")
    burst(stream)
    wanted = [(float(i), False, {"user": str(i % 7)}) for i in range(50)]
    for score, positive, segments in wanted:
        stream.add_case(positive, score, segments=segments)
        assert len(checks.SEGMENT_SETS) <= 2
    assert contents(box.take()) == [*FIRST, *wanted]


@pytest.mark.usefixtures("no_ticks")
@pytest.mark.parametrize("capacity", [17, 40, 600])
def test_one_thread_adds_exactly_what_there_is_room_for(capacity: int) -> None:
    """A grant reserves its room; cases beyond the capacity are dropped and counted."""
    box = buffer(capacity)
    stream = Verbs(box, "s")
    for i in range(1_000):
        stream.add_case(True, float(i), segments={"plan": "free"})
        if i % 2:
            stream.add_case(True, float(i))
    box.collect_unlocked()
    assert (box.accepted, box.dropped) == (capacity, 1_500 - capacity)
    assert len(contents(box.take())) == capacity


class RacingList(UnlockedList):
    """Runs `before`, as another thread would, right before a row is appended."""

    __slots__ = ("before",)

    def __iadd__(self, values: object) -> Self:
        happens, self.before = self.before, lambda: None
        happens()
        return super().__iadd__(values)


def racing_stream(box: Buffer, before: Callable[[], object]) -> Verbs:
    """Return a stream with a grant; `before` runs once, before its next case is appended."""
    triples = RacingList()
    triples.before = lambda: None
    box.stream_buffer("s").unlocked_segmented_cases.triples = triples
    stream = Verbs(box, "s")
    burst(stream)
    triples.before = before
    return stream


@pytest.mark.usefixtures("no_ticks")
def test_a_case_appended_after_the_buffer_was_drained_is_kept() -> None:
    """The caller checks `allowed` again after appending and reports its case."""
    box = buffer()
    first = []
    stream = racing_stream(box, lambda: first.extend(box.take()))
    stream.add_case(True, 7.0, segments={"plan": "paid"})
    assert contents(first) == FIRST
    assert contents(box.take()) == [(7.0, True, {"plan": "paid"})]


@pytest.mark.usefixtures("no_ticks")
def test_a_case_appended_while_its_client_closes_is_refused() -> None:
    """Its caller gets ClosedError; one of a client that discards its rows counts as dropped."""
    box = buffer()
    stream = racing_stream(box, lambda: box.close("the client is closed"))
    with pytest.raises(ClosedError, match="the client is closed"):
        stream.add_case(True, 7.0, segments={"plan": "paid"})
    assert contents(box.take()) == FIRST
    box = buffer()
    stream = racing_stream(box, box.discard)
    stream.add_case(True, 7.0, segments={"plan": "paid"})
    assert box.dropped == 1
    assert contents(box.take()) == FIRST


@pytest.mark.usefixtures("no_ticks")
def test_a_forked_child_starts_with_nothing() -> None:
    """Cases of the parent process stay with the parent."""
    box = buffer()
    stream = Verbs(box, "s")
    burst(stream)
    stream.add_case(True, 1.0, segments={"plan": "free"})
    box.reset()
    assert (box._granted, box._grants, box.take()) == (0, {}, [])
    stream.add_case(True, 2.0, segments={"plan": "free"})
    assert contents(box.take()) == [(2.0, True, {"plan": "free"})]


def test_threads_lose_nothing() -> None:
    """With several adding threads and a draining one each case is drained once."""
    box, each, done = buffer(), 5_000, threading.Event()
    stream = Verbs(box, "s")
    pieces: list[Rows] = []

    def add(number: int) -> None:
        for i in range(number * each, (number + 1) * each):
            stream.add_case(i % 3 == 0, float(i), segments={"mod": str(i % 5)})

    def drain() -> None:
        while not done.is_set():
            pieces.extend(box.take())

    drainer = threading.Thread(target=drain)
    threads = [threading.Thread(target=add, args=(number,)) for number in range(3)]
    for thread in (drainer, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    drainer.join()
    found = contents(pieces + box.take())
    assert found == [(float(i), i % 3 == 0, {"mod": str(i % 5)}) for i in range(3 * each)]
