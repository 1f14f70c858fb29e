"""Rows that are added without a lock: each one arrives once, whoever looks when."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Self

import numpy as np
import pytest

from streameval.client import ClosedError, _buffer, _open, _ticker
from streameval.client._buffer import Buffer
from streameval.client._case_verbs import CaseVerbs
from streameval.client._id_rows import LabelRows, PredictionRows, RetractionRows
from streameval.client._id_verbs import IdVerbs
from streameval.client._open import OpenList
from streameval.client._rows import CaseRows
from streameval.client._sender import Sender
from streameval.client._statistics import read_statistics
from streameval.client._ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Iterator

THREADS = 4
BRISK = _open._BRISK


class Verbs(CaseVerbs, IdVerbs):
    """What is added to one stream."""


@pytest.fixture
def no_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass, and nobody look of himself."""
    monkeypatch.setattr(Ticker, "start", lambda _: True)
    monkeypatch.setattr(_buffer, "clock_ns", lambda: 1_000_000_000)


def buffer(capacity: int = 10**6, batch_rows: int = 10**6, when_full: str = "drop") -> Buffer:
    """Return a buffer with a sender that takes when it is told to."""
    return Buffer(capacity=capacity, batch_rows=batch_rows, when_full=when_full, start=lambda: True)


def brisk(stream: Verbs) -> None:
    """Add until more may be added without the lock."""
    for _ in range(BRISK):
        stream.add_case(True, -1.0)
    for i in range(BRISK):
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
    with box.lock:
        for i in range(100):
            stream.add_case(i % 2 == 0, float(i))
            stream.log(f"id {i}", float(i))
            stream.label(f"other {i}", True)
            stream.retract("another")
    assert box.accepted == 2 * BRISK
    box.look()
    assert box.accepted == 2 * BRISK + 400
    cases, ids = taken(box)
    assert sorted(cases)[BRISK:] == [(float(i), i % 2 == 0) for i in range(100)]
    assert ids[BRISK:] == [f"id {i}" for i in range(100)]
    assert taken(box) == ([], [])


