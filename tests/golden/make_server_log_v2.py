"""Write tests/golden/data/server_log_v2: run once, for the release that defines the format.

    python tests/golden/make_server_log_v2.py tests/golden/data/server_log_v2

The log of version 1 has cases and misses; this one has everything that event time
added: ids, labels, retractions, panes, slices, merges, ticks, changed settings, a
checkpoint with panes and join segments, streams that were deleted and created again.
"""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path

import numpy as np
from server_log_facts import LIMITS, PRODUCERS, facts

from streameval import Evaluator
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import stream_pb2, types_pb2
from streameval_server._batch.merge import MergeInbox
from streameval_server._core.recovery import open_core
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.sqlite import SqliteStorage

NOW = 1_800_000_000_000_000
SECOND = 1_000_000
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
COUNTRIES = ("US", "DE", "FR", "JP", "BR")


class Story:
    """The operations to log, in the log's time."""

    def __init__(self, directory: Path) -> None:
        self.core = open_core(SqliteStorage(directory / "log.db"), LIMITS)
        self.rng = np.random.default_rng(2027)
        self.now = NOW
        self.session = IngestSession(self.core.committer, LIMITS)
        hello = pb.Open(producer=PRODUCERS[0], epoch=7)
        self.session.feed(pb.IngestRequest(open=hello).SerializeToString(), NOW)
        self.sequence = 0

    def commit(self) -> None:
        self.now += SECOND
        self.core.committer.step(self.now).deliver()
        self.core.applier.finish()

    def send(self, stream: str, **rows) -> None:
        self.sequence += 1
        batch = pb.Batch(stream=stream, sequence=self.sequence, **rows)
        self.session.feed(pb.IngestRequest(batch=batch).SerializeToString(), self.now)
        self.commit()

    def administer(self, verb: str, request) -> None:
        call = UnaryCall(self.core.committer, LIMITS)
        getattr(call, verb)(request.SerializeToString())
        self.commit()
        call.response()

    def create(self, name: str, **settings) -> None:
        stream = stream_pb2.Stream(name=name, settings=stream_pb2.StreamSettings(**settings))
        self.administer("create_stream", stream_pb2.CreateStreamRequest(stream=stream))

    def update(self, name: str, **settings) -> None:
        stream = stream_pb2.Stream(name=name, settings=stream_pb2.StreamSettings(**settings))
        request = stream_pb2.UpdateStreamRequest(stream=stream)
        request.update_mask.paths.extend(f"settings.{each}" for each in settings)
        self.administer("update_stream", request)

    def merge(self, stream: str, source: str, epoch: int, *states: pb.PaneState) -> None:
        data = pb.MergeStates(states=states).SerializeToString()
        header = pb.MergeHeader(
            stream=stream,
            source=source,
            epoch=epoch,
            total_bytes=len(data),
            crc32=zlib.crc32(data),
        )
        inbox = MergeInbox(LIMITS)
        inbox.feed(pb.MergeRequest(header=header))
        inbox.feed(pb.MergeRequest(data=data))
        call = UnaryCall(self.core.committer, LIMITS)
        call.merge(inbox, inbox.finish(self.now, inbox.settings_in(self.core.committer.catalog)))
        self.commit()
        call.response()

    def tick(self, later_us: int) -> None:
        self.now += later_us
        self.commit()

    def checkpoint(self) -> None:
        self.core.applier.request_checkpoint()
        self.core.applier.finish()
        while self.core.committer.step(self.now).more:
            pass

    def scores(self, size: int) -> list[float]:
        return np.round(self.rng.random(size), 4).tolist()

    def segments(self, size: int) -> list[pb.SegmentColumn]:
        codes = self.rng.integers(0, len(COUNTRIES), size).tolist()
        return [pb.SegmentColumn(key="country", values=COUNTRIES, codes=codes)]

    def times(self, size: int, ago_us: int) -> list[int]:
        return (self.now - self.rng.integers(0, ago_us, size)).tolist()

    def state(self, size: int, **kwargs) -> bytes:
        evaluator = Evaluator(**kwargs)
        evaluator.add_cases(labels=self.rng.random(size) < 0.2, scores=self.scores(size))
        evaluator.add_misses(1)
        return evaluator.to_bytes()


