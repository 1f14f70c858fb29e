"""The ASGI application around a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route as Path

from streameval_server._model.errors import Code
from streameval_server._web.call_runner import CallRunner
from streameval_server._web.cloud_events import CLOUD_EVENTS
from streameval_server._web.connection_limits import ProbesOnly
from streameval_server._web.endpoints import NO_STORE, Endpoint
from streameval_server._web.error_responses import JSON, HttpError, error_response
from streameval_server._web.files import Files
from streameval_server._web.metrics import Metrics
from streameval_server._web.openapi import description
from streameval_server._web.otlp_logs import OTLP_LOGS
from streameval_server._web.payload_endpoint import PayloadEndpoint
from streameval_server._web.request_bodies import BodyReader
from streameval_server._web.routes import ROUTES
from streameval_server._web.security_headers import SecurityHeaders, allowed_hosts

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import Request

    from streameval_server._grpc.server import Server
    from streameval_server._model.server_settings import Settings
    from streameval_server._payloads.intake import PayloadIntake

    Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


def make_app(
    server: Server, settings: Settings, host: str, lifespan: Lifespan, intake: PayloadIntake | None
) -> Starlette:
    """Return the application that serves a server over HTTP.

    Parameters
    ----------
    server
        Its methods are called, its guard authorises.
    intake
        Takes CloudEvents and log records; None where no mappings are declared.
    settings
        The server's settings.
    host
        The host that HTTP listens on.
    lifespan
        Starts and stops the server.
    """
    runner = CallRunner(server.guard, server.call_log)
    bodies, files = BodyReader(settings.limits), Files()
    metrics = Metrics(
        server,
        runner,
        CollectorRegistry(),
        window_s=settings.metrics_window_s,
        max_series=settings.limits.max_metric_series,
        intake=intake,
    )
    server.call_log.observer = metrics.calls
    paths = [
        Path(
            route.path.replace("{name}", "{name:path}"),
            Endpoint(route, server.methods.find(route.method), runner, bodies).respond,
            methods=[route.verb],
        )
        for route in ROUTES
    ]

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n", headers=NO_STORE)

    async def readyz(_request: Request) -> Response:
        if server.is_ready:
            return PlainTextResponse("ok\n", headers=NO_STORE)
        return PlainTextResponse("not serving\n", status_code=503, headers=NO_STORE)

    async def openapi(_request: Request) -> Response:
        return Response(description(), media_type=JSON)

    paths = [
        # First: they have the most requests, and paths are tried in their order.
        *_payload_paths(intake, runner, bodies),
        *paths,
        Path("/openapi.json", openapi, methods=["GET"]),
        Path("/metrics", metrics.respond, methods=["GET"]),
        Path("/healthz", healthz, methods=["GET"]),
        Path("/readyz", readyz, methods=["GET"]),
        Path("/", files.index, methods=["GET"]),
        Path("/static/{path:path}", files.file, methods=["GET"]),
    ]
    is_allowed = allowed_hosts(host, is_open=server.guard.is_open)
    app = Starlette(
        routes=paths,
        middleware=[
            Middleware(SecurityHeaders, is_allowed=is_allowed),
            Middleware(ProbesOnly),
        ],
        exception_handlers={HTTPException: _no_route},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


def _payload_paths(
    intake: PayloadIntake | None, runner: CallRunner, bodies: BodyReader
) -> list[Path]:
    if intake is None:
        return []
    return [
        Path(each.path, PayloadEndpoint(each, intake, runner, bodies).respond, methods=["POST"])
        for each in (CLOUD_EVENTS, OTLP_LOGS)
    ]


async def _no_route(_request: Request, error: Exception) -> Response:
    """Answer a request that no route matches."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        message, code = "this path has other methods: see Allow", Code.UNIMPLEMENTED
    else:
        message, code = "there is no such path", Code.NOT_FOUND
    return error_response(
        HttpError(error.status_code, code, message, reason="NO_ROUTE", headers=error.headers)
    )
