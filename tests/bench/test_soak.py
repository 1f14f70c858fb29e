"""A short run of the soak test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
MAX_MB_A_MINUTE = 60
"""Allowed growth of memory. Allocators do not settle within a minute, so the long run, which is
held to 1 MB a minute, is stricter. This one finds a leak that grows with every call."""


@pytest.mark.heavy
def test_a_minute_of_churn(tmp_path: Path) -> None:
    """Streams, clients and windows are created and dropped; nothing fails, memory stays bounded."""
    # Benchmarks share modules that are not in the wheel.
    paths = [str(BENCH), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = ("--minutes", "1", "--seed", "7", "--budget", str(MAX_MB_A_MINUTE))
    done = subprocess.run(
        [sys.executable, str(BENCH / "soak.py"), *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=400,  # one minute of load; start and stop take long on a busy machine
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MB a minute" in done.stdout
    assert done.stderr == ""
