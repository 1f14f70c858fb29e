"""Batches that the caller numbers: each once, over restarts of the server and of the caller."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval.client import Client, ClientError, FencedError
from streameval.client._buffer.columns import BufferedCases
from streameval.client._delivery import numbered_upload
from streameval.client._delivery.numbered_upload import NumberedUpload
from streameval.client._wire.transport import Transport
from streameval_server import Settings
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streameval.v1 import ingest_pb2

STREAM = "numbered/v1"
ROWS = 10


def batch(sequence: int, score: float | None = None) -> ingest_pb2.Batch:
    """Return the batch of a sequence: ten positives at its score."""
    scores = np.full(ROWS, sequence if score is None else score, dtype=np.float64)
    return BufferedCases(STREAM, np.ones(ROWS, dtype=np.bool_), scores).batch(sequence)


def counts(address: str) -> dict[float, int]:
    with Client(address) as client:
        client.list_streams()
        points = client.stream(STREAM).evaluator().operating_points()
    at = zip(points.thresholds, np.diff(points.tp, prepend=0), strict=True)
    return {float(score): int(rows) for score, rows in at if rows}


@pytest.fixture
def settings(tmp_path: Path, free_address: str) -> Settings:
    """Return the settings of a server that keeps its address and its log."""
    return Settings(listen=free_address, data=tmp_path / "data")


@pytest.fixture
def transport(free_address: str) -> Iterator[Transport]:
    with closing(Transport(free_address)) as transport:
        yield transport


def test_a_server_that_restarts(settings: Settings, transport: Transport) -> None:
    """What was put while it was away, and before, counts once."""
    with running_server(settings):
        upload = NumberedUpload(transport, "load", 7)
        assert upload.begin() == 0
        for sequence in (1, 2):
            upload.put(batch(sequence))
        assert upload.finish() == upload.revision
        assert upload.durable_sequence == 2
    for sequence in (3, 4, 5):
        upload.put(batch(sequence))
    with running_server(settings) as address:
        upload.finish()
        upload.close()
        with closing(NumberedUpload(transport, "load", 7)) as again:
            assert again.begin() == 5
        assert counts(address) == {float(each): ROWS for each in range(1, 6)}


def test_two_processes_with_one_source(settings: Settings, transport: Transport) -> None:
    """Their batches are the same, so the second one of each is a duplicate."""
    with running_server(settings) as address:
        uploads = [NumberedUpload(transport, "load", 7) for _ in range(2)]
        assert [each.begin() for each in uploads] == [0, 0]
        for sequence in range(1, 21):
            for upload in uploads[:: 1 if sequence % 3 else -1]:
                upload.put(batch(sequence))
        for upload in uploads:
            upload.finish()
            upload.close()
        assert counts(address) == {float(each): ROWS for each in range(1, 21)}


def test_what_is_durable_is_compared(settings: Settings, transport: Transport) -> None:
    """The same batch under its number is known again, another one is not; a lower epoch is told."""
    with running_server(settings) as address:
        with closing(NumberedUpload(transport, "load", 7)) as upload:
            upload.begin()
            for sequence in (1, 2, 3):
                upload.put(batch(sequence))
            upload.finish()
            assert [upload.check(batch(sequence)) for sequence in (1, 2, 3)] == [True] * 3
            assert not upload.check(batch(3, score=0.5))
            changed = batch(3)
            changed.source_checksum = 9
            assert not upload.check(changed)
        with (
            closing(NumberedUpload(transport, "load", 6)) as older,
            pytest.raises(FencedError, match="epoch 7"),
        ):
            older.begin()
        assert counts(address) == {1.0: ROWS, 2.0: ROWS, 3.0: ROWS}


def test_a_server_that_has_lost_rows_ends_it(
    settings: Settings, transport: Transport, tmp_path: Path
) -> None:
    """Rows that were acknowledged are not sent again behind the caller's back."""
    with running_server(settings):
        upload = NumberedUpload(transport, "load", 7)
        upload.begin()
        upload.put(batch(1))
        upload.finish()
    other = Settings(listen=settings.listen, data=tmp_path / "other")
    upload.put(batch(2))
    with (
        running_server(other),
        closing(upload),
        pytest.raises(ClientError, match="has lost rows that it had acknowledged"),
    ):
        upload.finish()


def test_a_full_upload_waits(
    settings: Settings, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for one batch, each waits for the one before."""
    monkeypatch.setattr(numbered_upload, "MAX_WAITING_BYTES", 1)
    with running_server(settings) as address:
        with closing(NumberedUpload(transport, "load", 7)) as upload:
            upload.begin()
            for sequence in range(1, 11):
                upload.put(batch(sequence))
                assert upload.durable_sequence >= sequence - 1
            upload.finish()
        assert sum(counts(address).values()) == 10 * ROWS


def test_a_refused_batch_is_reported(settings: Settings, transport: Transport) -> None:
    """By the process that sent it, and by the next one."""
    with running_server(settings) as address:
        uploads = []
        for _ in range(2):
            with closing(NumberedUpload(transport, "load", 7)) as upload:
                for sequence in range(upload.begin() + 1, 4):
                    message = batch(sequence)
                    if sequence == 2:
                        message.cases.positives_bits = b""
                    upload.put(message)
                upload.finish()
            uploads.append(upload)
        for upload in uploads:
            (refusal,) = upload.refusals
            assert refusal.sequence == 2
            assert "scores must have one row for each of labels" in refusal.message
        assert counts(address) == {1.0: ROWS, 3.0: ROWS}


def test_an_epoch_that_starts_at_a_place(settings: Settings, transport: Transport) -> None:
    """Of two processes that take over from the same place, one succeeds."""
    with running_server(settings) as address:
        with closing(NumberedUpload(transport, "topic/0", 1)) as before:
            assert before.begin() == 0
            before.put(batch(1))
            before.finish()
        first = NumberedUpload(transport, "topic/0", 7, after=(1, 1))
        late = NumberedUpload(transport, "topic/0", 9, after=(1, 1))
        with closing(first), closing(late):
            assert first.begin() == 0
            with pytest.raises(FencedError, match="is at sequence 0 of epoch 7") as caught:
                late.begin()
            assert caught.value.reason == "EPOCH_MOVED"
            assert caught.value.metadata == {"current_epoch": "7", "current_sequence": "0"}
            first.put(batch(1, score=7.0))
            first.finish()
        with closing(NumberedUpload(transport, "topic/0", 7, after=(1, 1))) as again:
            assert again.begin() == 1  # it has started: where it began does not matter any more
        with closing(NumberedUpload(transport, "topic/0", 1)) as old:
            with pytest.raises(FencedError) as caught:
                old.begin()
            assert caught.value.metadata == {"current_epoch": "7"}
        assert counts(address) == {1.0: ROWS, 7.0: ROWS}
