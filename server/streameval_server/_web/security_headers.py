"""Protects browsers: security headers on every response, and a check of the Host header.

A server without tokens trusts every client that reaches it. A foreign page could point
its own name at this machine (DNS rebinding) and read the answers; so such a server
answers only requests whose Host is not a name of the public DNS. Pages of other origins
are never allowed to read: there are no CORS headers.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from streameval_server._model.errors import Code, RequestError
from streameval_server._model.server_settings import is_loopback
from streameval_server._web.error_responses import error_response

if TYPE_CHECKING:
    from collections.abc import Callable

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

_PRIVATE_DOMAINS = (".internal", ".local", ".localhost")
"""Domains that are reserved for private networks, ``svc.cluster.local`` among them."""

_RAW_HEADERS = {name.lower().encode(): value.encode() for name, value in HEADERS.items()}
"""As ASGI has them: encoded once, not for each response."""


class SecurityHeaders:
    """Adds the headers to responses, and refuses requests for other hosts.

    Parameters
    ----------
    app
        The application.
    is_allowed
        Whether to answer requests for a host, in lower case, without port and brackets.
    """

    def __init__(self, app: ASGIApp, *, is_allowed: Callable[[str], bool]) -> None:
        self._app = app
        self._is_allowed = is_allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                others = [each for each in message["headers"] if each[0] not in _RAW_HEADERS]
                message["headers"] = [*others, *_RAW_HEADERS.items()]
            await send(message)

        app = self._app
        host = Headers(scope=scope).get("host", "")
        if not self._is_allowed(_host_name(host)):
            app = error_response(_host_forbidden(host))
        await app(scope, receive, send_with_headers)


def allowed_hosts(listen_host: str, *, is_open: bool) -> Callable[[str], bool]:
    """Return which hosts a server answers to.

    Parameters
    ----------
    listen_host
        The host that HTTP listens on.
    is_open
        Whether there are no tokens. With tokens every host is answered to: a proxy may pass
        its own name on, and a foreign page has no token.
    """
    if not is_open:
        return lambda _name: True
    if is_loopback(listen_host):
        return is_loopback
    return lambda name: name == listen_host.lower() or _is_private(name)


def _host_name(host: str) -> str:
    """Return the name in a Host header. The port does not matter: a tunnel has another."""
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdecimal():
        name = host
    return name.removeprefix("[").removesuffix("]").lower()


def _is_private(name: str) -> bool:
    """Whether a name is an address, or cannot be registered in the public DNS."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return bool(name) and ("." not in name or name.endswith(_PRIVATE_DOMAINS))
    return True


def _host_forbidden(host: str) -> RequestError:
    return RequestError(
        Code.PERMISSION_DENIED,
        f"this server has no tokens and does not answer to the name {host[:128]!r}: use its "
        "address, give it tokens, or let the proxy before it send 'host: localhost'",
        reason="HOST_FORBIDDEN",
    )
