"""Annotations of a stream's time: by the client, HTTP and the command line, after a restart."""

from __future__ import annotations

import json
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from streameval.client import AccessError, Client, InvalidRequestError, NotFoundError
from streameval_server import Settings, create_token
from streameval_server.testing import running_service

from ..commands import app, run

if TYPE_CHECKING:
    from pathlib import Path

STREAM = "fraud/v1"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_a_mark_that_is_still_to_come_is_said_so() -> None:
    """A wrong year would be on no chart; the command deletes the mark again."""
    settings = Settings(listen="127.0.0.1:0", memory=True)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        client.create_stream(STREAM)
        server = ("--server", addresses.grpc)
        made = run("marks", "add", STREAM, "v4", "--at", "2101-01-01", *server).stdout
        assert "note: this time is still to come" in made
        remove = made.strip().rpartition("run: streameval ")[2]
        assert "note" not in run("marks", "add", STREAM, "v4", *server).stdout
        assert run(*remove.split()).exit_code == 0
        assert [mark.number for mark in client.list_marks(STREAM)] == [2]


def test_marks_are_made_listed_deleted_and_survive(tmp_path: Path) -> None:
    """In order of their times; a call can be repeated; numbers are not used again."""
    settings = Settings(listen="127.0.0.1:0", data=tmp_path / "data")
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        client.create_stream(STREAM)
        client.create_stream("other/v1")
        late = client.create_mark(STREAM, "v4 deployed", at=NOON + HOUR)
        early = client.create_mark(STREAM, "new features", at=NOON)
        assert client.create_mark(STREAM, "new features", at=NOON) == early
        assert (late.number, early.number) == (1, 2)
        assert (early.time, early.text) == (NOON, "new features")
        assert client.list_marks(STREAM) == [early, late]
        assert client.list_marks(STREAM, start=NOON + HOUR) == [late]
        assert client.list_marks(STREAM, end=NOON + HOUR) == [early]
        assert client.list_marks("other/v1") == []
        before = datetime.now(UTC)
        now = client.create_mark(STREAM, "now")
        assert before - timedelta(seconds=2) <= now.time <= datetime.now(UTC)
        client.delete_mark(STREAM, late.number)
        with pytest.raises(NotFoundError, match="no such mark: there is none with the number 1"):
            client.delete_mark(STREAM, late.number)
        for text in ("", "a\nb", "x" * 201):
            with pytest.raises(InvalidRequestError, match="text must"):
                client.create_mark(STREAM, text)
        with pytest.raises(NotFoundError):
            client.create_mark("no/such", "text")
        with pytest.raises(NotFoundError):
            client.list_marks("no/such")
        assert client.list_marks(STREAM) == [early, now]
        # Nothing is counted by them.
        assert client.stream(STREAM).snapshot().num_cases == 0
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        assert client.list_marks(STREAM) == [early, now]
        assert client.create_mark(STREAM, "after", at=NOON + 2 * HOUR).number == 4
        client.delete_stream(STREAM)
        client.create_stream(STREAM)
        assert client.list_marks(STREAM) == []


def test_marks_over_http() -> None:
    """As the page makes, reads and deletes them."""
    settings = Settings(listen="127.0.0.1:0", memory=True)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        client.create_stream(STREAM)

        def ask(verb: str, path: str, body: dict | None = None) -> dict:
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(
                f"{addresses.http}/v1/streams/{STREAM}:{path}",
                data,
                {"content-type": "application/json"},
                method=verb,
            )
            with urllib.request.urlopen(request, timeout=20) as answer:
                return json.load(answer)

        made = ask("POST", "marks", {"text": "v4 deployed", "time": "2026-11-20T12:00:00Z"})
        assert made["mark"]["number"] == 1
        (listed,) = ask("GET", "marks")["marks"]
        assert listed == made["mark"]
        assert client.list_marks(STREAM)[0].time == NOON
        ask("DELETE", "marks?number=1")
        assert client.list_marks(STREAM) == []


def test_marks_by_the_command_line() -> None:
    """Add, list and delete, for people and as JSON."""
    settings = Settings(listen="127.0.0.1:0", memory=True)
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        client.create_stream(STREAM)

        def run(*words: str) -> str:
            verb, *rest = words
            result = CliRunner().invoke(
                app, ["marks", verb, "--server", addresses.grpc, STREAM, *rest]
            )
            assert result.exit_code == 0, result.output
            return result.output

        assert run("list") == f"{STREAM} has no marks\n"
        shown = run("add", "v4 deployed", "--at", "2026-11-20T12:00:00Z")
        assert shown == "1  2026-11-20 12:00:00  v4 deployed\n"
        made = json.loads(run("add", "v5 deployed", "--json"))
        assert (made["number"], made["text"]) == (2, "v5 deployed")
        assert [each["number"] for each in json.loads(run("list", "--json"))] == [1, 2]
        assert run("list", "--to", "2026-11-21") == shown
        assert run("delete", "1") == f"mark 1 of {STREAM} is deleted\n"
        assert [each.number for each in client.list_marks(STREAM)] == [2]


def test_marks_need_the_scope_admin(tmp_path: Path) -> None:
    """Those who query read them, and change none."""
    path = tmp_path / "tokens.toml"
    admin = create_token(path, "admin", ("query", "admin"))
    reader = create_token(path, "reader", ("query",))
    settings = Settings(listen="127.0.0.1:0", memory=True, tokens=path)
    with running_service(settings) as addresses:
        with Client(addresses.grpc, token=admin) as client:
            client.create_stream(STREAM)
            made = client.create_mark(STREAM, "v4 deployed")
        with Client(addresses.grpc, token=reader) as client:
            assert client.list_marks(STREAM) == [made]
            with pytest.raises(AccessError):
                client.create_mark(STREAM, "v5 deployed")
            with pytest.raises(AccessError):
                client.delete_mark(STREAM, made.number)


def test_marks_go_with_an_export(tmp_path: Path) -> None:
    """An exported stream has its marks, and goes on with their numbers."""
    settings = Settings(listen="127.0.0.1:0", data=tmp_path / "data")
    with running_service(settings) as addresses, Client(addresses.grpc) as client:
        client.create_stream(STREAM)
        marks = [client.create_mark(STREAM, text, at=NOON) for text in ("one", "two")]
        runner = CliRunner()
        file = str(tmp_path / "stream.bin")
        for words in (
            ["export", "--server", addresses.grpc, STREAM, file],
            ["import", "--server", addresses.grpc, file, "--as", "copy/v1"],
        ):
            result = runner.invoke(app, ["admin", *words])
            assert result.exit_code == 0, result.output
        assert client.list_marks("copy/v1") == marks
        assert client.create_mark("copy/v1", "three", at=NOON).number == 3
