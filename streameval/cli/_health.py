"""``streameval health``: prints a status and sets the exit code, for probes. Needs no token.

Probes run it every few seconds on the server's machine, so it uses gRPC and the health stubs
only: the client would import numpy and every metric.
"""

from __future__ import annotations

from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from streameval._common.addresses import is_local
from streameval.cli._connection import Connection, connection
from streameval.cli._errors import NoAnswerError


def health(timeout_s: float) -> bool:
    """Print a server's health status, and return whether it serves.

    Raises
    ------
    NoAnswerError
        When it does not answer in time, or a certificate cannot be read.
    """
    # The health service wants no token, so none is read.
    current = connection()
    current.check_certificates()
    with _channel(current) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # its type stubs lack the methods
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout_s)
        except grpc.RpcError as error:
            raise NoAnswerError(_reason(error), error.code().name) from None
    print(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def _channel(current: Connection) -> grpc.Channel:
    # Traffic within this machine does not go through a proxy on another.
    options = [("grpc.enable_http_proxy", int(not is_local(current.address)))]
    if not current.is_encrypted:
        return grpc.insecure_channel(current.address, options)
    credentials = grpc.ssl_channel_credentials(
        current.pem("root_certificates"),
        current.pem("client_key"),
        current.pem("client_certificate"),
    )
    return grpc.secure_channel(current.address, credentials, options)


def _reason(error: Any) -> str:
    code, details = error.code(), error.details()
    if code is grpc.StatusCode.UNAVAILABLE:
        return f"no answer (is a server there, and TLS on both sides or on neither?): {details}"
    return f"{details or code.name}"
