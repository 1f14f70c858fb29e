"""What detectors cost a server: ingest with and without, in one process. A part of bench/alarms.py.

The server's core alone takes encoded batches, of 1,000 cases each, for many streams in turn:
decoding, log, state. The log's time passes as it would at 2.5 M cases a second, so a pane of a
minute ends as rarely as it does then. Without gRPC the share of a detector is the greater.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from alarms_streams import THRESHOLD, TOLERANCE

from streameval.v1 import ingest_pb2, stream_pb2
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.limits import Limits

SERVED_WATCHES = ("ranking", "precision", "flagged", "calibration")
BATCH_ROWS = 1_000
_BATCH_US = round(BATCH_ROWS / 2.5)
_DAY_US = 86_400_000_000
_START_US = 1_800_000_000_000_000
_LIMITS = Limits()


class _Server:
    """A core with streams, and the processor time that it has taken."""

    def __init__(self, directory: Path, streams: int) -> None:
        self.core: ServerCore = open_core(SqliteStorage(directory / "log.db"), _LIMITS)
        self.now_us = _START_US
        self.names = [f"model/{number}" for number in range(streams)]
        self.seconds = 0.0
        for name in self.names:
            settings = stream_pb2.StreamSettings(threshold=THRESHOLD, scale=2)
            stream = stream_pb2.Stream(name=name, settings=settings)
            request = stream_pb2.CreateStreamRequest(stream=stream)
            self._call("create_stream", request.SerializeToString())

    def declare(self) -> None:
        """Declare alarms in every stream; the reference is the day before."""
        for name in self.names:
            request = stream_pb2.UpdateStreamRequest(stream=stream_pb2.Stream(name=name))
            alarms = request.stream.settings.alarms
            for watch in SERVED_WATCHES:
                alarms.watches.add(name=watch, tolerance=TOLERANCE)
            alarms.reference.start_time.FromMicroseconds(_START_US - _DAY_US)
            alarms.reference.end_time.FromMicroseconds(_START_US)
            request.update_mask.paths.append("settings.alarms")
            self._call("update_stream", request.SerializeToString())

    def _call(self, verb: str, *arguments: object) -> None:
        call = UnaryCall(self.core.committer, _LIMITS)
        getattr(call, verb)(*arguments)
        self.core.committer.step(self.now_us).deliver()
        self.core.applier.finish()
        call.response()

    def add(self, name: str, cases: ingest_pb2.Cases, at_us: int = 0) -> None:
        """Take a batch; one without a time has that of its arrival."""
        batch = ingest_pb2.Batch(stream=name, cases=cases)
        if at_us:
            batch.cases.event_times_us.extend([at_us] * BATCH_ROWS)
        frame = ingest_pb2.IngestBatchRequest(batch=batch).SerializeToString()
        began = time.process_time()
        self._call("ingest_batch", frame, self.now_us)
        self.seconds += time.process_time() - began
        self.now_us += _BATCH_US


def _cases(rng: np.random.Generator) -> ingest_pb2.Cases:
    labels = rng.random(BATCH_ROWS) < 0.2
    logit = 2 * (2 * labels + rng.normal(size=BATCH_ROWS)) - 3.4
    scores = 1 / (1 + np.exp(-logit))
    return ingest_pb2.Cases(
        scores_f64le=scores.astype("<f8").tobytes(),
        positives_bits=np.packbits(labels, bitorder="little").tobytes(),
    )


def print_served(chosen: argparse.Namespace) -> None:
    """Print the processor time a case with and without detectors, in interleaved rounds."""
    rng = np.random.default_rng(chosen.seed)
    batches = [_cases(rng) for _ in range(50)]
    streams, rounds = chosen.streams, 41
    with tempfile.TemporaryDirectory() as with_, tempfile.TemporaryDirectory() as without:
        servers = [
            _Server(Path(with_), streams),
            _Server(Path(without), streams),
        ]
        for server in servers:
            for name in server.names:
                server.add(name, batches[0], _START_US - _DAY_US // 2)
            server.now_us = _START_US + _DAY_US // 24
        servers[0].declare()
        found: list[list[float]] = [[], []]
        for turn in range(rounds + 1):
            for which in (0, 1) if turn % 2 else (1, 0):
                server = servers[which]
                server.seconds = 0.0
                for number in range(chosen.batches):
                    server.add(server.names[number % streams], batches[number % 50])
                if turn:  # the first one freezes the references
                    found[which].append(1e9 * server.seconds / (chosen.batches * BATCH_ROWS))
        detectors = [view for _, view in servers[0].core.engine.alarms(limit=streams)]
        watching = sum(not view.waits_for for view in detectors)
        assert watching == streams, detectors[0].waits_for
        for server in servers:
            server.core.storage.close()
    ratios = [b / a for a, b in zip(*found, strict=True)]
    print(f"{streams} streams, {watching} watching {len(SERVED_WATCHES)} means each")
    print(f"ns a case, medians of {rounds} rounds: with {median(found[0]):.0f}", end=", ")
    print(f"without {median(found[1]):.0f}")
    print(f"rate with, as a share of without: {median(ratios):.3f}", end=" ")
    print(f"({min(ratios):.3f} to {max(ratios):.3f})")
