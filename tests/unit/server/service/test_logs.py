"""The log: its two formats, one line per call, and what it never contains."""

from __future__ import annotations

import ast
import json
import logging
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

import streameval.client
import streameval_server
from streameval.v1 import ingest_pb2, ingest_pb2_grpc, query_pb2, query_pb2_grpc, types_pb2
from streameval_server import Settings, create_token
from streameval_server._grpc.call_log import CallLog
from streameval_server._grpc.query_service import QueryService
from streameval_server._security.access import CallInProgress, current_call
from streameval_server._service.logs import JsonFormatter, TextFormatter
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMATTERS = (JsonFormatter(), TextFormatter())


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Collect everything that is logged, at every level, in both formats."""
    collected: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            collected.extend(formatter.format(record) for formatter in FORMATTERS)

    handler, root = Collector(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield collected
    root.removeHandler(handler)
    root.setLevel(level)


def record(
    message: str, *args: object, error: BaseException | None = None, **fields: object
) -> Any:
    """Return a record as the server's modules make them."""
    made = logging.LogRecord(
        "streameval_server.calls", logging.WARNING, "x.py", 7, message, args, None
    )
    made.created = 1_763_640_000.25
    made.fields = fields
    if error is not None:
        made.exc_info = (type(error), error, error.__traceback__)
    return made


def test_a_line_is_one_object(lines: list[str]) -> None:
    """With the call's fields and id; values that are not JSON become text."""
    del lines
    token = current_call.set(CallInProgress("a/B", "job-7"))
    try:
        line = JsonFormatter().format(record("call %s", "OK", duration_ms=1.5, path=Path("x")))
    finally:
        current_call.reset(token)
    assert json.loads(line) == {
        "time": "2025-11-20T12:00:00.250Z",
        "level": "warning",
        "logger": "streameval_server.calls",
        "message": "call OK",
        "duration_ms": 1.5,
        "path": "x",
        "request_id": "job-7",
    }


def test_people_get_a_line_too() -> None:
    """The same fields as text; a client cannot forge a line."""
    line = TextFormatter().format(record("call %s", "a\r\nb", code="OK"))
    assert line == (
        "2025-11-20T12:00:00.250Z WARNING streameval_server.calls: call a\\r\\nb code=OK"
    )


def raised(error: Exception, before: Exception | None = None) -> Exception:
    """Return an error with a traceback, raised while another was handled."""
    error.__context__ = before
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


@pytest.mark.parametrize("formatter", FORMATTERS, ids=lambda formatter: type(formatter).__name__)
def test_tracebacks_keep_values_to_themselves(formatter: logging.Formatter) -> None:
    """Place and type without the message; messages of disk errors are kept."""
    text = formatter.format(record("x", error=raised(ValueError("order-17"), KeyError("order-17"))))
    assert "order-17" not in text
    assert "builtins.KeyError" in text
    assert "builtins.ValueError" in text
    assert f"{Path(__file__).name}:" in text
    assert "and then:" in text
    for told in (OSError("disk is full"), sqlite3.OperationalError("disk is full")):
        assert "disk is full" in formatter.format(record("x", error=raised(told)))
    loop = ValueError("a")
    loop.__cause__ = loop
    assert "builtins.ValueError" in formatter.format(record("x", error=loop))


@pytest.mark.parametrize("formatter", FORMATTERS, ids=lambda formatter: type(formatter).__name__)
def test_tokens_are_redacted_wherever_they_come_from(
    formatter: logging.Formatter, tmp_path: Path
) -> None:
    """In messages, fields and errors; the id stays, so that the entry can be found."""
    token = create_token(tmp_path / "tokens.toml", "web-1", ["query"])
    text = formatter.format(
        record("got %s", f"Bearer {token}", error=raised(OSError(token)), header=token)
    )
    assert token not in text
    assert text.count("sv1.web-1....") == 3


# --- Calls ------------------------------------------------------------------------------------


