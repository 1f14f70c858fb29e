"""Protects browsers: security headers on every response, and a check of the Host header.

A server without tokens trusts every client on its own machine. A foreign page could
point its own name at this machine (DNS rebinding) and read the answers; so such a
server answers only requests whose Host names this machine. Pages of other origins are
never allowed to read: there are no CORS headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders

from streameval_server._model.errors import Code, RequestError
from streameval_server._model.server_settings import is_loopback
from streameval_server._web.error_responses import error_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""On every response, errors and files included."""


class SecurityHeaders:
    """Adds the headers to responses, and refuses requests for other hosts.

    Parameters
    ----------
    app
        The application.
    local_only
        Whether to refuse requests whose Host does not name this machine.
    """

    def __init__(self, app: ASGIApp, *, local_only: bool) -> None:
        self._app = app
        self._local_only = local_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        app = self._app
        if self._local_only:
            host = Headers(scope=scope).get("host", "")
            if not _is_local(host):
                app = error_response(_host_forbidden(host))
        await app(scope, receive, send_with_headers)


def _is_local(host: str) -> bool:
    """Whether a Host header names this machine. The port is ignored: a tunnel has another."""
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdecimal():
        name = host
    return is_loopback(name.removeprefix("[").removesuffix("]").lower())


def _host_forbidden(host: str) -> RequestError:
    return RequestError(
        Code.PERMISSION_DENIED,
        f"this server has no tokens and answers to localhost only, not to {host[:128]!r}",
        reason="HOST_FORBIDDEN",
    )