def _first_half(story: Story) -> None:
    duration = {"seconds": 2 * 86_400}
    story.create(
        "fraud/v4",
        retention=duration,
        label_ttl={"seconds": 3600},
        segment_keys=["country"],
        orphans=stream_pb2.ORPHAN_POLICY_MISS,
    )
    story.create(
        "probabilities",
        scale=stream_pb2.SCALE_PROBABILITY,
        resolution=6,
        label_ttl={"seconds": 600},
        expired=stream_pb2.EXPIRY_POLICY_NEGATIVE,
    )
    story.create("few", max_pending=16)
    story.create("gone", segment_keys=["plan"])
    # Cases with a time per row over six hours, and more values than a key may have.
    story.send(
        "fraud/v4",
        cases=pb.Cases(
            scores=story.scores(60),
            positives=(story.rng.random(60) < 0.3).tolist(),
            event_times_us=story.times(60, 6 * HOUR),
            segments=story.segments(60),
        ),
    )
    ids = [f"order-{i}" for i in range(40)]
    # A label may arrive before its prediction.
    story.send("fraud/v4", labels=pb.Labels(ids=[*ids[:3], "orphan"], positives=[1, 0, 1, 1]))
    story.send(
        "fraud/v4",
        predictions=pb.Predictions(
            ids=ids,
            scores=story.scores(40),
            event_times_us=story.times(40, 30 * MINUTE),
            segments=story.segments(40),
        ),
    )
    story.send("fraud/v4", predictions=pb.Predictions(ids=ids[:2], scores=[0.5, 0.5]))
    story.tick(5 * MINUTE)
    story.send(
        "fraud/v4", labels=pb.Labels(ids=ids[3:20], positives=[i % 5 == 0 for i in range(17)])
    )
    story.send("fraud/v4", labels=pb.Labels(ids=ids[3:6], positives=[False, True, True]))
    story.send("fraud/v4", retractions=pb.Retractions(ids=[ids[4], ids[30], "unknown"]))
    story.send(
        "fraud/v4",
        labels=pb.Labels(
            ids=["known-1", "known-2"],
            positives=[True, False],
            scores=[0.75, 0.125],
            event_times_us=[story.now - HOUR, story.now - 3 * HOUR],
        ),
    )
    story.send("probabilities", predictions=pb.Predictions(ids=ids, scores=story.scores(40)))
    story.send("probabilities", labels=pb.Labels(ids=ids[::4], positives=[True, False] * 5))
    story.send(
        "few",
        predictions=pb.Predictions(
            ids=ids, scores=story.scores(40), event_times_us=story.times(40, 12 * HOUR)
        ),
    )
    story.send("few", labels=pb.Labels(ids=ids[20:], positives=[i % 3 == 0 for i in range(20)]))
    story.send("gone", cases=pb.Cases(scores=[0.5, 0.25], positives=[True, False]))
    # A refused batch, which still consumes its sequence.
    story.send("fraud/v4", predictions=pb.Predictions(ids=[""], scores=[0.5]))


def _second_half(story: Story) -> None:
    story.administer("delete_stream", stream_pb2.DeleteStreamRequest(name="gone"))
    story.create("gone", segment_keys=["country", "plan"])
    story.update("fraud/v4", segment_keys=["country", "plan"], relabel_ttl={"seconds": 60})
    segments = [types_pb2.Segment(key="country", value="US")]
    story.merge(
        "fraud/v4",
        "edge-1",
        3,
        pb.PaneState(
            event_time_us=story.now - HOUR,
            segments=segments,
            evaluator=story.state(25, resolution=12),
        ),
        pb.PaneState(evaluator=story.state(30)),
    )
    story.merge("gone", "batch", 1, pb.PaneState(evaluator=story.state(10, resolution=4)))
    call = UnaryCall(story.core.committer, LIMITS)
    batch = pb.Batch(
        sequence=1,
        stream="fraud/v4",
        misses=pb.Misses(
            positives=2,
            negatives=1,
            event_time_us=story.now - 20 * MINUTE,
            segments=[*segments, types_pb2.Segment(key="plan", value="pro")],
        ),
    )
    request = pb.IngestBatchRequest(producer=PRODUCERS[1], epoch=1, batch=batch)
    call.ingest_batch(request.SerializeToString(), story.now)
    story.commit()
    # Late labels change past panes; then time passes, and unlabelled predictions expire.
    ids = [f"order-{i}" for i in range(20, 30)]
    story.send("fraud/v4", labels=pb.Labels(ids=ids, positives=[i % 2 == 0 for i in range(10)]))
    story.tick(2 * HOUR)
    story.send("fraud/v4", labels=pb.Labels(ids=["order-35"], positives=[True]))
    story.send("probabilities", labels=pb.Labels(ids=["order-1"], positives=[True]))
    story.update("fraud/v4", retention={"seconds": 4 * 3600})
    story.tick(40 * MINUTE)
    # Some predictions are still pending at the end.
    late = [f"order-{i}" for i in range(100, 120)]
    story.send(
        "fraud/v4",
        predictions=pb.Predictions(ids=late, scores=story.scores(20), segments=story.segments(20)),
    )
    story.send("fraud/v4", labels=pb.Labels(ids=[*late[::3], "early"], positives=[True] * 8))


def main(directory: Path) -> None:
    """Log every kind of entry, with a checkpoint in the middle; print the logged entries."""
    story = Story(directory)
    _first_half(story)
    story.checkpoint()
    _second_half(story)
    expected = facts(story.core)
    story.core.storage.close()
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    (directory / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
