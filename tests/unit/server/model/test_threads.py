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
    ("waiting", "pauses"),
    [
        ([0], 0),
        ([2], 0),  # too few to expect more
        ([64], 0),
        ([3, 3], 1),  # nothing more arrived
        ([3, 5, 5], 2),
        ([10, 70], 1),
        ([3, 4, 5, 6, 7], 4),  # more keep arriving, but the first have waited long enough
    ],
)
def test_lingering_ends(waiting, pauses):
    """When few items wait, when no more arrive, when there are 64, or after 3 ms."""
    slept: list[float] = []
    counts = iter(waiting)
    linger(lambda: next(counts), lambda: False, slept.append)
    assert len(slept) == pauses
    assert sum(slept) <= 0.003
    assert next(counts, None) is None


def test_lingering_ends_when_a_batch_is_full():
    """Large items fill a batch long before there are 64: more would wait for the next one."""
    slept: list[float] = []
    counts = iter([3, 9, 12])
    full = iter([False, True])
    linger(lambda: next(counts), lambda: next(full), slept.append)
    assert len(slept) == 1