def test_calls_leave_a_line_without_what_they_were_about(
    lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At debug level, in every failure: no token, no id, no score, no request."""
    path = tmp_path / "tokens.toml"
    token = create_token(path, "web-1", ["ingest", "query"], ["fraud"])
    other = create_token(path, "job-1", ["query"])
    mine = (("authorization", f"Bearer {token}"), ("x-request-id", "job-7"))
    secret = "order-17-of-jane-doe"

    async def broken(*_: object) -> None:
        raise KeyError(secret)

    monkeypatch.setattr(QueryService, "GetCurve", broken)
    settings = Settings(listen="127.0.0.1:0", memory=True, tokens=path)
    with running_server(settings) as address, grpc.insecure_channel(address) as channel:
        ingest = ingest_pb2_grpc.IngestServiceStub(channel)
        query = query_pb2_grpc.QueryServiceStub(channel)

        def code(call: Any, request: Any, metadata: Any) -> str:
            try:
                call(request, metadata=metadata, timeout=20)
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()}"
            return "OK"

        labels = ingest_pb2.Labels(ids=[secret, secret * 9], positives=[True, True])
        predictions = ingest_pb2.Predictions(ids=[secret, secret], scores=[float("nan"), 0.5])
        cases = ingest_pb2.Cases(
            scores=[float("nan")],
            positives=[True],
            segments=[ingest_pb2.SegmentColumn(key=secret, values=[secret], codes=[0])],
        )
        for rows in ({"labels": labels}, {"predictions": predictions}, {"cases": cases}):
            one = ingest_pb2.IngestBatchRequest(batch=ingest_pb2.Batch(stream="fraud", **rows))
            assert code(ingest.IngestBatch, one, mine) != "OK"
        good = ingest_pb2.Cases(scores=[0.5], positives=[True])
        one = ingest_pb2.IngestBatchRequest(batch=ingest_pb2.Batch(stream="fraud", cases=good))
        assert code(ingest.IngestBatch, one, mine) == "OK"
        wrong = ((mine[0][0], mine[0][1] + "x"),)
        assert code(ingest.IngestBatch, one, wrong).startswith("UNAUTHENTICATED")
        theirs = (("authorization", f"Bearer {other}"),)
        assert code(ingest.IngestBatch, one, theirs).startswith("PERMISSION_DENIED")
        request = query_pb2.GetCurveRequest(selection=types_pb2.Selection(stream="fraud"))
        assert code(query.GetCurve, request, mine) == (
            "INTERNAL: the server failed unexpectedly; its log has more about request job-7"
        )
    text = "\n".join(lines)
    for hidden in (secret, token, other, token.rpartition(".")[2], "Bearer"):
        assert hidden not in text
    entries = [json.loads(line) for line in lines[::2]]
    calls = [entry for entry in entries if entry["logger"] == "streameval_server.calls"]
    assert {entry["code"] for entry in calls if "code" in entry} >= {
        "OK",
        "UNAUTHENTICATED",
        "INTERNAL",
    }
    (ok,) = (entry for entry in calls if entry.get("code") == "OK")
    assert (ok["level"], ok["method"]) == ("debug", "streameval.v1.IngestService/IngestBatch")
    assert (ok["token"], ok["request_id"]) == ("web-1", "job-7")
    assert 0 <= ok["duration_ms"] < 60_000
    (mistake,) = (entry for entry in calls if "traceback" in entry)
    assert mistake["traceback"].endswith("builtins.KeyError")
    assert mistake["request_id"] == "job-7"


class Refused:
    """A call that ended with UNAUTHENTICATED."""

    def code(self) -> grpc.StatusCode:
        """Return the status."""
        return grpc.StatusCode.UNAUTHENTICATED

    def peer(self) -> str:
        """Return the client's address."""
        return "ipv4:192.0.2.7:1"


def test_refused_calls_do_not_fill_the_log(lines: list[str]) -> None:
    """Refusals are logged once a second, with the number in between."""
    now = 0.0
    log = CallLog(lambda: now)
    token = current_call.set(CallInProgress("a/B", "id", reason="TOKEN_UNKNOWN"))
    try:
        for step in range(250):
            now = step / 100
            with log.call(Refused()):
                pass
    finally:
        current_call.reset(token)
    entries = [json.loads(line) for line in lines[::2]]
    assert [entry["more_refused"] for entry in entries] == [0, 99, 99]
    assert {entry["peer"] for entry in entries} == {"ipv4:192.0.2.7:1"}
    assert {entry["reason"] for entry in entries} == {"TOKEN_UNKNOWN"}


# --- What is not there ------------------------------------------------------------------------

_PACKAGES = [Path(package.__file__).parent for package in (streameval_server, streameval.client)]
_UNSAFE = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


@pytest.mark.parametrize(
    "module",
    [path for package in _PACKAGES for path in sorted(package.rglob("*.py"))],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
@pytest.mark.slow
def test_nothing_that_runs_what_it_reads_is_imported(module: Path) -> None:
    """Neither the server nor the client can unpickle or evaluate received data."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"eval", "exec", "__import__"}
        assert not {name.partition(".")[0] for name in names} & _UNSAFE
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is False
