"""Rows that are added without a lock: each one arrives once, whoever looks when."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import numpy as np
import pytest

from streameval.client import ClosedError, _buffer
from streameval.client._buffer import Buffer
from streameval.client._case_verbs import CaseVerbs
from streameval.client._id_rows import LabelRows, PredictionRows
from streameval.client._id_verbs import IdVerbs
from streameval.client._open import OpenCases, OpenList
from streameval.client._rows import CaseRows
from streameval.client._ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Iterator

THREADS = 4


class Verbs(CaseVerbs, IdVerbs):
    """What is added to one stream."""


@pytest.fixture
def no_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody look of himself."""
    monkeypatch.setattr(Ticker, "start", lambda _: True)


def buffer(capacity: int = 10**6, batch_rows: int = 10**6, when_full: str = "drop") -> Buffer:
    """Return a buffer with a sender that takes when it is told to."""
    return Buffer(capacity=capacity, batch_rows=batch_rows, when_full=when_full, start=lambda: True)


def brisk(stream: Verbs) -> None:
    """Add until more may be added without the lock."""
    for _ in range(_buffer._BRISK):
        stream.add_case(True, -1.0)
    for i in range(_buffer._BRISK):
        stream.log(f"first {i}", -1.0)


def taken(box: Buffer) -> tuple[list[tuple[float, bool]], list[str]]:
    """Take everything; return the cases and the ids of predictions, in order."""
    cases, ids = [], []
    for rows in box.take():
        if isinstance(rows, PredictionRows):
            ids += rows.ids
        elif isinstance(rows, CaseRows):
            cases += zip(rows.scores.tolist(), rows.positives.tolist(), strict=True)
    return cases, ids


