"""The streameval service: one process, a durable log, live answers.

Each package imports only from those below it::

    commands       what the command line calls: `serve`, and `admin` without a server
    _service       configuration, logs, start and stop
    maintenance    backup, verify, restore, replay: public, for the command line
    _web           HTTP: JSON, server-sent events, the page, Prometheus
    _payloads      events and log records of model servers: rows, collected into batches
    _grpc          gRPC: services that translate messages, nothing else
    _security      tokens, rules, access checks, certificates
    _runtime       threads around the core; waiting for revisions; watches
    _queries       answers from immutable views
    _ingest        sessions and unary calls: no I/O
    _core          entries, catalog, committer, applier, engine, recovery: no threads, clocks
                   or sockets
    _batch         bytes to checked rows; merges and imports
    _state         what one stream holds: counts by slice and pane, pending ids
    _model         settings, names, rows
    _log           bytes, numbers, checksums: rows, checkpoints, SQLite
    _model.errors  the ground, with _model.arrays, _model.limits and _model.threads

`configure` gathers the settings and `run` runs a server until it is stopped.
`create_token` adds a token to the tokens file. `snapshot_then` answers from the log
as of an earlier revision. `streameval_server.testing` starts a server inside a
test's own process. Names are imported when they are first used: a program can set
up its process, and gRPC's log, before anything else is loaded.
"""

from typing import TYPE_CHECKING

from streameval.checks import lazy_exports as _lazy_exports

if TYPE_CHECKING:
    from streameval_server import maintenance
    from streameval_server._grpc.server import Server
    from streameval_server._log.data_directory import DataDirectoryInUseError
    from streameval_server._model.limits import Limits
    from streameval_server._model.server_settings import (
        Settings,
        SettingsError,
        default_data_directory,
    )
    from streameval_server._runtime.core_threads import ServerFailedError
    from streameval_server._security.tokens import create_token
    from streameval_server._service.configuration import Configuration, configure
    from streameval_server._service.serve import run, serve
    from streameval_server._service.service import Addresses
    from streameval_server.maintenance.sample_at_revision import sample_then
    from streameval_server.maintenance.snapshot_at_revision import snapshot_then

__all__ = [
    "Addresses",
    "Configuration",
    "DataDirectoryInUseError",
    "Limits",
    "Server",
    "ServerFailedError",
    "Settings",
    "SettingsError",
    "configure",
    "create_token",
    "default_data_directory",
    "maintenance",
    "run",
    "sample_then",
    "serve",
    "snapshot_then",
]

_EXPORTS = {
    "streameval_server": ["maintenance"],
    "streameval_server._grpc.server": ["Server"],
    "streameval_server._log.data_directory": ["DataDirectoryInUseError"],
    "streameval_server._model.limits": ["Limits"],
    "streameval_server._model.server_settings": [
        "Settings",
        "SettingsError",
        "default_data_directory",
    ],
    "streameval_server._runtime.core_threads": ["ServerFailedError"],
    "streameval_server._security.tokens": ["create_token"],
    "streameval_server._service.configuration": ["Configuration", "configure"],
    "streameval_server._service.serve": ["run", "serve"],
    "streameval_server._service.service": ["Addresses"],
    "streameval_server.maintenance.sample_at_revision": ["sample_then"],
    "streameval_server.maintenance.snapshot_at_revision": ["snapshot_then"],
}
"""Each module, and the public names whose first use imports it."""

if not TYPE_CHECKING:  # for a type checker, a name that is not imported above is an error
    __getattr__ = _lazy_exports(__name__, _EXPORTS, extra="server")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
