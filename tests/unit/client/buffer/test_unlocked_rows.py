"""Rows that are added without the lock: each is drained once, under any interleaving."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval.client._buffer import clock
from streameval.client._buffer.id_columns import LabelRows, PredictionRows, RetractionRows
from streameval.client._buffer.ticker import Ticker
from streameval.client._delivery.sender import Sender
from streameval.client._delivery.statistics import read_statistics

from .unlocked_rows import MIN_BURST_ROWS, Verbs, add_burst, buffer, stop_ticks, taken

if TYPE_CHECKING:
    from collections.abc import Iterator

THREADS = 4


@pytest.fixture
def no_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock, and let no ticker revoke grants."""
    stop_ticks(monkeypatch)


@contextmanager
def frequent_switches() -> Iterator[None]:
    """Make the interpreter switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.mark.usefixtures("no_ticks")
def test_rows_of_a_burst_need_no_lock() -> None:
    """Rows are added while another thread holds the lock, and are collected afterwards."""
    box = buffer()
    stream = Verbs(box, "s")
    add_burst(stream)
    with box.lock:
        for i in range(100):
            stream.add_case(i % 2 == 0, float(i))
            stream.log(f"id {i}", float(i))
            stream.label(f"other {i}", True)
            stream.retract("another")
    assert box.accepted == 2 * MIN_BURST_ROWS
    box.collect_unlocked()
    assert box.accepted == 2 * MIN_BURST_ROWS + 400
    cases, ids = taken(box)
    assert sorted(cases)[MIN_BURST_ROWS:] == [(float(i), i % 2 == 0) for i in range(100)]
    assert ids[MIN_BURST_ROWS:] == [f"id {i}" for i in range(100)]
    assert taken(box) == ([], [])


@pytest.mark.usefixtures("no_ticks")
def test_infrequent_rows_are_accepted_at_once() -> None:
    """Infrequent rows get no grant, so no ticker thread has to wake up for them."""
    now = [1_000_000_000]
    box = buffer(clock_ns=lambda: now[0])
    stream = Verbs(box, "s")
    for i in range(100):
        now[0] += 2_000_000
        stream.add_case(True, float(i))
        stream.log(str(i), float(i))
        assert box.accepted == 2 * (i + 1)
    assert not box._grants
    now[0] += 1_000_000
    stream.add_case(True, 0.0)
    for _ in range(MIN_BURST_ROWS):
        stream.add_case(True, 0.0)
    assert box._grants


@pytest.mark.usefixtures("no_ticks")
@pytest.mark.parametrize("capacity", [17, 40, 41, 600, 5000])
def test_one_thread_adds_exactly_what_there_is_room_for(capacity: int) -> None:
    """A grant reserves its room; rows beyond the capacity are dropped and counted."""
    box = buffer(capacity)
    stream, other = Verbs(box, "s"), Verbs(box, "t")
    add_burst(other)
    add_burst(stream)
    before = box.accepted + box.dropped
    for i in range(6000):
        stream.add_case(i % 3 == 0, float(i))
        if i % 2:
            other.log(str(i), float(i))
    box.collect_unlocked()
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
def test_columns_use_room_that_was_granted_but_not_used() -> None:
    """Grants are revoked before rows are dropped."""
    box = buffer(capacity=1000)
    stream = Verbs(box, "s")
    add_burst(stream)
    free = 1000 - box.accepted
    stream.add_cases(labels=np.ones(free, bool), scores=np.ones(free))
    assert (box.accepted, box.dropped) == (1000, 0)


@pytest.mark.usefixtures("no_ticks")
def test_a_sender_is_woken_by_the_row_that_makes_a_batch() -> None:
    """A grant is smaller than the number of rows that wakes the sender."""
    box = buffer(batch_rows=1000)
    stream = Verbs(box, "s")
    add_burst(stream)
    box.take()
    added: list[int] = []
    waits = threading.Event()

    def ready() -> bool:
        waits.set()
        return False

    sender = threading.Thread(target=box.wait, args=(ready,), kwargs={"linger_s": 600.0})
    sender.start()
    stream.add_case(True, 0.0)  # the sender waits for the first row without a timeout
    waits.wait()
    while box.wake_at != box._drained + 1000:
        pass  # until the sender has received the first row and waits for a batch
    while sender.is_alive() and len(added) < 5000:
        stream.add_case(len(added) % 7 == 0, float(len(added)))
        added.append(box.accepted)
        if len(added) == 999:
            sender.join()
    assert len(added) == 999


def test_rows_have_the_stamp_of_their_grant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick revokes the grant; later rows have a later stamp."""
    ticks: list = []
    monkeypatch.setattr(Ticker, "start", lambda self: ticks.append(self._tick) is None)
    now = [1_000_000_000]
    box = buffer(clock_ns=lambda: now[0])
    stream = Verbs(box, "s")
    add_burst(stream)
    now[0] += 30_000_000
    stream.add_case(True, 1.0)
    stream.log("unseen", 1.0)
    assert ticks[-1]()
    assert not ticks[-1](), "no grant is left"
    stream.add_case(True, 1.0)
    stream.log("seen", 1.0)
    assert not ticks[-1](), "one row is no burst"
    stream.add_case(True, 1.0)
    stream.log("last", 1.0)
    cases, predictions = box.take()
    assert cases.times.tolist() == [-1_000_001] * (MIN_BURST_ROWS + 1) + [-1_030_001] * 2
    assert predictions.times.tolist() == [-1_000_001] * (MIN_BURST_ROWS + 1) + [-1_030_001] * 2


