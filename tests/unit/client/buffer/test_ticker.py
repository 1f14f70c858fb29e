"""The thread that revokes grants when their stamp is too old."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from streameval.client._buffer import ticker as _ticker
from streameval.client._buffer.ticker import Ticker

from .unlocked_rows import Verbs, buffer

if TYPE_CHECKING:
    pass


def test_a_ticker_stops_when_idle_and_starts_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At most one thread runs; it ends after the configured number of idle ticks."""
    monkeypatch.setattr(_ticker, "_MAX_IDLE_TICKS", 3)
    lock = threading.Lock()
    ticks: list[int] = []
    ended = threading.Event()

    def tick() -> bool:
        assert lock.locked()
        ticks.append(threading.get_ident())
        if len(ticks) % 7 == 0:
            ended.set()
        return len(ticks) % 7 in {1, 2, 4}  # tick 3 is idle; ticks 5 to 7 are three idle ones

    ticker = Ticker(lock, tick, 0.001)
    for count in (7, 14):
        with lock:
            assert ticker.start()
            assert ticker.start()
        assert ended.wait(10)
        ended.clear()
        with lock:
            assert not ticker._is_running
            assert len(ticks) == count
            assert len(set(ticks[-7:])) == 1


def test_a_ticker_that_fails_may_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error goes to `sys.unraisablehook`, and it no longer counts as running."""
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
        assert not ticker._is_running
        assert ticker._can_run


def test_without_a_thread_everything_is_added_under_the_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At interpreter shutdown no thread can be started."""
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
