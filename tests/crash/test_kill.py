"""The server is killed at random moments under load: no batch is lost or counted twice.

Each producer's batches are a function of its name and their sequence, so the oracle keeps no
record of what was sent: after a restart the server tells each producer the last durable
sequence. It must include every acknowledged batch, and the state must be that of exactly the
batches up to there.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import numpy as np
import pytest

from streameval import Evaluator
from streameval.v1 import ingest_pb2, ingest_pb2_grpc, query_pb2, query_pb2_grpc, types_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .conftest import Process

SMALL_SERVER = str(Path(__file__).parent / "serve_small.py")
PRODUCERS = 4
STREAMS = 2
ROWS = 200
WINDOW = 64
RESENT = 3  # Durable batches that are sent again after each restart.


def rows(producer: int, sequence: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the cases of one batch."""
    rng = np.random.default_rng((producer, sequence))
    labels = rng.random(ROWS) < 0.2
    return labels, np.round(rng.normal(labels.astype(float)), 3)


def is_bad(sequence: int) -> bool:
    """Whether the server refuses this batch; its sequence is consumed nevertheless."""
    return sequence % 7 == 3


def batch(producer: int, sequence: int) -> ingest_pb2.Batch:
    """Return one batch."""
    labels, scores = rows(producer, sequence)
    if is_bad(sequence):
        scores[sequence % ROWS] = np.nan
    return ingest_pb2.Batch(
        sequence=sequence,
        stream=f"kill/{sequence % STREAMS}",
        cases=ingest_pb2.Cases(
            scores_f64le=scores.astype("<f8").tobytes(),
            positives_bits=np.packbits(labels, bitorder="little").tobytes(),
        ),
    )


class Load:
    """All producers, and what they know across the server's restarts."""

    def __init__(self) -> None:
        self.acked = [0] * PRODUCERS
        self.durable = [0] * PRODUCERS
        self.refused: set[tuple[int, int]] = set()
        self.revision = 0
        self.sent = 0
        self.problems: list[str] = []
        self.moved = threading.Condition()
        self._stop = False

    def run(self, address: str, until_sent: int, end: Callable[[], object]) -> None:
        """Send from all producers, and call `end` once a number of batches were sent."""
        self._stop = False
        target = self.sent + until_sent
        with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            threads = [
                threading.Thread(target=self._produce, args=(channel, i)) for i in range(PRODUCERS)
            ]
            for thread in threads:
                thread.start()
            with self.moved:
                assert self.moved.wait_for(lambda: self.sent >= target or self.problems, 30)
            end()
            with self.moved:
                self._stop = True
                self.moved.notify_all()
            for thread in threads:
                thread.join(30)
                assert not thread.is_alive()

    def _requests(self, producer: int) -> Iterator[ingest_pb2.IngestRequest]:
        name = f"producer-{producer}"
        yield ingest_pb2.IngestRequest(open=ingest_pb2.Open(producer=name, epoch=1))
        sequence = max(1, self.durable[producer] - RESENT)
        while True:
            with self.moved:
                while sequence > self.acked[producer] + WINDOW and not self._stop:
                    self.moved.wait(30)
                if self._stop:
                    return
                self.sent += 1
                self.moved.notify_all()
            yield ingest_pb2.IngestRequest(batch=batch(producer, sequence))
            sequence += 1

    def _produce(self, channel: grpc.Channel, producer: int) -> None:
        stub = ingest_pb2_grpc.IngestServiceStub(channel)
        requests = self._requests(producer)
        opened = threading.Event()

        def held() -> Iterator[ingest_pb2.IngestRequest]:
            yield next(requests)
            opened.wait(30)  # the resume point is known only then
            yield from requests

        try:
            for answer in stub.Ingest(held()):
                with self.moved:
                    self._take(producer, answer)
                    self.moved.notify_all()
                opened.set()
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                self.problems.append(f"{producer}: {error.code()} {error.details()}")
        finally:
            opened.set()
            with self.moved:
                self.moved.notify_all()

    def _take(self, producer: int, answer: ingest_pb2.IngestResponse) -> None:
        match answer.WhichOneof("message"):
            case "resume":
                last = answer.resume.last_sequence
                if last < self.acked[producer]:
                    self.problems.append(f"{producer}: lost {last + 1} to {self.acked[producer]}")
                self.durable[producer] = last
                self.acked[producer] = max(last, self.acked[producer])
            case "refused":
                self.refused.add((producer, answer.refused.sequence))
            case "ack":
                self.acked[producer] = max(self.acked[producer], answer.ack.last_sequence)
                self.revision = max(self.revision, answer.ack.revision)

    def check(self, address: str) -> None:
        """Compare the server's state with that of the batches that it reports as durable."""
        with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            for producer in range(PRODUCERS):
                opened = ingest_pb2.Open(producer=f"producer-{producer}", epoch=1)
                request = ingest_pb2.IngestRequest(open=opened)
                for answer in ingest_pb2_grpc.IngestServiceStub(channel).Ingest(iter([request])):
                    self._take(producer, answer)
            assert not self.problems
            query = query_pb2_grpc.QueryServiceStub(channel)
            for stream in range(STREAMS):
                expected = self._expected(stream)
                if not expected.num_cases:
                    continue
                chosen = types_pb2.Selection(stream=f"kill/{stream}", min_revision=self.revision)
                pieces = list(query.GetState(query_pb2.GetStateRequest(selection=chosen)))
                found = Evaluator.from_bytes(b"".join(piece.data for piece in pieces))
                assert content(found) == content(expected)
                assert pieces[0].revision >= self.revision

    def _expected(self, stream: int) -> Evaluator:
        expected = Evaluator()
        for producer, last in enumerate(self.durable):
            for sequence in range(1, last + 1):
                if sequence % STREAMS == stream and not is_bad(sequence):
                    labels, scores = rows(producer, sequence)
                    expected.add_cases(labels=labels, scores=scores)
        return expected


