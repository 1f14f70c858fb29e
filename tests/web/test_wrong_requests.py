"""Wrong requests: each error names the problem, the field and the value; none is INTERNAL."""

from __future__ import annotations

import json
import select
import socket
import time
from typing import TYPE_CHECKING

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval_server import Limits, Settings
from streameval_server._model.errors import Code
from streameval_server._web import head_timeout, request_bodies
from streameval_server._web.error_responses import HTTP_STATUS
from streameval_server._web.metrics_script import metrics_module
from streameval_server._web.transcoding import _object

from .conftest import Site, reason, site

if TYPE_CHECKING:
    from collections.abc import Iterator

SNAPSHOT = "/v1/streams/a:snapshot"
INGEST = "/v1/streams/a:ingest"


@pytest.mark.parametrize(
    ("path", "parameters", "message"),
    [
        (SNAPSHOT, {"lasst": "60s"},
         "there is no parameter 'lasst': GetSnapshotRequest has selection, metrics, level, "),
        (SNAPSHOT, {"selection": "{}"}, "selection is not one value: name one of its fields"),
        (SNAPSHOT, {"level.high": "1"}, "level has no fields of its own"),
        (SNAPSHOT, {"selection.last.seconds": "1"}, "last has no fields of its own"),
        (SNAPSHOT, {"level": ["0.9", "0.8"]}, "level is given twice"),
        (SNAPSHOT, {"anytime": "yes"}, "anytime must be true or false, got 'yes'"),
        (SNAPSHOT, {"selection.stream": "b"},
         "selection.stream is 'b', but the URL's path says 'a'"),
        (SNAPSHOT, {"metrics": "auc"}, "no figure is called 'auc': choose from auc_roc, "),
        (SNAPSHOT, {"selection.last": "1 h"}, "the query is not a GetSnapshotRequest in JSON: "),
        (SNAPSHOT, {"level": "high"}, "the query is not a GetSnapshotRequest in JSON: "),
        ("/v1/streams/a:curve", {"kind": "HULL"}, "the query is not a GetCurveRequest in JSON: "),
        ("/v1/streams/a:curve", {"maxPoints": "1_0"},
         "the query is not a GetCurveRequest in JSON: maxPoints: '1_0' is no number in JSON"),
        ("/v1/streams/a:curve", {"maxPoints": "-1"},
         "the query is not a GetCurveRequest in JSON: "),
        (SNAPSHOT, {"selection.last": "60s", "selection.lastCases": "5"},
         "the query is not a GetSnapshotRequest in JSON: "),
        ("/v1/streams/a b", {}, "stream name must be "),
        ("/v1/streams/a:nothing", {}, "stream name must be "),
        ("/v1/streams/b/%2e%2e/a:snapshot", {}, "stream name must have no segment '.' or '..', "),
        ("/v1/streams/%2E/a:state", {}, "stream name must have no segment '.' or '..', "),
    ],
)  # fmt: skip
def test_questions_that_are_wrong(served: Site, path: str, parameters: dict, message: str) -> None:
    """INVALID_ARGUMENT, with the parameter and its value."""
    answer = served.http.get(path, params=parameters)
    assert answer.status_code == 400
    assert answer.json()["code"] == Code.INVALID_ARGUMENT
    assert answer.json()["message"].startswith(message)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "MALFORMED_MESSAGE"),
        (b"[]", "MALFORMED_MESSAGE"),
        (b"null", "MALFORMED_MESSAGE"),
        (b"\xff\xfe", "MALFORMED_MESSAGE"),
        (b'{"batch": {"casess": {}}}', "MALFORMED_MESSAGE"),
        (b'{"batch": {"cases": {"scores": ["a"]}}}', "MALFORMED_MESSAGE"),
        (b'{"batch": {"cases": {"scores": [0.5], "scores": [0.6]}}}', "MALFORMED_MESSAGE"),
        (b'{"batch": {"cases": {"scores": ["1_0"]}}}', "MALFORMED_MESSAGE"),
        (b'{"batch": {"cases": {"scores": [" 1"]}}}', "MALFORMED_MESSAGE"),
        (b'{"batch": {"cases": {"counts": ["\\u0661"]}}}', "MALFORMED_MESSAGE"),
        (b'{"batch": {"cases": {"counts": [-1]}}}', "MALFORMED_MESSAGE"),
        (b'{"batch": {"cases": {"counts": [1e30]}}}', "MALFORMED_MESSAGE"),
        (b'{"batch": {"cases": {"counts": [' + b"9" * 5000 + b"]}}}", "MALFORMED_MESSAGE"),
        (b'{"batch": {"cases": {"scoresF64le": "!"}}}', "MALFORMED_MESSAGE"),
        (b'{"batch": {"labels": {"ids": ["\\ud800"]}}}', "MALFORMED_MESSAGE"),
        (b'{"batch": ' * 2000 + b"}" * 2000, "MALFORMED_MESSAGE"),
        (b"[" * 200_000, "MALFORMED_MESSAGE"),
        (b'{"batch": {"cases": {"scores": [NaN], "positives": [true]}}}', "MALFORMED_MESSAGE"),
        (b'{"batch": {"cases": {"scores": ["NaN"], "positives": [true]}}}', "BATCH_REFUSED"),
        (b'{"batch": {"cases": {"scores": ["Infinity"], "positives": [true]}}}', "BATCH_REFUSED"),
        (b'{"batch": {"cases": {"scores": [0.5]}}}', "BATCH_REFUSED"),
        (b"", "MALFORMED_MESSAGE"),
    ],
)
def test_bodies_that_are_wrong(served: Site, body: bytes, said: str) -> None:
    """Nothing is counted; a bad value is refused as over gRPC, with its row."""
    headers = {"content-type": "application/json"}
    answer = served.http.post("/v1/streams/wrong:ingest", content=body, headers=headers)
    assert (answer.status_code, reason(answer)) == (400, said)
    assert len(answer.content) < 4000
    assert served.http.get("/v1/streams/wrong").status_code == 404


