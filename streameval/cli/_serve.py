"""``streameval serve``: runs the server, which is an extra of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streameval.cli._errors import one_line_errors


def serve(
    *,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where to listen; port 0 picks a free one. [default: 127.0.0.1:50051]",
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT|off",
            help="Where to serve the page, JSON and metrics. [default: 127.0.0.1:8080]",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Directory of the log. [default: the user's data directory]")
    ] = None,
    memory: Annotated[
        bool | None, typer.Option("--memory/--no-memory", help="Keep nothing on disk.")
    ] = None,
    insecure: Annotated[
        bool | None,
        typer.Option(
            "--insecure/--no-insecure", help="Listen beyond this machine without TLS and tokens."
        ),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="The server's certificate chain, in PEM.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key, in PEM.")] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(help="Authorities of clients' certificates (mTLS), in PEM."),
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="The tokens file; see 'streameval admin token'.")
    ] = None,
    accept_loss: Annotated[
        bool | None,
        typer.Option(
            "--accept-loss/--no-accept-loss",
            help="For one start: go on although the log has lost acknowledged rows.",
        ),
    ] = None,
    auto_create: Annotated[
        bool | None,
        typer.Option(
            "--auto-create/--no-auto-create", help="Create a stream with its first batch."
        ),
    ] = None,
    stop_grace: Annotated[
        str | None, typer.Option(help="How long calls get to end at a stop. [default: 5s]")
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(metavar="text|json", help="The log's format, on stderr.")
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="debug|info|warning|error", help="Lowest level to log."),
    ] = None,
    metrics_window: Annotated[
        str | None, typer.Option(help="The recent window in /metrics. [default: 1h]")
    ] = None,
    max_state_bytes: Annotated[
        int | None,
        typer.Option(help="Refuse ingest while counts take more memory; 0 is no limit."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings, in TOML; flags take precedence.")
    ] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print every setting with its source and exit.")
    ] = False,
) -> None:
    """Run the server until SIGTERM or Ctrl-C.

    Settings come from flags, then variables STREAMEVAL_..., then the file.
    """
    flags: dict[str, object] = {
        "listen": listen,
        "http": http,
        "data": data,
        "memory": memory,
        "insecure": insecure,
        "tls_certificate": tls_certificate,
        "tls_key": tls_key,
        "tls_client_ca": tls_client_ca,
        "tokens": tokens,
        "accept_loss": accept_loss,
        "auto_create": auto_create,
        "stop_grace": stop_grace,
        "log_format": log_format,
        "log_level": log_level,
        "metrics_window": metrics_window,
        "limits.max_state_bytes": max_state_bytes,
    }
    with one_line_errors():
        from streameval_server import commands  # noqa: PLC0415 - the extra may be absent

        commands.serve(flags, config, only_print=print_config)
