"""Pieces that are broken off at any batch, made again, or sent by two processes."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from streameval.client import Client
from streameval.client._delivery.numbered_upload import NumberedUpload
from streameval.client._wire.transport import Transport
from streameval.kafka._delivery import Found, MovedError, PartitionDelivery, RefusedRows
from streameval.kafka._piece_range import PieceRange
from streameval.kafka._row_batches import RowBatch
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval.v1 import ingest_pb2

PIECE = PieceRange(100, 140)
STREAMS = ("a", "b", "c")
SIZE = 10
NOW_US = time.time_ns() // 1000


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.fixture
def transport() -> Iterator[Transport]:
    with running_server() as address, closing(Transport(address)) as transport:
        yield transport


def delivery(transport: Transport) -> PartitionDelivery:
    return PartitionDelivery(transport, "kafka:x/0", lambda _: None)


def batches(*, first: int = 0, late: bool = False) -> list[RowBatch]:
    """Return predictions of three streams; a `late` row is older than any stream keeps."""
    made = []
    for stream in STREAMS:
        batch = RowBatch(stream, is_labels=False)
        for row in range(first, first + SIZE):
            batch.ids.append(f"r{row}")
            batch.values.append(0.5)
            batch.places.append(row)
            batch.times.append(1 if late and row == first + 3 else NOW_US)
        if not late:
            batch.times = []
        made.append(batch)
    return made


def send(
    sender: PartitionDelivery, piece: PieceRange, made: list[RowBatch], *, is_begun: bool = False
) -> list[RefusedRows]:
    return sender.send(piece, made, {}, is_begun=is_begun)


def predictions(transport: Transport) -> list[tuple[int, int]]:
    """Return for each stream its predictions, and how many came twice."""
    with Client(transport.address) as client:
        known = [each.name for each in client.list_streams()]
        found = []
        for name in STREAMS:
            if name not in known:
                found.append((0, 0))
                continue
            counters = client.get_stream(name).counters
            assert counters is not None
            total = client.stream(name).snapshot().coverage.predictions
            found.append((total, counters.duplicate_predictions))
        return found


@pytest.mark.parametrize("durable", range(len(STREAMS) + 1))
def test_a_piece_that_is_broken_off(
    transport: Transport, monkeypatch: pytest.MonkeyPatch, durable: int
) -> None:
    """After any number of its batches the next process sends the others."""
    put = NumberedUpload.put

    def put_some(upload: NumberedUpload, batch: ingest_pb2.Batch) -> None:
        if batch.sequence > durable:
            upload.finish()
            raise KilledError
        put(upload, batch)

    first = delivery(transport)
    assert first.find().piece is None
    with monkeypatch.context() as patch:
        patch.setattr(NumberedUpload, "put", put_some)
        if durable < len(STREAMS):
            with pytest.raises(KilledError):
                send(first, PIECE, batches())
        else:
            send(first, PIECE, batches())
    second = delivery(transport)
    found = second.find()
    assert found == Found(PIECE, durable, second.history)
    assert send(second, PIECE, batches(), is_begun=True) == []
    assert predictions(transport) == [(SIZE, 0)] * len(STREAMS)
    send(second, PieceRange(140, 150), batches(first=SIZE))
    assert predictions(transport) == [(2 * SIZE, 0)] * len(STREAMS)
    assert delivery(transport).find().piece == PieceRange(140, 150)


def test_refused_rows(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other rows of their batches count, once, also when the process is killed between."""
    put = NumberedUpload.put

    def put_first(upload: NumberedUpload, batch: ingest_pb2.Batch) -> None:
        if batch.sequence > len(STREAMS) + 1:
            upload.finish()
            raise KilledError
        put(upload, batch)

    first = delivery(transport)
    first.find()
    with monkeypatch.context() as patch:
        patch.setattr(NumberedUpload, "put", put_first)
        with pytest.raises(KilledError):
            send(first, PIECE, batches(late=True))
    assert sum(total for total, _ in predictions(transport)) == SIZE - 1
    second = delivery(transport)
    assert second.find().sequence == len(STREAMS) + 1
    refused = send(second, PIECE, batches(late=True), is_begun=True)
    assert [each.rows.places for each in refused] == [[3]] * len(STREAMS)
    assert all("must not be older than retention" in each.message for each in refused)
    assert predictions(transport) == [(SIZE - 1, 0)] * len(STREAMS)


def test_a_piece_that_is_made_of_other_rows(transport: Transport) -> None:
    """With other mappings: it is sent again as a whole, and ids tell which rows are there."""
    first = delivery(transport)
    first.find()
    send(first, PIECE, batches()[:2])
    second = delivery(transport)
    assert second.find().sequence == 2
    send(second, PIECE, batches()[::-1], is_begun=True)
    assert predictions(transport) == [(SIZE, SIZE), (SIZE, SIZE), (SIZE, 0)]
    assert delivery(transport).find().piece == PIECE.again()


def test_two_processes_with_one_partition(transport: Transport) -> None:
    """Of two that believe to be at the same place, one sends, and the other looks again."""
    first, second = delivery(transport), delivery(transport)
    assert first.find() == second.find()
    send(first, PIECE, batches())
    for piece in (PIECE, PieceRange(100, 130), PieceRange(100, 150)):
        late = delivery(transport)
        late._at = second._at
        if piece == PIECE:
            assert send(late, piece, batches()) == []  # the same rows: nothing happens
            continue
        with pytest.raises(MovedError):
            send(late, piece, batches(first=5))
    assert predictions(transport) == [(SIZE, 0)] * len(STREAMS)
    found = second.find()
    assert (found.piece, found.sequence) == (PIECE, len(STREAMS))
