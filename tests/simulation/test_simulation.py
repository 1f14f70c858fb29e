"""The whole service, simulated: seeds pass, a seed is deterministic, known bugs are found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .command import replay_command
from .mutants import MUTANTS, Mutant
from .run import run

HERE = Path(__file__).parent
QUICK = 50


def simulated(*arguments: str, hash_seed: str = "0") -> str:
    """Run the command; return what it prints."""
    finished = subprocess.run(
        [sys.executable, str(HERE), *arguments],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.mark.parametrize("seed", range(QUICK))
def test_a_few_seeds_hold(seed: int) -> None:
    """A failure names the seed; `python tests/simulation --seed N --trace` shows its history."""
    try:
        outcome = run(seed)
    except Exception as error:
        error.add_note(f"{replay_command(seed)} shows the history")
        raise
    assert outcome.tally["events"]


@pytest.mark.nightly
def test_2000_seeds_hold() -> None:
    """They take at most five minutes on two cores."""
    shown = simulated("--seeds", "0:2000", "--jobs", "2")
    assert re.search(r"^2000 seeds: 0 failed", shown, re.MULTILINE), shown


def test_a_seed_is_a_whole_history() -> None:
    """Another process, with another hash seed, has the same trace, event by event."""
    first = simulated("--seed", "9", "--trace", hash_seed="1")
    again = simulated("--seed", "9", "--trace", hash_seed="2")
    assert first == again
    assert len(first.splitlines()) > 100


@pytest.mark.heavy
@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(each, marks=[pytest.mark.nightly] if place % 6 else [], id=each.name)
        for place, each in enumerate(MUTANTS)
    ],
)
def test_a_known_bug_is_found(mutant: Mutant) -> None:
    """One of 400 seeds finds it; for all but one, one of the first 200 does."""
    assert mutant.found_at(range(400)) is not None


def test_mutants_are_of_this_source() -> None:
    """Each snippet occurs once; and the original function is restored afterwards."""
    for mutant in MUTANTS:
        before = getattr(mutant.place, mutant.function)
        with mutant.alive():
            assert getattr(mutant.place, mutant.function) is not before
        assert getattr(mutant.place, mutant.function) == before
