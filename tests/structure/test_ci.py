"""What `.ci/run` and `.ci/nightly` call is there, and no test falls between them."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NIGHTLY = (ROOT / ".ci" / "nightly").read_text()


@pytest.mark.parametrize("name", ["run", "nightly", "lib", "lowest", "pythons"])
def test_a_script_is_bash(name: str) -> None:
    """No script has an error of syntax, which a step late in it would show late."""
    done = subprocess.run(
        ["bash", "-n", str(ROOT / ".ci" / name)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_each_nightly_step_is_a_function_of_files_that_exist() -> None:
    """The list of steps and their functions agree; so do their scripts and make's targets."""
    steps = re.search(r"^STEPS=\((.*)\)$", NIGHTLY, re.MULTILINE)
    assert steps is not None
    functions = dict(re.findall(r"^(\w+)\(\) \{ (.*) \}$", NIGHTLY, re.MULTILINE))
    assert list(functions) == steps[1].split()
    for body in functions.values():
        scripts = re.findall(r"\S+\.py|tests/simulation", body)
        targets = re.findall(r"make (\S+);", body)
        assert scripts or targets, body
        assert all((ROOT / script).exists() for script in scripts), body
        for target in targets:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target


def test_a_step_that_is_not_there_runs_nothing() -> None:
    """A misspelt name ends with the names that there are, before anything is installed."""
    done = subprocess.run(
        [str(ROOT / ".ci" / "nightly"), "crahs"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no step crahs; there are: heavy crash" in done.stdout


def test_every_mark_is_run_by_someone() -> None:
    """`make test` leaves out two marks; `.ci/run` adds one of them, `.ci/nightly` the other."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    make = (ROOT / "Makefile").read_text()
    assert "not heavy and not nightly" in options["addopts"]
    assert '-m "heavy and not nightly"' in make
    assert '-m "heavy or nightly"' in make
    run = (ROOT / ".ci" / "run").read_text()
    assert all(target in run for target in ("make test-heavy", "make test\n", ".ci/pythons"))
    assert "make test-nightly" in NIGHTLY
