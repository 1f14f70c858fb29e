"""``streameval health``: prints a status and sets the exit code, for probes. Needs no token.

Probes run it every few seconds beside the server, so it uses gRPC and the health stubs
only: the client would import numpy and every metric.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from streameval._common.addresses import is_local
from streameval._common.errors import StreamEvalError
from streameval.cli._connection import Connection, current_connection

try:
    from grpc_health.v1 import health_pb2, health_pb2_grpc
except ModuleNotFoundError as error:
    raise StreamEvalError(f"{error.name} is missing; pip install 'streameval[cli]'") from error

if TYPE_CHECKING:
    from pathlib import Path


def health(address: str, timeout_s: float) -> bool:
    """Print a server's health status, and return whether it serves.

    Raises
    ------
    StreamEvalError
        When it does not answer in time, or a certificate cannot be read.
    """
    with _channel(address, current_connection.get(Connection())) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # its type stubs lack the methods
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout_s)
        except grpc.RpcError as error:
            raise StreamEvalError(_reason(error)) from None
    print(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def _channel(address: str, connection: Connection) -> grpc.Channel:
    # Traffic within this machine does not go through a proxy on another.
    options = [("grpc.enable_http_proxy", int(not is_local(address)))]
    if not connection.is_encrypted:
        return grpc.insecure_channel(address, options)
    if (connection.client_certificate is None) != (connection.client_key is None):
        raise StreamEvalError("--client-certificate and --client-key need each other: give both")
    credentials = grpc.ssl_channel_credentials(
        _pem(connection.root_certificates, "--root-certificates"),
        _pem(connection.client_key, "--client-key"),
        _pem(connection.client_certificate, "--client-certificate"),
    )
    return grpc.secure_channel(address, credentials, options)


def _pem(path: Path | None, option: str) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise StreamEvalError(f"{option}: cannot read {path}: {error.strerror}") from error


def _reason(error: Any) -> str:
    code, details = error.code(), error.details()
    if code is grpc.StatusCode.UNAVAILABLE:
        return f"no answer (is a server there, and TLS on both sides or on neither?): {details}"
    return f"{details or code.name}"
