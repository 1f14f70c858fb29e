"""/openapi.json describes every route, and the routes do what it says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS, load_all_checks

from streameval_server._web.openapi import description
from streameval_server._web.routes import ROUTES, Answer

if TYPE_CHECKING:
    from .conftest import Site

load_all_checks()

STREAM = "openapi/v1"
DOCUMENT: dict[str, Any] = json.loads(description())
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
ENDLESS = {route.path for route in ROUTES if route.answer is Answer.EVENTS}
OPERATIONS = {
    operation.ok().label: operation.ok()
    for operation in SCHEMA.get_all_operations()
    if operation.ok().path not in ENDLESS
}
DESCRIBED = [
    CHECKS.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
    )
]
"""An answer has a status, a type and a content that the description has."""


def test_every_route_is_described() -> None:
    """By its path, its verb and the method's name."""
    described = {
        (verb.upper(), path, operation["operationId"])
        for path, verbs in DOCUMENT["paths"].items()
        for verb, operation in verbs.items()
    }
    assert described == {
        (route.verb, route.path, route.method.rpartition("/")[2]) for route in ROUTES
    }
    assert SCHEMA.validate() is None  # against OpenAPI's own schema


def test_it_is_served_to_everyone(served: Site) -> None:
    """As it is made; it contains nothing of the server's data."""
    answer = served.http.get("/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.content == description()


@pytest.fixture(scope="module")
def stream(served: Site) -> str:
    """Return a stream with cases, predictions and a segment, that answers have values."""
    made = {"stream": {"name": STREAM, "settings": {"segmentKeys": ["country"]}}}
    assert served.http.post("/v1/streams", json=made).status_code == 200
    segments = [{"key": "country", "values": ["DE", "US"], "codes": [0, 1, 0, 1, 0, 1]}]
    served.push(STREAM, "++-+--", segments=segments)
    batch = {"predictions": {"ids": ["a", "b"], "scores": [0.5, 0.25]}}
    url = f"/v1/streams/{STREAM}:ingest"
    assert served.http.post(url, json={"batch": batch}).status_code == 200
    served.show(STREAM, "+-")
    return STREAM


@pytest.mark.parametrize("label", sorted(OPERATIONS))
def test_answers_are_what_the_description_says(served: Site, stream: str, label: str) -> None:
    """Of requests that the description allows: for this stream, and for others."""
    operation = OPERATIONS[label]

    # Deleting it would leave the others without answers.
    names = st.none() if label.startswith("DELETE") else st.sampled_from([None, stream, stream])

    @settings(
        max_examples=25,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(case=operation.as_strategy(), name=names)
    def exercise(case: schemathesis.Case, name: str | None) -> None:
        if name is not None and "name" in case.path_parameters:
            case.path_parameters["name"] = name
        case.call_and_validate(base_url=str(served.http.base_url), checks=DESCRIBED, timeout=20)

    exercise()


@pytest.mark.parametrize(
    ("label", "parameters"),
    [
        ("GET /v1/streams/{name}:snapshot", {"metrics": ["auc_pr"], "selection.last": "3600s"}),
        ("GET /v1/streams/{name}:snapshot", {"selection.segment.key": "country"}),
        ("GET /v1/streams/{name}:curve", {"kind": "CURVE_KIND_HULL"}),
        ("GET /v1/streams/{name}:histogram", {"bins": 3}),
        ("GET /v1/streams/{name}:decision", {"threshold": 0.5}),
        ("GET /v1/streams/{name}:rank", {"key": "country"}),
        ("GET /v1/streams/{name}:state", {}),
        ("GET /v1/streams/{name}", {}),
        ("GET /v1/streams:snapshots", {"streams": [STREAM, "none"]}),
        ("GET /v1/streams", {"prefix": "openapi"}),
        ("GET /v1/server", {}),
    ],
)
def test_answers_with_values(
    served: Site, stream: str, label: str, parameters: dict[str, Any]
) -> None:
    """Requests that succeed, whatever was generated above."""
    case = OPERATIONS[label].Case(path_parameters={"name": stream}, query=parameters)
    answer = case.call(base_url=str(served.http.base_url), timeout=20)
    case.validate_response(answer, checks=DESCRIBED)
    assert answer.status_code == httpx.codes.OK, answer.text
