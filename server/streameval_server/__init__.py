"""The streameval service: one process, a durable log, live answers.

::

    gRPC services      translate, nothing else
    Runtime            threads around the core
    the core           sessions, committer, applier, engine: no threads, clocks or sockets
    storage            SQLite, or memory

`configure` gathers the settings and `run` is what the commands call;
`create_token` lets somebody in, and `snapshot_then` is what was known then;
`streameval_server.testing` starts a server inside a test's own process.
"""

from streameval_server._configuration import Configuration, configure
from streameval_server._limits import Limits
from streameval_server._lock import DataDirectoryInUseError
from streameval_server._runtime import ServerFailedError
from streameval_server._serve import run, serve
from streameval_server._server import Server
from streameval_server._settings import Settings, SettingsError, default_data_directory
from streameval_server._then import snapshot_then
from streameval_server._tokens import create_token

__all__ = [
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
