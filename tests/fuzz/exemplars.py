"""Valid requests to every method, from which hostile ones are derived."""

from __future__ import annotations

import functools
import itertools
import time
import zlib
from typing import TYPE_CHECKING

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from streameval import Evaluator
from streameval.v1 import (
    admin_pb2,
    alarm_pb2,
    ingest_pb2,
    mark_pb2,
    overview_pb2,
    pair_pb2,
    query_pb2,
    stream_pb2,
    types_pb2,
    verdict_pb2,
)
from streameval_server import Limits
from streameval_server._core.recovery import open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.storage import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.message import Message

NOW = int(time.time())
"""The clock of the tests is the server's: both agree on which times lie in the future."""

SIZE = 60
STREAMS = ("s", "t/1")
PAIR = "next"
_numbers = itertools.count()


def times(size: int) -> list[int]:
    """Return event times of the last 40 minutes, in microseconds."""
    return [NOW * 1_000_000 - row * 40_000_000 for row in range(size)]


def scores(size: int) -> list[float]:
    """Return scores with ties."""
    return [row % 17 / 16 for row in range(size)]


def labels(size: int) -> list[bool]:
    """Return labels, a third of them positive."""
    return [row % 3 == 0 for row in range(size)]


def segments(size: int) -> list[ingest_pb2.SegmentColumn]:
    """Return segment columns of two keys, with an absent value."""
    codes = [row % 3 for row in range(size)]
    values = ["", "US", "\N{PILE OF POO}"]
    return [
        ingest_pb2.SegmentColumn(key=key, values=values, codes=codes) for key in ("country", "k")
    ]


def stream(name: str) -> stream_pb2.Stream:
    """Return a stream with slices and settings of its own."""
    settings = stream_pb2.StreamSettings(
        segment_keys=["country", "k"],
        label_ttl=Duration(seconds=86_400),
        resolution=10,
        threshold=0.5,
        cost_fp=1.0,
        cost_fn=5.0,
    )
    return stream_pb2.Stream(name=name, settings=settings)


def batches(name: str, size: int = SIZE, sequence: int = 0) -> list[ingest_pb2.Batch]:
    """Return a batch of every kind, such that each kind leaves a trace in the state."""
    ids = [f"id {row}" for row in range(size)]
    kinds: list[dict[str, Message]] = [
        {
            "cases": ingest_pb2.Cases(
                scores=scores(size),
                positives=labels(size),
                counts=[1 + row % 2 for row in range(size)],
                event_times_us=times(size),
                segments=segments(size),
            )
        },
        {
            "predictions": ingest_pb2.Predictions(
                ids=ids, scores=scores(size), event_times_us=times(size), segments=segments(size)
            )
        },
        {"labels": ingest_pb2.Labels(ids=ids[::2], positives=labels(len(ids[::2])))},
        {
            "labels": ingest_pb2.Labels(
                ids=["late", "later"],
                positives=[True, False],
                scores=[0.5, 0.25],
                event_times_us=times(2),
            )
        },
        {"retractions": ingest_pb2.Retractions(ids=ids[:3])},
        {
            "misses": ingest_pb2.Misses(
                positives=2,
                negatives=1,
                event_time_us=times(1)[0],
                segments=[types_pb2.Segment(key="country", value="US")],
            )
        },
    ]
    return [
        ingest_pb2.Batch(stream=name, sequence=sequence and sequence + number, **kind)
        for number, kind in enumerate(kinds)
    ]


def selections() -> list[types_pb2.Selection]:
    """Return a selection of every kind."""
    segment = types_pb2.Segment(key="country", value="US")
    between = types_pb2.TimeRange(
        start_time=Timestamp(seconds=NOW - 3600), end_time=Timestamp(seconds=NOW)
    )
    hour = Duration(seconds=3600)
    return [
        types_pb2.Selection(stream="s"),
        types_pb2.Selection(stream="t/1", segment=segment),
        types_pb2.Selection(stream="s", last=hour, mature_after=Duration(seconds=60)),
        types_pb2.Selection(stream="s", between=between, segment=segment),
        types_pb2.Selection(stream="s", between=between),
        types_pb2.Selection(stream="s", last_cases=20),
        types_pb2.Selection(stream="s", half_life=hour),
    ]


