"""Write tests/golden/data/server_log_v3: run once, for the release that defines the format.

    python tests/golden/make_server_log_v3.py tests/golden/data/server_log_v3

The logs of versions 1 and 2 have format 1 and its rows. This one has format 2 and what came
with it: rows chained by their checksums, starts of epochs, checksums of contents, request ids,
an import, and a clock in doubt, which the checkpoint in the middle keeps. The file of the
acknowledged revision is part of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from make_server_log_v2 import HOUR, MINUTE, Story
from server_log_facts import LIMITS, PRODUCERS, delivery_facts, facts

from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import stream_pb2
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._state.stream_file import StreamFile

EXPORTED = Path(__file__).parent / "data" / "stream-1.sve"


class DeliveryStory(Story):
    """The operations to log, with those that came with format 2."""

    def open(self, producer: str, epoch: int) -> None:
        """Start an epoch; batches that are sent from here on belong to it."""
        self.session = IngestSession(self.core.committer, LIMITS)
        self.sequence = 0
        hello = pb.Open(producer=producer, epoch=epoch)
        self.session.feed(pb.IngestRequest(open=hello).SerializeToString(), self.now)
        self.commit()

    def send_unary(self, sequence: int, stream: str, **rows) -> None:
        batch = pb.Batch(stream=stream, sequence=sequence, **rows)
        request = pb.IngestBatchRequest(batch=batch)
        if sequence:
            request.producer, request.epoch = PRODUCERS[1], 2
        call = UnaryCall(self.core.committer, LIMITS)
        call.ingest_batch(request.SerializeToString(), self.now)
        self.commit()

    def request(self, verb: str, request, request_id: str) -> None:
        """Send a change of a stream twice: it is logged once."""
        request.request_id = request_id
        self.administer(verb, request)
        self.administer(verb, request)

    def import_stream(self, name: str, data: bytes) -> None:
        call = UnaryCall(self.core.committer, LIMITS)
        call.import_stream(name, data, StreamFile.from_bytes(data))
        self.commit()
        call.response()


def _stream(name: str, **settings) -> stream_pb2.Stream:
    return stream_pb2.Stream(name=name, settings=stream_pb2.StreamSettings(**settings))


def _cases(story: DeliveryStory, size: int) -> pb.Cases:
    positives = (story.rng.random(size) < 0.3).tolist()
    return pb.Cases(scores=story.scores(size), positives=positives, segments=story.segments(size))


def _until_checkpoint(story: DeliveryStory) -> None:
    settings = {"segment_keys": ["country"], "label_ttl": {"seconds": 600}}
    created = stream_pb2.CreateStreamRequest(stream=_stream("held", **settings))
    story.request("create_stream", created, "create-held")
    story.create("replaced", segment_keys=["country"])
    story.import_stream("imported", EXPORTED.read_bytes())
    story.send("held", cases=_cases(story, 40))
    story.send("held", cases=pb.Cases(scores=[float("nan")], positives=[True]))
    story.send("replaced", cases=_cases(story, 10))
    story.send_unary(1, "held", cases=_cases(story, 20))
    story.send_unary(2, "held", predictions=pb.Predictions(ids=[""], scores=[0.5]))
    story.send_unary(0, "held", misses=pb.Misses(positives=1, negatives=2))
    ids = [f"order-{i}" for i in range(30)]
    story.send("held", predictions=pb.Predictions(ids=ids[:10], scores=story.scores(10)))
    story.tick(HOUR)
    story.send("held", predictions=pb.Predictions(ids=ids[10:], scores=story.scores(20)))
    # From here on no prediction expires, although hours pass.
    story.core.committer.disputed_us = story.now + 24 * HOUR
    story.tick(2 * HOUR)
    story.send("held", labels=pb.Labels(ids=ids[:15], positives=[i % 3 == 0 for i in range(15)]))
    story.checkpoint()


def _after_checkpoint(story: DeliveryStory) -> None:
    story.tick(HOUR)
    ids = [f"order-{i}" for i in range(15, 20)]
    story.send("held", labels=pb.Labels(ids=ids, positives=[True, False] * 2 + [True]))
    # Released: what was due in the meantime expires.
    story.core.committer.disputed_us = None
    story.tick(MINUTE)
    story.open("opened only", 9)
    story.open(PRODUCERS[0], 8)
    story.send("held", cases=_cases(story, 15))
    story.send("replaced", cases=pb.Cases(scores=[2.0**53], positives=[True]))
    story.send_unary(3, "imported", cases=_cases(story, 5))
    update = stream_pb2.UpdateStreamRequest(stream=_stream("held", label_ttl={"seconds": 60}))
    update.update_mask.paths.append("settings.label_ttl")
    story.request("update_stream", update, "update-held")
    deleted = stream_pb2.DeleteStreamRequest(name="replaced")
    story.request("delete_stream", deleted, "delete-replaced")
    story.merge("replaced", "edge", 1, pb.PaneState(evaluator=story.state(10)))
    late = [f"late-{i}" for i in range(8)]
    story.send("held", predictions=pb.Predictions(ids=late, scores=story.scores(8)))
    story.send("held", labels=pb.Labels(ids=late[::2], positives=[True, False] * 2))


def main(directory: Path) -> None:
    """Log every kind of entry, with a checkpoint while the clock is in doubt."""
    story = DeliveryStory(directory)
    _until_checkpoint(story)
    _after_checkpoint(story)
    expected = facts(story.core) | {"delivery": delivery_facts(story.core)}
    state_hash = story.core.engine.state_hash()
    story.core.storage.close()
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    (directory / "expected.json").write_text(text + "\n", encoding="utf-8")
    print(f"state {state_hash}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
