"""Access control over HTTP: every route with every scope, hosts, headers, the log."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from streameval_server import Settings, create_token
from streameval_server._security.rules import rule_of
from streameval_server._web.routes import ROUTES, Answer, Route
from streameval_server._web.security_headers import HEADERS, allowed_hosts

from .conftest import Site, reason, site

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = {
    "ingest": ("ingest",),
    "query": ("query",),
    "admin": ("admin",),
    "sample": ("sample",),
    "all": ("admin", "ingest", "query", "sample"),
}
BY_ROUTE = pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return tokens by scope; `file` is the path of their file."""
    path = tmp_path_factory.mktemp("tokens") / "tokens.toml"
    made = {name: create_token(path, name, scopes) for name, scopes in NAMES.items()}
    made["fraud"] = create_token(path, "fraud", NAMES["all"], ["fraud"])
    return made | {"file": str(path)}


@pytest.fixture(scope="module")
def guarded(tokens: dict[str, str]) -> Iterator[Site]:
    """Return a server with tokens."""
    with site(Settings(listen="127.0.0.1:0", memory=True, tokens=Path(tokens["file"]))) as one:
        for name in ("fraud/v1", "spam/v1"):
            body = {"stream": {"name": name}}
            made = one.http.post("/v1/streams", json=body, headers=bearer(tokens["all"]))
            assert made.status_code == 200
        yield one


def bearer(token: str) -> dict[str, str]:
    """Return the header that carries a token."""
    return {"authorization": f"Bearer {token}"}


def asked(one: Site, route: Route, name: str = "fraud/v1", **more) -> httpx.Response:
    """Send a request to a route; of a stream of events return the beginning."""
    path = route.path.replace("{name}", name)
    if route.verb in {"POST", "PATCH"}:
        more.setdefault("json", {})
    with one.http.stream(route.verb, path, **more) as answer:
        if route.answer is not Answer.EVENTS or answer.status_code != 200:
            answer.read()
    return answer


@BY_ROUTE
def test_each_scope_opens_its_routes_and_no_others(
    guarded: Site, tokens: dict[str, str], route: Route
) -> None:
    """As over gRPC: allowed if and only if the token has the method's scope."""
    needed = rule_of(route.method).scope
    for name, scopes in NAMES.items():
        answer = asked(guarded, route, "fraud/none", headers=bearer(tokens[name]))
        if needed in scopes:
            assert answer.status_code not in {401, 403}
        else:
            assert (answer.status_code, reason(answer)) == (403, "SCOPE_MISSING")
            assert answer.json()["message"] == (
                f"this needs the scope {needed}; the token {name} has {', '.join(scopes)}"
            )


@BY_ROUTE
def test_without_a_token_nothing_is_answered(
    guarded: Site, tokens: dict[str, str], route: Route
) -> None:
    """No token, another scheme, two at once, one in the URL: each is UNAUTHENTICATED."""
    good = tokens["all"]
    for headers, said in (
        ({}, "TOKEN_MISSING"),
        ({"authorization": "Basic dXNlcjpwYXNz"}, "TOKEN_MISSING"),
        ([("authorization", f"Bearer {good}")] * 2, "TOKEN_MISSING"),
        (bearer("sv1.all"), "TOKEN_UNKNOWN"),
        (bearer(good[:-2] + ("AA" if good[-2:] != "AA" else "BB")), "TOKEN_UNKNOWN"),
    ):
        answer = asked(guarded, route, headers=headers)
        assert (answer.status_code, reason(answer)) == (401, said)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert good not in answer.text
    answer = asked(guarded, route, params={"token": good, "access_token": good})
    assert (answer.status_code, reason(answer)) == (401, "TOKEN_MISSING")


# A pair has a name of its own: test_hidden_names.py has the routes to another's.
NAMED = [route for route in ROUTES if route.path.startswith("/v1/streams/{name}")]


@pytest.mark.parametrize("route", NAMED, ids=lambda route: route.path)
@pytest.mark.parametrize("name", ["spam/v1", "fraudulent", "fraud.x"])
def test_requests_for_other_streams_are_refused(
    guarded: Site, tokens: dict[str, str], route: Route, name: str
) -> None:
    """A token for some streams covers those and the ones below them."""
    more = {}
    if route.path.endswith(":ingest"):
        more["json"] = {"batch": {"cases": {"scores": [0.5], "positives": [True]}}}
    answer = asked(guarded, route, name, headers=bearer(tokens["fraud"]), **more)
    assert answer.status_code == 403
    assert f"the token fraud is not for the stream '{name}'" in answer.json()["message"]


def test_lists_are_refused_or_cut(guarded: Site, tokens: dict[str, str]) -> None:
    """A request with one foreign stream is refused; a list has the token's streams only."""
    mine = {"headers": bearer(tokens["fraud"])}
    both = {"streams": ["fraud/v1", "spam/v1"]}
    for path in ("/v1/streams:snapshots", "/v1/streams:watch"):
        assert reason(guarded.http.get(path, params=both, **mine)) == "STREAM_FORBIDDEN"
    pair = {"a.stream": "fraud/v1", "b.stream": "spam/v1"}
    answer = guarded.http.get("/v1/streams:compare", params=pair, **mine)
    assert reason(answer) == "STREAM_FORBIDDEN"
    listed = guarded.http.get("/v1/streams", **mine).json()["streams"]
    assert [stream["name"] for stream in listed] == ["fraud/v1"]
    assert guarded.http.get("/v1/server", **mine).status_code == 403


def test_a_body_without_a_token_is_not_read(guarded: Site) -> None:
    """The refusal comes before any of the body."""
    url = guarded.http.base_url
    with socket.create_connection((url.host, url.port), 10) as raw:
        raw.sendall(
            b"POST /v1/streams HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\ncontent-length: 100\r\n\r\n"
        )
        raw.settimeout(10)
        assert raw.recv(1000).startswith(b"HTTP/1.1 401 ")