def requests(method: MethodDescriptor) -> list[list[Message]]:
    """Return valid calls of a method, each a list of messages; a unary call has one."""
    make = _MAKERS.get(method.full_name)
    if make is None:
        return [[GetMessageClass(method.input_type)()]]
    return [call if isinstance(call, list) else [call] for call in make()]


def session_frames(producer: str, name: str) -> list[ingest_pb2.IngestRequest]:
    """Return the requests of an Ingest stream: its opening and a batch of every kind."""
    opened = ingest_pb2.Open(producer=producer, epoch=1)
    frames = [ingest_pb2.IngestRequest(batch=batch) for batch in batches(name, 6, sequence=1)]
    return [ingest_pb2.IngestRequest(open=opened), *frames]


def _ingest() -> Iterator[list[Message]]:
    yield [*session_frames(f"producer {next(_numbers)}", "s")]


def _batch() -> Iterator[Message]:
    for batch in batches("t/1", 6):
        yield ingest_pb2.IngestBatchRequest(batch=batch)
    batch = batches("t/1", 6, sequence=1)[0]
    producer = f"producer {next(_numbers)}"
    yield ingest_pb2.IngestBatchRequest(producer=producer, epoch=1, batch=batch)


def merge_states() -> bytes:
    """Return the states of a merge: one for all time, one for a pane of a slice."""
    evaluator = Evaluator(resolution=8)
    evaluator.add_cases(labels=[1, 0, 1], scores=[0.9, 0.5, 0.1])
    return ingest_pb2.MergeStates(
        states=[
            ingest_pb2.PaneState(event_time_us=0, evaluator=evaluator.to_bytes()),
            ingest_pb2.PaneState(
                event_time_us=times(1)[0],
                segments=[types_pb2.Segment(key="country", value="US")],
                evaluator=evaluator.to_bytes(),
            ),
        ]
    ).SerializeToString()


def _merge() -> Iterator[list[Message]]:
    states = merge_states()
    header = ingest_pb2.MergeHeader(
        stream="s",
        source=f"source {next(_numbers)}",
        epoch=1,
        total_bytes=len(states),
        crc32=zlib.crc32(states),
    )
    pieces = states[:50], states[50:]
    yield [
        ingest_pb2.MergeRequest(header=header),
        *(ingest_pb2.MergeRequest(data=piece) for piece in pieces),
    ]


def _snapshot() -> Iterator[Message]:
    for chosen in selections():
        yield query_pb2.GetSnapshotRequest(selection=chosen)
        metrics = ["auc_pr", "brier_score"]
        yield query_pb2.GetSnapshotRequest(selection=chosen, metrics=metrics, level=0.9)


def _curve() -> Iterator[Message]:
    for chosen in selections():
        for kind in (1, 2):
            yield query_pb2.GetCurveRequest(selection=chosen, kind=kind, max_points=10)


def _state() -> Iterator[Message]:
    for chosen in selections():
        yield query_pb2.GetStateRequest(selection=chosen)


def _windows() -> Iterator[Message]:
    for chosen in selections()[3:5]:
        step = Duration(seconds=300)
        yield query_pb2.ListWindowsRequest(selection=chosen, step=step, page_size=5)


def _compare() -> Iterator[Message]:
    for a, b in itertools.product(selections(), selections()):
        yield query_pb2.CompareStreamsRequest(a=a, b=b)
    yield query_pb2.CompareStreamsRequest(
        a=selections()[0], b=selections()[1], metric="auc_pr", prevalence=0.1, level=0.9
    )


