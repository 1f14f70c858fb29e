"""Payloads from senders that have no tokens: an application with an address of its own.

KServe's logger sends neither a token nor a certificate. So the operator names an address that
only such senders reach, the streams that they may write, and a rate. Nothing can be read there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route as Path

from streameval_server._payloads.row_budget import RowBudget
from streameval_server._security.rules import Rule
from streameval_server._security.tokens import covers
from streameval_server._web.call_runner import CallRunner
from streameval_server._web.cloud_events import CLOUD_EVENTS
from streameval_server._web.connection_limits import ProbesOnly
from streameval_server._web.endpoints import NO_STORE
from streameval_server._web.otlp_logs import OTLP_LOGS
from streameval_server._web.payload_endpoint import PayloadEndpoint, Permission, Senders
from streameval_server._web.request_bodies import BodyReader
from streameval_server._web.security_headers import SecurityHeaders

if TYPE_CHECKING:
    from starlette.requests import Request

    from streameval_server._grpc.server import Server
    from streameval_server._model.server_settings import Settings
    from streameval_server._payloads.intake import PayloadIntake


def make_intake_app(server: Server, settings: Settings, intake: PayloadIntake) -> Starlette:
    """Return the application that takes CloudEvents and log records without tokens.

    Parameters
    ----------
    server
        Its log has the calls.
    settings
        The streams that may be written, the rate, and the limits.
    intake
        Takes them.
    """
    runner = CallRunner(server.guard, server.call_log)
    bodies = BodyReader(settings.limits)
    budget = RowBudget(settings.limits.max_intake_rows_per_s)
    names = ", ".join(settings.intake_streams)

    def forbids(stream: str) -> str | None:
        if covers(settings.intake_streams, stream):
            return None
        return f"senders without tokens may write {names} and below, not {stream[:128]!r}"

    def admit() -> Permission:
        budget.check()
        return Permission(forbids, budget.spend, budget.spend_time)

    senders = Senders(Rule(open=True), admit)
    events = PayloadEndpoint(CLOUD_EVENTS, intake, runner, bodies, senders)
    logs = PayloadEndpoint(OTLP_LOGS, intake, runner, bodies, senders)

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n", headers=NO_STORE)

    app = Starlette(
        routes=[
            Path(CLOUD_EVENTS.path, events.respond, methods=["POST"]),
            # KServe's logger posts to the root of its URL unless it has a path.
            Path("/", events.respond, methods=["POST"]),
            Path(OTLP_LOGS.path, logs.respond, methods=["POST"]),
            Path("/healthz", healthz, methods=["GET"]),
        ],
        middleware=[
            Middleware(SecurityHeaders, is_allowed=lambda _name: True),
            Middleware(ProbesOnly),
        ],
    )
    app.router.redirect_slashes = False
    return app
