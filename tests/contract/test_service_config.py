"""The service config: reads wait for a restarting server, changes are repeated once at most."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import TYPE_CHECKING

import grpc
import pytest

from streameval.client import Client, UnavailableError
from streameval.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    ingest_pb2,
    pair_pb2,
    query_pb2,
    stream_pb2,
)
from streameval_server import Settings
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = json.loads(files("streameval.v1").joinpath("service_config.json").read_text())
SERVICES = {
    service.full_name: service
    for file in (admin_pb2, ingest_pb2, pair_pb2, query_pb2, stream_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
}


def methods(entry: dict) -> set[str]:
    """Return the full names of the methods of a methodConfig; each must exist."""
    found = set()
    for name in entry["name"]:
        service = SERVICES[name["service"]]
        chosen = [name["method"]] if "method" in name else list(service.methods_by_name)
        found |= {service.methods_by_name[each].full_name for each in chosen}
    return found


def test_reads_wait_and_what_can_be_repeated_is_repeated() -> None:
    """All reads but copies of much data; of the changes, those with a request_id."""
    reads, changes = CONFIG["methodConfig"]
    assert reads["waitForReady"]
    assert "waitForReady" not in changes
    prefixes = ("Get", "BatchGet", "List", "Compare", "Rank", "Sample", "Watch")
    assert methods(reads) == {
        method.full_name
        for service in SERVICES.values()
        for method in service.methods
        if method.name.startswith(prefixes)
    }
    assert methods(changes) == {
        method.full_name
        for service in SERVICES.values()
        for method in service.methods
        if "request_id" in method.input_type.fields_by_name
    }
    for entry in (reads, changes):
        assert entry["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE"]


def test_a_read_waits_for_a_server_that_restarts(tmp_path: Path) -> None:
    """It is answered when the server is back."""
    with running_server(Settings(listen="127.0.0.1:0", data=tmp_path)) as address:
        client = Client(address, timeout_s=60)
        client.create_stream("s")
    again = Settings(listen=address, data=tmp_path)
    with client:
        found: list[str] = []
        reader = threading.Thread(target=lambda: found.append(client.get_stream("s").name))
        reader.start()
        with running_server(again):
            reader.join(60)
            assert found == ["s"]


def test_a_server_that_never_answered_is_not_waited_for() -> None:
    """The error has the cause, long before the timeout."""
    with (
        Client("127.0.0.1:1", timeout_s=3600) as client,
        pytest.raises(UnavailableError, match="is a server there"),
    ):
        client.get_stream("s")


class LosesAnswers(grpc.GenericRpcHandler):
    """Forwards changes of streams to a server, and loses the first answer to each method."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._lost: set[str] = set()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """Return the handler of any unary method."""
        forward = self._channel.unary_unary(details.method)

        def answer(frame: bytes, context: grpc.ServicerContext) -> bytes:
            found = forward(frame, timeout=20)
            if details.method not in self._lost:
                self._lost.add(details.method)
                context.abort(grpc.StatusCode.UNAVAILABLE, "the answer is lost")
            return found

        return grpc.unary_unary_rpc_method_handler(answer)


def test_a_change_whose_answer_is_lost_is_made_once() -> None:
    """It is sent again with its request_id, so it neither fails nor counts twice."""
    with running_server() as address, grpc.insecure_channel(address) as channel:
        lossy = grpc.server(ThreadPoolExecutor(4), handlers=[LosesAnswers(channel)])
        port = lossy.add_insecure_port("127.0.0.1:0")
        lossy.start()
        try:
            with Client(f"127.0.0.1:{port}", timeout_s=60) as client:
                made = client.create_stream("s")
                assert client.update_stream("s", label_ttl=made.settings.label_ttl / 2).name == "s"
                client.delete_stream("s")
        finally:
            lossy.stop(None).wait()
        status = admin_pb2_grpc.AdminServiceStub(channel).GetServerStatus(
            admin_pb2.GetServerStatusRequest(), timeout=20
        )
        assert (status.durable_revision, status.streams) == (3, 0)
