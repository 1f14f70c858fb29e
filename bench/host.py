"""What a benchmark prints of the machine that it ran on, and how it times work beside others.

Wall time on a machine with other work measures that work too. So work that runs in one
thread is timed by the processor time of that thread, and a benchmark ends with the steal:
the share of processor time that the machine's host gave to other guests meanwhile.
"""

from __future__ import annotations

import atexit
import os
import time
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable


class Steal:
    """Share of CPU time that the machine's host gave to others (steal) since construction.

    A stopped CPU delays everything on it, which shows in the 99th percentiles.
    """

    def __init__(self) -> None:
        self._start = psutil.cpu_times()

    def __str__(self) -> str:
        spent = {
            name: now - before
            for name, now, before in zip(
                self._start._fields, psutil.cpu_times(), self._start, strict=True
            )
        }
        if "steal" not in spent:
            return "unknown"
        wanted = sum(spent[name] for name in ("user", "nice", "system", "irq", "softirq", "steal"))
        return f"{spent['steal'] / wanted:.1%}" if wanted else "none"


def print_host_at_exit() -> None:
    """Print the load and the steal of the whole run when the program ends."""
    steal = Steal()

    def report() -> None:
        load = " ".join(f"{each:.1f}" for each in os.getloadavg())
        print(f"host: {os.cpu_count()} cores, load {load}, steal {steal} of the CPU time demanded")

    atexit.register(report)


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the processor time that this thread takes for some work."""
    begin = time.thread_time()
    work()
    return time.thread_time() - begin
