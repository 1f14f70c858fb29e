"""A stream takes the segment keys of its first rows; later keys are kept until it has them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import urllib.request
from typing import TYPE_CHECKING

import pytest

from streameval import Evaluator
from streameval.client import (
    AsyncClient,
    Client,
    InvalidRequestError,
    PreconditionError,
    RowsLostError,
)
from streameval.client._delivery.numbered_upload import NumberedUpload
from streameval.client._wire.credentials import Credentials
from streameval.client._wire.transport import Transport
from streameval.v1 import ingest_pb2
from streameval_server import Settings
from streameval_server.testing import running_server, running_service

if TYPE_CHECKING:
    from pathlib import Path


def keys(client: Client, stream: str) -> tuple[str, ...]:
    """Return a stream's keys."""
    return client.get_stream(stream).settings.segment_keys


@pytest.mark.parametrize("kind", ["case", "cases", "prediction", "miss"])
def test_the_first_rows_of_the_client_bring_their_keys(client: Client, kind: str) -> None:
    """Whatever kind of rows they are; rows without segments and of fewer keys follow."""
    name = f"first/{kind}"
    stream = client.stream(name)
    segments = {"country": "US", "channel": "web"}
    if kind == "case":
        stream.add_case(True, 0.9, segments=segments)
    elif kind == "cases":
        stream.add_cases(
            labels=[1, 0],
            scores=[0.9, 0.1],
            segments={"country": ["US", "DE"], "channel": "web"},
        )
    elif kind == "prediction":
        stream.log("a", 0.9, segments=segments)
        stream.label("a", True)
    else:
        stream.add_misses(1, segments=segments)
    stream.flush()
    assert sorted(keys(client, name)) == ["channel", "country"]
    assert stream.snapshot(segment=("country", "US")).num_cases == 1
    stream.add_case(True, 0.5)
    stream.add_case(True, 0.5, segments={"country": "US"})
    stream.flush()
    assert stream.snapshot(segment=("country", "US")).num_cases == 2


def test_a_stream_that_rows_without_segments_created_has_no_keys(client: Client) -> None:
    """Its first rows decide."""
    stream = client.stream("first/plain")
    stream.add_case(True, 0.5)
    stream.flush()
    assert keys(client, "first/plain") == ()


def test_the_first_merge_brings_its_keys(client: Client) -> None:
    """States of several segments bring all of their keys."""
    state = Evaluator()
    state.add_case(True, 0.5)
    stream = client.stream("first/merge")
    stream.merge(state, source="a", epoch=1, segments={"country": "US"})
    assert keys(client, "first/merge") == ("country",)
    assert stream.snapshot(segment=("country", "US")).num_cases == 1
    command = "streameval streams update first/merge --segment channel"
    with pytest.raises(InvalidRequestError, match=re.escape(command)):
        stream.merge(state, source="a", epoch=2, segments={"channel": "web"})