def test_probes_and_the_page_are_open(guarded: Site) -> None:
    """Probes need no token, and the page asks the user for one."""
    assert guarded.http.get("/healthz").text == "ok\n"
    assert guarded.http.get("/readyz").status_code == 200
    assert guarded.http.get("/").status_code == 200


# --- Hosts and headers ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""]
)
def test_other_hosts_are_turned_away(served: Site, host: str) -> None:
    """A foreign host name that resolves to this machine gets nothing, not even the page."""
    for path in ("/v1/streams", "/", "/healthz"):
        answer = served.http.get(path, headers={"host": host})
        assert (answer.status_code, reason(answer)) == (403, "HOST_FORBIDDEN")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9", "127.0.0.1:1", "127.9.9.9", "[::1]:5"]
)
def test_names_of_this_machine_are_answered_to(served: Site, host: str) -> None:
    """With any port: a tunnel has another one."""
    assert served.http.get("/v1/streams", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("listen", ["0.0.0.0", "::", "eval.example.org"])
def test_a_server_without_tokens_has_no_public_name(listen: str) -> None:
    """Beyond this machine (--insecure) too: a foreign page has a name of the public DNS."""
    is_allowed = allowed_hosts(listen, is_open=True)
    for name in ("10.0.0.7", "fd00::1", "localhost", "server", "se.default.svc.cluster.local"):
        assert is_allowed(name), name
    for name in ("evil.example", "10.0.0.7.evil.example", "", "evil.local.example", "evil.ex."):
        assert not is_allowed(name), name
    assert is_allowed("eval.example.org") == (listen == "eval.example.org")


def test_a_foreign_name_is_turned_away_beyond_loopback() -> None:
    """As a request; by the address of the machine it is answered."""
    settings = Settings(listen="127.0.0.1:0", http="0.0.0.0:0", memory=True, insecure=True)
    with site(settings) as one:
        port = httpx.URL(one.addresses.http).port
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as http:
            for path in ("/v1/streams", "/", "/healthz"):
                answer = http.get(path, headers={"host": f"evil.example:{port}"})
                assert (answer.status_code, reason(answer)) == (403, "HOST_FORBIDDEN")
            assert http.get("/v1/streams").status_code == 200


def test_with_tokens_any_host_may_be_asked_for(guarded: Site, tokens: dict[str, str]) -> None:
    """A proxy may pass its own host name on, and a foreign page has no token."""
    headers = bearer(tokens["query"]) | {"host": "eval.example.org"}
    assert guarded.http.get("/v1/streams", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("verb", "path"),
    [("GET", "/"), ("GET", "/v1/streams"), ("GET", "/v1/streams/no/such"), ("GET", "/nowhere"),
     ("PUT", "/v1/streams"), ("POST", "/v1/streams"), ("GET", "/healthz"), ("GET", "/static/x")],
)  # fmt: skip
def test_every_response_protects_browsers(served: Site, verb: str, path: str) -> None:
    """No inline script, no framing, no sniffing, no referrer; nothing for other origins."""
    answer = served.http.request(verb, path, headers={"origin": "https://evil.example"})
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert "server" not in answer.headers


def test_forms_and_texts_of_other_origins_change_nothing(served: Site) -> None:
    """Requests without a preflight are refused; preflights are not allowed."""
    body = b'{"stream": {"name": "forged"}}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None):
        headers = {} if kind is None else {"content-type": kind}
        answer = served.http.post("/v1/streams", content=body, headers=headers)
        assert (answer.status_code, reason(answer)) == (415, "CONTENT_TYPE")
    assert served.http.get("/v1/streams/forged").status_code == 404
    preflight = served.http.options(
        "/v1/streams/forged",
        headers={"origin": "https://evil.example", "access-control-request-method": "DELETE"},
    )
    assert preflight.status_code == 405


# --- The log ----------------------------------------------------------------------------------


def test_a_request_is_a_line_in_the_log(
    guarded: Site, tokens: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """As over gRPC: the method, the token's id, the reason; no values, no secrets."""
    caplog.set_level(logging.DEBUG, "streameval_server.calls")
    headers = bearer(tokens["query"]) | {"x-request-id": "job-7"}
    answer = guarded.http.get("/v1/streams/fraud/secret-name:snapshot", headers=headers)
    assert answer.headers["x-request-id"] == "job-7"
    (detail,) = (each for each in answer.json()["details"] if "requestId" in each)
    assert detail["requestId"] == "job-7"
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("DEBUG", "call NOT_FOUND")
    fields = record.fields
    assert fields.pop("duration_ms") > 0
    assert fields == {
        "method": "streameval.v1.QueryService/GetSnapshot",
        "code": "NOT_FOUND",
        "reason": "NO_STREAM",
        "token": "query",
    }
    caplog.clear()
    guarded.http.get("/v1/streams", headers=bearer(tokens["query"]) | {"x-request-id": "a b"})
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("DEBUG", "call OK")


def test_what_is_unexpected_is_internal_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets an id, the log a traceback; neither gets the values."""

    def broken(*_: object) -> None:
        raise KeyError("secret-value")

    with site() as one:
        monkeypatch.setattr("streameval_server._grpc.stream_service.read_page", broken)
        answer = one.http.get("/v1/streams")
        assert (answer.status_code, reason(answer)) == (500, "INTERNAL")
        assert "secret-value" not in answer.text
        assert answer.headers["x-request-id"] in answer.json()["message"]
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in errors] == [
        "streameval.v1.StreamService/ListStreams failed unexpectedly",
        "call INTERNAL",
    ]