@pytest.mark.usefixtures("no_ticks")
def test_rows_that_come_seldom_are_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So there is no thread that wakes up for each of them, however many wait."""
    now = [1_000_000_000]
    monkeypatch.setattr(_buffer, "clock_ns", lambda: now[0])
    box = buffer()
    stream = Verbs(box, "s")
    for i in range(100):
        now[0] += 2_000_000
        stream.add_case(True, float(i))
        stream.log(str(i), float(i))
        assert box.accepted == 2 * (i + 1)
    assert not box._open
    now[0] += 1_000_000
    stream.add_case(True, 0.0)
    for _ in range(BRISK):
        stream.add_case(True, 0.0)
    assert box._open


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


def sly(box: Buffer) -> tuple[Verbs, Sly, Sly, Sly]:
    """Return a stream that is brisk, and what it appends positives, negatives and ids to."""
    lane = box.lane("s")
    positives, negatives, triples = Sly(), Sly(), Sly()
    positives.before = negatives.before = triples.before = lambda: None
    lane.open_cases.positives, lane.open_cases.negatives = positives, negatives
    lane.open_ids.triples = triples
    stream = Verbs(box, "s")
    brisk(stream)
    return stream, positives, negatives, triples


@pytest.mark.usefixtures("no_ticks")
def test_a_row_is_seen_though_it_comes_after_all_were_taken() -> None:
    """Who adds it had looked before, and looks again."""
    box = buffer()
    stream, positives, negatives, triples = sly(box)
    for scores, positive in ((positives, True), (negatives, False)):
        scores.before = lambda: taken(box)
        stream.add_case(positive, 7.0)
        assert taken(box) == ([(7.0, positive)], [])
        brisk(stream)
        taken(box)
    brisk(stream)
    triples.before = lambda: taken(box)
    stream.log("late", 7.0)
    assert taken(box) == ([], ["late"])


@pytest.mark.usefixtures("no_ticks")
@pytest.mark.parametrize("closed", [True, False])
def test_a_row_that_comes_while_its_client_closes_is_refused(closed: bool) -> None:
    """Who has added it is told, as anybody after it; or it counts as dropped."""
    end = (lambda box: box.close("the client is closed")) if closed else Buffer.discard
    for late in (0, 1, 2):
        box = buffer()
        stream, *lists = sly(box)
        lists[late].before = lambda box=box: end(box)
        calls = [
            lambda stream=stream: stream.add_case(True, 7.0),
            lambda stream=stream: stream.add_case(False, 7.0),
            lambda stream=stream: stream.log("late", 7.0),
        ]
        for dropped, call in enumerate(calls[late:] + calls[:late], 1):
            if closed:
                with pytest.raises(ClosedError, match="the client is closed"):
                    call()
            assert box.dropped == (0 if closed else dropped - 1)
            if not closed:
                call()
        assert 7.0 not in [score for score, _ in taken(box)[0]]
        assert not any(lists)


def test_stamps_are_those_of_the_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick ends it; from then on rows have a later one."""
    ticks: list = []
    monkeypatch.setattr(Ticker, "start", lambda self: ticks.append(self._tick) is None)
    now = [1_000_000_000]
    monkeypatch.setattr(_buffer, "clock_ns", lambda: now[0])
    box = buffer()
    stream = Verbs(box, "s")
    brisk(stream)
    now[0] += 30_000_000
    stream.add_case(True, 1.0)
    stream.log("unseen", 1.0)
    assert ticks[-1]()
    assert not ticks[-1](), "nothing is allowed any more"
    stream.add_case(True, 1.0)
    stream.log("seen", 1.0)
    assert not ticks[-1](), "nor after one row"
    stream.add_case(True, 1.0)
    stream.log("last", 1.0)
    cases, predictions = box.take()
    assert cases.times.tolist() == [-1_000_001] * (BRISK + 1) + [-1_030_001] * 2
    assert predictions.times.tolist() == [-1_000_001] * (BRISK + 1) + [-1_030_001] * 2


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
    assert (box._allowed, box._open) == (0, {})
    assert taken(box) == ([], [])
    stream.add_case(True, 2.0)
    stream.log("b", 1.0)
    assert taken(box) == ([(2.0, True)], ["b"])


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


def test_a_ticker_stops_when_there_is_long_no_need_and_starts_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One thread at a time."""
    monkeypatch.setattr(_ticker, "_IDLE_TICKS", 3)
    lock = threading.Lock()
    ticks: list[int] = []
    ended = threading.Event()

    def tick() -> bool:
        assert lock.locked()
        ticks.append(threading.get_ident())
        if len(ticks) % 7 == 0:
            ended.set()
        return len(ticks) % 7 in {1, 2, 4}  # 3 is one without need; 5, 6 and 7 are three

    ticker = Ticker(lock, tick, 0.001)
    for count in (7, 14):
        with lock:
            assert ticker.start()
            assert ticker.start()
        assert ended.wait(10)
        ended.clear()
        with lock:
            assert not ticker._runs
            assert len(ticks) == count
            assert len(set(ticks[-7:])) == 1


def test_a_ticker_that_fails_may_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says why, where threads do, and is not taken for one that runs."""
    failed = threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", lambda _: failed.set())
    lock = threading.Lock()

    def tick() -> bool:
        raise MemoryError

    ticker = Ticker(lock, tick, 0.001)
    with lock:
        assert ticker.start()
    assert failed.wait(10)
    with lock:
        assert not ticker._runs
        assert ticker._may_run


