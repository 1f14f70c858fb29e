"""The client of a streameval server; needs the extra ``streameval[client]``.

Its layers, from the caller to the wire:

- `Client`, `Stream`: the verbs; they check columns with the library's own rules.
- `_core`: the parts put together, and what a fork or the end of the process does.
- `_buffer`: the bounded buffer that every call appends to.
- `_sender`: numbers batches and keeps what is not acknowledged, without I/O.
- `_worker`: the thread that moves the sender's messages.
- `_transport`: gRPC.
"""

from streameval.client._answers import (
    RankedSegment,
    SegmentRanking,
    StreamComparison,
    StreamCounters,
    StreamCoverage,
    StreamInfo,
    StreamSettings,
)
from streameval.client._client import Client
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
from streameval.client._merge import MergeState
from streameval.client._selection import Selection
from streameval.client._statistics import ClientStatistics
from streameval.client._stream import Stream

__all__ = [
    "AccessError",
    "AlreadyExistsError",
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
