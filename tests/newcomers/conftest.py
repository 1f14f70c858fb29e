"""An environment as a newcomer has it: an empty folder, and what a page tells to install.

The tests of this folder follow one page each, to the letter: its install line in a new
environment, its code, its commands, at its addresses' place a free port. The other tests
run in an environment with every extra, where a page that names too few goes unnoticed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import venv
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..pages import blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
INSTALL = re.compile(r"pip install '?streameval(\[[\w,]+\])?'?$", re.MULTILINE)


class Newcomer:
    """Someone with a page, a new environment and a clock.

    Parameters
    ----------
    folder : Path
        Where files and the environment are; also the home directory.
    wheels : Path
        The folder with the wheel that `pip install streameval` installs, and the server's.
    """

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.folder = folder
        self._wheels = wheels
        self._installed: str | None = None
        self._bin = folder / ".venv" / ("Scripts" if os.name == "nt" else "bin")
        # Nothing of the tests' environment: no variable, no path to the sources.
        self.environment = {
            "HOME": str(folder),
            "PATH": f"{self._bin}{os.pathsep}{os.defpath}",
            "COLUMNS": "100",
            "LANG": "C.UTF-8",
        } | {
            name: value
            for name, value in os.environ.items()
            if name.lower().endswith("_proxy") or name.startswith(("PIP_", "SSL_", "REQUESTS_"))
        }
        self._began = time.monotonic()

    def install(self, page: str) -> None:
        """Make an environment, and install what the page's install line names, no more."""
        extras = INSTALL.search(page)
        assert extras is not None, "the page has no install line"
        if self._installed == (extras[1] or ""):
            return  # by another test of this module
        assert self._installed is None
        self._installed = extras[1] or ""
        venv.create(self.folder / ".venv", with_pip=True)
        (library,) = self._wheels.glob("streameval-*.whl")
        (server,) = self._wheels.glob("streameval_server-*.whl")
        # Installed only if the page's extras require it.
        constraint = self.folder / "server.txt"
        constraint.write_text(f"streameval-server @ {server.as_uri()}\n")
        wanted = (f"{library}{extras[1] or ''}", "-c", str(constraint))
        self.run("python", "-m", "pip", "install", "-q", *wanted)

    def run(self, *command: str, standard_input: str | None = None) -> str:
        """Run a command, and return what it prints; it must succeed."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            input=standard_input,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
        return done.stdout

    def python(self, code: str) -> str:
        """Run a program, with the page's blocks with prompts as a doctest."""
        if ">>> " not in code:
            return self.run("python", "-", standard_input=code)
        (self.folder / "page.md").write_text(code)
        # `...` in a page stands for any text.
        options = ("-o", "ELLIPSIS", "-o", "NORMALIZE_WHITESPACE")
        return self.run("python", "-m", "doctest", *options, "page.md")

    @contextmanager
    def running(self, *command: str, says: str) -> Iterator[re.Match[str]]:
        """Run a command until the end of the block; yield where it prints what is awaited."""
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                assert process.stdout is not None
                printed = ""
                while (found := re.search(says, printed)) is None:
                    line = process.stdout.readline()
                    assert line, f"{' '.join(command)} ended:\n{printed}"
                    printed += line
                # Nothing reads on: what it prints now must fit a pipe.
                yield found
            finally:
                os.killpg(process.pid, signal.SIGTERM)
                process.stdout.read()

    def minutes(self) -> float:
        """Return the minutes since the newcomer began."""
        return (time.monotonic() - self._began) / 60


def program(page: str) -> str:
    """Return a page's blocks of Python that need nothing else, in their order.

    Those before the first with prompts become lines with prompts where there is one, so
    that all share their names.
    """
    codes = [
        each.code
        for each in blocks(page)
        if each.language in {"python", "pycon"} and not each.needs
    ]
    if not any(">>> " in code for code in codes):
        return "\n".join(codes)
    return "\n".join(code if ">>> " in code else f">>> exec({code!r})\n" for code in codes)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of both wheels of this tree: from `make wheel`, or built now."""
    if (ROOT / "dist").exists():
        return ROOT / "dist"
    folder = tmp_path_factory.mktemp("wheels")
    build = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder)
    subprocess.run([*build, ROOT, ROOT / "server"], check=True)
    return folder


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Newcomer:
    """Return a newcomer in an empty folder, one for the tests of a module."""
    return Newcomer(tmp_path_factory.mktemp("newcomer"), wheels)


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[[str, float], None]:
    """Return a function that prints the minutes to a first number, also without -s."""

    def minutes(what: str, value: float) -> None:
        with capsys.disabled():
            print(f"\n{what}: {value:.1f} minutes")

    return minutes
