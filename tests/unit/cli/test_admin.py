"""``streameval admin``: output and exit codes of the commands."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("typer", reason="needs the extra cli")

from streameval.client import Client
from streameval_server import Settings
from streameval_server.testing import running_server

from ...commands import outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def run(*arguments: object) -> tuple[int, str, str]:
    """Run an admin command; return its exit code and what it printed."""
    return outcome("admin", *arguments)


@contextmanager
def server(directory: Path) -> Iterator[str]:
    """Run a server on a directory; yield its address."""
    with running_server(Settings(listen="127.0.0.1:0", data=directory)) as address:
        yield address


def fill(address: str) -> int:
    """Send a batch; return its revision."""
    with Client(address) as client:
        stream = client.stream("fraud/v3")
        stream.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.7, 0.1])
        stream.log("order-17", 0.4)
        revision = client.flush()
        stream.snapshot()  # waits until the rows are visible to other clients
        return revision


def hash_of(*arguments: object) -> tuple[int, str]:
    """Return the output of ``admin hash``."""
    code, printed, _ = run("hash", *arguments)
    assert code == 0
    found = re.fullmatch(r"revision (\d+)  ([0-9a-f]{64})\n", printed)
    assert found is not None
    return int(found[1]), found[2]


def test_status(tmp_path: Path) -> None:
    """A table for people, JSON for programs; exit code 0 while the server commits."""
    with server(tmp_path) as address:
        revision = fill(address)
        code, printed, _ = run("status", "--server", address)
        assert code == 0
        lines = dict(
            re.split(r"\s{2,}", line.rstrip(), maxsplit=1)
            for line in printed.splitlines()
            if not line.startswith("! ")  # a warning: of a slow disk, on a busy machine
        )
        assert lines[address] == "serving"
        assert lines["durable revision"] == f"{revision} (acknowledged)"
        assert lines["visible revision"] == f"{revision} (0 rows behind)"
        assert lines["acknowledgements"] == "none waits"
        assert lines["checkpoint"] == "none yet"
        assert lines["waiting ids"] == "1"
        assert lines["directory"] == str(tmp_path)
        # Entries that arrive together share a commit.
        (times,) = (lines[name] for name in lines if re.fullmatch(r"last \d+ commits?", name))
        assert re.fullmatch(
            r"half within [\d.]+ ms, 99 % within [\d.]+ ms, longest [\d.]+ ms", times
        )
        code, printed, _ = run("status", "--server", address, "--json")
        assert code == 0
        found = json.loads(printed)
        assert (found["durable_revision"], found["streams"]) == (revision, 1)
        assert found["disk"]["directory"] == str(tmp_path)
        assert found["checkpoint_time"] is None
        assert found["time"] > found["start_time"]
    code, _, errors = run("status", "--server", address)
    assert code == 2
    assert errors.startswith("streameval: ")
    assert errors.count("\n") == 1


def backup_to_stdout(*source: object) -> subprocess.Popen[bytes]:
    """Start ``admin backup -``, with pipes."""
    command = [sys.executable, "-m", "streameval", "admin", "backup", "-", *map(str, source)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.slow
def test_a_backup_on_standard_output(tmp_path: Path) -> None:
    """The bytes alone are on stdout, and restore to the same state; what they are is on stderr."""
    with server(tmp_path / "data") as address:
        revision = fill(address)
        here = hash_of("--server", address)
        for number, source in enumerate((["--server", address], ["--data", tmp_path / "data"])):
            with backup_to_stdout(*source) as process:
                content, told = process.communicate(timeout=60)
            assert process.returncode == 0, told
            assert told.decode().startswith(f"revision {revision} is in standard output: ")
            assert f"{len(content):,} bytes" in told.decode()
            file = tmp_path / f"{number}.db"
            file.write_bytes(content)
            assert run("restore", file, "--data", tmp_path / f"{number}")[0] == 0
            assert hash_of("--data", tmp_path / f"{number}") == here


@pytest.mark.slow
def test_a_backup_whose_reader_ends_early_fails(tmp_path: Path) -> None:
    """With one line, so that a script does not take the rest for a backup."""
    with server(tmp_path / "data") as address:
        fill(address)
        with backup_to_stdout("--server", address) as process:
            assert process.stdout is not None
            process.stdout.close()
            assert process.stderr is not None
            told = process.stderr.read().decode()
    assert process.returncode == 2
    assert told == "streameval: what read standard output ended early: it is incomplete\n"


def test_a_server_to_a_backup_and_back(tmp_path: Path) -> None:
    """Backup and restore keep the state hash; existing files are never overwritten."""
    backup, other, data = tmp_path / "b.db", tmp_path / "c.db", tmp_path / "data"
    with server(data) as address:
        revision = fill(address)
        here = hash_of("--server", address)
        assert here[0] == revision
        code, printed, _ = run("backup", backup, "--server", address)
        assert code == 0
        assert printed.startswith(f"revision {revision} is in {backup}: ")
        code, again, _ = run("backup", other, "--data", data)
        assert (code, again.splitlines()[0].split(":")[0]) == (
            0,
            f"revision {revision} is in {other}",
        )
        code, _, errors = run("backup", backup, "--server", address)
        assert (code, "exists: move it" in errors) == (2, True)
        code, _, errors = run("compact", "--data", data)
        assert (code, "a server runs on" in errors) == (2, True)
    assert run("backup", tmp_path / "d.db", "--server", address, "--data", data)[2] == (
        "streameval: give --server or --data, not both\n"
    )
    code, printed, _ = run("restore", other, "--data", tmp_path / "new")
    assert code == 0
    new = tmp_path / "new"
    said, state = printed.splitlines()
    assert said == f"{new} is at revision {revision}: start a server with --data {new}"
    assert state == f"state {here[1]}"
    assert hash_of("--data", tmp_path / "new") == here
    code, _, errors = run("restore", other, "--data", tmp_path / "new")
    assert (code, "is not empty" in errors) == (2, True)
    with server(tmp_path / "new") as address:
        assert hash_of("--server", address) == here


def test_verify(tmp_path: Path) -> None:
    """Exit code 0 for an intact log, 1 for a damaged one, 2 for a missing one."""
    with server(tmp_path / "data") as address:
        revision = fill(address)
    code, printed, _ = run("verify", "--data", tmp_path / "data")
    assert code == 0
    assert printed.splitlines()[-1] == "the log is intact"
    code, printed, _ = run("verify", tmp_path / "data" / "streameval.db", "--json")
    found = json.loads(printed)
    assert (code, found["ok"], found["revision"]) == (0, True, revision)
    assert (revision, found["state_hash"]) == hash_of("--data", tmp_path / "data")
    with closing(sqlite3.connect(tmp_path / "data" / "streameval.db")) as connection:
        connection.execute("UPDATE log SET payload = x'00' WHERE revision = 2")
        connection.commit()
    code, printed, _ = run("verify", "--data", tmp_path / "data")
    assert code == 1
    assert "DAMAGED  log         log row 2 is not what was written" in printed
    with closing(sqlite3.connect(tmp_path / "data" / "streameval.db")) as connection:
        connection.execute("DELETE FROM log WHERE revision >= 2")
        connection.commit()
    code, printed, _ = run("verify", "--data", tmp_path / "data")
    assert code == 1
    assert f"DAMAGED  acked       revisions 2 to {revision} were acknowledged" in printed
    assert printed.splitlines()[-1] == "DAMAGED, see above"
    for command in (("backup", tmp_path / "b.db"), ("hash",), ("replay", "fraud/v3")):
        code, printed, errors = run(*command, "--data", tmp_path / "data")
        assert (code, printed) == (2, ""), command
        assert f"revisions 2 to {revision} were acknowledged and are lost" in errors
    assert not (tmp_path / "b.db").exists()
    assert run("hash", "--data", tmp_path / "data", "--until", 1)[0] == 0
    code, _, errors = run("verify", "--data", tmp_path / "none")
    assert (code, errors.startswith("streameval: there is no log at")) == (2, True)


def test_a_stream_moves(tmp_path: Path) -> None:
    """Exported from one server, imported into another, under its name or a new one."""
    file = tmp_path / "fraud.sve"
    with server(tmp_path / "a") as here, server(tmp_path / "b") as there:
        fill(here)
        code, printed, _ = run("export", "--server", here, "fraud/v3", file)
        assert code == 0
        assert re.match(rf"fraud/v3 at revision \d+ is in {re.escape(str(file))}: ", printed)
        assert run("import", "--server", there, file)[:2] == (
            0,
            "fraud/v3 is durable at revision 1\n",
        )
        assert run("import", "--server", there, file, "--as", "x/1")[:2] == (
            0,
            "x/1 is durable at revision 2\n",
        )
        code, _, errors = run("import", "--server", there, file)
        remedy = f"run: streameval streams list --server {there}"
        assert (code, errors) == (2, f"streameval: there is a stream fraud/v3 already; {remedy}\n")
        with Client(here) as first, Client(there) as second:
            moved = second.stream("x/1").snapshot().to_dict()
            stayed = first.stream("fraud/v3").snapshot().to_dict()
        assert moved | {"revision": 0} == stayed | {"revision": 0}
        code, _, errors = run("export", "--server", here, "missing", tmp_path / "n")
        assert code == 2
        assert errors.startswith("streameval: there is no stream missing: ListStreams (streameval")
        assert not (tmp_path / "n").exists()


def test_compact(tmp_path: Path) -> None:
    """By the server, and on its directory; earlier revisions cannot be replayed afterwards."""
    with server(tmp_path) as address:
        revision = fill(address)
        here = hash_of("--server", address)
        code, printed, _ = run("compact", "--server", address)
        assert code == 0
        assert printed == (
            f"the log begins at revision {revision}, {revision - 1} rows were dropped; "
            "their space is reused\n"
        )
        assert hash_of("--server", address) == here
    code, _, errors = run("hash", "--data", tmp_path, "--until", revision - 1)
    assert (code, "is gone. Use a backup" in errors) == (2, True)
    code, printed, _ = run("compact", "--data", tmp_path)
    assert code == 0
    assert printed.startswith(f"the log begins at revision {revision}, 0 rows were dropped; ")
    assert hash_of("--data", tmp_path) == here
    code, _, errors = run("hash", "--server", address, "--until", 1)
    assert (code, "a server has only the newest hash" in errors) == (2, True)


def test_the_directory_and_the_limits_are_the_servers(tmp_path: Path) -> None:
    """Both come from the settings that serve uses."""
    with server(tmp_path / "data") as address:
        fill(address)
    config = tmp_path / "streameval.toml"
    config.write_text(f"data = '{tmp_path / 'data'}'\n")
    assert hash_of("--config", config) == hash_of("--data", tmp_path / "data")
    config.write_text("memory = true\n")
    assert run("verify", "--config", config)[0] == 2


def test_a_clock_in_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is printed with both times; `clock accept` ends it, and `repair` mends its log."""
    ahead_ns = 0
    actual = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: actual() + ahead_ns)
    with server(tmp_path / "data") as address:
        fill(address)
        assert "IN DOUBT" not in run("status", "--server", address)[1]
        ahead_ns = 365 * 86_400 * 10**9
        printed = run("status", "--server", address)[1]
        assert "IN DOUBT; the server's time is" in printed
        assert "365 d ahead of the server's time" in " ".join(printed.split())
        code, printed, _ = run("clock", "accept", "--server", address)
        assert code == 0
        assert printed.startswith("the server believes its clock: ")
        assert "IN DOUBT" not in run("status", "--server", address)[1]
        fill(address)
    ahead_ns = 0
    code, printed, _ = run("repair", tmp_path / "data", "--to", tmp_path / "mended")
    assert code == 0, printed
    assert "were moved back by up to 365 d" in " ".join(printed.split())
    assert run("verify", "--data", tmp_path / "mended")[0] == 0
    code, _, problem = run("repair", tmp_path / "mended", "--to", tmp_path / "again")
    assert code != 0
    assert "no row of the log is later" in " ".join(problem.split())
