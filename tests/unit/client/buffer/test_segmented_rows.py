"""Cases with segments, added one at a time: their segments, times and checks."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from streameval import InvalidInputError
from streameval.client._buffer import checks
from streameval.client._buffer.columns import BufferedCases

from .buffers import Verbs, buffer

if TYPE_CHECKING:
    from streameval.client._buffer.columns import Rows

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def contents(pieces: list[Rows]) -> list[tuple[float, bool, dict[str, str]]]:
    """Return score, label and segments of each case, sorted by score."""
    found = []
    for rows in pieces:
        assert isinstance(rows, BufferedCases)
        for row, (score, positive) in enumerate(zip(rows.scores, rows.positives, strict=True)):
            values = {each.key: each.values[each.codes[row]] for each in rows.segments}
            own = {key: value for key, value in values.items() if value}
            found.append((float(score), bool(positive), own))
    return sorted(found, key=lambda row: row[0])


def test_cases_keep_their_segments() -> None:
    """Each case has its own keys and values, whatever those of its neighbours are."""
    box = buffer()
    stream = Verbs(box, "s")
    kinds = [
        {"country": "US"},
        {"country": "DE", "plan": "paid"},
        {"plan": "paid", "country": "DE"},
        MappingProxyType({"plan": "free"}),
        {"country": "Curaçao", "plan": None},
        {"country": ""},
        {},
    ]
    wanted = []
    for i in range(70):
        segments = kinds[i % 7]
        stream.add_case(i % 3 == 0, float(i), segments=segments)
        own = {key: value for key, value in segments.items() if value}
        wanted.append((float(i), i % 3 == 0, own))
    assert box.accepted == 70
    assert contents(box.take()) == wanted


def test_cases_have_stamps() -> None:
    """A case with segments and without a time has the current stamp."""
    now = [1_000_000_000]
    box = buffer(clock_ns=lambda: now[0])
    stream = Verbs(box, "s")
    stream.add_case(True, 1.0, segments={"plan": "free"})
    now[0] += 30_000_000
    stream.add_case(True, 2.0, segments={"plan": "free"})
    (rows,) = box.take()
    assert rows.times.tolist() == [-1_000_001, -1_030_001]


def test_cases_with_a_time_go_beside_those_without() -> None:
    """Cases with times, with segments, both or neither are all drained once."""
    box = buffer()
    stream = Verbs(box, "s")
    stream.add_case(True, 1.0, segments={"plan": "free"})
    stream.add_case(True, 2.0, at=NOON, segments={"plan": "paid"})
    stream.add_case(True, 3.0, at=NOON)
    stream.add_case(True, 4.0)
    stream.add_case(True, 5.0, segments={"plan": "paid"}, weight=2.0)
    taken = box.take()
    assert contents(taken) == [
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


@pytest.mark.parametrize(("segments", "field", "text"), BAD_SEGMENTS.values(), ids=BAD_SEGMENTS)
def test_bad_segments_are_refused_at_the_call(segments: object, field: str, text: str) -> None:
    """Valid segments that look alike do not make them pass, and a refusal adds nothing."""
    box = buffer()
    stream = Verbs(box, "s")
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
    assert contents(box.take()) == [(0.0, True, {"k": "1"}), (0.0, True, {"k": "True"})]


def test_more_segments_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases in the buffer keep their segments when what was checked is forgotten."""
    monkeypatch.setattr(checks, "_MAX_SEGMENT_SETS", 2)
    box = buffer()
    stream = Verbs(box, "s")
    wanted = [(float(i), False, {"user": str(i % 7)}) for i in range(50)]
    for score, positive, segments in wanted:
        stream.add_case(positive, score, segments=segments)
        assert len(checks._SEGMENT_SETS) <= 2
    assert contents(box.take()) == wanted


@pytest.mark.parametrize("capacity", [17, 40, 600])
def test_one_thread_adds_exactly_what_there_is_room_for(capacity: int) -> None:
    """Cases beyond the capacity are dropped and counted."""
    box = buffer(capacity)
    stream = Verbs(box, "s")
    for i in range(1_000):
        stream.add_case(True, float(i), segments={"plan": "free"})
        if i % 2:
            stream.add_case(True, float(i))
    assert (box.accepted, box.dropped) == (capacity, 1_500 - capacity)
    assert len(contents(box.take())) == capacity


def test_a_forked_child_starts_with_nothing() -> None:
    """Cases of the parent process stay with the parent."""
    box = buffer()
    stream = Verbs(box, "s")
    stream.add_case(True, 1.0, segments={"plan": "free"})
    box.reset()
    assert box.take() == []
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