def test_the_first_rows_over_http_and_of_an_upload_bring_their_keys() -> None:
    """The doors of JSON, and of `push` and Kafka."""
    cases = {
        "scores": [0.5],
        "positives": [True],
        "segments": [{"key": "country", "values": ["US"], "codes": [0]}],
    }
    with running_service() as addresses, Client(addresses.grpc) as client:
        request = urllib.request.Request(
            f"{addresses.http}/v1/streams/http:ingest",
            json.dumps({"batch": {"cases": cases}}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.status == 200
        assert keys(client, "http") == ("country",)
        transport = Transport(addresses.grpc, Credentials(addresses.grpc))
        upload = NumberedUpload(transport, "push", 1)
        upload.begin()
        column = ingest_pb2.SegmentColumn(key="country", values=["US"], codes=[0])
        rows = ingest_pb2.Cases(scores=[0.5], positives=[True], segments=[column])
        upload.put(ingest_pb2.Batch(sequence=1, stream="push", cases=rows))
        upload.finish()
        upload.close()
        transport.close()
        assert keys(client, "push") == ("country",)


def test_the_keys_survive_a_restart(tmp_path: Path, free_address: str) -> None:
    """The log has them: the stream is what it was."""
    settings = Settings(listen=free_address, data=tmp_path / "data")
    with Client(free_address) as client:
        with running_server(settings):
            stream = client.stream("a")
            stream.add_case(True, 0.9, segments={"country": "US"})
            stream.flush()
            before = client.get_stream("a").settings
        with running_server(settings):
            assert client.get_stream("a").settings == before
            assert stream.snapshot(segment=("country", "US")).num_cases == 1


def test_too_many_keys_create_nothing(client: Client) -> None:
    """The limit of keys holds for first rows too."""
    stream = client.stream("first/many")
    stream.add_case(True, 0.5, segments={f"k{number}": "x" for number in range(9)})
    with pytest.raises(RowsLostError, match="at most 8 segment keys, got 9"):
        stream.flush()
    assert not client.list_streams("first/many")


def test_rows_wait_until_their_keys_are_declared(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """They are neither lost nor durable; a flush says which call helps, and the call helps."""
    caplog.set_level(logging.WARNING, "streameval.client")
    stream, other = client.stream("later/keys"), client.stream("later/other")
    stream.add_case(True, 0.5, segments={"country": "US"})
    stream.flush()
    refused = client.statistics().refused
    for number in range(3):
        stream.log(f"id {number}", 0.5, segments={"country": "US", "channel": "web"})
    other.add_case(True, 0.5)
    call = "client.update_stream('later/keys', segment_keys=['country', 'channel'])"
    for _ in range(2):
        with pytest.raises(PreconditionError, match=re.escape(call)) as caught:
            client.flush()
        assert caught.value.reason == "SEGMENT_KEYS_MISSING"
    # Later rows of the stream wait behind these.
    stream.label("id 0", True)
    stream.retract("id 2")
    with pytest.raises(PreconditionError, match=re.escape(call)):
        client.flush()
    statistics = client.statistics()
    assert (statistics.pending, statistics.refused - refused) == (5, 0)
    assert call in (statistics.last_error or "")
    assert sum(call in record.message for record in caplog.records) == 1
    assert other.snapshot().num_cases == 1
    client.update_stream("later/keys", segment_keys=["country", "channel"])
    stream.flush()
    assert client.statistics().pending == 0
    assert stream.snapshot(segment=("channel", "web")).num_cases == 1
    counters = client.get_stream("later/keys").counters
    assert (counters.unknown_retractions, counters.kept_ids) == (0, 2)


def test_a_full_buffer_keeps_no_rows(address: str) -> None:
    """Rows that wait for keys do not stop those of other streams."""
    with Client(address, max_buffered_rows=10, when_full="block", batch_rows=5) as client:
        stream = client.stream("full/keys")
        stream.add_case(True, 0.5)
        stream.flush()
        for number in range(40):
            stream.log(str(number), 0.5, segments={"country": "US"})
        other = client.stream("full/other")
        for _ in range(20):
            other.add_case(True, 0.5)
        with pytest.raises((RowsLostError, PreconditionError)):
            client.flush()
        statistics = client.statistics()
        assert statistics.refused
        assert statistics.refused + statistics.pending == 40
        assert statistics.acked == 21
        client.update_stream("full/keys", segment_keys=["country"])
        with contextlib.suppress(RowsLostError):
            client.flush()
        assert client.statistics().pending == 0


def test_rows_of_an_asyncio_client_wait_too(address: str) -> None:
    """The same rules, without a thread."""

    async def main() -> None:
        async with AsyncClient(address) as client:
            stream = client.stream("async/keys")
            stream.add_case(True, 0.5)
            await stream.flush()
            stream.add_case(True, 0.5, segments={"country": "US"})
            with pytest.raises(PreconditionError, match="segment_keys"):
                await stream.flush()
            await client.update_stream("async/keys", segment_keys=["country"])
            await stream.flush()
            assert (await stream.snapshot(segment=("country", "US"))).num_cases == 1

    asyncio.run(main())
