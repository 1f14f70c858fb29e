"""An exported stream can be imported, with the same content as when it was exported.

`data/stream-1.sve` was written by this file, run as a program. The log keeps the bytes of an
import, so this is a format of the log too.
"""

from __future__ import annotations

from pathlib import Path

from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import stream_pb2
from streameval_server import Limits
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.storage import MemoryStorage
from streameval_server._state.stream_file import StreamFile

NOW = 1_795_000_000_000_000
HOUR = 3_600_000_000
FILE = Path(__file__).parent / "data" / "stream-1.sve"


def opened() -> ServerCore:
    """Return a core in memory."""
    return open_core(MemoryStorage(), Limits())


def sent(core: ServerCore, at: int, **rows: object) -> None:
    """Log a batch."""
    call = UnaryCall(core.committer, core.limits)
    request = pb.IngestBatchRequest(batch=pb.Batch(stream="golden", **rows))
    call.ingest_batch(request.SerializeToString(), at)
    core.committer.step(at).deliver()
    core.applier.finish()
    call.response()


def write() -> None:
    """Write a stream with every kind of content."""
    core = opened()
    made = stream_pb2.Stream(name="golden")
    made.settings.segment_keys.append("country")
    made.settings.label_ttl.seconds = 86_400
    UnaryCall(core.committer, core.limits).create_stream(
        stream_pb2.CreateStreamRequest(stream=made).SerializeToString()
    )
    core.committer.step(NOW).deliver()
    segments = [pb.SegmentColumn(key="country", values=["US", "DE"], codes=[0, 1, 0, 1])]
    scores = [0.9, 0.7, 0.4, 0.2]
    cases = pb.Cases(scores=scores, positives=[True, False, True, False], segments=segments)
    sent(core, NOW, cases=cases)
    ids = ["a", "b", "c", "d"]
    times = [NOW - HOUR * row for row in range(4)]
    predictions = pb.Predictions(ids=ids, scores=scores, segments=segments, event_times_us=times)
    sent(core, NOW + 1, predictions=predictions)
    sent(core, NOW + HOUR, labels=pb.Labels(ids=["a", "b"], positives=[True, False]))
    sent(core, NOW + HOUR, labels=pb.Labels(ids=["early"], positives=[True]))
    sent(core, NOW + HOUR, misses=pb.Misses(positives=2, negatives=1))
    export = core.engine.export("golden")
    assert export is not None
    FILE.write_bytes(export()[1])


def test_the_export_of_version_1_is_imported() -> None:
    """Counts, slices, panes, pending ids and settings are restored, and the stream continues."""
    data = FILE.read_bytes()
    file = StreamFile.from_bytes(data)
    assert (file.name, file.revision, file.time_us) == ("golden", 6, NOW + HOUR)
    assert (file.total, file.ids) == (14, 5)
    file.check("golden", Limits())
    core = opened()
    call = UnaryCall(core.committer, core.limits)
    call.import_stream("golden", data, file)
    core.committer.step(NOW + 2 * HOUR).deliver()
    core.applier.finish()
    assert call.response().revision == 1
    view = core.engine.view("golden")
    assert view is not None
    assert (view.info.create_us, view.info.create_revision) == (NOW, 1)
    assert view.info.settings.segment_keys == ("country",)
    assert (view.evaluator.num_positive_ref, view.evaluator.num_negative_ref) == (5, 4)
    assert view.slice(("country", "DE")).all_time.num_cases == 3
    assert len(view.whole.panes) == 5
    sent(core, NOW + 2 * HOUR, labels=pb.Labels(ids=["c", "d"], positives=[True, True]))
    early = pb.Predictions(ids=["early"], scores=[0.3])
    sent(core, NOW + 2 * HOUR, predictions=early)
    after = core.engine.view("golden").evaluator
    assert (after.num_positive_ref, after.num_negative_ref) == (8, 4)


if __name__ == "__main__":
    write()
