"""An exported pair can be imported, with the same content as when it was exported.

`data/pair-1.sve` was written by this file, run as a program. The log keeps the bytes of an import,
so this is a format of the log too.
"""

from __future__ import annotations

from pathlib import Path

from streameval import compare_paired
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import pair_pb2, stream_pb2
from streameval_server import Limits
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.storage import MemoryStorage
from streameval_server._queries.pair_answer import pair_comparison
from streameval_server._queries.pair_request import parse_comparison
from streameval_server._state.pairs.pair_file import PairFile, PairImport

NOW = 1_795_000_000_000_000
HOUR = 3_600_000_000
FILE = Path(__file__).parent / "data" / "pair-1.sve"
IDS = [f"order-{row}" for row in range(120)]
LABELS = [row % 3 == 0 for row in range(120)]
WEIGHTS = [1 + 0.5 * (row % 4) for row in range(120)]
SCORES = {
    "v3": [(row * 37 % 100) / 100 + 0.3 * label for row, label in enumerate(LABELS)],
    "v4": [(row * 53 % 100) / 100 + 0.6 * label for row, label in enumerate(LABELS)],
}


def opened() -> ServerCore:
    """Return a core in memory with both streams."""
    core = open_core(MemoryStorage(), Limits())
    for name in SCORES:
        made = stream_pb2.Stream(name=name)
        made.settings.segment_keys.append("country")
        made.settings.threshold = 0.5
        request = stream_pb2.CreateStreamRequest(stream=made)
        UnaryCall(core.committer, core.limits).create_stream(request.SerializeToString())
    core.committer.step(NOW).deliver()
    return core


def sent(core: ServerCore, at: int, stream: str, **rows: object) -> None:
    """Log a batch."""
    call = UnaryCall(core.committer, core.limits)
    request = pb.IngestBatchRequest(batch=pb.Batch(stream=stream, **rows))
    call.ingest_batch(request.SerializeToString(), at)
    core.committer.step(at).deliver()
    core.applier.finish()
    call.response()


def predicted(name: str, rows: slice) -> pb.Predictions:
    """Return predictions with segments, an hour apart from the row before."""
    numbers = range(120)[rows]
    codes = [number % 2 for number in numbers]
    return pb.Predictions(
        ids=IDS[rows],
        scores=SCORES[name][rows],
        segments=[pb.SegmentColumn(key="country", values=["US", "DE"], codes=codes)],
        event_times_us=[NOW - number * HOUR // 60 for number in numbers],
    )


def labels(rows: slice) -> pb.Labels:
    """Return labels, with weights of 1 to 2.5."""
    return pb.Labels(ids=IDS[rows], positives=LABELS[rows], weights=WEIGHTS[rows])


def write() -> None:
    """Write a pair with every kind of content: counted panes, rows that wait, ids that wait."""
    core = opened()
    pair = pair_pb2.Pair(a="v3", b="v4", settings=pair_pb2.PairSettings(max_cells=64))
    request = pair_pb2.CreatePairRequest(pair=pair, pair_id="rollout")
    UnaryCall(core.committer, core.limits).create_pair(request.SerializeToString())
    core.committer.step(NOW).deliver()
    sent(core, NOW, "v3", predictions=predicted("v3", slice(0, 120)))
    sent(core, NOW, "v4", predictions=predicted("v4", slice(0, 110)))
    sent(core, NOW, "v3", labels=labels(slice(0, 60)))
    sent(core, NOW + HOUR, "v3", labels=labels(slice(60, 100)))
    [pair] = core.engine.pairs.values()
    export = core.engine.export_pair(pair.info)
    assert export is not None
    FILE.write_bytes(export()[1])


def test_the_pair_of_version_1_is_imported() -> None:
    """Counts, slices, panes, waiting ids and settings are restored, and the pair continues."""
    data = FILE.read_bytes()
    file = PairFile.from_bytes(data)
    assert (file.name, file.a, file.b) == ("rollout", "v3", "v4")
    assert (file.revision, file.time_us) == (7, NOW + HOUR)
    assert (file.ids, file.settings.max_cells) == (120, 64)
    assert file.settings.segment_keys == ("country",)
    file.check(Limits())
    core = opened()
    call = UnaryCall(core.committer, core.limits)
    call.import_pair(PairImport("next", "v3", "v4", file, data))
    core.committer.step(NOW + 2 * HOUR).deliver()
    core.applier.finish()
    assert call.response().revision == 3
    sent(core, NOW + 2 * HOUR, "v4", predictions=predicted("v4", slice(110, 120)))
    sent(core, NOW + 2 * HOUR, "v4", labels=labels(slice(0, 120)))
    view = core.engine.pair_view("next")
    assert view is not None
    assert (view.info.create_us, view.info.create_revision) == (NOW, 3)
    request = pair_pb2.GetPairComparisonRequest(name="next", metric="auc_roc", by_segment="country")
    found = pair_comparison(view, parse_comparison(request), NOW + 2 * HOUR)
    expected = compare_paired(
        labels=LABELS,
        scores_a=SCORES["v3"],
        scores_b=SCORES["v4"],
        weights=WEIGHTS,
        metric="auc_roc",
    )
    assert abs(found.comparison.compared.difference.value - expected.difference) < 1e-12
    assert found.comparison.coverage.labelled == 120
    assert len(found.segments) == 2


if __name__ == "__main__":
    write()
