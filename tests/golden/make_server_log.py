"""Write tests/golden/data/server_log_v1: run once, for the release that defines the format."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import stream_pb2
from streameval_server._core.recovery import open_core
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.limits import Limits

NOW = 1_795_000_000_000_000


def main(directory: Path) -> None:
    """Log every kind of entry and format, with a checkpoint in the middle."""
    core = open_core(SqliteStorage(directory / "log.db"), Limits(max_cells=100))
    rng = np.random.default_rng(2026)

    def commit(at: int) -> None:
        core.committer.step(NOW + at).deliver()
        core.applier.finish()

    def create(name: str) -> None:
        request = stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name=name))
        UnaryCall(core.committer, core.limits).create_stream(request.SerializeToString())

    def delete(name: str) -> None:
        request = stream_pb2.DeleteStreamRequest(name=name)
        UnaryCall(core.committer, core.limits).delete_stream(request.SerializeToString())

    session = IngestSession(core.committer, core.limits)
    session.feed(
        pb.IngestRequest(open=pb.Open(producer="golden ü", epoch=7)).SerializeToString(), NOW
    )
    scores = np.round(rng.normal(size=40), 3)
    labels = rng.random(40) < 0.3
    plain = pb.Cases(
        scores=scores.tolist(),
        positives=labels.tolist(),
        counts=rng.integers(0, 4, 40).tolist(),
        event_times_us=[NOW],
    )
    packed = pb.Cases(
        scores_f64le=rng.random(200).astype("<f8").tobytes(),
        positives_bits=np.packbits(rng.random(200) < 0.2, bitorder="little").tobytes(),
        event_times_us=[NOW + i for i in range(200)],
    )
    batches = [
        pb.Batch(stream="fraud/v3", cases=plain),
        pb.Batch(stream="fraud/v3", misses=pb.Misses(positives=2, negatives=5, event_time_us=NOW)),
        pb.Batch(stream="fraud/v3", cases=pb.Cases(scores=[float("nan")], positives=[True])),
        pb.Batch(stream="capped", cases=packed),
        pb.Batch(stream="gone", cases=plain),
        pb.Batch(stream="empty"),
    ]
    create("made")
    for sequence, batch in enumerate(batches, 1):
        batch.sequence = sequence
        session.feed(pb.IngestRequest(batch=batch).SerializeToString(), NOW)
        commit(sequence)
    core.applier.request_checkpoint()
    core.applier.finish()
    while core.committer.step(NOW + 10).more:
        pass
    delete("gone")
    for producer, sequence in (("", 0), ("unary", 1)):
        call = UnaryCall(core.committer, core.limits)
        batch = pb.Batch(sequence=sequence, stream="made", cases=plain)
        request = pb.IngestBatchRequest(producer=producer, epoch=sequence, batch=batch)
        call.ingest_batch(request.SerializeToString(), NOW)
    commit(20)
    core.storage.close()
    streams = {}
    for info in core.engine.streams():
        evaluator = core.engine.view(info.name).evaluator
        streams[info.name] = {
            "create_us": info.create_us,
            "create_revision": info.create_revision,
            # The golden files' name for it, from before it was `num_scored`.
            "num_cases": evaluator.num_scored,
            "num_positive_ref": evaluator.num_positive_ref,
            "num_negative_ref": evaluator.num_negative_ref,
            "auc_roc": repr(evaluator.auc_roc()),
            "average_precision": repr(evaluator.average_precision()),
        }
    marks = {name: list(core.engine.marks.get(name)) for name in ("golden ü", "unary")}
    expected = {"revision": core.engine.revision, "streams": streams, "marks": marks}
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    (directory / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
