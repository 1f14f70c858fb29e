"""The server's core under a recorded trace: each request is a verb with plain values and a time."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import ParseDict

from streameval import Evaluator
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import pair_pb2, query_pb2, stream_pb2, types_pb2
from streameval_server import Limits
from streameval_server._batch.merge import MergeInbox
from streameval_server._core.catalog import settings_in
from streameval_server._core.recovery import open_core
from streameval_server._grpc.pair_service import info_message as pair_info_message
from streameval_server._ingest.unary_call import UnaryCall, info_message
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.alarm_change import AlarmChange
from streameval_server._model.errors import Code, RequestError
from streameval_server._model.mark import MarkChange
from streameval_server._queries.alarms import status_message
from streameval_server._queries.comparison import comparison, parse_comparison_request
from streameval_server._queries.curves import curve, parse_curve_request
from streameval_server._queries.decision import decision, parse_decision_request
from streameval_server._queries.histogram import histogram, parse_histogram_request
from streameval_server._queries.label_sample import label_sample, parse_label_sample_request
from streameval_server._queries.pair_answer import pair_comparison, pair_series
from streameval_server._queries.pair_request import parse_comparison, parse_series
from streameval_server._queries.query_engine import QueryEngine, parse_snapshot_request, snapshot
from streameval_server._queries.ranking import parse_ranking_request, ranking
from streameval_server._queries.reliability import parse_reliability_request, reliability
from streameval_server._queries.series import parse_series_request, series

from .neutral import neutral

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from streameval_server._core.recovery import ServerCore

LIMITS = Limits(max_cells=400, max_segment_values=4)
"""Caps that the trace reaches: streams are coarsened, and a key has more values than it keeps."""

_QUERIES: dict[str, tuple[Any, Callable[..., Any], Callable[..., Any]]] = {
    "snapshot": (query_pb2.GetSnapshotRequest, parse_snapshot_request, snapshot),
    "curve": (query_pb2.GetCurveRequest, parse_curve_request, curve),
    "histogram": (query_pb2.GetHistogramRequest, parse_histogram_request, histogram),
    "reliability": (query_pb2.GetReliabilityRequest, parse_reliability_request, reliability),
    "decision": (query_pb2.GetDecisionRequest, parse_decision_request, decision),
    "series": (query_pb2.ListWindowsRequest, parse_series_request, series),
    "compare": (query_pb2.CompareStreamsRequest, parse_comparison_request, comparison),
    "ranking": (query_pb2.RankSegmentsRequest, parse_ranking_request, ranking),
    "sample": (query_pb2.SampleForLabelsRequest, parse_label_sample_request, label_sample),
}
_PAIR_QUERIES: dict[str, tuple[Any, Callable[..., Any], Callable[..., Any]]] = {
    "pair": (pair_pb2.GetPairComparisonRequest, parse_comparison, pair_comparison),
    "pair_series": (pair_pb2.ListPairComparisonsRequest, parse_series, pair_series),
}


class ServerSubject:
    """One core and its lives.

    Parameters
    ----------
    directory
        Where its log is; empty.
    """

    def __init__(self, directory: Path) -> None:
        self._log = directory / "log.db"
        self._now_us = 0
        self._begin_life()

    def take(self, request: Mapping[str, Any]) -> Any:
        """Return the answer to one line of the trace, as JSON values."""
        given = dict(request)
        self._now_us = given.pop("at_us")
        verb = given.pop("do")
        try:
            return neutral(getattr(self, "_" + verb)(**given))
        except RequestError as error:
            return {"refused": error.code.name, "reason": error.reason}

    def close(self) -> None:
        """Stop as a server does that is told to."""
        self._core.drain(self._now_us)

    # -- lives

    def _begin_life(self) -> None:
        self._core: ServerCore = open_core(SqliteStorage(self._log), LIMITS)
        self._answers = QueryEngine(self._view, lambda: self._now_us, waiting=self._waiting)

    def _wait(self) -> None:
        self._commit()

    def _checkpoint(self) -> None:
        self._core.applier.request_checkpoint()
        self._core.applier.finish()
        while self._core.committer.step(self._now_us).more:
            pass

    def _restart(self, *, clean: bool) -> dict[str, int]:
        """Begin another life, after a stop or from what is durable in the middle of its work."""
        if clean:
            self._core.drain(self._now_us)
        else:
            self._core.storage.close()
        self._begin_life()
        return {"revision": self._core.engine.revision}

    def _commit(self) -> None:
        more = True
        while more:
            result = self._core.committer.step(self._now_us)
            result.deliver()
            self._core.applier.finish()
            more = result.more

    def _settled(self, submit: Callable[[UnaryCall], None]) -> dict[str, Any]:
        call = UnaryCall(self._core.committer, LIMITS)
        submit(call)
        self._commit()
        response = call.response()
        return {"revision": response.revision, "duplicate": getattr(response, "duplicate", False)}

    # -- streams, pairs, annotations, alarms

    def _create_stream(self, stream: str, request_id: str = "", **settings: Any) -> Any:
        request = stream_pb2.CreateStreamRequest(request_id=request_id)
        request.stream.name = stream
        ParseDict(settings, request.stream.settings)
        return self._settled(lambda call: call.create_stream(request.SerializeToString()))

    def _update_stream(self, stream: str, **settings: Any) -> Any:
        request = stream_pb2.UpdateStreamRequest()
        request.stream.name = stream
        ParseDict(settings, request.stream.settings)
        request.update_mask.paths.extend(f"settings.{name}" for name in settings)
        return self._settled(lambda call: call.update_stream(request.SerializeToString()))

    def _delete_stream(self, stream: str) -> Any:
        frame = stream_pb2.DeleteStreamRequest(name=stream).SerializeToString()
        return self._settled(lambda call: call.delete_stream(frame))

    def _create_pair(self, a: str, b: str, **settings: Any) -> Any:
        request = pair_pb2.CreatePairRequest()
        request.pair.a, request.pair.b = a, b
        ParseDict(settings, request.pair.settings)
        return self._settled(lambda call: call.create_pair(request.SerializeToString()))

    def _delete_pair(self, a: str, b: str) -> Any:
        frame = pair_pb2.DeletePairRequest(name=_pair_name(a, b)).SerializeToString()
        return self._settled(lambda call: call.delete_pair(frame, (a, b)))

    def _annotate(self, stream: str, time_us: int, text: str) -> Any:
        return self._settled(lambda call: call.change_marks(stream, MarkChange(time_us, text)))

    def _forget_annotation(self, stream: str, number: int) -> Any:
        change = MarkChange(deleted=number)
        return self._settled(lambda call: call.change_marks(stream, change))

    def _acknowledge(self, stream: str, number: int) -> Any:
        change = AlarmChange(number, is_delivery=False)
        return self._settled(lambda call: call.change_alarm(stream, change))

    # -- rows

    def _batch(self, stream: str, **rows: Any) -> Any:
        batch = pb.Batch(stream=stream, **rows)
        frame = pb.IngestBatchRequest(batch=batch).SerializeToString()
        return self._settled(lambda call: call.ingest_batch(frame, self._now_us))

    def _cases(self, stream: str, labels: list[bool], **rows: Any) -> Any:
        return self._batch(stream, cases=pb.Cases(positives=labels, **_columns(rows)))

    def _predictions(self, stream: str, **rows: Any) -> Any:
        return self._batch(stream, predictions=pb.Predictions(**_columns(rows)))

    def _labels(self, stream: str, labels: list[bool], **rows: Any) -> Any:
        return self._batch(stream, labels=pb.Labels(positives=labels, **_columns(rows)))

    def _retract(self, stream: str, ids: list[str]) -> Any:
        return self._batch(stream, retractions=pb.Retractions(ids=ids))

    def _misses(self, stream: str, segments: Mapping[str, str] | None = None, **rows: int) -> Any:
        misses = pb.Misses(segments=_segments(segments), **rows)
        return self._batch(stream, misses=misses)

    def _merge(self, stream: str, source: str, epoch: int, panes: list[dict[str, Any]]) -> Any:
        """Merge what evaluators elsewhere have counted."""
        states = pb.MergeStates(states=[_pane_state(**pane) for pane in panes])
        data = states.SerializeToString()
        inbox = MergeInbox(LIMITS)
        header = pb.MergeHeader(
            stream=stream,
            source=source,
            epoch=epoch,
            total_bytes=len(data),
            crc32=zlib.crc32(data),
        )
        inbox.feed(pb.MergeRequest(header=header))
        inbox.feed(pb.MergeRequest(data=data))
        prepared = inbox.finish(
            self._now_us, settings_in(self._core.committer.catalog, inbox.header)
        )
        return self._settled(lambda call: call.merge(inbox, prepared))

    # -- answers

    def _ask(self, about: str, **given: Any) -> Any:
        """Answer a query: its fields are those of the contract's request."""
        if about in _PAIR_QUERIES:
            message, parse, compute = _PAIR_QUERIES[about]
            name = _pair_name(given.pop("a"), given.pop("b"))
            question = parse(ParseDict(given, message(name=name)))
            view = self._core.engine.pair_view(name)
            if view is None:
                raise RequestError(Code.NOT_FOUND, "no such pair", reason="NO_PAIR")
            return compute(view, question, self._now_us)
        message, parse, compute = _QUERIES[about]
        return compute(self._answers, parse(ParseDict(given, message())))

    def _view(self, stream: str) -> Any:
        view = self._core.engine.view(stream)
        if view is None:
            raise RequestError(Code.NOT_FOUND, "no such stream", reason="NO_STREAM")
        return view

    def _waiting(self, stream: str) -> tuple[Any, Any]:
        return self._view(stream), self._core.engine.waiting(stream)

    def _describe(self, stream: str) -> dict[str, Any]:
        """Return a stream's settings, counters, panes, annotations and detectors."""
        view = self._view(stream)
        found = {
            "stream": info_message(view.info),
            "counters": view.counters,
            "annotations": [(each.number, each.time_us, each.text) for each in view.marks],
            "segments": {
                key: view.segments(key) for key in sorted(view.info.settings.segment_keys)
            },
            "panes": [
                (pane.start_us, pane.end_us, pane.evaluator.num_cases) for pane in view.whole.panes
            ],
        }
        for info, alarms in self._core.engine.alarms():
            if info.name == stream:
                found["alarms"] = status_message(info, alarms)
        return found

    def _describe_pair(self, a: str, b: str) -> dict[str, Any]:
        view = self._core.engine.pair_view(_pair_name(a, b))
        if view is None:
            raise RequestError(Code.NOT_FOUND, "no such pair", reason="NO_PAIR")
        return {"pair": pair_info_message(view.info), "counters": view.counters}