def _rank() -> Iterator[Message]:
    for chosen in (selections()[0], *selections()[4:]):
        yield query_pb2.RankSegmentsRequest(selection=chosen, metric="auc_roc", level=0.9)
        yield query_pb2.RankSegmentsRequest(selection=chosen, key="country")


def _sample() -> Iterator[Message]:
    # Labels are drawn for cases of equal weight.
    for chosen in (each for each in selections() if not each.HasField("half_life")):
        yield query_pb2.SampleForLabelsRequest(selection=chosen, size=1)
        yield query_pb2.SampleForLabelsRequest(
            selection=chosen, size=1, metric="precision", threshold=0.5, seed=3, draw_ids=True
        )
    yield query_pb2.SampleForLabelsRequest(selection=selections()[0], size=1, prevalence=0.1)


def _watch() -> Iterator[Message]:
    for chosen in selections():
        yield query_pb2.WatchSnapshotRequest(selection=chosen, min_interval=Duration(seconds=1))


def _update() -> Iterator[Message]:
    for path in ("settings.label_ttl", "settings.segment_keys", "settings.resolution"):
        yield stream_pb2.UpdateStreamRequest(
            stream=stream("t/2"), update_mask=FieldMask(paths=[path])
        )


def _many() -> Iterator[Message]:
    hour = Duration(seconds=3600)
    names = [*STREAMS, "untouched"]
    yield query_pb2.BatchGetSnapshotsRequest(streams=names, metrics=["auc_pr", "auc_roc"])
    yield query_pb2.BatchGetSnapshotsRequest(streams=names, last=hour, level=0.9, steps=6)


def _summaries() -> Iterator[Message]:
    hour = Duration(seconds=3600)
    yield overview_pb2.ListStreamSummariesRequest(last=hour, order_by="auc_pr", page_size=1)
    yield overview_pb2.ListStreamSummariesRequest(
        grouped=True, open_groups=["t"], search="T", prefix="t", reverse=True
    )


def _watch_summaries() -> Iterator[Message]:
    for asked in _summaries():
        yield overview_pb2.WatchStreamSummariesRequest(list=asked, min_interval=Duration(seconds=1))


def _watch_many() -> Iterator[Message]:
    hour, second = Duration(seconds=3600), Duration(seconds=1)
    yield query_pb2.WatchSnapshotsRequest(streams=[*STREAMS], min_interval=second)
    yield query_pb2.WatchSnapshotsRequest(streams=["s"], last=hour, steps=3, min_interval=second)


def _histogram() -> Iterator[Message]:
    for chosen in selections():
        yield query_pb2.GetHistogramRequest(selection=chosen)
        yield query_pb2.GetHistogramRequest(selection=chosen, bins=7, lower=0.1, upper=0.9)
        if not chosen.HasField("half_life"):  # Predictions that wait have no weight.
            yield query_pb2.GetHistogramRequest(selection=chosen, waiting=True)


def _reliability() -> Iterator[Message]:
    by_counts = query_pb2.RELIABILITY_BINS_MASS
    for chosen in selections():
        yield query_pb2.GetReliabilityRequest(selection=chosen)
        yield query_pb2.GetReliabilityRequest(selection=chosen, bins=7, strategy=by_counts)


def _decision() -> Iterator[Message]:
    costs = query_pb2.Costs(false_positive=1.0, false_negative=5.0)
    for chosen in selections():
        yield query_pb2.GetDecisionRequest(selection=chosen, costs=costs)
        yield query_pb2.GetDecisionRequest(selection=chosen, threshold=0.5)
        yield query_pb2.GetDecisionRequest(selection=chosen, threshold=0.5, error_costs=costs)
        for wanted in ("precision", "recall", "fpr"):
            yield query_pb2.GetDecisionRequest(selection=chosen, **{wanted: 0.5})


