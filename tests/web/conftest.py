"""A server in memory, with clients for HTTP and gRPC."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
from google.protobuf import descriptor_pool, json_format, message_factory

from streameval_server import Settings
from streameval_server.testing import running_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.message import Message

    from streameval_server import Addresses

IN_MEMORY = Settings(listen="127.0.0.1:0", memory=True)


@dataclass
class Site:
    """One server, over HTTP and over gRPC."""

    addresses: Addresses
    http: httpx.Client
    channel: grpc.Channel

    def called(self, method: str, request: Message, token: str | None = None) -> Message:
        """Return gRPC's answer."""
        found = descriptor_pool.Default().FindMethodByName(method.replace("/", "."))
        answer = message_factory.GetMessageClass(found.output_type)
        call = self.channel.unary_unary(
            f"/{method}", lambda message: message.SerializeToString(), answer.FromString
        )
        metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        return call(request, timeout=20, metadata=metadata)

    def push(self, stream: str, labels: str, **more: Any) -> int:
        """Send cases over HTTP, ``+`` and ``-`` in order of falling scores; return the revision."""
        scores = [1 - i / len(labels) for i in range(len(labels))]
        cases = {"scores": scores, "positives": [label == "+" for label in labels]} | more
        answer = self.http.post(f"/v1/streams/{stream}:ingest", json={"batch": {"cases": cases}})
        assert answer.status_code == 200, answer.text
        return int(answer.json()["revision"])

    def show(self, stream: str, labels: str, **more: Any) -> int:
        """Send cases, and wait until answers include them: an ack only means durable."""
        revision = self.push(stream, labels, **more)
        wait = {"selection.minRevision": revision}
        self.http.get(f"/v1/streams/{stream}:snapshot", params=wait).raise_for_status()
        return revision


@contextmanager
def site(settings: Settings = IN_MEMORY, **client: Any) -> Iterator[Site]:
    """Run a server."""
    with running_service(settings) as addresses:
        assert addresses.http is not None
        with (
            httpx.Client(base_url=addresses.http, timeout=20, **client) as http,
            grpc.insecure_channel(addresses.grpc) as channel,
        ):
            yield Site(addresses, http, channel)


@pytest.fixture(scope="session")
def served() -> Iterator[Site]:
    """Return a server that all tests share."""
    with site() as one:
        yield one


def as_json(message: Message) -> Any:
    """Return a message in protobuf's JSON, with every field that has a value."""
    return json.loads(json_format.MessageToJson(message, always_print_fields_with_no_presence=True))


def reason(answer: httpx.Response) -> str:
    """Return ErrorInfo's reason of a refusal."""
    assert answer.headers["content-type"] == "application/json"
    (info,) = (
        detail
        for detail in answer.json()["details"]
        if detail["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    )
    assert info["domain"] == "streameval"
    return info["reason"]


@dataclass
class Event:
    """One server-sent event."""

    name: str
    id: str
    data: Any


def events(answer: httpx.Response) -> Iterator[Event | str]:
    """Yield events, and comments as texts."""
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        if line.startswith(":"):
            yield line
        elif line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield Event(fields.get("event", ""), fields.get("id", ""), json.loads(fields["data"]))
            fields = {}