@contextmanager
def hasty_switches() -> Iterator[None]:
    """Let threads take the interpreter from one another all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.mark.usefixtures("no_ticks")
def test_brisk_rows_need_no_lock() -> None:
    """Who holds the lock hinders nobody; what was added meanwhile is there afterwards."""
    box = buffer()
    stream = Verbs(box, "s")
    brisk(stream)
    box.take()
    brisk(stream)
    with box.lock:
        for i in range(100):
            stream.add_case(i % 2 == 0, float(i))
            stream.log(f"id {i}", float(i))
            stream.label(f"other {i}", True)
            stream.retract("another")
    assert box.accepted == 4 * _buffer._BRISK
    box.look()
    assert box.accepted == 4 * _buffer._BRISK + 400
    cases, ids = taken(box)
    assert sorted(cases)[_buffer._BRISK :] == [(float(i), i % 2 == 0) for i in range(100)]
    assert ids[_buffer._BRISK :] == [f"id {i}" for i in range(100)]
    assert taken(box) == ([], [])


@pytest.mark.usefixtures("no_ticks")
def test_rows_that_come_seldom_are_seen_at_once() -> None:
    """So there is no thread that wakes up for each of them."""
    box = buffer()
    stream = Verbs(box, "s")
    for i in range(5):
        stream.add_case(True, float(i))
        stream.log(str(i), float(i))
        stream.label(str(i), True)
        assert box.accepted == 3 * (i + 1)
    assert not stream._lane.open_cases.rows


@pytest.mark.usefixtures("no_ticks")
@pytest.mark.parametrize("capacity", [17, 40, 41, 600, 5000])
def test_one_thread_adds_exactly_what_there_is_room_for(capacity: int) -> None:
    """Rows that nobody has seen have their room; what is beyond it is dropped and counted."""
    box = buffer(capacity)
    stream, other = Verbs(box, "s"), Verbs(box, "t")
    brisk(other)
    brisk(stream)
    before = box.accepted + box.dropped
    for i in range(6000):
        stream.add_case(i % 3 == 0, float(i))
        if i % 2:
            other.log(str(i), float(i))
    box.look()
    assert box.accepted == capacity
    assert box.accepted + box.dropped == before + 9000
    cases, ids = taken(box)
    assert len(cases) + len(ids) == capacity
    stream.add_cases(labels=[1], scores=[1.0])
    assert box.accepted == capacity
    box.settled(3)
    stream.add_cases(labels=[1] * 5, scores=[1.0] * 5)
    assert box.accepted == capacity + 3


@pytest.mark.usefixtures("no_ticks")
def test_columns_find_room_that_is_allowed_to_others_but_not_used() -> None:
    """Permission is taken back before rows are dropped."""
    box = buffer(capacity=1000)
    stream = Verbs(box, "s")
    brisk(stream)
    free = 1000 - box.accepted
    stream.add_cases(labels=np.ones(free, bool), scores=np.ones(free))
    assert (box.accepted, box.dropped) == (1000, 0)


@pytest.mark.usefixtures("no_ticks")
def test_a_sender_is_woken_by_the_row_that_makes_a_batch() -> None:
    """Rows that nobody has seen are fewer than it waits for."""
    box = buffer(batch_rows=1000)
    stream = Verbs(box, "s")
    brisk(stream)
    box.take()
    added: list[int] = []
    waits = threading.Event()

    def ready() -> bool:
        waits.set()
        return False

    sender = threading.Thread(target=box.wait, args=(ready,), kwargs={"linger_s": 600.0})
    sender.start()
    stream.add_case(True, 0.0)  # it waits for ever for the first
    waits.wait()
    while box.wake_at != box._taken + 1000:
        pass  # it has seen the first, and waits for the rest
    while sender.is_alive() and len(added) < 5000:
        stream.add_case(len(added) % 7 == 0, float(len(added)))
        added.append(box.accepted)
        if len(added) == 999:
            sender.join()
    assert len(added) == 999


class Sly(OpenList):
    """Something happens in another thread right before a row is appended."""

    __slots__ = ("before",)

    def append(self, value: float) -> None:
        """Let it happen, once."""
        happens, self.before = self.before, lambda: None
        happens()
        super().append(value)

    def __iadd__(self, values: object) -> Self:
        """As of `append`."""
        happens, self.before = self.before, lambda: None
        happens()
        return super().__iadd__(values)


def sly(box: Buffer) -> tuple[Verbs, Sly, Sly]:
    """Return a stream that is brisk, and what it appends positives and ids to."""
    lane = box.lane("s")
    scores, triples = Sly(), Sly()
    scores.before = triples.before = lambda: None
    lane.open_cases.positives = scores
    lane.open_ids.triples = triples
    stream = Verbs(box, "s")
    brisk(stream)
    return stream, scores, triples


@pytest.mark.usefixtures("no_ticks")
def test_a_row_is_seen_though_it_comes_after_all_were_taken() -> None:
    """Who adds it had looked before, and looks again."""
    box = buffer()
    stream, scores, triples = sly(box)
    scores.before = triples.before = lambda: taken(box)
    stream.add_case(True, 7.0)
    assert taken(box) == ([(7.0, True)], [])
    brisk(stream)
    triples.before = lambda: taken(box)
    stream.log("late", 7.0)
    assert taken(box) == ([], ["late"])


@pytest.mark.usefixtures("no_ticks")
@pytest.mark.parametrize("closed", [True, False])
def test_a_row_that_comes_while_its_client_closes_is_refused(closed: bool) -> None:
    """It counts as dropped, and who has added it is told, as anybody after it."""
    box = buffer()
    stream, scores, triples = sly(box)
    end = (lambda: box.close("the client is closed")) if closed else box.discard
    scores.before = end
    calls = [lambda: stream.add_case(True, 7.0), lambda: stream.log("late", 7.0)]
    for dropped, call in enumerate(calls, 1):
        if closed:
            with pytest.raises(ClosedError, match="the client is closed"):
                call()
        else:
            call()
            assert box.dropped == dropped
    assert (7.0, True) not in taken(box)[0]
    assert not triples


def test_stamps_are_those_of_the_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick ends it; from then on rows have a later one."""
    ticks: list = []
    monkeypatch.setattr(Ticker, "start", lambda self: ticks.append(self._tick) is None)
    now = [1_000_000_000]
    monkeypatch.setattr(_buffer, "clock_ns", lambda: now[0])
    box = buffer()
    stream = Verbs(box, "s")
    brisk(stream)
    for later_ns in (20_000_000, 10_000_000):
        now[0] += later_ns
        stream.add_case(True, 1.0)
        stream.log(f"id {now}", 1.0)
        assert ticks[-1]()
    assert not ticks[-1](), "nothing is allowed any more"
    stream.add_case(True, 1.0)
    stream.log("last", 1.0)
    cases, predictions = box.take()
    assert cases.times.tolist() == [-1_000_001] * (_buffer._BRISK + 1) + [-1_030_001] * 2
    assert predictions.times.tolist() == [-1_000_001] * (_buffer._BRISK + 1) + [-1_030_001] * 2


