"""On a Zen 4 the server's process starts again without the features that make numpy's sort slow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from streameval._common import slow_sort
from streameval._common.slow_sort import VARIABLE, restart_with_fast_sort
from streameval.checks import slow_sort_features

ZEN_4 = (
    "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\nprocessor : 1\n"
)
SLEEPS = """
import os, sys
from pathlib import Path
from streameval._common import slow_sort
slow_sort._PROCESSORS = Path(sys.argv[1])
slow_sort.restart_with_fast_sort()
print(os.getpid(), os.environ.get(slow_sort.VARIABLE), *sys.argv[2:])
"""
"""A program that prints its process, the variable, and its arguments."""


def _with_numpy(monkeypatch: pytest.MonkeyPatch, version: str, found: list[str]) -> None:
    monkeypatch.setattr(np, "__version__", version)
    monkeypatch.setattr(np, "show_config", Mock(return_value={"SIMD Extensions": {"found": found}}))


def _on(processor: str, monkeypatch: pytest.MonkeyPatch, directory: Path) -> Path:
    path = directory / "cpuinfo"
    path.write_text(processor, encoding="utf-8")
    monkeypatch.setattr(slow_sort, "_PROCESSORS", path)
    return path


@pytest.mark.parametrize(
    ("processor", "numpy", "names"),
    [
        (ZEN_4, ("2.4.6", ["X86_V3", "X86_V4", "AVX512_ICL"]), "X86_V4 AVX512_ICL"),
        (ZEN_4, ("2.2.6", ["AVX2", "AVX512F", "AVX512_SKX"]), "AVX512F AVX512_SKX"),
        (ZEN_4, ("1.26.4", ["AVX2", "AVX512F", "AVX512_SKX"]), ""),
        (ZEN_4, ("2.4.6", ["X86_V3", "AVX2"]), ""),
        (ZEN_4.replace("25", "26"), ("2.4.6", ["X86_V4"]), ""),
        (ZEN_4.replace("AuthenticAMD", "GenuineIntel"), ("2.4.6", ["X86_V4"]), ""),
        ("", ("2.4.6", ["X86_V4"]), ""),
    ],
)
def test_the_features_in_use_are_named(
    processor: str,
    numpy: tuple[str, list[str]],
    names: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Those that numpy uses and that are slow on this processor alone; none before numpy 2."""
    _on(processor, monkeypatch, tmp_path)
    _with_numpy(monkeypatch, *numpy)
    assert slow_sort_features() == names


def test_a_machine_without_the_file_has_no_slow_sort(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where there is no /proc/cpuinfo nothing is changed."""
    monkeypatch.setattr(slow_sort, "_PROCESSORS", tmp_path / "none")
    assert slow_sort_features() == ""


@pytest.mark.skipif(
    np.__version__.startswith("1.")
    or not any(
        name.startswith(("X86_V4", "AVX512"))
        for name in np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    ),
    reason="numpy uses no AVX-512 here",
)
def test_a_program_starts_again_without_them(tmp_path: Path) -> None:
    """Once, in the same process, with its arguments; numpy's own names, so that it starts."""
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(ZEN_4, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    command = [sys.executable, "-W", "error", "-c", SLEEPS, str(cpuinfo), "a b", "--c"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        pid, *names, first, second, third = process.communicate()[0].split()
    assert process.returncode == 0
    assert int(pid) == process.pid
    assert names
    assert all(name.startswith(("X86_V4", "AVX512")) for name in names)
    assert (first, second, third) == ("a", "b", "--c")


@pytest.mark.parametrize("value", ["", "X86_V4"])
def test_the_variable_is_the_users(
    value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Who has set it, be it to nothing, has decided."""
    _on(ZEN_4, monkeypatch, tmp_path)
    _with_numpy(monkeypatch, "2.4.6", ["X86_V4"])
    monkeypatch.setenv(VARIABLE, value)
    monkeypatch.setattr(sys, "argv", sys.orig_argv[-1:] * 2)
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("started again"))
    restart_with_fast_sort()
    assert os.environ[VARIABLE] == value


def test_a_server_inside_another_program_does_not_restart_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program that calls the command with arguments of its own goes on as it is."""
    _on(ZEN_4, monkeypatch, tmp_path)
    _with_numpy(monkeypatch, "2.4.6", ["X86_V4"])
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(sys, "argv", ["streameval", "serve", "--memory"])
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("started again"))
    restart_with_fast_sort()
    assert VARIABLE not in os.environ


@pytest.mark.parametrize(
    "command", [("streameval_server",), ("streameval", "serve")], ids=["module", "command"]
)
@pytest.mark.slow
def test_the_server_says_nothing_then(command: tuple[str, ...], tmp_path: Path) -> None:
    """Its line `starting` has advice on no machine: where there was some, it was taken."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    options = ("--memory", "--listen", "127.0.0.1:0", "--http", "off", "--log-format", "json")
    arguments = [sys.executable, "-m", *command, *options]
    with subprocess.Popen(
        arguments, env=environment, stderr=subprocess.PIPE, cwd=tmp_path, text=True
    ) as process:
        assert process.stderr is not None
        started = json.loads(process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert started["message"] == "starting"
    assert "advice" not in started
    assert started["pid"] == process.pid
