"""Allocations that fail, each in turn: `memory_sweep.py` in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
TIMES = 25


@pytest.mark.heavy
@pytest.mark.timeout(300)
@pytest.mark.parametrize("scene", ["life", "restart", "queries", "evaluators"])
def test_failed_allocations_lose_nothing(scene, require_command):
    """An error ends a core, and the next start has each acked row once; or it changed nothing."""
    require_command("cc")
    done = subprocess.run(
        [sys.executable, str(ROOT / "memory_sweep.py"), "--scene", scene, "--times", str(TIMES)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            "PYTHONMALLOC": "malloc",  # each Python object is an allocation of its own
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = re.findall(rf"^{scene} (\d+) (\d+) of (\d+), went on \d+$", done.stdout, re.MULTILINE)
    assert [(count, times) for count, times, _ in lines] == [("1", str(TIMES)), ("100", str(TIMES))]
    assert all(int(made) > 5_000 for _, _, made in lines)
