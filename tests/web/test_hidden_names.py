"""A token of some streams learns no other stream's name, from no call, route, error or metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest

from streameval.v1 import mark_pb2, pair_pb2, query_pb2, stream_pb2, types_pb2
from streameval_server import Settings, create_token
from streameval_server._security.rules import RULES
from streameval_server._web.routes import ROUTES

from ..fuzz import exemplars
from .conftest import Site, site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HIDDEN = "concealed/v9"
OWN = ("s", "t")
ALL = ("admin", "ingest", "query", "sample")
Header = dict[str, str]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Header]]:
    """Return a server of two tenants whose streams are paired, and the header of one of them."""
    path: Path = tmp_path_factory.mktemp("tokens") / "tokens.toml"
    everything = create_token(path, "operator", ALL)
    some = create_token(path, "tenant", ALL, OWN)
    settings = Settings(listen="127.0.0.1:0", memory=True, tokens=path)
    with site(settings, headers={"authorization": f"Bearer {everything}"}) as one:
        for name in (*exemplars.STREAMS, HIDDEN):
            for request in (
                stream_pb2.CreateStreamRequest(stream=exemplars.stream(name)),
                mark_pb2.CreateMarkRequest(stream=name, text=f"{name} deployed"),
            ):
                method = type(request).__name__.removesuffix("Request")
                one.called(f"streameval.v1.StreamService/{method}", request, everything)
            one.show(name, "+-" * 60)
        for name in exemplars.STREAMS:
            made = pair_pb2.CreatePairRequest(pair=pair_pb2.Pair(a=HIDDEN, b=name))
            made.pair_id = exemplars.PAIR if name == "s" else ""
            one.called("streameval.v1.PairService/CreatePair", made, everything)
        yield one, {"authorization": f"Bearer {some}"}


def answered(one: Site, method: str, frames: list[bytes], header: Header) -> bytes:
    """Return all that a call says: its answers, or its first one and its error with details."""
    call = one.channel.stream_stream(f"/{method}")(
        iter(frames), metadata=tuple(header.items()), timeout=20
    )
    said = b""
    try:
        for answer in call:
            said += answer
            if "/Watch" in method:
                call.cancel()
                return said
    except grpc.RpcError as error:
        trailing = b"".join(
            value if isinstance(value, bytes) else value.encode()
            for _, value in call.trailing_metadata()
        )
        return said + error.details().encode() + trailing
    return said


@pytest.mark.parametrize("method", sorted(RULES))
def test_no_call_names_it(shared: tuple[Site, Header], method: str) -> None:
    """Requests about the tenant's own streams, about all, and about others by guessing."""
    one, header = shared
    make = exemplars._MAKERS.get(method.replace("/", "."))
    requests: list[Any] = [] if make is None else list(make())
    for request in [*requests, None]:
        many = request if isinstance(request, list) else [request]
        frames = [b"" if each is None else each.SerializeToString() for each in many]
        assert HIDDEN.encode() not in answered(one, method, frames, header)


@pytest.mark.parametrize("name", exemplars.STREAMS)
def test_a_stream_in_a_foreign_pair_is_not_deleted(shared: tuple[Site, Header], name: str) -> None:
    """The tenant learns that there is a pair, and what kind of token can delete it."""
    one, header = shared
    answer = one.http.delete(f"/v1/streams/{name}", headers=header)
    assert answer.status_code == 400
    assert answer.json()["message"] == (
        f"stream {name} is in 1 pair: delete the pair first with DeletePair (streameval pairs "
        "delete), with a token that covers both of its streams"
    )
    operators = one.http.delete(f"/v1/streams/{name}").json()["message"]
    pair = exemplars.PAIR if name == "s" else f"{HIDDEN}-vs-{name}"
    assert operators == (
        f"stream {name} is in 1 pair ({pair}): delete the pair first with DeletePair (streameval "
        "pairs delete)"
    )


OF_A_PAIR = [
    method
    for method in sorted(RULES)
    if method.rpartition("/")[2] in {"GetPair", "DeletePair", "GetPairComparison"}
    or method.endswith(("/ListPairComparisons", "/ExportPair"))
]


SAME_ID = {"x-request-id": "same"}
SPAN = (("start", 0), ("end", 1))


@pytest.mark.parametrize("method", OF_A_PAIR)
def test_a_foreign_pair_is_refused_as_one_that_does_not_exist(
    shared: tuple[Site, Header], method: str
) -> None:
    """Who covers one stream of two gets the same bytes for its name as for any other name."""
    one, header = shared
    requests = list(exemplars._MAKERS[method.replace("/", ".")]())
    if method.endswith("/DeletePair"):
        requests.append(pair_pb2.DeletePairRequest(request_id="x" * 65))
    for request in requests:
        said = []
        for name in (exemplars.PAIR, "none"):
            request.name = name
            answer = answered(one, method, [request.SerializeToString()], header | SAME_ID)
            said.append(answer.replace(name.encode(), b"NAME"))
        assert said[0] == said[1]
        assert b"there is no pair NAME" in said[0] or b"request_id" in said[0]


