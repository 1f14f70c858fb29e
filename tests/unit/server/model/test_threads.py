"""What threads of the server do for one another."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from streameval_server._model import threads
from streameval_server._model.threads import gather, stand_back


@pytest.mark.skipif(sys.platform != "linux", reason="only there threads have their own priority")
def test_a_thread_stands_back_alone():
    """As far as it may go, however often it is told; nobody else does."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    found = []

    def work() -> None:
        for _ in range(5):
            stand_back()
            found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [min(before + step, 19) for step in (5, 10, 15, 20, 25)]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


@pytest.mark.parametrize(
    ("seen", "naps"),
    [
        ([0], 0),
        ([2], 0),  # it may be all that there is
        ([64], 0),
        ([3, 3], 1),  # nothing more came
        ([3, 5, 5], 2),
        ([10, 70], 1),
        ([3, 4, 5, 6, 7], 4),  # it goes on coming, but they have waited for long enough
    ],
)
def test_more_is_let_come_where_much_comes(monkeypatch, seen, naps):
    """No longer than it does, nor for long."""
    slept: list[float] = []
    monkeypatch.setattr(threads.time, "sleep", slept.append)
    counts = iter(seen)
    gather(lambda: next(counts))
    assert len(slept) == naps
    assert sum(slept) <= 0.003
    assert next(counts, None) is None
