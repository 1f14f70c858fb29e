"""The streameval service: one process, a durable log, live answers.

::

    _grpc        services: translate, nothing else
    _web         the same over HTTP; the page; metrics
    _process     threads around the core, SQLite, settings, logs
    _queries     answers from immutable views
    _core        sessions, committer, applier, engine: no threads, clocks or sockets
    _state       what the engine holds: counts by slice and pane, ids that wait
    _security    who may do what

`configure` gathers the settings and `run` is what the commands call;
`create_token` lets somebody in, and `snapshot_then` is what was known then;
`streameval_server.testing` starts a server inside a test's own process.
"""

from streameval_server._grpc.server import Server
from streameval_server._log.data_directory import DataDirectoryInUseError
from streameval_server._model.limits import Limits
from streameval_server._model.server_settings import Settings, SettingsError, default_data_directory
from streameval_server._runtime.core_threads import ServerFailedError
from streameval_server._security.tokens import create_token
from streameval_server._service.configuration import Configuration, configure
from streameval_server._service.serve import run, serve
from streameval_server._service.service import Addresses
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
    "run",
    "serve",
    "snapshot_then",
]
