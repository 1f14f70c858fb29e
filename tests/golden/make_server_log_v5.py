"""Write tests/golden/data/server_log_v5: run once, for the release that defines the formats.

    python tests/golden/make_server_log_v5.py tests/golden/data/server_log_v5

This log has pairs: made, filled in every order, in cells, with segments and clusters, by a
checkpoint that has rows to count, and after it; one pair is deleted.
"""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path

import numpy as np
from make_server_log_v2 import MINUTE
from make_server_log_v4 import AlarmStory
from server_log_facts import LIMITS, facts, pair_facts

from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import pair_pb2, stream_pb2
from streameval_server._ingest.session import IngestSession


class PairStory(AlarmStory):
    """The operations to log, with those of pairs."""

    def pair(self, a: str, b: str, **settings: object) -> None:
        given = pair_pb2.Pair(a=a, b=b, settings=pair_pb2.PairSettings(**settings))
        self.administer("create_pair", pair_pb2.CreatePairRequest(pair=given))

    def round(self, first: int, size: int, *, clustered: bool = False) -> None:
        """Send predictions of both models, and labels to either of them."""
        a, b = ("burst/a", "burst/b") if clustered else ("champion", "challenger")
        ids = [f"{a}-{first + row}" for row in range(size)]
        labels = self.rng.random(size) < 0.4
        shared = self.rng.normal(1.5 * labels)
        for name, noise in ((a, 1.2), (b, 0.1)):
            scores = np.round(1_000 + shared + self.rng.normal(0, noise, size), 2).tolist()
            rows = pb.Predictions(ids=ids, scores=scores)
            if clustered:
                rows.clusters.extend(zlib.crc32(b"%d" % (row % 9)) for row in range(size))
            else:
                codes = self.rng.integers(0, 2, size).tolist()
                rows.segments.add(key="country", values=("BR", "US"), codes=codes)
            self.send(name, predictions=rows)
        half = size // 2
        for name, part in ((a, slice(0, half)), (b, slice(half, size - 2))):
            told = pb.Labels(ids=ids[part], positives=labels[part].tolist())
            self.send(name, labels=told)
        self.send(a, labels=pb.Labels(ids=ids[:2], positives=(~labels[:2]).tolist()))
        self.send(b, retractions=pb.Retractions(ids=ids[2:3]))


def _until_checkpoint(story: PairStory) -> None:
    for name in ("champion", "challenger"):
        story.create(name, segment_keys=["country"], threshold=1_001.0)
    for name in ("burst/a", "burst/b", "other"):
        story.create(name, cluster_groups=8 if name != "other" else 0)
    story.pair("champion", "challenger", max_cells=16, prevalence=0.1)
    story.pair("burst/a", "burst/b", label_ttl={"seconds": 1_800}, max_pending=100)
    story.pair("other", "champion")
    story.send_unary(1, "champion", misses=pb.Misses(positives=1))
    early = pb.Labels(ids=["early"], positives=[True])
    story.send("challenger", labels=early)
    for turn in range(12):
        story.round(100 * turn, 60)
        story.round(100 * turn, 20, clustered=True)
        story.tick(10 * MINUTE)
    story.checkpoint()


def _after_checkpoint(story: PairStory) -> None:
    for name in ("champion", "challenger"):
        story.send(name, predictions=pb.Predictions(ids=["early"], scores=[1_002.0]))
    story.update("champion", threshold=1_000.5)
    for turn in range(12, 16):
        story.round(100 * turn, 60)
        story.round(100 * turn, 20, clustered=True)
        story.tick(20 * MINUTE)
    story.administer("delete_pair", pair_pb2.DeletePairRequest(a="champion", b="other"))
    story.administer("delete_stream", stream_pb2.DeleteStreamRequest(name="other"))


def main(directory: Path) -> None:
    """Log every format of pairs, with a checkpoint in the middle."""
    story = PairStory(directory)
    story.session = IngestSession(story.core.committer, LIMITS)
    story.open("edge ü", 8)
    _until_checkpoint(story)
    _after_checkpoint(story)
    expected = facts(story.core) | {"pairs": pair_facts(story.core)}
    state_hash = story.core.engine.state_hash()
    story.core.storage.close()
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    (directory / "expected.json").write_text(text + "\n", encoding="utf-8")
    print(f"state {state_hash}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
