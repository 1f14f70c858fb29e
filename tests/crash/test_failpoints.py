"""Kills at every failpoint and failing writes: each acked row counts exactly once.

`sweep.py` does the work, in hundreds of forked processes.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streameval_server._log import failpoints
from streameval_server._model.errors import StorageError

from .test_kill import SMALL_SERVER, Load

ROOT = Path(__file__).parent
SOURCES = Path(failpoints.__file__).parent.parent


def swept(*options: str) -> dict[str, int]:
    """Run the sweep; return its figures."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "sweep.py"), *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    return {
        name: int(count) for name, count in re.findall(r"([a-z]+(?: [a-z]+)*) (\d+)", done.stdout)
    }


@pytest.mark.timeout(300)
@pytest.mark.heavy
def test_killed_at_each_failpoint():
    """Each failpoint is reached and kills the process; the disk fails at each of its own."""
    found = swept("--random", "6")
    assert found["failpoints"] == found["kills"] == len(failpoints.NAMES)
    disk = [name for name in failpoints.NAMES if name.startswith("disk.")]
    # Pruning needs parts that an earlier life left.
    assert found["disk errors"] == len([name for name in disk if "prune" not in name])
    assert found["random kills"] > 0


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_killed_at_many_times_that_a_failpoint_is_reached():
    """Hundreds of kills and disk errors, and kills at random moments."""
    found = swept("--times", "6", "--random", "100", "--seed", "2")
    assert found["failpoints"] == len(failpoints.NAMES)
    assert found["kills"] > 250
    assert found["disk errors"] > 40
    assert found["random kills"] > 30


REACHED_BY_INGEST = (
    *("ack.before", "ack.reply", "apply.before", "checkpoint.copied", "checkpoint.part.after"),
    *("commit.after", "disk.append.insert", "disk.manifest.delete", "noted.refused", "push.after"),
)


def killed_server(start, disk, monkeypatch, names, seed: int) -> None:
    """Kill a whole server at each of these under load, one after the other on one log."""
    chance, load = random.Random(seed), Load()
    for name in names:
        # A start reaches some of them once or twice.
        spec = f"{name}=kill@{chance.randrange(3, 5)}"
        monkeypatch.setenv(failpoints.VARIABLE, spec)
        server = start(SMALL_SERVER, str(disk))
        load.run(server.address, 1, server.ended)
        assert server.popen.returncode == -9, spec
        monkeypatch.delenv(failpoints.VARIABLE)
        server = start(SMALL_SERVER, str(disk))
        load.check(server.address)
        # A graceful stop, so that the next start finds nothing to do and is killed under load.
        assert server.terminate() == (0, "")
    assert sum(load.acked) > 0


def test_a_server_is_killed_in_a_checkpoint(start, disk, monkeypatch):
    """With the threads and connections around the core."""
    killed_server(start, disk, monkeypatch, ("checkpoint.part.after",), seed=1)


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_a_server_is_killed_at_each(start, disk, monkeypatch):
    """At the failpoints that ingest reaches."""
    killed_server(start, disk, monkeypatch, REACHED_BY_INGEST, seed=2)


def test_every_failpoint_stands_in_the_code_once():
    """A name that is not in the code tests nothing; one that is not in NAMES is never tried."""
    named = set()
    for path in SOURCES.rglob("*.py"):
        text = path.read_text()
        named |= set(re.findall(r'failpoint\("([^"]+)"\)', text))
        for table in ("DRAFTED", "NOTED"):
            if f"failpoint({table}[" in text:
                named |= set(getattr(failpoints, table).values())
    assert named == failpoints.NAMES


@pytest.fixture
def disarmed():
    """Disarm everything after the test."""
    yield
    failpoints.arm("")


@pytest.mark.usefixtures("disarmed")
def test_what_is_armed_happens_at_its_time():
    """At the third hit and only then; the hits of all others are counted."""
    failpoints.arm("disk.append.begin=error@3")
    for _ in range(2):
        failpoints.failpoint("disk.append.begin")
        failpoints.failpoint("commit.before")
    with pytest.raises(StorageError, match=r"failpoint disk\.append\.begin"):
        failpoints.failpoint("disk.append.begin")
    failpoints.failpoint("disk.append.begin")
    assert failpoints.hits() == {"disk.append.begin": 4, "commit.before": 2}
    failpoints.arm("")
    failpoints.failpoint("no name at all is looked at")
    assert failpoints.hits() == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("commit=kill", "there is no failpoint 'commit'"),
        ("commit.before", "there is no failpoint|cannot"),
        ("commit.before=explode", "failpoint commit.before cannot 'explode'"),
        ("commit.before=error", "failpoint commit.before cannot 'error'"),
        ("commit.before=kill@0", "counts from 1, got '0'"),
        ("commit.before=kill@x", "counts from 1, got 'x'"),
    ],
)
@pytest.mark.usefixtures("disarmed")
def test_what_cannot_be_armed_is_refused(text, said):
    """With a message, and nothing is armed."""
    failpoints.arm("commit.after=count")
    with pytest.raises(ValueError, match=said):
        failpoints.arm(f"mark.before=count;{text}")
    failpoints.failpoint("mark.before")
    assert failpoints.hits() == {"mark.before": 1}


def test_a_server_is_armed_by_its_environment(start, disk, monkeypatch):
    """It logs that, is killed there, and refuses unknown names."""
    command = ("-m", "streameval_server", "--listen", "127.0.0.1:0", "--data", str(disk))
    monkeypatch.setenv(failpoints.VARIABLE, "start.replayed=kill")
    code, errors = start(*command).ended()
    assert code == -9
    assert errors.endswith("failpoints are armed: start.replayed=kill\n")
    monkeypatch.setenv(failpoints.VARIABLE, "start=kill")
    code, errors = start(*command).ended()
    assert code == 1
    expected = "streameval_server: STREAMEVAL_FAILPOINTS: there is no failpoint 'start'\n"
    assert errors == expected
    monkeypatch.delenv(failpoints.VARIABLE)
    assert start(*command).terminate() == (0, "")
