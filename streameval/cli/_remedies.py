"""What to run next when a server does not answer, or refuses a token."""

from __future__ import annotations

import http.client
import json
import re
import shlex
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple

from streameval._common.addresses import DEFAULT_PORT, is_local
from streameval._common.errors import StreamEvalError
from streameval.cli._connection import Connection, command, connection, current_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAGE = re.compile(r"http1\.x server|missing selected ALPN")
"""gRPC's texts for a server of HTTP/1, without TLS and with it."""
_TIMEOUT_S = 2.0
_NO_TLS = ("--tls", "--root-certificates", "--client-certificate", "--client-key")


class Remedy(NamedTuple):
    """Why a call failed, in place of the error's text where that does not say it; what to run."""

    reason: str
    command: str


def again(*added: str, without: Sequence[str] = ()) -> str:
    """Return this command line with other options, without some and their values."""
    words: list[str] = []
    dropped = {*without, *(each for each in added if each.startswith("--"))}
    is_value = False
    for word in current_arguments.get():
        name, equals, _ = word.partition("=")
        if is_value or name in dropped:
            is_value = not is_value and name in dropped and not equals and name != "--tls"
            continue
        words.append(word)
    return shlex.join(["streameval", *words, *added])


def remedy_of(error: Any) -> Remedy | None:
    """Return what to do after an error of a connection or of access; None after any other.

    Parameters
    ----------
    error : StreamEvalError
        With the gRPC status's name as its ``code``, and perhaps a ``reason``.
    """
    reason = getattr(error, "reason", "")
    if reason == "TOKEN_MISSING":
        text = "this server requires a token: give --token-file, or STREAMEVAL_TOKEN"
        return Remedy(text, again("--token-file", "FILE"))
    if reason.startswith("TOKEN_") or reason in {"SCOPE_MISSING", "STREAM_FORBIDDEN"}:
        return Remedy(f"{error}; on the server's machine", token_command(error))
    if error.code == "UNAVAILABLE":
        return _of_no_answer(str(error), connection())
    if error.code == "DEADLINE_EXCEEDED":
        return Remedy(str(error), command("doctor"))
    return None


def token_command(error: Any) -> str:
    """Return the command that makes a token which is not refused as the last one was."""
    scope = getattr(error, "metadata", {}).get("scope", "query")
    return f"streameval admin token NAME --tokens tokens.toml --scope {scope}"


def _of_no_answer(text: str, current: Connection) -> Remedy:
    address = current.address
    if _PAGE.search(text):
        grpc = _grpc_of_page(current)
        return Remedy(
            f"{address} is the port of the web page; gRPC is on {grpc}", again("--server", grpc)
        )
    if "WRONG_VERSION_NUMBER" in text:
        plain = again("--server", address, without=_NO_TLS)
        return Remedy(f"the server at {address} has no TLS: leave it out", plain)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return Remedy(
            f"the certificate of {address} is of no authority that is trusted, or for another "
            "name: give its authority",
            again("--root-certificates", "FILE"),
        )
    if "Connection refused" in text:
        start = f"streameval serve --listen {address}" if is_local(address) else command("doctor")
        return Remedy(f"no server listens on {address}", start)
    if "address lookup failed" in text or "resolving" in text:
        return Remedy(f"no machine is known as {address}", again("--server", "HOST:PORT"))
    return Remedy(text, command("doctor"))


def _grpc_of_page(current: Connection) -> str:
    """Return the gRPC address of the server whose page is there; its default without an answer."""
    host, _, port = current.address.rpartition(":")
    name = host.strip("[]")
    found = str(DEFAULT_PORT)
    try:
        options = current.client_options()
        headers = (
            {} if options["token"] is None else {"authorization": f"Bearer {options['token']}"}
        )
        page = http.client.HTTPConnection(name, int(port), timeout=_TIMEOUT_S)
        if current.is_encrypted:
            context = ssl.create_default_context(cafile=options["root_certificates"])
            page = http.client.HTTPSConnection(name, int(port), timeout=_TIMEOUT_S, context=context)
        try:
            page.request("GET", "/v1/server", headers=headers)
            answer = json.loads(page.getresponse().read(1 << 20))
        finally:
            page.close()
        found = answer["grpcAddress"].rpartition(":")[2]
    except (OSError, http.client.HTTPException, ValueError, KeyError, StreamEvalError):
        pass  # it needs the scope admin, or is another program's page
    return f"{host}:{found}"
