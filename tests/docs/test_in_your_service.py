"""docs/in-your-service.md: its functions, run as a service would, against a real server."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from streameval.client import Client
from streameval_server import Settings
from streameval_server.testing import running_server

from ..pages import codes

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (Path(__file__).parents[2] / "docs" / "in-your-service.md").read_text()


@pytest.fixture
def server() -> Iterator[str]:
    """Return the address of a server without a disk."""
    with running_server(Settings(listen="127.0.0.1:0", memory=True)) as address:
        yield address


@pytest.fixture
def page(server: str) -> dict[str, Any]:
    """Return the names that the page's blocks define, against the server."""
    names: dict[str, Any] = {"__name__": "page"}
    for code in codes(PAGE, "python"):
        exec(code.replace("127.0.0.1:50051", server), names)
    return names


def counts(server: str) -> tuple[int, int]:
    """Return the predictions and the labelled ones that the server has."""
    with Client(server) as client:
        coverage = client.stream("fraud/v3").snapshot(segment="country=US").coverage
        assert coverage is not None
        return coverage.predictions, coverage.labelled


def test_an_application_sends_what_its_requests_score(server: str, page: dict[str, Any]) -> None:
    """The lifespan opens the client and flushes it; a second worker has a client of its own."""
    testclient = pytest.importorskip("starlette.testclient")

    async def score(request: Request) -> PlainTextResponse:
        order = request.path_params["order"]
        page["predicted"](request.app, order, 0.9, "US")
        page["decided"](request.app, order, is_fraud=True)
        return PlainTextResponse("0.9")

    for worker in ("a", "b"):
        app = Starlette(routes=[Route("/score/{order}", score)], lifespan=page["lifespan"])
        with testclient.TestClient(app) as calls:
            assert calls.get(f"/score/{worker}-1").status_code == 200
            assert calls.get(f"/score/{worker}-2").status_code == 200
    assert counts(server) == (4, 4)


def test_a_worker_s_labels_are_durable_when_it_ends(server: str, page: dict[str, Any]) -> None:
    """Sent once or twice, a label counts once; closing flushes."""
    with Client(server) as client:
        client.stream("fraud/v3").log("order-7", 0.9, segments={"country": "US"})
    page["start_worker"](sender=None)
    page["label_order"]("order-7", is_fraud=True)
    page["label_order"]("order-7", is_fraud=True)
    page["stop_worker"](sender=None)
    assert counts(server) == (1, 1)


def test_a_function_s_row_is_durable_when_it_returns(server: str, page: dict[str, Any]) -> None:
    """Both calls of a frozen process, and an event that came twice."""
    event = {"order": "order-8", "score": 0.4, "country": "US"}
    first = page["handler"](event)["revision"]
    again = page["handler"]({**event, "order": "order-9"})["revision"]
    page["handler"](event)
    assert 0 < first < again
    assert counts(server) == (2, 0)
    page["function_client"].close()


@pytest.mark.parametrize("framework", ["fastapi", "celery"])
def test_a_block_of_a_framework_uses_what_the_page_defines(
    framework: str, page: dict[str, Any]
) -> None:
    """It is Python, and its free names are the page's own or the reader's model."""
    (code,) = codes(PAGE, "python", framework)
    tree = ast.parse(code)
    nodes = list(ast.walk(tree))
    bound = {
        each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    bound |= {each.arg for each in nodes if isinstance(each, ast.arg)}
    bound |= {
        alias.name for each in nodes if isinstance(each, ast.ImportFrom) for alias in each.names
    }
    used = {
        each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }
    assert used - bound - set(page) - {"str", "float"} <= {"model"}