def content(evaluator: Evaluator) -> tuple[list[float], ...]:
    """Return the server's counts."""
    points = evaluator.operating_points()
    return points.thresholds.tolist(), points.fp.tolist(), points.tp.tolist()


def kill_rounds(start: Callable[..., Process], disk: Path, seed: int, rounds: int) -> None:
    """Kill the server repeatedly under load, and check its state after each restart."""
    chance = random.Random(seed)
    load = Load()
    server = start(SMALL_SERVER, str(disk))
    for _ in range(rounds):
        load.run(server.address, chance.randrange(1, 400), server.kill)
        assert not load.problems
        server = start(SMALL_SERVER, str(disk))
        load.check(server.address)
    assert load.sent > 0
    assert all(is_bad(sequence) for _, sequence in load.refused)
    # The last one finishes, stops gracefully, and still agrees.
    load.run(server.address, 200, server.terminate)
    server = start(SMALL_SERVER, str(disk))
    load.check(server.address)


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_under_load(start: Callable[..., Process], disk: Path, seed: int) -> None:
    """No acked batch is lost or counted twice over several kills on one log."""
    kill_rounds(start, disk, seed, rounds=6)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(10, 20))
def test_killed_under_load_many_times(start: Callable[..., Process], disk: Path, seed: int) -> None:
    """The same with many more kills."""
    kill_rounds(start, disk, seed, rounds=25)


def test_killed_before_anything(start: Callable[..., Process], disk: Path) -> None:
    """A server that is killed right after its start leaves a directory that can be started."""
    for _ in range(2):
        start(SMALL_SERVER, str(disk)).kill()
    load = Load()
    server = start(SMALL_SERVER, str(disk))
    load.run(server.address, 50, server.terminate)
    load.check(start(SMALL_SERVER, str(disk)).address)
    assert sum(load.durable) > 0
