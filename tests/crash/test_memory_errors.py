"""Allocations that fail, each in turn: `memory_sweep.py` in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
TIMES = {
    "life": 25,
    "restart": 25,
    "queries": 25,
    "evaluators": 25,
    "commit": 9999,
    "evaluator": 9999,
}
"""How many allocations of each scene fail; of the last two each in turn."""


@pytest.mark.heavy
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "scene",
    [
        each if each in {"life", "evaluators"} else pytest.param(each, marks=pytest.mark.nightly)
        for each in TIMES
    ],
)
def test_failed_allocations_lose_nothing(scene, require_command):
    """An error ends a core, and the next start has each acked row once; or it changed nothing."""
    require_command("cc")
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "memory_sweep.py"),
            "--scene",
            scene,
            "--times",
            str(TIMES[scene]),
        ],
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
    assert [count for count, _, _ in lines] == ["1", "100"]
    for _, times, made in lines:
        assert int(times) == min(TIMES[scene], int(made))
        assert int(made) > (5_000 if TIMES[scene] == 25 else 300)
