"""Write tests/golden/data/server_log_v4: run once, for the release that defines the formats.

    python tests/golden/make_server_log_v4.py tests/golden/data/server_log_v4

The log of version 3 has format 2 of the file. This one has the rows that came with weights,
clusters, label delays and detectors: a checkpoint in the middle keeps a detector that watches
with one alarm open, and another is acknowledged and delivered after it.
"""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path

import numpy as np
from make_server_log_v2 import HOUR, MINUTE, Story
from make_server_log_v3 import DeliveryStory
from server_log_facts import LIMITS, alarm_facts, facts

from streameval.v1 import alarm_pb2, stream_pb2
from streameval.v1 import ingest_pb2 as pb
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._model.alarm_change import AlarmChange

WATCHED, CREATED = "watched", "created-watching"
"""The streams with detectors: one is declared by an update, one when its stream is created."""


class AlarmStory(DeliveryStory):
    """The operations to log, with those that came with weights, clusters and detectors."""

    def cases(self, size: int, *, good: bool) -> pb.Cases:
        """Return cases that a model orders well, or in one country not at all."""
        labels = self.rng.random(size) < 0.4
        codes = self.rng.integers(0, 2, size)
        shift = np.where((codes == 0) & (not good), -1.5, 1.5)
        logit = shift * (2 * labels - 1) + self.rng.normal(size=size)
        scores = np.round(1 / (1 + np.exp(-logit)), 3)
        column = pb.SegmentColumn(key="country", values=("BR", "US"), codes=codes.tolist())
        return pb.Cases(scores=scores.tolist(), positives=labels.tolist(), segments=[column])

    def change_alarm(self, name: str, number: int, *, is_delivery: bool) -> None:
        call = UnaryCall(self.core.committer, LIMITS)
        call.change_alarm(name, AlarmChange(number, is_delivery=is_delivery))
        self.commit()
        call.response()


def alarms(story: Story) -> alarm_pb2.AlarmSettings:
    """Return settings that compare with the hour that has just passed."""
    made = alarm_pb2.AlarmSettings(
        watches=[
            alarm_pb2.AlarmWatch(name=name, tolerance=0.02)
            for name in ("ranking", "placement", "precision", "calibration")
        ],
        pane={"seconds": 60},
        maturity={"seconds": 60},
        mean_time_to_false_alarm={"seconds": 3_600},
        label_wait={"seconds": 0},
    )
    made.reference.start_time.FromMicroseconds((story.now - HOUR) // HOUR * HOUR)
    made.reference.end_time.FromMicroseconds(story.now // HOUR * HOUR)
    return made


def _checksums(size: int) -> list[int]:
    return [zlib.crc32(b"user-%d" % (row % 7)) for row in range(size)]


def _until_checkpoint(story: AlarmStory) -> None:
    story.create("clustered", cluster_groups=8)
    story.create(WATCHED, segment_keys=["country"], threshold=0.5, scale=2)
    clustered = pb.Cases(scores=story.scores(20), positives=[True, False] * 10)
    clustered.clusters.extend(_checksums(20))
    story.send("clustered", cases=clustered)
    weighted = pb.Cases(scores=story.scores(6), positives=[True, False] * 3)
    weighted.weights.extend([0.5, 1.0, 2.0] * 2)
    story.send("weighted", cases=weighted)
    story.send_unary(1, "weighted", cases=weighted)
    ids = [f"order-{i}" for i in range(12)]
    story.send("late", predictions=pb.Predictions(ids=ids, scores=story.scores(12)))
    story.tick(7 * MINUTE)
    labels = pb.Labels(ids=ids[:5], positives=[True, False, False, True, False])
    story.send_unary(2, "late", labels=labels)
    labels = pb.Labels(ids=ids[5:9], positives=[True, False] * 2, weights=[2.0, 1.0] * 2)
    story.send("late", labels=labels)
    for _ in range(12):
        story.send(WATCHED, cases=story.cases(40, good=True))
        story.tick(10 * MINUTE)
    story.update(WATCHED, alarms=alarms(story))
    made = stream_pb2.StreamSettings(threshold=0.5, scale=2, alarms=alarms(story))
    created = stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name=CREATED, settings=made))
    story.administer("create_stream", created)
    for _ in range(20):
        story.send(WATCHED, cases=story.cases(20, good=False))
        story.tick(MINUTE)
    story.checkpoint()


def _after_checkpoint(story: AlarmStory) -> None:
    story.send(WATCHED, cases=story.cases(10, good=False))
    story.change_alarm(WATCHED, 1, is_delivery=True)
    story.change_alarm(WATCHED, 1, is_delivery=False)
    for _ in range(10):
        story.send(WATCHED, cases=story.cases(20, good=False))
        story.tick(MINUTE)
    # Rows that no pane has observed yet.
    story.send(WATCHED, cases=story.cases(9, good=True))


def main(directory: Path) -> None:
    """Log every format that came after version 3, with a checkpoint in the middle."""
    story = AlarmStory(directory)
    story.session = IngestSession(story.core.committer, LIMITS)
    story.open("edge ü", 8)
    _until_checkpoint(story)
    _after_checkpoint(story)
    expected = facts(story.core) | {"alarms": alarm_facts(story.core)}
    state_hash = story.core.engine.state_hash()
    story.core.storage.close()
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    (directory / "expected.json").write_text(text + "\n", encoding="utf-8")
    print(f"state {state_hash}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
