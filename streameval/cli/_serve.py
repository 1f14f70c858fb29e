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
    stop_grace_s: Annotated[
        float | None, typer.Option(help="Seconds that calls get to end when the server stops.")
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(metavar="text|json", help="The log's format, on stderr.")
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="debug|info|warning|error", help="Lowest level to log."),
    ] = None,
    metrics_window_s: Annotated[
        float | None, typer.Option(help="Seconds of the recent window in /metrics.")
    ] = None,
    metrics_interval_s: Annotated[
        float | None, typer.Option(help="Seconds between scrapes of /metrics.")
    ] = None,
    state_check_interval_s: Annotated[
        float | None,
        typer.Option(help="Seconds between checks of the state against the log; 0 makes none."),
    ] = None,
    max_state_bytes: Annotated[
        int | None,
        typer.Option(help="Refuse ingest while counts take more memory; 0 is no limit."),
    ] = None,
    intake: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where to take CloudEvents from senders without tokens. [default: nowhere]",
        ),
    ] = None,
    intake_streams: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="The streams that they may write, between commas."),
    ] = None,
    intake_rows_per_s: Annotated[
        float | None, typer.Option(help="Rows a second that they may send.")
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where to send alarms: https, or http to this machine. [default: nowhere]",
        ),
    ] = None,
    webhook_secret: Annotated[
        Path | None, typer.Option(help="The file with the key that signs them.")
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
        "stop_grace_s": stop_grace_s,
        "log_format": log_format,
        "log_level": log_level,
        "metrics_window_s": metrics_window_s,
        "metrics_interval_s": metrics_interval_s,
        "state_check_interval_s": state_check_interval_s,
        "limits.max_state_bytes": max_state_bytes,
        "intake": intake,
        "intake_streams": intake_streams,
        "intake_rows_per_s": intake_rows_per_s,
        "webhook": webhook,
        "webhook_secret": webhook_secret,
    }
    with one_line_errors():
        from streameval_server import commands  # noqa: PLC0415 - the extra may be absent

        commands.serve(flags, config, only_print=print_config)
