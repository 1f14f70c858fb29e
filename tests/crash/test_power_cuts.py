"""Power cuts under the real SQLite: `power_sweep.py` in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent


def swept(*options: str) -> subprocess.CompletedProcess[str]:
    """Run the sweep."""
    return subprocess.run(
        [sys.executable, str(ROOT / "power_sweep.py"), *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "times", [10, pytest.param(80, marks=[pytest.mark.nightly, pytest.mark.timeout(300)])]
)
def test_a_power_cut_loses_nothing(times):
    """Whatever survives of the unsynced writes: each acked row is there, once."""
    done = swept("--times", str(times), "--seed", str(times))
    assert done.returncode == 0, done.stdout + done.stderr
    cuts, events = map(int, re.findall(r"\d+", done.stdout))
    assert cuts == 3 * times
    assert events > 200


@pytest.mark.heavy
def test_the_sweep_finds_a_log_that_acks_before_the_sync():
    """With SQLite's synchronous=NORMAL an acked row is lost, and the sweep says so."""
    done = swept("--times", "40", "--synchronous", "NORMAL")
    assert done.returncode == 1
    assert re.search(r"AssertionError: revision \d+ was acked and is lost", done.stderr)
