"""Tools for threads: priorities, and lingering for a larger batch."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from streameval_server._model.threads import linger, lower_priority


@pytest.mark.skipif(sys.platform != "linux", reason="only there threads have their own priority")
def test_the_priority_of_the_calling_thread_alone_is_lowered():
    """Down to the lowest, however often it is called; other threads keep theirs."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    found = []

    def work() -> None:
        for _ in range(5):
            lower_priority()
            found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [min(before + step, 19) for step in (5, 10, 15, 20, 25)]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


@pytest.mark.parametrize(
    ("waiting", "is_full", "pauses"),
    [
        (0, False, 0),
        (2, False, 0),  # too few to expect more
        (3, False, 1),
        (63, False, 1),
        (64, False, 0),
        (3, True, 0),  # large items fill a batch long before there are 64
    ],
)
def test_lingering_pauses_once(waiting, is_full, pauses):
    """Where some items wait, and more would be handled with them."""
    slept: list[float] = []
    linger(lambda: waiting, lambda: is_full, slept.append)
    assert len(slept) == pauses
    assert sum(slept) < 0.001
