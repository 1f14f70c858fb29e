"""The client of a streameval server; needs the extra ``streameval[client]``.

Its layers, from the caller to the wire:

- `Client`, `Stream`: the verbs. `AsyncClient`, `AsyncStream`: the same for asyncio.
- `_case_verbs`, `_id_verbs`: what is added, checked with the library's own rules
  (`_adding`, `_text`).
- `_questions`: what is asked, and how answers are read (`_selection`, `_convert`).
- `_servers`: a core for each server; `_routing` finds the one that has a stream.
- `_core`: the parts put together, and what a fork or the end of the process does.
- `_buffer`: the bounded buffer that every call appends to (`_lane`, `_runs`, `_clock`);
  `_order` makes few large pieces of it, `_rows` and `_id_rows` batches.
- `_sender`: numbers batches and keeps what is not acknowledged, without I/O.
- `_delivery`: from buffer to sender, and what there is to tell of it.
- `_worker`, `_async_worker`: the thread, or the task, that moves messages.
- `_transport`, `_async_transport`: gRPC.
"""

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
from streameval.client._wire.answers import (
    RankedSegment,
    SegmentRanking,
    StreamComparison,
    StreamCounters,
    StreamCoverage,
    StreamInfo,
    StreamSettings,
)
from streameval.client._wire.selection import Selection

__all__ = [
    "AccessError",
    "AlreadyExistsError",
    "AsyncClient",
    "AsyncStream",
    "Client",
    "ClientError",
    "ClientStatistics",
    "ClosedError",
    "DeadlineError",
    "FencedError",
    "InvalidRequestError",
    "MergeState",
    "NotFoundError",
    "OutOfRangeError",
    "PreconditionError",
    "RankedSegment",
    "RefusedBatch",
    "ResourceExhaustedError",
    "RowsLostError",
    "SegmentRanking",
    "Selection",
    "Stream",
    "StreamComparison",
    "StreamCounters",
    "StreamCoverage",
    "StreamInfo",
    "StreamSettings",
    "UnavailableError",
    "UnimplementedError",
    "Violation",
]