@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if route.path.startswith("/v1/pairs/")],
    ids=lambda route: f"{route.verb} {route.path}",
)
def test_a_route_to_a_foreign_pair_answers_as_to_none(
    shared: tuple[Site, Header], route: Any
) -> None:
    """The same over HTTP; for the operator the pair is still there afterwards."""
    one, header = shared
    span = {f"selection.between.{end}Time": f"2026-11-25T1{hour}:00:00Z" for end, hour in SPAN}
    parameters = {"step": "900s", **span} if route.path.endswith(":windows") else {}
    said = []
    for name in (exemplars.PAIR, "none"):
        path = route.path.replace("{name}", name)
        answer = one.http.request(route.verb, path, params=parameters, headers=header | SAME_ID)
        said.append((answer.status_code, answer.text.replace(name, "NAME")))
    assert said[0] == said[1]
    assert said[0][0] == 404
    assert "there is no pair NAME" in said[0][1]
    assert one.http.get(f"/v1/pairs/{exemplars.PAIR}").json()["pair"]["b"] == "s"


def test_a_name_that_a_foreign_pair_has_is_refused_without_its_streams(
    shared: tuple[Site, Header],
) -> None:
    """The one thing that a tenant learns of it: that its name is taken."""
    one, header = shared
    body = {"pair": {"a": "s", "b": "t/1"}, "pairId": exemplars.PAIR}
    answer = one.http.post("/v1/pairs", json=body, headers=header)
    assert (answer.status_code, answer.json()["message"]) == (
        409,
        "there is another pair named next already: give this one another name (pair_id, or --name)",
    )


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.verb} {route.path}")
def test_no_route_names_it(shared: tuple[Site, Header], route: Any) -> None:
    """With the tenant's own stream, with both sides of a pair, with the hidden one's neighbour."""
    one, header = shared
    if route.event:
        return  # the calls above; these do not end
    for name in ("s", "t/1", "concealed", "concealed/v8"):
        path = route.path.replace("{name}", name)
        for parameters in ({}, {"stream": name}, {"a": "s", "b": "concealed"}, {"prefix": "c"}):
            answer = one.http.request(route.verb, path, params=parameters, headers=header)
            assert HIDDEN not in answer.text
            assert HIDDEN not in str(answer.headers)


def test_metrics_are_of_the_tokens_streams(shared: tuple[Site, Header]) -> None:
    """No name of another stream, and no number of the whole server."""
    one, header = shared
    text = one.http.get("/metrics", headers=header).text
    assert HIDDEN not in text
    assert 'stream="t/1"' in text
    of_streams = {name for name, labels in series(text) if "stream=" in labels}
    assert {name for name, _ in series(text)} - of_streams == {
        "streameval_info",
        "streameval_serving",
        "streameval_clock_in_doubt",
        "streameval_start_time_seconds",
        "streameval_metrics_seconds",
        "streameval_window_seconds",
        "streameval_streams_left_out",
        "streameval_streams_missing",
    }
    of_all = {name for name, _ in series(one.http.get("/metrics").text)}
    assert {
        "streameval_rows_total",
        "streameval_streams",
        "streameval_http_requests_total",
    } <= of_all


def series(text: str) -> set[tuple[str, str]]:
    """Return the names and labels of a scrape's series."""
    lines = [line.rpartition(" ")[0] for line in text.splitlines() if line[0] != "#"]
    return {(line.partition("{")[0], line.partition("{")[2]) for line in lines}


def test_a_refusal_of_a_batch_names_only_what_was_sent(shared: tuple[Site, Header]) -> None:
    """The other tenant's stream is refused by the name that the caller gave."""
    one, header = shared
    for name in (HIDDEN, "concealed/none"):
        answer = one.http.get(f"/v1/streams/{name}:snapshot", headers=header)
        assert (answer.status_code, answer.json()["message"]) == (
            403,
            f"the token tenant is not for the stream '{name}', but for s, t and below",
        )
    request = query_pb2.CompareStreamsRequest(
        a=types_pb2.Selection(stream="s"), b=types_pb2.Selection(stream="concealed")
    )
    method = "streameval.v1.QueryService/CompareStreams"
    said = answered(one, method, [request.SerializeToString()], header)
    assert HIDDEN.encode() not in said
