"""The upload of states that were counted elsewhere, to be merged into a stream.

The states are sent in pieces and count all together or not at all. The server
keeps the last epoch of each source, so an upload with an unknown outcome is safe
to repeat unchanged: it counts once.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streameval._common.errors import InvalidInputError
from streameval._evaluator import Evaluator
from streameval._time.times import to_us
from streameval._time.windowed import WindowedEvaluator
from streameval.client._buffer.checks import check_id, check_segments
from streameval.v1 import ingest_pb2, types_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    import numpy as np

    from streameval.client._errors import ClientError

PIECE_BYTES = 1 << 20
"""The most bytes of one message of an upload."""

_MAX_EPOCH = (1 << 63) - 1
_MIN_RETRY_DELAY_S = 0.1
_MAX_RETRY_DELAY_S = 5.0

RETRYABLE_CODES = frozenset(
    {"UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED", "INTERNAL"}
)
"""After these, nothing or all may have arrived; the epoch makes a repetition safe."""


@dataclass(frozen=True, slots=True)
class MergeState:
    """Counts to be merged into a stream.

    Attributes
    ----------
    evaluator : Evaluator
    at : datetime or None
        A time in the pane where it counts; None counts in all time only.
    segments : mapping of str to str or None
        The slices where it counts. Each state also counts in the whole stream,
        so give one state for each combination of values, or one without segments.
    """

    evaluator: Evaluator
    at: datetime | np.datetime64 | None = None
    segments: Mapping[str, str] | None = None


class Upload:
    """One merge.

    Parameters
    ----------
    stream : str
    states : Evaluator, WindowedEvaluator or iterable of MergeState
    source : str
        Name of the process that counted them.
    epoch : int
        Higher than in the source's last merge.
    at, segments
        For an `Evaluator`; a `WindowedEvaluator` takes `segments` only.
    """

    def __init__(
        self,
        stream: str,
        states: Evaluator | WindowedEvaluator | Iterable[MergeState],
        *,
        source: str,
        epoch: int,
        at: datetime | np.datetime64 | None,
        segments: Mapping[str, str] | None,
    ) -> None:
        if isinstance(epoch, bool) or not isinstance(epoch, int) or not 0 < epoch <= _MAX_EPOCH:
            message = f"epoch must be an integer from 1 to 2^63 - 1, got {epoch!r:.60}"
            raise InvalidInputError(message, field="epoch")
        encoded = ingest_pb2.MergeStates(
            states=[_state_message(state) for state in _states(states, at, segments)]
        ).SerializeToString()
        self._data = encoded
        self._header = ingest_pb2.MergeHeader(
            stream=stream,
            source=check_id(source, kind="source"),
            epoch=epoch,
            total_bytes=len(encoded),
            crc32=zlib.crc32(encoded),
        )
        self._attempts = 0

    def requests(self) -> Iterator[ingest_pb2.MergeRequest]:
        """Yield the header and the pieces, for `Merge`."""
        yield ingest_pb2.MergeRequest(header=self._header)
        for start in range(0, len(self._data), PIECE_BYTES):
            yield ingest_pb2.MergeRequest(data=self._data[start : start + PIECE_BYTES])

    def pause_s(self, error: ClientError, left_s: float | None) -> float | None:
        """Return how long to wait before the next attempt; None when it would be useless.

        `left_s` was the time left before the failed attempt; None is no limit.
        """
        if not may_pass(error):
            return None
        self._attempts += 1
        delay = retry_pause_s(self._attempts, error)
        return None if left_s is not None and delay >= left_s else delay


def may_pass(error: ClientError) -> bool:
    """Return whether the same merge may succeed later, or has succeeded."""
    return error.retry_after_s is not None or error.code in RETRYABLE_CODES


def retry_pause_s(attempts: int, error: ClientError) -> float:
    """Return how long to wait after a number of failed attempts, the last with this error."""
    delay = min(_MAX_RETRY_DELAY_S, _MIN_RETRY_DELAY_S * 2.0 ** min(attempts - 1, 10))
    return max(delay, error.retry_after_s or 0.0)


def _states(
    states: Any, at: datetime | np.datetime64 | None, segments: Mapping[str, str] | None
) -> Iterator[MergeState]:
    if isinstance(states, Evaluator):
        yield MergeState(states, at, segments)
        return
    if at is not None:
        raise InvalidInputError("only a single Evaluator takes at: others carry times", field="at")
    if isinstance(states, WindowedEvaluator):
        for pane in states.panes():
            yield MergeState(pane.evaluator(), pane.start, segments)
        return
    if segments is not None:
        raise InvalidInputError("states carry their own segments", field="segments")
    if not isinstance(states, Iterable):
        raise InvalidInputError(
            "merge takes an Evaluator, a WindowedEvaluator or MergeStates, "
            f"got {type(states).__name__}",
            field="states",
        )
    for index, state in enumerate(states):
        if not isinstance(state, MergeState):
            raise InvalidInputError(
                f"states must be MergeStates, got {type(state).__name__} at index {index}",
                field="states",
                index=index,
            )
        yield state


def _state_message(state: MergeState) -> ingest_pb2.PaneState:
    pairs = check_segments(state.segments) if state.segments else ()
    return ingest_pb2.PaneState(
        event_time_us=0 if state.at is None else to_us(state.at),
        segments=[types_pb2.Segment(key=key, value=value) for key, value in pairs],
        evaluator=state.evaluator.to_bytes(),
    )
