"""Rows that are added one at a time: each is drained once, under any interleaving."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval.client import ClosedError
from streameval.client._buffer import clock
from streameval.client._buffer.columns import BufferedCases
from streameval.client._buffer.id_columns import (
    BufferedLabels,
    BufferedPredictions,
    BufferedRetractions,
)

from .buffers import Verbs, buffer, taken

if TYPE_CHECKING:
    from collections.abc import Iterator

THREADS = 4
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_US = 1_767_268_800_000_000


@contextmanager
def frequent_switches() -> Iterator[None]:
    """Make the interpreter switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("capacity", [17, 40, 41, 600, 5000])
def test_one_thread_adds_exactly_what_there_is_room_for(capacity: int) -> None:
    """Rows beyond the capacity are dropped and counted; settled rows make room."""
    box = buffer(capacity)
    stream, other = Verbs(box, "s"), Verbs(box, "t")
    for i in range(6000):
        stream.add_case(i % 3 == 0, float(i))
        if i % 2:
            other.log(str(i), float(i))
    assert box.accepted == capacity
    assert box.accepted + box.dropped == 9000
    cases, ids = taken(box)
    assert len(cases) + len(ids) == capacity
    stream.add_cases(labels=[1], scores=[1.0])
    assert box.accepted == capacity
    box.settled(3)
    stream.add_cases(labels=[1] * 5, scores=[1.0] * 5)
    assert box.accepted == capacity + 3


def test_a_sender_is_woken_by_the_row_that_makes_a_batch() -> None:
    """It waits without a timeout for the first row, then for a full batch."""
    box = buffer(batch_rows=1000)
    stream = Verbs(box, "s")
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


def test_rows_have_the_stamp_of_the_moment() -> None:
    """Rows of 25 ms share a stamp; a time that a row has of its own ends with the row."""
    now = [1_000_000_000]
    box = buffer(clock_ns=lambda: now[0])
    stream = Verbs(box, "s")
    for step_ns in (0, 24_000_000, 1_000_000, 30_000_000):
        now[0] += step_ns
        stream.add_case(True, 1.0)
        stream.log(str(now[0]), 1.0)
    stream.add_case(True, 1.0, at=NOON)
    stream.log("dated", 1.0, at=NOON)
    stream.add_case(True, 1.0)
    stream.log("last", 1.0)
    for rows in box.take():
        stamps = [-1_000_001] * 2 + [-1_025_001, -1_055_001, NOON_US, -1_055_001]
        assert rows.times.tolist() == stamps


def test_a_label_comes_after_the_prediction_that_was_logged_before_it() -> None:
    """One at a time and in columns."""
    box = buffer()
    stream = Verbs(box, "s")
    stream.log("a", 0.5)
    stream.label("a", True)
    stream.log("b", 0.5)
    stream.label_cases(ids=["b"], labels=[1])
    seen: list[tuple[type, str]] = [
        (type(rows), id_) for rows in box.take() if hasattr(rows, "ids") for id_ in rows.ids
    ]
    for id_ in "ab":
        assert [kind for kind, found in seen if found == id_] == [
            BufferedPredictions,
            BufferedLabels,
        ]


def test_a_forked_child_starts_with_nothing() -> None:
    """Rows of the parent process stay with the parent."""
    box = buffer()
    stream = Verbs(box, "s")
    stream.add_case(True, 1.0)
    stream.log("a", 1.0)
    box.reset()
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
    assert highest[0] <= capacity
    for number in range(THREADS):
        mine = [int(id_) for id_ in ids if int(id_) // each == number]
        assert mine == sorted(mine), "a thread's predictions stay in their order"
    if when_full == "block" or capacity > box.accepted:
        assert not box.dropped


def test_dated_rows_come_after_earlier_rows_of_the_id() -> None:
    """A time of its own does not move a row past others."""
    box = buffer()
    stream = Verbs(box, "s")
    stream.retract("a")
    stream.log("a", 0.5, at=NOON)
    kinds = [type(rows) for rows in box.take() if "a" in getattr(rows, "ids", ())]
    assert kinds == [BufferedRetractions, BufferedPredictions]


@pytest.mark.parametrize("closed", [True, False])
def test_a_row_after_the_end_is_refused_or_counted(closed: bool) -> None:
    """A closed client raises ClosedError; one that discards its rows counts them as dropped."""
    box = buffer()
    stream = Verbs(box, "s")
    stream.add_case(True, 1.0)
    box.close("the client is closed") if closed else box.discard()
    for add in (
        lambda: stream.add_case(True, 7.0),
        lambda: stream.add_case(True, 7.0, segments={"plan": "free"}),
        lambda: stream.add_case(True, 7.0, weight=2.0),
        lambda: stream.log("late", 7.0),
    ):
        with pytest.raises(ClosedError, match="the client is closed") if closed else nullcontext():
            add()
    assert box.dropped == (0 if closed else 4)
    assert taken(box) == ([(1.0, True)], [])


@contextmanager
def frequent_interruptions(armed: list[bool]) -> Iterator[None]:
    """Raise KeyboardInterrupt in the main thread over and over, once each time `armed` is set."""
    done = threading.Event()

    def interrupt(*_: object) -> None:
        if armed:
            armed.clear()
            raise KeyboardInterrupt

    def interrupt_often() -> None:
        while not done.is_set():
            _thread.interrupt_main(signal.SIGUSR1)

    thread = threading.Thread(target=interrupt_often)
    before = signal.signal(signal.SIGUSR1, interrupt)
    thread.start()
    try:
        yield
    finally:
        armed.clear()
        done.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)


def add_numbered(stream: Verbs, number: int) -> None:
    """Add rows of each kind; their columns follow from their scores."""
    positive, own = number % 3 == 0, {"mod": str(number % 7)}
    stream.add_case(positive, float(number))
    stream.add_case(positive, float(number), segments=own)
    stream.add_case(positive, float(number), weight=1 + number % 5)
    stream.log(str(number), float(number))
    stream.log(str(number), float(number), at=NOON, segments=own)


def check_numbered(rows: BufferedCases | BufferedPredictions) -> None:
    """Check that each row has the columns with which `add_numbered` has added it."""
    numbers = rows.scores.astype(int)
    if isinstance(rows, BufferedCases):
        assert (rows.positives == (numbers % 3 == 0)).all()
        assert rows.units is None or (rows.units == (1 + numbers % 5) << 16).all()
    else:
        assert rows.ids == numbers.astype(str).tolist()
    for column in rows.segments:
        found = np.array(column.values)[column.codes]
        is_dated = found != ""
        assert (found[is_dated] == (numbers % 7).astype(str)[is_dated]).all()
        if isinstance(rows, BufferedPredictions):
            assert (is_dated == (rows.times == NOON_US)).all()


@pytest.mark.slow
def test_an_interrupted_call_adds_its_row_or_nothing() -> None:
    """No label, score, time or segment of an interrupted call goes to the next row."""
    box, armed = buffer(clock_ns=clock.clock_ns), []
    stream = Verbs(box, "s")
    interrupted = number = 0
    with frequent_switches(), frequent_interruptions(armed):
        while interrupted < 1_000:
            number += 1
            try:
                armed.append(True)
                add_numbered(stream, number)
                armed.clear()
            except KeyboardInterrupt:
                interrupted += 1
    pieces = box.take()
    assert sum(rows.size for rows in pieces) == box.accepted > 0
    for rows in pieces:
        check_numbered(rows)