class Name(str):
    """A key that counts its lookups."""

    __slots__ = ()
    looked = 0

    def __hash__(self) -> int:
        Name.looked += 1
        return super().__hash__()


def test_the_first_key_that_is_repeated_is_named() -> None:
    """After a few lookups of each key, however many precede it."""
    Name.looked = 0
    names = [Name(number) for number in range(2000)]
    with pytest.raises(ValueError, match=r"^'1500' is there twice$"):
        _object([(name, 0) for name in (*names, names[1500], names[3])])
    assert Name.looked < 4 * len(names)


def test_a_refusal_names_the_row(served: Site) -> None:
    """BadRequest's field, as over gRPC."""
    cases = {"scores": [0.5, "NaN"], "positives": [True, False]}
    answer = served.http.post(INGEST, json={"batch": {"cases": cases}}).json()
    assert answer["message"] == "score must be finite, got nan at index 1"
    (request,) = (each for each in answer["details"] if "fieldViolations" in each)
    assert request["fieldViolations"][0]["field"] == "cases.scores[1]"


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["batch", "cases", "labels", "ids", "scores", "positives", "stream", "counts",
                 "eventTimesUs", "segments", "key", "values", "codes", "misses", "sequence"]
            ) | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)  # fmt: skip


@settings(max_examples=150)
@given(body=JSONS)
def test_any_json_is_taken_or_refused(served: Site, body: object) -> None:
    """Never an INTERNAL error."""
    text = json.dumps({"batch": body})
    headers = {"content-type": "application/json"}
    answer = served.http.post("/v1/streams/any:ingest", content=text, headers=headers)
    assert answer.status_code in {200, 400}
    answer = served.http.post("/v1/streams", content=json.dumps(body), headers=headers)
    assert answer.status_code in {200, 400}


