"""Tests of this release and the last one: clients and servers of both, and one log for both.

The last release's wheels are built from the repository's history; `release_client.py` runs
with it or with this tree.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streameval.client import Client

from ..release import unpack_release

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).with_name("release_client.py")
RELEASES = ("last", "this")
Environment = dict[str, str]


@pytest.fixture(scope="module")
def releases(tmp_path_factory) -> dict[str, Environment]:
    """Return the environments in which Python imports each release."""
    folder = tmp_path_factory.mktemp("release")
    (folder / "sources").mkdir()
    print("the last release:", unpack_release(folder / "sources"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]

    def run(*command: object) -> None:
        done = subprocess.run(
            [*pip, *map(str, command)], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr

    projects = (folder / "sources", folder / "sources" / "server")
    run("wheel", "--no-deps", "--wheel-dir", folder / "wheels", *projects)
    run("install", "--no-deps", "--target", folder / "site", *folder.glob("wheels/*.whl"))
    here = os.environ.get("PYTHONPATH", "")
    return {
        "this": dict(os.environ),
        "last": {**os.environ, "PYTHONPATH": f"{folder / 'site'}{os.pathsep}{here}"},
    }


class Server(subprocess.Popen):
    """A server of one release on a port; it prints one line when it serves."""

    def __init__(self, environment: Environment, data: Path, port: int) -> None:
        options = f"--listen 127.0.0.1:{port} --http off --data {data}".split()
        super().__init__(
            [sys.executable, "-m", "streameval_server", *options],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = self.stdout.readline()


@contextmanager
def serving(environment: Environment, data: Path, port: int) -> Iterator[Server]:
    """Run a server within the block, and kill it at its end."""
    server = Server(environment, data, port)
    try:
        assert str(port) in server.said, server.communicate(timeout=30)
        yield server
    finally:
        server.kill()
        server.communicate(timeout=30)


def talk(environment: Environment, port: int) -> dict[str, object]:
    """Return the answers that a release's client gets to every question."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "talk", f"127.0.0.1:{port}"],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    # NaN is not equal to itself; its text is.
    return {name: json.dumps(value) for name, value in json.loads(done.stdout).items()}


def test_the_releases_are_two(releases):
    """Each environment imports another tree."""
    code = "import streameval, streameval_server as s; print(streameval.__file__, s.__file__)"
    found = {
        subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
        for environment in releases.values()
    }
    assert len(found) == 2
    assert all(len({Path(each).parents[1] for each in line.split()}) <= 2 for line in found)


@pytest.mark.parametrize("client", RELEASES)
def test_a_client_gets_the_same_answers_from_both(releases, client, free_port, tmp_path):
    """Every verb: rows, labels, retractions, misses, merges, queries, settings."""
    answers = []
    for server in RELEASES:
        port = free_port()
        with serving(releases[server], tmp_path / server, port):
            answers.append(talk(releases[client], port))
    assert answers[0] == answers[1]
    assert json.loads(answers[1]["acked"]) > 1_000
    assert json.loads(answers[1]["all"])["labelled_share"] > 0.5


class Sender:
    """A client of one release that sends one batch at a time, as a process."""

    def __init__(self, environment: Environment, port: int, stream: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "send", f"127.0.0.1:{port}", stream],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.sent = 0

    def ask(self) -> None:
        """Let it send the next batch."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.sent += 1

    def acked(self) -> None:
        """Wait for the ack of the oldest batch without one."""
        line = self._process.stdout.readline()
        assert line, "the client has ended"

    def close(self) -> None:
        """End it, and check that it knows of no lost row."""
        out, _ = self._process.communicate(timeout=60)
        assert self._process.returncode == 0
        assert json.loads(out) == {"statistics": 4 * self.sent}

    def kill(self) -> None:
        """End it now."""
        self._process.kill()
        self._process.communicate(timeout=30)


def schema(environment: Environment) -> int:
    """Return the format number of the logs that a release writes."""
    code = "from streameval_server._log.schema import SCHEMA_VERSION; print(SCHEMA_VERSION)"
    return int(subprocess.check_output([sys.executable, "-c", code], env=environment))


def test_the_server_is_upgraded_and_rolled_back_under_its_clients(releases, free_port, tmp_path):
    """Each kill in the middle of a batch: the next release goes on, and each row counts once.

    Where this release writes another format, the last one refuses its log in one line and
    changes nothing.
    """
    port, data = free_port(), tmp_path / "data"
    rolls_back = schema(releases["last"]) == schema(releases["this"])
    senders = {client: Sender(releases[client], port, f"by/{client}") for client in RELEASES}
    try:
        for at, release in enumerate(["last", "this", "last"] if rolls_back else RELEASES):
            with serving(releases[release], data, port) as server:
                for sender in senders.values():
                    if at:
                        sender.acked()  # its batch during the kill
                    for _ in range(5):
                        sender.ask()
                        sender.acked()
                    sender.ask()
                server.kill()
        if not rolls_back:
            refused(releases["last"], data, port)
        with serving(releases["this"], data, port), Client(f"127.0.0.1:{port}") as reader:
            for client, sender in senders.items():
                sender.acked()
                sender.close()
                found = reader.stream(f"by/{client}").evaluator()
                even = (sender.sent + 1) // 2
                assert found.num_positive_ref == sender.sent + even
                assert found.num_negative_ref == 2 * sender.sent - even
    finally:
        for sender in senders.values():
            sender.kill()


def send_one(environment: Environment, port: int) -> None:
    """Send a batch as a new producer, until it is acknowledged."""
    sender = Sender(environment, port, "later")
    sender.ask()
    sender.acked()
    sender.close()


def admin(environment: Environment, *arguments: object) -> str:
    """Run an admin command of a release; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "streameval", "admin", *map(str, arguments)],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_backup_is_the_way_back(releases, free_port, tmp_path):
    """As docs/backups.md says: backup, upgrade, and the last release on a restored backup.

    Its state is that of before the upgrade, and its producers go on; the upgraded log is as it
    was, and this release serves it again.
    """
    last, this = releases["last"], releases["this"]
    data, backup, restored = (tmp_path / name for name in ("data", "backup.db", "restored"))
    port = free_port()
    with serving(last, data, port):
        talk(last, port)
        admin(last, "backup", backup, f"127.0.0.1:{port}")
        before = admin(last, "hash", f"127.0.0.1:{port}")
    with serving(this, data, port):
        send_one(this, port)
        upgraded = admin(this, "hash", "--server", f"127.0.0.1:{port}")
    assert upgraded != before
    if schema(last) != schema(this):
        refused(last, data, port)
    admin(last, "restore", backup, "--data", restored)
    assert admin(last, "hash", "--data", restored) == before
    with serving(last, restored, port):
        send_one(last, port)
    assert admin(this, "verify", "--data", data).endswith("the log is intact\n")
    assert admin(this, "hash", "--data", data) == upgraded


def content(data: Path, copy: Path) -> list[str]:
    """Return what is in a log, from a copy of its files."""
    shutil.copytree(data, copy)
    with closing(sqlite3.connect(copy / "streameval.db")) as log:
        return list(log.iterdump())


def refused(environment: Environment, data: Path, port: int) -> None:
    """Check that a release refuses a newer log in one line, and changes nothing in it."""
    before = content(data, data.with_name("before"))
    server = Server(environment, data, port)
    out, error = server.communicate(timeout=30)
    assert (server.returncode, server.said + out) == (1, "")
    assert re.fullmatch(r"streameval_server: .* has format \d+, this version knows .*\n", error)
    assert content(data, data.with_name("after")) == before
