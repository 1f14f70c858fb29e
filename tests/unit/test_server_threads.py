"""What threads of the server do for one another."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from streameval_server._process.threads import stand_back


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