def test_without_a_thread_everything_is_added_under_the_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that is ending starts none."""
    asked: list[int] = []

    def refuse(*_: object) -> None:
        asked.append(1)
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(_ticker, "_thread", SimpleNamespace(start_new_thread=refuse))
    box = buffer()
    stream = Verbs(box, "s")
    for i in range(100):
        stream.add_case(True, float(i))
        assert box.accepted == i + 1
    assert asked == [1]


class Watched(OpenList):
    """Looks at what is allowed when it is looked at, and gets a value while it is taken."""

    __slots__ = ("allowed_then", "late")

    def __len__(self) -> int:
        self.allowed_then = self.allowed
        return super().__len__()

    def __getitem__(self, place: object) -> object:
        values = super().__getitem__(place)
        self.append(self.late)
        return values


def test_a_list_is_closed_before_it_is_looked_at_and_keeps_what_comes_late() -> None:
    """So that who adds either was seen or sees that it is closed."""
    rows = Watched()
    rows += [1.0, 2.0]
    rows.allow(4)
    rows.late = 3.0
    assert rows.take() == [1.0, 2.0]
    assert (rows.allowed, rows.allowed_then) == (0, 0)
    assert list(rows) == [3.0]


@pytest.mark.usefixtures("no_ticks")
def test_what_comes_late_has_no_room_of_its_own() -> None:
    """It is among what is allowed next."""
    box = buffer(capacity=600)
    stream = Verbs(box, "s")
    brisk(stream)
    box.look()
    late = stream._lane.open_cases.negatives
    late.append(5.0)
    for i in range(1000):
        stream.add_case(False, float(i))
    box.look()
    assert box.accepted == 600
    assert not late


@pytest.mark.usefixtures("no_ticks")
def test_rows_with_times_and_columns_leave_room_for_what_is_allowed() -> None:
    """Whatever is added in between."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for capacity in (1000, 2000):
        box = buffer(capacity)
        stream = Verbs(box, "s")
        brisk(stream)
        for i in range(capacity - 100 - box.accepted - box._allowed):
            stream.add_case(True, float(i), at=noon)
        stream.add_cases(labels=np.ones(700, bool), scores=np.ones(700))
        for i in range(600):
            stream.log(str(i), 0.5)
            stream.add_case(True, 0.5)
        box.look()
        assert box.accepted == capacity
        assert (box._allowed, box._open) == (0, {})


@pytest.mark.usefixtures("no_ticks")
def test_dated_rows_come_after_what_was_done_to_the_id_before() -> None:
    """They are added under the lock, what was done before maybe without it."""
    box = buffer()
    stream = Verbs(box, "s")
    brisk(stream)
    stream.retract("a")
    stream.log("a", 0.5, at=datetime(2026, 1, 1, tzinfo=UTC))
    kinds = [type(rows) for rows in box.take() if "a" in getattr(rows, "ids", ())]
    assert kinds == [RetractionRows, PredictionRows]


@pytest.mark.usefixtures("no_ticks")
def test_late_rows_have_a_time_of_their_own() -> None:
    """Not that of a dated row which came in between."""
    box = buffer()
    stream, positives, _, triples = sly(box)
    box.take()
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    brisk(stream)
    triples.before = lambda: stream.log("dated", 0.5, at=noon, segments={"k": "v"})
    stream.log("late", 0.5)
    positives.before = lambda: (box.look(), stream.add_case(True, 8.0, at=noon))
    stream.add_case(True, 9.0)
    stream.add_case(True, 10.0)
    cases, predictions = box.take()
    when = dict(zip(predictions.ids, predictions.times.tolist(), strict=True))
    assert when["dated"] > 0 > when["late"]
    when = dict(zip(cases.scores.tolist(), cases.times.tolist(), strict=True))
    assert when[8.0] > 0 > when[9.0]
    assert when[10.0] < 0


@pytest.mark.usefixtures("no_ticks")
def test_a_waiting_sender_sees_what_nobody_has_seen() -> None:
    """A batch is a batch, however its rows were added."""
    box = buffer(batch_rows=1_000_000)
    stream = Verbs(box, "s")
    brisk(stream)
    box._batch_rows = 100
    for i in range(300):
        stream.log(str(i), 0.5)
    assert box.arm(600.0) == 0.0


@pytest.mark.usefixtures("no_ticks")
def test_statistics_count_what_nobody_has_seen() -> None:
    """All that was accepted."""
    box = buffer()
    stream = Verbs(box, "s")
    brisk(stream)
    for _ in range(100):
        stream.add_case(True, 0.5)
    seen = read_statistics(Sender("p", 1, random=lambda: 0.5), box)
    assert seen.added == seen.pending == 2 * BRISK + 100
