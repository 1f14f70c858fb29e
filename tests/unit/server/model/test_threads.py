"""Tools for threads: priorities, and lingering for a larger batch."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from streameval_server._model.threads import lower_priority


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
