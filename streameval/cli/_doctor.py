"""``streameval doctor``: whether the commands reach a server, and what is wrong with it."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from streameval import __version__
from streameval.cli._connection import Connection, command, connection, transport
from streameval.cli._errors import one_line
from streameval.cli._output import out, print_json
from streameval.cli._remedies import remedy_of
from streameval.cli._status import format_bytes, format_duration
from streameval.client import AccessError, ClientError
from streameval.client._wire.calls import Call
from streameval.v1 import admin_pb2, stream_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval.client._wire.transport import Transport

_TIMEOUT_S = 10.0
_MAX_CLOCK_S = 5.0
_MIN_FREE_SHARE = 0.1
_MAX_LAG_ROWS = 100_000
_MIN_CERTIFICATE_DAYS = 14
_FILES = (
    "give PEM: --root-certificates FILE, or --client-certificate FILE with its --client-key FILE"
)
_MARKS = {True: ("ok", "green"), False: ("!!", "bold red"), None: ("?", "yellow")}


class Check(NamedTuple):
    """One thing that was looked at.

    Attributes
    ----------
    name : str
    ok : bool or None
        None when it cannot be known.
    found : str
    remedy : str
        What to run or to do; empty when all is well.
    """

    name: str
    ok: bool | None
    found: str
    remedy: str = ""


def doctor(*, as_json: bool) -> bool:
    """Print what was checked; return whether nothing is wrong."""
    checks = list(_checks(connection()))
    if as_json:
        print_json([each._asdict() for each in checks])
    else:
        for each in checks:
            mark, style = _MARKS[each.ok]
            line = Text.assemble((f"{mark:<4}", style), f"{each.name:<10}{one_line(each.found)}")
            out.print(line, soft_wrap=True)
            if each.remedy:
                out.print(Text(f"    -> {one_line(each.remedy)}"), soft_wrap=True)
    return all(each.ok is not False for each in checks)


def _checks(current: Connection) -> Iterator[Check]:
    yield Check("address", True, f"{current.address}, from {current.source}")
    if current.is_encrypted:
        certificate = _certificate(current)
        yield certificate
        if certificate.remedy == _FILES:
            return
    with closing(transport(current)) as server:
        status: admin_pb2.GetServerStatusResponse | None = None
        before_s = time.time()
        try:
            status = server.ask(Call(admin_pb2.GetServerStatusRequest()), _TIMEOUT_S)
        except AccessError as error:
            token = _token(error)
            yield token
            if token.ok is False:
                return
        except ClientError as error:
            reason, run = remedy_of(error)
            start = "start the server there, let firewalls pass its port, or give --server"
            yield Check("server", False, reason, f"run: {run}" if run else start)
            return
        else:
            yield _admin_token(current, server)
    if status is None:
        unknown = "the clock, the disk, the version and the lag need a token of the scope admin"
        run = "streameval admin token NAME --tokens tokens.toml --scope admin"
        yield Check("server", None, unknown, f"on the server's machine, run: {run}")
        return
    yield from _of_status(status, (before_s + time.time()) / 2)


def _certificate(current: Connection) -> Check:
    """Look at the end of the server's certificate, as a client that trusts what this one does."""
    options = current.client_options()
    host, _, port = current.address.rpartition(":")
    if not port.isdigit() or "/" in host:
        unknown = f"gRPC alone resolves {current.address}, so its certificate is not looked at"
        return Check("tls", None, unknown, "give --server HOST:PORT to look at it")
    try:
        context = ssl.create_default_context(cafile=options["root_certificates"])
        context.set_alpn_protocols(["h2"])
        if options["client_certificate"] is not None:
            context.load_cert_chain(options["client_certificate"], options["client_key"])
    except OSError as error:
        return Check("tls", False, f"certificates cannot be read: {error}", _FILES)
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host.strip("[]")) as secure,
        ):
            found: Any = secure.getpeercert()
    except OSError as error:
        remedy = "give its authority by --root-certificates FILE, or leave out TLS if it has none"
        return Check("tls", False, str(error), remedy)
    left_s = ssl.cert_time_to_seconds(found["notAfter"]) - time.time()
    return Check(
        "tls",
        left_s > _MIN_CERTIFICATE_DAYS * 86_400,
        f"the certificate is valid for {format_duration(left_s)} more",
        "" if left_s > _MIN_CERTIFICATE_DAYS * 86_400 else "renew it (docs/server.md, TLS)",
    )


def _token(error: AccessError) -> Check:
    """Return what a refusal says of the token, which names the scopes that it has."""
    if error.reason.startswith("TOKEN_"):
        return Check("token", False, str(error), f"run: {remedy_of(error).command}")
    scopes = error.metadata.get("scopes")
    return Check("token", True, str(error) if scopes is None else f"its scopes are {scopes}")


def _admin_token(current: Connection, server: Transport) -> Check:
    if current.token() is None:
        return Check("token", True, "the server asks for none")
    try:
        server.ask(Call(stream_pb2.ListStreamsRequest(page_size=1)), _TIMEOUT_S)
    except AccessError as error:
        return _token(error)
    return Check("token", True, "its scopes include admin and query")


def _of_status(status: admin_pb2.GetServerStatusResponse, now_s: float) -> Iterator[Check]:
    is_same = status.version == __version__
    install = f"run: pip install 'streameval=={status.version}'"
    versions = f"server {status.version}, commands {__version__}"
    yield Check("version", is_same, versions, "" if is_same else install)
    yield _clock(status, now_s)
    if status.HasField("disk"):
        disk = status.disk
        is_enough = disk.free_bytes >= _MIN_FREE_SHARE * disk.total_bytes
        free = f"{format_bytes(disk.free_bytes)} of {format_bytes(disk.total_bytes)} are free"
        compact = f"make room, or run: {command('admin', 'compact')}"
        yield Check("disk", is_enough, free, "" if is_enough else compact)
    else:
        keep = "run: streameval serve --data DIRECTORY"
        yield Check("disk", None, "the server keeps nothing on disk", keep)
    is_near = status.lag_rows <= _MAX_LAG_ROWS
    lag = f"queries are {status.lag_rows:,} rows behind what is acknowledged"
    slower = "send fewer rows a second, or give the server more processor time; watch it by: "
    yield Check("lag", is_near, lag, "" if is_near else slower + command("admin", "status"))
    if not status.serving:
        problem = f"nothing is acknowledged: {status.problem}"
        yield Check("commits", False, problem, "read the server's log; make room on its disk")
    for warning in status.warnings:
        found, _, advice = warning.partition(": ")
        if not found.startswith(("the disk has", "nothing is kept", "commits fail", "lag")):
            advice = advice or f"see docs/operations.md, and run: {command('admin', 'status')}"
            yield Check("server", False, found, advice)


def _clock(status: admin_pb2.GetServerStatusResponse, now_s: float) -> Check:
    off_s = status.time.ToMilliseconds() / 1e3 - now_s
    if status.clock_in_doubt:
        run = command("admin", "clock", "accept")
        accept = f"compare it with a clock that you trust, then run: {run}"
        return Check("clock", False, "the server doubts its clock, and nothing expires", accept)
    if abs(off_s) <= _MAX_CLOCK_S:
        return Check("clock", True, "as on this machine")
    side = "ahead of" if off_s > 0 else "behind"
    found = f"the server's is {format_duration(abs(off_s))} {side} this machine's"
    return Check("clock", False, found, "set both by NTP: timedatectl set-ntp true")
