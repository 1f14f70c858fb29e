"""The client of a streameval server; needs the extra ``streameval[client]``.

Layers, from the caller to the wire:

- `_client`, `_async_client`, `_stream`: the public classes. `_client_verbs`, `_pair_verbs` and
  `_stream_verbs` hold the verbs that both kinds share, each written once.
- `_buffer`: rows from the verbs that add them until they are taken as batches. The
  arguments are checked here, by the rules of the library.
- `_delivery`: batches are numbered, sent, and kept until they are acknowledged.
  `connection` says which thread or event loop owns what; `servers` and `routing`
  choose the server of a stream.
- `_wire`: the calls, their requests and decoded answers, and gRPC itself.
"""

from streameval._common.extras import needs_extra as _needs_extra

with _needs_extra("client"):
    from streameval.client._async_client import AsyncClient
    from streameval.client._client import Client
    from streameval.client._delivery.merge_upload import MergeState
    from streameval.client._delivery.statistics import ClientStatistics
    from streameval.client._errors import (
        AccessError,
        AlreadyExistsError,
        ClientError,
        ClosedError,
        DeadlineError,
        FencedError,
        InvalidRequestError,
        NotFoundError,
        OutOfRangeError,
        PreconditionError,
        RefusedBatch,
        ResourceExhaustedError,
        RowsLostError,
        UnavailableError,
        UnimplementedError,
        Violation,
    )
    from streameval.client._stream import AsyncStream, Stream
    from streameval.client._wire.alarm_settings import AlarmSettings
    from streameval.client._wire.alarms import AlarmStatus, StreamAlarm
    from streameval.client._wire.answers import (
        RankedSegment,
        SegmentRanking,
        StreamComparison,
        StreamCounters,
        StreamCoverage,
        StreamInfo,
        StreamLabelSample,
        StreamProjection,
        StreamReliability,
        StreamSettings,
    )
    from streameval.client._wire.marks import StreamMark
    from streameval.client._wire.pair_answers import (
        Disagreement,
        PairComparison,
        PairCounters,
        PairCoverage,
        PairInfo,
        PairSettings,
    )
    from streameval.client._wire.selection import Selection
    from streameval.client._wire.stream_series import StreamSeries
    from streameval.client._wire.summaries import StreamSummary

__all__ = [
    "AccessError",
    "AlarmSettings",
    "AlarmStatus",
    "AlreadyExistsError",
    "AsyncClient",
    "AsyncStream",
    "Client",
    "ClientError",
    "ClientStatistics",
    "ClosedError",
    "DeadlineError",
    "Disagreement",
    "FencedError",
    "InvalidRequestError",
    "MergeState",
    "NotFoundError",
    "OutOfRangeError",
    "PairComparison",
    "PairCounters",
    "PairCoverage",
    "PairInfo",
    "PairSettings",
    "PreconditionError",
    "RankedSegment",
    "RefusedBatch",
    "ResourceExhaustedError",
    "RowsLostError",
    "SegmentRanking",
    "Selection",
    "Stream",
    "StreamAlarm",
    "StreamComparison",
    "StreamCounters",
    "StreamCoverage",
    "StreamInfo",
    "StreamLabelSample",
    "StreamMark",
    "StreamProjection",
    "StreamReliability",
    "StreamSeries",
    "StreamSettings",
    "StreamSummary",
    "UnavailableError",
    "UnimplementedError",
    "Violation",
]
