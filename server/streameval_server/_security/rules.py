"""What each method requires: a scope, and a token for the streams that requests name.

A method without a rule requires the scope admin for all streams, so a forgotten rule
closes a method.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from grpc_health.v1 import health

from streameval.v1 import (
    admin_pb2,
    alarm_pb2,
    ingest_pb2,
    mark_pb2,
    pair_pb2,
    query_pb2,
    stream_pb2,
    verdict_pb2,
)
from streameval_server._batch.decode import parse_message
from streameval_server._security.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.message import Message


@dataclass(frozen=True, slots=True)
class Rule:
    """What a method requires of a token.

    Attributes
    ----------
    scope : Scope or None
        None when any known token will do.
    request : type of message, or None
        The type of the requests; None when they name no stream.
    streams : tuple of str
        Paths of fields with names of streams; the token must cover each of them.
    optional : bool
        Whether a request without a name asks for the streams that the token covers.
    everything : bool
        Whether the token must be for all streams.
    open : bool
        Whether no token is needed.
    read_only : bool
        Whether the method, though it needs more than the scope query, changes nothing.
    """

    scope: Scope | None = None
    request: type[Message] | None = None
    streams: tuple[str, ...] = ()
    optional: bool = False
    everything: bool = False
    open: bool = False
    read_only: bool = False

    @property
    def reads(self) -> bool:
        """Whether the method only reads: refusing its answer then hides no change."""
        return self.scope is Scope.QUERY or self.read_only

    def streams_of(self, request: Any) -> Iterator[str]:
        """Yield the streams that a request, encoded or decoded, names.

        Raises
        ------
        RequestError
            INVALID_ARGUMENT when it is encoded and cannot be decoded.
        """
        if self.request is None:
            return
        if isinstance(request, bytes):
            request = parse_message(self.request, request)
        for path in self.streams:
            first, _, rest = path.partition(".")
            # An absent submessage names no stream.
            if not rest or request.HasField(first):
                names = attrgetter(path)(request)
                if names or not self.optional:
                    yield from (names,) if isinstance(names, str) else names


_SELECTION = ("selection.stream",)
_WHOLE_SERVER = Rule(Scope.ADMIN, everything=True)
_READS_WHOLE_SERVER = Rule(Scope.ADMIN, everything=True, read_only=True)

# For Ingest and IngestBatch the session checks the stream of each batch and refuses the
# batch; ListStreams and the lists of summaries have the streams that the token covers.
RULES: dict[str, Rule] = {
    "streameval.v1.IngestService/Ingest": Rule(Scope.INGEST),
    "streameval.v1.IngestService/IngestBatch": Rule(Scope.INGEST),
    "streameval.v1.IngestService/Merge": Rule(
        Scope.INGEST, ingest_pb2.MergeRequest, ("header.stream",)
    ),
    "streameval.v1.QueryService/GetSnapshot": Rule(
        Scope.QUERY, query_pb2.GetSnapshotRequest, _SELECTION
    ),
    "streameval.v1.QueryService/GetVerdict": Rule(
        Scope.QUERY, verdict_pb2.GetVerdictRequest, ("stream",)
    ),
    "streameval.v1.QueryService/BatchGetSnapshots": Rule(
        Scope.QUERY, query_pb2.BatchGetSnapshotsRequest, ("streams",)
    ),
    "streameval.v1.QueryService/ListStreamSummaries": Rule(Scope.QUERY),
    "streameval.v1.QueryService/WatchStreamSummaries": Rule(Scope.QUERY),
    "streameval.v1.QueryService/GetCurve": Rule(Scope.QUERY, query_pb2.GetCurveRequest, _SELECTION),
    "streameval.v1.QueryService/GetHistogram": Rule(
        Scope.QUERY, query_pb2.GetHistogramRequest, _SELECTION
    ),
    "streameval.v1.QueryService/GetReliability": Rule(
        Scope.QUERY, query_pb2.GetReliabilityRequest, _SELECTION
    ),
    "streameval.v1.QueryService/GetDecision": Rule(
        Scope.QUERY, query_pb2.GetDecisionRequest, _SELECTION
    ),
    "streameval.v1.QueryService/GetState": Rule(Scope.QUERY, query_pb2.GetStateRequest, _SELECTION),
    "streameval.v1.QueryService/ListWindows": Rule(
        Scope.QUERY, query_pb2.ListWindowsRequest, _SELECTION
    ),
    "streameval.v1.QueryService/CompareStreams": Rule(
        Scope.QUERY, query_pb2.CompareStreamsRequest, ("a.stream", "b.stream")
    ),
    "streameval.v1.QueryService/RankSegments": Rule(
        Scope.QUERY, query_pb2.RankSegmentsRequest, _SELECTION
    ),
    # A scope of its own: it is the one query that answers with ids.
    "streameval.v1.QueryService/SampleForLabels": Rule(
        Scope.SAMPLE, query_pb2.SampleForLabelsRequest, _SELECTION, read_only=True
    ),
    "streameval.v1.QueryService/WatchSnapshot": Rule(
        Scope.QUERY, query_pb2.WatchSnapshotRequest, _SELECTION
    ),
    "streameval.v1.QueryService/WatchSnapshots": Rule(
        Scope.QUERY, query_pb2.WatchSnapshotsRequest, ("streams",)
    ),
    "streameval.v1.StreamService/GetStream": Rule(
        Scope.QUERY, stream_pb2.GetStreamRequest, ("name",)
    ),
    "streameval.v1.StreamService/ListStreams": Rule(Scope.QUERY),
    "streameval.v1.StreamService/CreateStream": Rule(
        Scope.ADMIN, stream_pb2.CreateStreamRequest, ("stream.name",)
    ),
    "streameval.v1.StreamService/UpdateStream": Rule(
        Scope.ADMIN, stream_pb2.UpdateStreamRequest, ("stream.name",)
    ),
    "streameval.v1.StreamService/DeleteStream": Rule(
        Scope.ADMIN, stream_pb2.DeleteStreamRequest, ("name",)
    ),
    "streameval.v1.StreamService/ListAlarms": Rule(
        Scope.QUERY, alarm_pb2.ListAlarmsRequest, ("stream",), optional=True
    ),
    "streameval.v1.StreamService/AcknowledgeAlarm": Rule(
        Scope.ADMIN, alarm_pb2.AcknowledgeAlarmRequest, ("stream",)
    ),
    "streameval.v1.StreamService/AcceptNormal": Rule(
        Scope.ADMIN, verdict_pb2.AcceptNormalRequest, ("stream",)
    ),
    "streameval.v1.StreamService/CreateMark": Rule(
        Scope.ADMIN, mark_pb2.CreateMarkRequest, ("stream",)
    ),
    "streameval.v1.StreamService/ListMarks": Rule(
        Scope.QUERY, mark_pb2.ListMarksRequest, ("stream",)
    ),
    "streameval.v1.StreamService/DeleteMark": Rule(
        Scope.ADMIN, mark_pb2.DeleteMarkRequest, ("stream",)
    ),
    # A token must cover both streams of a pair. For a request that names the pair alone the
    # service checks it (`Access.check_pair`), and ListPairs leaves other pairs out.
    "streameval.v1.PairService/CreatePair": Rule(
        Scope.ADMIN, pair_pb2.CreatePairRequest, ("pair.a", "pair.b")
    ),
    "streameval.v1.PairService/DeletePair": Rule(Scope.ADMIN),
    "streameval.v1.PairService/GetPair": Rule(Scope.QUERY),
    "streameval.v1.PairService/ListPairs": Rule(
        Scope.QUERY, pair_pb2.ListPairsRequest, ("stream",), optional=True
    ),
    "streameval.v1.PairService/GetPairComparison": Rule(Scope.QUERY),
    "streameval.v1.PairService/ListPairComparisons": Rule(Scope.QUERY),
    "streameval.v1.AdminService/GetServerStatus": _READS_WHOLE_SERVER,
    "streameval.v1.AdminService/GetStateHash": _READS_WHOLE_SERVER,
    "streameval.v1.AdminService/Backup": _READS_WHOLE_SERVER,
    "streameval.v1.AdminService/CompactLog": _WHOLE_SERVER,
    "streameval.v1.AdminService/AcceptClock": _WHOLE_SERVER,
    # An import is trusted, so a crafted one could harm other streams.
    "streameval.v1.AdminService/ImportStream": _WHOLE_SERVER,
    "streameval.v1.AdminService/ExportStream": Rule(
        Scope.ADMIN, admin_pb2.ExportStreamRequest, ("name",), read_only=True
    ),
    "streameval.v1.AdminService/ImportPair": _WHOLE_SERVER,
    "streameval.v1.AdminService/ExportPair": Rule(Scope.ADMIN, read_only=True),
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo": Rule(),
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Rule(),
    f"{health.SERVICE_NAME}/Check": Rule(open=True),
    f"{health.SERVICE_NAME}/Watch": Rule(open=True),
    f"{health.SERVICE_NAME}/List": Rule(open=True),
}


def rule_of(method: str) -> Rule:
    """Return the rule of a method, by its full name.

    Examples
    --------
    >>> rule_of("streameval.v1.QueryService/GetSnapshot").scope
    <Scope.QUERY: 'query'>
    >>> rule_of("some.other.Service/Anything").scope
    <Scope.ADMIN: 'admin'>
    """
    return RULES.get(method, _WHOLE_SERVER)