@settings(max_examples=150)
@given(
    name=st.sampled_from(["snapshot", "curve", "histogram", "decision", "windows", "rank"]),
    parameters=st.dictionaries(
        st.sampled_from(
            ["selection.last", "selection.lastCases", "selection.halfLife", "level", "kind",
             "selection.between.startTime", "selection.between.endTime", "metrics", "bins",
             "threshold", "precision", "step", "key", "lower", "pageToken", "selection.matureAfter"]
        ),
        st.text(max_size=8) | st.sampled_from(["60s", "0.5", "1e400", "-1", "NaN", "5", "-5s",
                                               "2026-11-21T00:00:00Z", "auc_pr", "1"]),
        max_size=4,
    ),
)  # fmt: skip
def test_any_question_is_answered_or_refused(
    served: Site, name: str, parameters: dict[str, str]
) -> None:
    """Never an INTERNAL error."""
    served.show("any/q", "+-")
    answer = served.http.get(f"/v1/streams/any/q:{name}", params=parameters)
    assert answer.status_code in {200, 400}


def test_paths_and_verbs_that_are_not_there(served: Site) -> None:
    """Refused with the same kind of error."""
    for path in ("/v1", "/v2/streams", "/v1/streams/", "/static", "/favicon.ico", "/index.html"):
        assert served.http.get(path).status_code in {400, 404}
    answer = served.http.put("/v1/streams/a", json={})
    assert (answer.status_code, reason(answer)) == (405, "NO_ROUTE")
    assert "GET" in answer.headers["allow"]


def test_a_change_takes_no_parameters(served: Site) -> None:
    """The request is in the body."""
    answer = served.http.post(INGEST, params={"batch.sequence": 1}, json={})
    assert (answer.status_code, reason(answer)) == (400, "MALFORMED_MESSAGE")


def test_every_code_has_a_status() -> None:
    """HTTP has a status for every code of the core."""
    assert HTTP_STATUS.keys() == set(Code)


# --- Limits -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> Iterator[Site]:
    """Return a server with small limits."""
    limits = Limits(max_batch_bytes=4096, max_batch_rows=50, max_queue_bytes=20_000)
    with site(Settings(listen="127.0.0.1:0", memory=True, limits=limits)) as one:
        yield one


def json_of(rows: int) -> bytes:
    """Return a batch with a number of cases."""
    cases = {"scores": [0.5] * rows, "positives": [True] * rows}
    return json.dumps({"batch": {"cases": cases}}).encode()


def test_a_body_may_be_twice_a_batch(small: Site) -> None:
    """A longer one is refused before it is read, with or without a content length."""
    headers = {"content-type": "application/json"}
    most = b" " * (8192 - len(json_of(1))) + json_of(1)
    assert small.http.post(INGEST, content=most, headers=headers).status_code == 200
    too_long = most + b" "
    for content in (too_long, iter([too_long])):  # the second comes in chunks
        answer = small.http.post(INGEST, content=content, headers=headers)
        assert (answer.status_code, reason(answer)) == (413, "BODY_TOO_LONG")
        assert answer.json()["message"] == (
            "the body must be at most 8192 bytes: send smaller batches"
        )
    answer = small.http.post(INGEST, content=json_of(51), headers=headers)
    assert (answer.status_code, reason(answer)) == (429, "BATCH_REFUSED")
    assert "retry-after" not in answer.headers