@pytest.mark.usefixtures("no_ticks")
def test_a_label_comes_after_the_prediction_that_was_logged_before_it() -> None:
    """Whatever is done to ids first takes what was logged."""
    box = buffer()
    stream = Verbs(box, "s")
    brisk(stream)
    stream.log("a", 0.5)
    stream.label("a", True)
    brisk(stream)
    stream.log("b", 0.5)
    stream.label_cases(ids=["b"], labels=[1])
    seen: list[tuple[type, str]] = [
        (type(rows), id_) for rows in box.take() if hasattr(rows, "ids") for id_ in rows.ids
    ]
    for id_ in "ab":
        assert [kind for kind, found in seen if found == id_] == [PredictionRows, LabelRows]


@pytest.mark.usefixtures("no_ticks")
def test_a_forked_child_starts_with_nothing() -> None:
    """What its parent has added is its parent's."""
    box = buffer()
    stream = Verbs(box, "s")
    brisk(stream)
    stream.add_case(True, 1.0)
    stream.log("a", 1.0)
    box.reset()
    assert taken(box) == ([], [])
    stream.add_case(True, 2.0)
    assert taken(box) == ([(2.0, True)], [])


@pytest.mark.parametrize(
    ("when_full", "capacity"), [("drop", 10**6), ("drop", 3_000), ("block", 3_000)]
)
def test_threads_lose_nothing(when_full: str, capacity: int) -> None:
    """Many add, one takes and settles, all at once: each row arrives once or was dropped."""
    each = 20_000
    box = buffer(capacity, batch_rows=100, when_full=when_full)
    stream = Verbs(box, "s")
    done = threading.Event()
    cases: list[tuple[float, bool]] = []
    ids: list[str] = []
    most = [0]

    def add(number: int) -> None:
        for i in range(number * each, (number + 1) * each):
            stream.add_case(i % 3 == 0, float(i))
            if i % 2:
                stream.log(str(i), 0.5)

    def send() -> None:
        settled = 0
        while not done.is_set() or box.has_rows():
            box.wait(done.is_set, linger_s=0.001)
            some, names = taken(box)
            cases.extend(some)
            ids.extend(names)
            most[0] = max(most[0], box.accepted - settled)
            settled += len(some) + len(names)
            box.settled(settled)

    threads = [threading.Thread(target=add, args=(n,)) for n in range(THREADS)]
    sender = threading.Thread(target=send)
    with hasty_switches():
        sender.start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        box.look()
        done.set()
        box.wake()
        sender.join()
    some, names = taken(box)
    cases += some
    ids += names
    assert len(cases) + len(ids) == box.accepted
    assert box.accepted + box.dropped == THREADS * each * 3 // 2
    assert len(set(cases)) == len(cases)
    assert len(set(ids)) == len(ids)
    assert all(positive == (score % 3 == 0) for score, positive in cases)
    assert most[0] <= capacity + THREADS
    for number in range(THREADS):
        mine = [int(id_) for id_ in ids if int(id_) // each == number]
        assert mine == sorted(mine), "a thread's predictions stay in their order"
    if when_full == "block" or capacity > box.accepted:
        assert not box.dropped


def test_a_ticker_stops_when_there_is_no_need_and_starts_again() -> None:
    """One thread at a time."""
    lock = threading.Lock()
    ticks: list[threading.Thread] = []

    def tick() -> bool:
        assert lock.locked()
        ticks.append(threading.current_thread())
        return len(ticks) % 3 != 0

    ticker = Ticker(lock, tick, 0.001)
    for count in (3, 6):
        with lock:
            assert ticker.start()
            assert ticker.start()
        while len(ticks) < count:
            pass
        ticks[-1].join()
        assert len(ticks) == count
        assert len(set(ticks[-3:])) == 1


def test_without_a_thread_everything_is_added_under_the_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that is ending starts none."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    box = buffer()
    stream = Verbs(box, "s")
    for i in range(100):
        stream.add_case(True, float(i))
        assert box.accepted == i + 1


def test_lists_keep_what_comes_while_they_are_taken() -> None:
    """What was appended after a look stays, at the front."""
    rows = OpenCases(Buffer(capacity=1, batch_rows=1, when_full="drop", start=bool).lane("s"))
    rows.allow(4, -5)
    assert (rows.rows, rows.positives.allowed, rows.negatives.allowed) == (4, 2, 2)
    rows.positives.append(1.0)
    rows.negatives += [2.0, 3.0]
    assert rows.take() == 3
    assert (rows.rows, rows.positives.allowed, rows.negatives.allowed) == (0, 0, 0)
    rows.positives.append(4.0)
    assert rows.take() == 1
    assert rows.take() == 0
