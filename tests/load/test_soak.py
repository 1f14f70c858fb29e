"""A short soak, with the code of the long one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
MOST_MB_A_MINUTE = 60
"""Allocators are not done settling within a minute; the long run is held to 1 MB a minute.
What this finds is a leak that grows with every call, and any error on the way."""


@pytest.mark.heavy
def test_a_minute_of_churn(tmp_path: Path) -> None:
    """Streams, clients and windows come and go; nothing fails, and memory does not run away."""
    # Benches share modules, which the wheel does not have.
    paths = [str(BENCH), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = ("--minutes", "1", "--seed", "7", "--budget", str(MOST_MB_A_MINUTE))
    done = subprocess.run(
        [sys.executable, str(BENCH / "soak.py"), *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=400,  # of which it churns a minute; a busy machine takes long over the rest
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MB a minute" in done.stdout
    assert done.stderr == ""
