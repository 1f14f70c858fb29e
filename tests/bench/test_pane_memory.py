"""The memory of panes at rest, as its benchmark measures it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"

SMALL_PANES = f"""
import sys

sys.path.insert(0, {str(BENCH)!r})
import pane_memory

print(*pane_memory.pane_bytes(10), *pane_memory.pane_bytes(1_000))
"""


def test_a_pane_of_few_cases_takes_little_memory() -> None:
    """At most 0.6 KB for ten cases and 4 KB for a thousand, also once it was read.

    Traced in a process of its own: after thousands of other tests more is traced.
    """
    command = [sys.executable, "-c", SMALL_PANES]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100).stdout
    unread, read, unread_large, read_large = map(float, shown.split())
    assert unread <= read <= 600
    assert unread_large <= read_large <= 4_000