def _pair_name(a: str, b: str) -> str:
    """Return the name of a pair that was made without one; the trace names its streams."""
    return f"{a}-vs-{b}"


def _columns(rows: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a message: clusters as checksums, segments as codes."""
    rows = dict(rows)
    if "times_us" in rows:
        rows["event_times_us"] = rows.pop("times_us")
    if "clusters" in rows:
        rows["clusters"] = [zlib.crc32(each.encode()) for each in rows["clusters"]]
    if "segments" in rows:
        rows["segments"] = [_coded(key, values) for key, values in rows["segments"].items()]
    return rows


def _coded(key: str, values: list[str]) -> pb.SegmentColumn:
    names = sorted(set(values))
    return pb.SegmentColumn(key=key, values=names, codes=[names.index(each) for each in values])


def _segments(given: Mapping[str, str] | None) -> list[types_pb2.Segment]:
    return [types_pb2.Segment(key=key, value=value) for key, value in (given or {}).items()]


def _pane_state(
    labels: list[bool],
    scores: list[float],
    misses: int = 0,
    time_us: int = 0,
    segments: Mapping[str, str] | None = None,
    **settings: Any,
) -> pb.PaneState:
    weights = settings.pop("weights", None)
    evaluator = Evaluator(**settings)
    evaluator.add_cases(labels=labels, scores=scores, weights=weights)
    evaluator.add_misses(misses)
    return pb.PaneState(
        event_time_us=time_us, segments=_segments(segments), evaluator=evaluator.to_bytes()
    )
