"""What to run next when a command fails: the one place that writes it."""

from __future__ import annotations

import difflib
import http.client
import json
import re
import shlex
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple

from streameval._common.addresses import DEFAULT_PORT, is_local
from streameval._common.errors import StreamEvalError
from streameval.cli._connection import (
    Connection,
    command,
    connection,
    current_arguments,
    current_command,
)
from streameval.cli._file_values import ColumnError, FileError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAGE = re.compile(r"http1\.x server|missing selected ALPN")
"""gRPC's texts for a server of HTTP/1, without TLS and with it."""
_CLOSED = re.compile(r"failed to connect.*(Socket closed|Connection reset)")
"""gRPC's text where a server ends the connection before the first call."""
_ROW = re.compile(r": row \d+: ")
_OF_VALUES = frozenset({"INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE"})
_TIMEOUT_S = 2.0
_NO_TLS = ("--tls", "--root-certificates", "--client-certificate", "--client-key")


class Remedy(NamedTuple):
    """Why a command failed, and what to run; in place of the error's text where it is unclear."""

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


def remedy_of(error: Any) -> Remedy:
    """Return why a command failed, and what to run; no command where the reason says all.

    Parameters
    ----------
    error : StreamEvalError
        A server's has the name of the gRPC status as its ``code``, and perhaps a ``reason``.
    """
    text = str(error)
    if getattr(error, "remedy", ""):
        return Remedy(text, error.remedy)
    if isinstance(error, ColumnError):
        return Remedy(text, _with_column(error))
    if isinstance(error, FileError):
        return _of_row(text) if _ROW.search(text) else Remedy(text, "")
    if hasattr(error, "code"):
        return _of_server(error)
    return Remedy(text, _help(text))


def _of_server(error: Any) -> Remedy:
    text, reason = str(error), error.reason
    remedy = Remedy(text, _help(text) if error.code in _OF_VALUES else "")
    if reason == "TOKEN_MISSING":
        text = "this server requires a token: give --token-file, or STREAMEVAL_TOKEN"
        remedy = Remedy(text, again("--token-file", "FILE"))
    elif reason.startswith("TOKEN_") or reason in {"SCOPE_MISSING", "STREAM_FORBIDDEN"}:
        remedy = Remedy(f"{text}; on the server's machine", token_command(error))
    elif error.code == "UNAVAILABLE":
        remedy = _of_no_answer(text, connection())
    elif error.code == "DEADLINE_EXCEEDED":
        remedy = Remedy(text, _doctor())
    elif error.code in {"NOT_FOUND", "ALREADY_EXISTS"}:
        remedy = Remedy(text, _list_of(text))
    return remedy


def _list_of(text: str) -> str:
    """Return the command that lists what there is, where a name is missing or taken."""
    words, values = current_command.get()
    shows = {"marks": ("marks", "list"), "alarms": ("alarms", "show")}.get("".join(words[:1]))
    if shows is not None and not text.startswith("there is no stream"):
        return command(*shows, values["stream"])
    return command("pairs" if "pair" in text.partition(":")[0] else "streams", "list")


def _help(text: str) -> str:
    """Return the command that lists the values of options; none for a text that has a command."""
    verb = current_command.get().words
    has_remedy = any(mark in text for mark in ("streameval ", "--", "run: "))
    return "" if has_remedy or not verb else shlex.join(["streameval", *verb, "--help"])


def _with_column(error: ColumnError) -> str:
    """Return this command line with a column that the file has in place of the missing one."""
    close = difflib.get_close_matches(error.name, error.columns, 1)
    column = close[0] if close else "COLUMN"
    words = list(current_arguments.get())
    if error.name in words:
        return shlex.join(
            ["streameval", *(column if each == error.name else each for each in words)]
        )
    return again(f"--{error.name}" if error.name in {"score", "label"} else "--id", column)


def _of_row(text: str) -> Remedy:
    """Return what to do about rows that cannot be counted."""
    words, values = current_command.get()
    if words == ("push",) and values["rejects"] is None:
        return Remedy(text, again("--rejects", "rejects.ndjson"))
    advice = "" if "leave such rows out" in text else ": leave such rows out, or replace the value"
    return Remedy(text + advice, "")


def _doctor() -> str:
    """Return the command that looks at the way to a server; none where it is this one."""
    return "" if current_command.get().words == ("doctor",) else command("doctor")


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
    if "Connection refused" in text:
        start = f"streameval serve --listen {address}" if is_local(address) else _doctor()
        return Remedy(f"no server listens on {address}", start)
    if "address lookup failed" in text or "resolving" in text:
        return Remedy(f"no machine is known as {address}", again("--server", "HOST:PORT"))
    return _of_handshake(text, current) or Remedy(text, _doctor())


def _of_handshake(text: str, current: Connection) -> Remedy | None:
    """Return what TLS fails for; None where it does not."""
    address = current.address
    if "WRONG_VERSION_NUMBER" in text:
        plain = again("--server", address, without=_NO_TLS)
        return Remedy(f"the server at {address} has no TLS: leave it out", plain)
    if _CLOSED.search(text):
        return _of_closed(current)
    if "security handshaker" in text:
        return Remedy("the files of certificates and keys are no PEM, or do not match", _doctor())
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return Remedy(
            f"the certificate of {address} is of no authority that is trusted, or for another "
            "name: give its authority",
            again("--root-certificates", "FILE"),
        )
    return None


def _of_closed(current: Connection) -> Remedy:
    """Return what a server may miss that ended the connection before the first call."""
    closed = f"{current.address} closed the connection, as a server does that"
    if not current.is_encrypted:
        return Remedy(f"{closed} has TLS: give its authority", again("--root-certificates", "FILE"))
    if current.client_options()["client_certificate"] is None:
        own = again("--client-certificate", "FILE", "--client-key", "FILE")
        return Remedy(f"{closed} requires a client's certificate (mTLS)", own)
    reason = f"{closed} does not trust the client's certificate: give one of its authority"
    return Remedy(reason, again("--client-certificate", "FILE", "--client-key", "FILE"))


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