def test_a_body_that_does_not_come(small: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It times out; one that ends early is refused."""
    monkeypatch.setattr(request_bodies, "MAX_BODY_S", 0.2)
    url = small.http.base_url
    head = (
        b"POST /v1/streams HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/json\r\ncontent-length: 100\r\n\r\n{"
    )
    with socket.create_connection((url.host, url.port), 10) as raw:
        raw.sendall(head)
        raw.settimeout(10)
        answer = b"".join(iter(lambda: raw.recv(4096), b""))
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"BODY_SLOW" in answer
    with socket.create_connection((url.host, url.port), 10) as raw:
        raw.sendall(head)
    assert small.http.get("/healthz").status_code == 200


@pytest.mark.parametrize("said", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nhost: l"])
def test_a_head_that_does_not_come(
    small: Site, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    """A connection without a request is closed, whether it is new or was used before."""
    monkeypatch.setattr(head_timeout, "MAX_HEAD_S", 0.2)
    url = small.http.base_url
    whole = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with socket.create_connection((url.host, url.port), 10) as raw:
        raw.settimeout(10)
        raw.sendall(said)
        assert raw.recv(4096) == b""
    with socket.create_connection((url.host, url.port), 10) as raw:
        raw.settimeout(10)
        raw.sendall(whole)
        answer = b""
        while not answer.endswith(b"ok\n"):
            answer += raw.recv(4096)
        raw.sendall(said)
        assert raw.recv(4096) == b""


def test_a_slow_answer_is_waited_for(small: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout is for the head, not for the answer."""
    monkeypatch.setattr(head_timeout, "MAX_HEAD_S", 0.1)
    cases = {"scores": [0.5], "positives": [True]}
    sent = small.http.post("/v1/streams/slow:ingest", json={"batch": {"cases": cases}})
    wait = {"selection.minRevision": sent.json()["revision"]}
    with small.http.stream("GET", "/v1/streams/slow:watch", params=wait) as answer:
        lines = answer.iter_lines()
        next(lines)
        begun = time.monotonic()
        while time.monotonic() - begun < 0.4:
            small.http.post("/v1/streams/slow:ingest", json={"batch": {"cases": cases}})
        assert any(line.startswith("data") for line in lines)


def test_too_many_bodies_at_once(small: Site) -> None:
    """The bytes being read are bounded; a refused client is told when to retry."""
    url = small.http.base_url
    head = (
        b"POST /v1/streams HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/json\r\ncontent-length: 8000\r\n\r\n"
    )
    held = [socket.create_connection((url.host, url.port), 10) for _ in range(3)]
    try:
        for raw in held:
            raw.sendall(head + b" " * 7999)
        # All three are read when one of them, whichever it is, exceeds the limit.
        (refused,), _, _ = select.select(held, [], [], 10)
        assert refused.recv(4096).startswith(b"HTTP/1.1 429 ")
        filler = b" " * 7000 + json_of(1)
        headers = {"content-type": "application/json"}

        def full() -> httpx.Response:
            return small.http.post(INGEST, content=filler, headers=headers)

        answer = full()
        assert (answer.status_code, reason(answer)) == (429, "BODIES_FULL")
        assert answer.headers["retry-after"] == "1"
    finally:
        for raw in held:
            raw.close()
    for _ in range(200):
        if full().status_code == 200:
            break
    assert full().status_code == 200


# --- Files ------------------------------------------------------------------------------------


def test_files_are_known_by_their_tags(served: Site) -> None:
    """Sent plain or compressed, and not again; with the types that browsers require."""
    page = served.http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["cache-control"] == "no-cache"
    tag = page.headers["etag"]
    again = served.http.get("/", headers={"if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")
    plain = served.http.get("/", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert page.headers["content-encoding"] == "gzip"
    assert plain.content == page.content
    script = served.http.get("/static/app.js")
    assert script.headers["content-type"].startswith("text/javascript")
    table = served.http.get("/static/metrics.js")
    assert table.headers["content-type"].startswith("text/javascript")
    assert table.content == metrics_module()
    again = served.http.get("/static/metrics.js", headers={"if-none-match": table.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    ["/static/../files.py", "/static/%2e%2e/files.py", "/static/..%2ffiles.py",
     "/static//etc/passwd", "/static/", "/static/vendor", "/static/%00"],
)  # fmt: skip
def test_nothing_else_is_a_file(served: Site, path: str) -> None:
    """No path leads out of the directory."""
    url = served.http.base_url
    with socket.create_connection((url.host, url.port), 10) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        raw.settimeout(10)
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404 ")