@pytest.mark.usefixtures("no_ticks")
def test_a_label_comes_after_the_prediction_that_was_logged_before_it() -> None:
    """Adding a row by id under the lock first moves the rows of the grant."""
    box = buffer()
    stream = Verbs(box, "s")
    add_burst(stream)
    stream.log("a", 0.5)
    stream.label("a", True)
    add_burst(stream)
    stream.log("b", 0.5)
    stream.label_cases(ids=["b"], labels=[1])
    seen: list[tuple[type, str]] = [
        (type(rows), id_) for rows in box.take() if hasattr(rows, "ids") for id_ in rows.ids
    ]
    for id_ in "ab":
        assert [kind for kind, found in seen if found == id_] == [PredictionRows, LabelRows]


@pytest.mark.usefixtures("no_ticks")
def test_a_forked_child_starts_with_nothing() -> None:
    """Rows of the parent process stay with the parent."""
    box = buffer()
    stream = Verbs(box, "s")
    add_burst(stream)
    stream.add_case(True, 1.0)
    stream.log("a", 1.0)
    box.reset()
    assert (box._granted, box._grants) == (0, {})
    assert taken(box) == ([], [])
    stream.add_case(True, 2.0)
    stream.log("b", 1.0)
    assert taken(box) == ([(2.0, True)], ["b"])


@pytest.mark.parametrize(
    ("when_full", "capacity"), [("drop", 10**6), ("drop", 3_000), ("block", 3_000)]
)
def test_threads_lose_nothing(when_full: str, capacity: int) -> None:
    """With many adding threads and one sender each row is drained once or dropped."""
    each = 20_000
    box = buffer(capacity, batch_rows=100, when_full=when_full, clock_ns=clock.clock_ns)
    stream = Verbs(box, "s")
    done = threading.Event()
    cases: list[tuple[float, bool]] = []
    ids: list[str] = []
    highest = [0]

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
            highest[0] = max(highest[0], box.accepted - settled)
            settled += len(some) + len(names)
            box.settled(settled)

    threads = [threading.Thread(target=add, args=(n,)) for n in range(THREADS)]
    sender = threading.Thread(target=send)
    with frequent_switches():
        sender.start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        box.collect_unlocked()
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
    assert highest[0] <= capacity + THREADS
    for number in range(THREADS):
        mine = [int(id_) for id_ in ids if int(id_) // each == number]
        assert mine == sorted(mine), "a thread's predictions stay in their order"
    if when_full == "block" or capacity > box.accepted:
        assert not box.dropped


@pytest.mark.usefixtures("no_ticks")
def test_rows_with_times_and_columns_leave_room_for_grants() -> None:
    """Rows that are added in between do not use the room of a grant."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for capacity in (1000, 2000):
        box = buffer(capacity)
        stream = Verbs(box, "s")
        add_burst(stream)
        for i in range(capacity - 100 - box.accepted - box._granted):
            stream.add_case(True, float(i), at=noon)
        stream.add_cases(labels=np.ones(700, bool), scores=np.ones(700))
        for i in range(600):
            stream.log(str(i), 0.5)
            stream.add_case(True, 0.5)
        box.collect_unlocked()
        assert box.accepted == capacity
        assert (box._granted, box._grants) == (0, {})


@pytest.mark.usefixtures("no_ticks")
def test_dated_rows_come_after_earlier_rows_of_the_id() -> None:
    """Dated rows are added under the lock, after the rows of the grant were moved."""
    box = buffer()
    stream = Verbs(box, "s")
    add_burst(stream)
    stream.retract("a")
    stream.log("a", 0.5, at=datetime(2026, 1, 1, tzinfo=UTC))
    kinds = [type(rows) for rows in box.take() if "a" in getattr(rows, "ids", ())]
    assert kinds == [RetractionRows, PredictionRows]


@pytest.mark.usefixtures("no_ticks")
def test_a_waiting_sender_sees_the_rows_of_grants() -> None:
    """Rows added without the lock count towards a full batch."""
    box = buffer(batch_rows=1_000_000)
    stream = Verbs(box, "s")
    add_burst(stream)
    box.batch_rows = 100
    for i in range(300):
        stream.log(str(i), 0.5)
    assert box.arm(600.0) == 0.0


@pytest.mark.usefixtures("no_ticks")
def test_statistics_count_the_rows_of_grants() -> None:
    """The statistics include rows that were added without the lock."""
    box = buffer()
    stream = Verbs(box, "s")
    add_burst(stream)
    for _ in range(100):
        stream.add_case(True, 0.5)
    seen = read_statistics(Sender("p", 1, random=lambda: 0.5), box)
    assert seen.added == seen.pending == 2 * MIN_BURST_ROWS + 100
