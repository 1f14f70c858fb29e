"""``streameval health``: prints a status and sets the exit code, for probes. Needs no token."""

from __future__ import annotations

from typing import Any

import grpc

from streameval._common.errors import StreamEvalError
from streameval.cli._connect import transport
from streameval.client._wire.transport import from_rpc_error

try:
    from grpc_health.v1 import health_pb2, health_pb2_grpc
except ModuleNotFoundError as error:
    raise StreamEvalError(f"{error.name} is missing; pip install 'streameval[server]'") from error


def health(address: str, timeout_s: float) -> bool:
    """Print a server's health status, and return whether it serves.

    Raises
    ------
    ClientError
        When it does not answer in time.
    """
    server = transport(address)
    try:
        stub: Any = health_pb2_grpc.HealthStub(server.channel())  # its type stubs lack the methods
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout_s)
    except grpc.RpcError as error:
        raise from_rpc_error(error) from None
    finally:
        server.close()
    print(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