@functools.cache
def exported() -> bytes:
    """Return the data of an import: a stream with panes, slices and ids."""
    core = open_core(MemoryStorage(), Limits())
    call = UnaryCall(core.committer, core.limits)
    call.create_stream(stream_pb2.CreateStreamRequest(stream=stream("x")).SerializeToString())
    core.committer.step(NOW * 1_000_000).deliver()
    for batch in batches("x", 12):
        call = UnaryCall(core.committer, core.limits)
        request = ingest_pb2.IngestBatchRequest(batch=batch)
        call.ingest_batch(request.SerializeToString(), NOW * 1_000_000)
    core.committer.step(NOW * 1_000_000).deliver()
    core.applier.finish()
    export = core.engine.export("x")
    assert export is not None
    return export()[1]


def import_frames(name: str, data: bytes) -> list[admin_pb2.ImportStreamRequest]:
    """Return the messages of an import."""
    header = admin_pb2.ImportStreamHeader(name=name, total_bytes=len(data))
    pieces = data[:500], data[500:]
    return [
        admin_pb2.ImportStreamRequest(header=header),
        *(admin_pb2.ImportStreamRequest(data=piece) for piece in pieces),
    ]


def _import() -> Iterator[list[Message]]:
    yield [*import_frames("t/3", exported())]


@functools.cache
def exported_pair() -> bytes:
    """Return the data of an import of a pair, with panes, slices, and ids that wait."""
    core = open_core(MemoryStorage(), Limits())
    for name in ("s", "t/1"):
        call = UnaryCall(core.committer, core.limits)
        call.create_stream(stream_pb2.CreateStreamRequest(stream=stream(name)).SerializeToString())
    UnaryCall(core.committer, core.limits).create_pair(pair_request().SerializeToString())
    core.committer.step(NOW * 1_000_000).deliver()
    for name in ("s", "t/1"):
        for batch in batches(name, 12):
            call = UnaryCall(core.committer, core.limits)
            request = ingest_pb2.IngestBatchRequest(batch=batch)
            call.ingest_batch(request.SerializeToString(), NOW * 1_000_000)
    core.committer.step(NOW * 1_000_000).deliver()
    core.applier.finish()
    [pair] = core.engine.pairs.values()
    export = core.engine.export_pair(pair.info)
    assert export is not None
    return export()[1]


def pair_import_frames(name: str, a: str, b: str, data: bytes) -> list[admin_pb2.ImportPairRequest]:
    """Return the messages of an import of a pair."""
    header = admin_pb2.ImportPairHeader(name=name, a=a, b=b, total_bytes=len(data))
    pieces = data[:500], data[500:]
    return [
        admin_pb2.ImportPairRequest(header=header),
        *(admin_pb2.ImportPairRequest(data=piece) for piece in pieces),
    ]


def _import_pair() -> Iterator[list[Message]]:
    yield [*pair_import_frames(PAIR, "s", "t/1", exported_pair())]


def pair_request() -> pair_pb2.CreatePairRequest:
    """Return a pair of both streams, in few cells."""
    settings = pair_pb2.PairSettings(max_cells=16, prevalence=0.1, pane=Duration(seconds=60))
    pair = pair_pb2.Pair(a="s", b="t/1", settings=settings)
    return pair_pb2.CreatePairRequest(pair=pair, pair_id=PAIR)


def _compare_pair() -> Iterator[Message]:
    for chosen in selections():
        chosen.stream = ""
        if not chosen.HasField("half_life"):
            yield pair_pb2.GetPairComparisonRequest(
                name=PAIR, selection=chosen, metric="auc_roc", level=0.9
            )
    yield pair_pb2.GetPairComparisonRequest(name=PAIR, by_segment="country", prevalence=0.1)


def _series_of_pair() -> Iterator[Message]:
    between = types_pb2.TimeRange(
        start_time=Timestamp(seconds=NOW - 3_600), end_time=Timestamp(seconds=NOW)
    )
    for cumulative in (False, True):
        yield pair_pb2.ListPairComparisonsRequest(
            name=PAIR,
            selection=types_pb2.Selection(between=between),
            step=Duration(seconds=900),
            cumulative=cumulative,
        )


