"""Write tests/golden/data/server_log_v6: run once, for the release that defines the formats.

    python tests/golden/make_server_log_v6.py tests/golden/data/server_log_v6

It has what came after version 4 for single streams: segment keys that are crossed, when a stream is
created and by an update, and annotations of its time, made and deleted before a checkpoint and
after it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from make_server_log_v2 import MINUTE
from make_server_log_v3 import DeliveryStory
from server_log_facts import LIMITS, facts, mark_facts

from streameval.v1 import ingest_pb2 as pb
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._model.mark import MarkChange

CROSSED, LATER = "crossed", "crossed-later"
"""A stream that is created with a crossed key, and one that gets it by an update."""
KEYS = ["country", "channel", "country*channel"]


class MarkStory(DeliveryStory):
    """The operations to log, with annotations and two keys."""

    def change_marks(self, name: str, change: MarkChange) -> None:
        call = UnaryCall(self.core.committer, LIMITS)
        call.change_marks(name, change)
        self.commit()
        call.response()

    def pairs_of_values(self, size: int) -> list[pb.SegmentColumn]:
        return [
            pb.SegmentColumn(
                key=key, values=values, codes=self.rng.integers(0, len(values), size).tolist()
            )
            for key, values in (("country", ("BR", "", "US")), ("channel", ("web", "app*")))
        ]

    def rows(self, name: str, size: int) -> None:
        """Send cases, and predictions by id of which some are labelled."""
        labels = (self.rng.random(size) < 0.4).tolist()
        given = {"scores": self.scores(size), "segments": self.pairs_of_values(size)}
        self.send(name, cases=pb.Cases(positives=labels, **given))
        ids = [f"{self.sequence}-{row}" for row in range(size)]
        given = {"scores": self.scores(size), "segments": self.pairs_of_values(size)}
        self.send(name, predictions=pb.Predictions(ids=ids, **given))
        self.send(name, labels=pb.Labels(ids=ids[::2], positives=labels[::2]))


def main(directory: Path) -> None:
    """Log both formats, with a checkpoint in the middle."""
    story = MarkStory(directory)
    story.session = IngestSession(story.core.committer, LIMITS)
    story.open("edge \u00fc", 8)
    story.create(CROSSED, segment_keys=KEYS)
    story.create(LATER, segment_keys=KEYS[:2])
    for name in (CROSSED, LATER):
        story.rows(name, 30)
    story.send_unary(1, CROSSED, cases=pb.Cases(scores=[0.5], positives=[True]))
    story.update(LATER, segment_keys=KEYS)
    story.change_marks(CROSSED, MarkChange(story.now, "v4 deployed"))
    story.change_marks(CROSSED, MarkChange(story.now - 60 * MINUTE, "new features"))
    story.change_marks(CROSSED, MarkChange(deleted=1))
    for name in (CROSSED, LATER):
        story.rows(name, 20)
    story.tick(2 * MINUTE)
    story.checkpoint()
    story.change_marks(CROSSED, MarkChange(story.now, "v5 deployed"))
    story.change_marks(LATER, MarkChange(story.now, "v5 deployed"))
    story.change_marks(CROSSED, MarkChange(deleted=99))
    for name in (CROSSED, LATER):
        story.rows(name, 12)
    expected = facts(story.core) | {"annotations": mark_facts(story.core)}
    state_hash = story.core.engine.state_hash()
    story.core.storage.close()
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    (directory / "expected.json").write_text(text + "\n", encoding="utf-8")
    print(f"state {state_hash}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