_SERVICE = "streameval.v1."
_MAKERS = {
    _SERVICE + "IngestService.Ingest": _ingest,
    _SERVICE + "IngestService.IngestBatch": _batch,
    _SERVICE + "IngestService.Merge": _merge,
    _SERVICE + "QueryService.GetSnapshot": _snapshot,
    _SERVICE + "QueryService.GetCurve": _curve,
    _SERVICE + "QueryService.GetState": _state,
    _SERVICE + "QueryService.ListWindows": _windows,
    _SERVICE + "QueryService.CompareStreams": _compare,
    _SERVICE + "QueryService.RankSegments": _rank,
    _SERVICE + "QueryService.SampleForLabels": _sample,
    _SERVICE + "QueryService.WatchSnapshot": _watch,
    _SERVICE + "QueryService.BatchGetSnapshots": _many,
    _SERVICE + "QueryService.WatchSnapshots": _watch_many,
    _SERVICE + "QueryService.ListStreamSummaries": _summaries,
    _SERVICE + "QueryService.WatchStreamSummaries": _watch_summaries,
    _SERVICE + "QueryService.GetHistogram": _histogram,
    _SERVICE + "QueryService.GetReliability": _reliability,
    _SERVICE + "QueryService.GetDecision": _decision,
    _SERVICE + "AdminService.ExportStream": lambda: [admin_pb2.ExportStreamRequest(name="s")],
    _SERVICE + "AdminService.ImportStream": _import,
    _SERVICE + "AdminService.ExportPair": lambda: [admin_pb2.ExportPairRequest(name=PAIR)],
    _SERVICE + "AdminService.ImportPair": _import_pair,
    _SERVICE + "StreamService.CreateStream": lambda: [
        stream_pb2.CreateStreamRequest(stream=stream("t/2"))
    ],
    _SERVICE + "StreamService.GetStream": lambda: [stream_pb2.GetStreamRequest(name="s")],
    _SERVICE + "StreamService.ListStreams": lambda: [
        stream_pb2.ListStreamsRequest(page_size=1, prefix="t")
    ],
    _SERVICE + "StreamService.ListAlarms": lambda: [alarm_pb2.ListAlarmsRequest(page_size=1)],
    _SERVICE + "StreamService.AcknowledgeAlarm": lambda: [
        alarm_pb2.AcknowledgeAlarmRequest(stream="s", number=1)
    ],
    _SERVICE + "StreamService.AcceptNormal": lambda: [verdict_pb2.AcceptNormalRequest(stream="s")],
    _SERVICE + "QueryService.GetVerdict": lambda: [verdict_pb2.GetVerdictRequest(stream="s")],
    _SERVICE + "PairService.CreatePair": lambda: [pair_request()],
    _SERVICE + "PairService.GetPair": lambda: [pair_pb2.GetPairRequest(name=PAIR)],
    _SERVICE + "PairService.ListPairs": lambda: [pair_pb2.ListPairsRequest(page_size=1)],
    _SERVICE + "PairService.DeletePair": lambda: [pair_pb2.DeletePairRequest(name=PAIR)],
    _SERVICE + "PairService.GetPairComparison": _compare_pair,
    _SERVICE + "PairService.ListPairComparisons": _series_of_pair,
    _SERVICE + "StreamService.CreateMark": lambda: [
        mark_pb2.CreateMarkRequest(stream="s", text="v4 deployed")
    ],
    _SERVICE + "StreamService.ListMarks": lambda: [mark_pb2.ListMarksRequest(stream="s")],
    _SERVICE + "StreamService.DeleteMark": lambda: [
        mark_pb2.DeleteMarkRequest(stream="s", number=1)
    ],
    _SERVICE + "StreamService.UpdateStream": _update,
    _SERVICE + "StreamService.DeleteStream": lambda: [stream_pb2.DeleteStreamRequest(name="t/2")],
}
