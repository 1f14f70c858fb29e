"""The errors of requests and of the storage, and the refusals of batches.

::

    StreamEvalError
    ├── RequestError      ends a call: a gRPC status with its details
    └── StorageError      the disk failed, or its content cannot be used
        └── CorruptLogError   a log or checkpoint that is not what was written

A batch that breaks a rule does not end the call that streams it: the batch is `Refused`,
durably, and the call continues.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streameval import InvalidInputError, StreamEvalError
from streameval.v1 import status_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval_server._model.limits import Limits

Violation = tuple[str, str]
"""A field's path inside its message, and the rule that it broke."""

RETRY_AFTER_S = 1.0
"""Delay in seconds that a client is given when the server cannot take more now."""

_PRODUCERS_RETRY_S = 60.0
"""The same when there are too many producers: it may take days until one is forgotten."""

BATCH_REFUSED = "BATCH_REFUSED"
"""The reason of an error that a batch's own rows cause."""

BODY_TOO_LONG = "BODY_TOO_LONG"
"""The reason of an error of a body that is too long, unpacked, or has too many rows."""

_DAY_US = 24 * 3600 * 1_000_000


class Code(enum.IntEnum):
    """The values of google.rpc.Code that the server uses."""

    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class RequestError(StreamEvalError):
    """Ends a call with a status; the call changed nothing.

    Attributes
    ----------
    code : Code
        The status.
    message : str
        What was wrong, the value, and what to do.
    reason : str
        For ErrorInfo: ``SEQUENCE_GAP``, ``EPOCH_FENCED``, ``QUEUE_FULL``, ...
    violations : tuple of (field, description)
        For BadRequest.
    retry_after_s : float or None
        For RetryInfo; None when a retry cannot help.
    metadata : mapping of str to str
        For ErrorInfo, for instance ``{"expected_sequence": "7"}``.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        reason: str,
        violations: tuple[Violation, ...] = (),
        retry_after_s: float | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.violations = violations
        self.retry_after_s = retry_after_s
        self.metadata: Mapping[str, str] = metadata or {}


def invalid(path: str, problem: str) -> RequestError:
    """Return the error of an invalid field, given by its path inside a request."""
    return RequestError(
        Code.INVALID_ARGUMENT, problem, reason="INVALID_FIELD", violations=((path, problem),)
    )


def too_long(problem: str) -> RequestError:
    """Return the error of a body that is within its limit, and whose content is not."""
    return RequestError(
        Code.INVALID_ARGUMENT, problem, reason=BODY_TOO_LONG, violations=(("body", problem),)
    )


def sequence_gap(sequence: int, expected: int) -> RequestError:
    """Return the error of a batch that does not follow the one before."""
    return RequestError(
        Code.OUT_OF_RANGE,
        f"sequence {sequence} leaves a gap: expected {expected}",
        reason="SEQUENCE_GAP",
        metadata={"expected_sequence": str(expected)},
    )


def epoch_fenced(producer: str, epoch: int, current: int) -> RequestError:
    """Return the error of a producer that has been restarted with a higher epoch."""
    return RequestError(
        Code.FAILED_PRECONDITION,
        f"producer {producer} has epoch {current} by now: epoch {epoch} cannot send any more",
        reason="EPOCH_FENCED",
        metadata={"current_epoch": str(current)},
    )


def epoch_moved(producer: str, after: tuple[int, int], current: tuple[int, int]) -> RequestError:
    """Return the error of an epoch that was to start elsewhere than its producer is."""
    return RequestError(
        Code.FAILED_PRECONDITION,
        f"producer {producer} is at sequence {current[1]} of epoch {current[0]}, and not at "
        f"sequence {after[1]} of epoch {after[0]}: another process has it",
        reason="EPOCH_MOVED",
        metadata={"current_epoch": str(current[0]), "current_sequence": str(current[1])},
    )


def sequence_reused(producer: str, epoch: int, sequence: int) -> RequestError:
    """Return the error of a batch whose sequence is durable with another content."""
    return RequestError(
        Code.FAILED_PRECONDITION,
        f"producer {producer} has sent sequence {sequence} of epoch {epoch} with another content: "
        "this batch is not counted. Does another process use the same producer and epoch?",
        reason="SEQUENCE_REUSED",
        metadata={"sequence": str(sequence)},
    )


def no_stream(name: str) -> RequestError:
    """Return the error of a call for a stream that does not exist."""
    return RequestError(
        Code.NOT_FOUND,
        f"there is no stream {name}: ListStreams (streameval streams list) has the names; a first "
        "batch or CreateStream (streameval streams create) makes it",
        reason="NO_STREAM",
    )


def not_visible(revision: int, *, durable: int, visible: int, lag_rows: int) -> RequestError:
    """Return the error of a call whose time ends before a durable revision is visible."""
    return RequestError(
        Code.DEADLINE_EXCEEDED,
        f"revision {revision} is durable and not visible yet: the log is durable up to revision "
        f"{durable}, answers include revisions up to {visible}, {lag_rows} rows are behind. "
        "Nothing is lost: ask again with a longer timeout, or without min_revision for what is "
        "visible now",
        reason="NOT_VISIBLE_YET",
        retry_after_s=RETRY_AFTER_S,
        metadata={"durable_revision": str(durable), "visible_revision": str(visible)},
    )


def storage_failed() -> RequestError:
    """Return the error of a call while the storage does not work; its item's fate is unknown."""
    return RequestError(
        Code.UNAVAILABLE,
        "the server's disk failed and what was not acknowledged may be lost: "
        "reconnect and resume after the last sequence that it reports",
        reason="STORAGE_FAILED",
        retry_after_s=RETRY_AFTER_S,
    )


def disk_full(missing_bytes: int = 0) -> RequestError:
    """Return the error of a call while the log cannot be written for want of room."""
    return RequestError(
        Code.UNAVAILABLE,
        f"the server's disk is full and it only answers queries: free {_room(missing_bytes)} on "
        "the disk of its data directory; it then accepts rows by itself, after the last sequence "
        "that it reports",
        reason="STORAGE_FAILED",
        retry_after_s=RETRY_AFTER_S,
    )


def queue_full(queued_bytes: int) -> RequestError:
    """Return the error of an item for which the queue has no room."""
    return _exhausted(
        "QUEUE_FULL", f"{queued_bytes} bytes wait for the disk already: send it again later"
    )


def too_many_producers(limits: Limits) -> RequestError:
    """Return the error of an item from a producer above the limit."""
    return _exhausted(
        "TOO_MANY_PRODUCERS",
        f"there are {limits.max_producers} producers, the most allowed until some have "
        f"been idle for {limits.marks_ttl_us / _DAY_US:g} days: let clients keep their names",
        retry_after_s=_PRODUCERS_RETRY_S,
    )


def state_full(limits: Limits) -> RequestError:
    """Return the error of rows for which there is no memory."""
    return _exhausted(
        "STATE_FULL",
        f"the counts take more than {limits.max_state_bytes} bytes of memory: "
        "delete streams, or give the server more",
    )


def batch_too_large_for_memory(growth: int, left: int) -> RequestError:
    """Return the error of a batch for which there is too little memory, though there is some."""
    return _exhausted(
        "STATE_FULL",
        f"the batch may take {growth} bytes of memory, and {left} are left of max_state_bytes: "
        "send fewer rows at a time, delete streams, or give the server more",
    )


def no_room_for_ids(stream: str, max_pending: int) -> RequestError:
    """Return the error of predictions that are to wait for labels of their stream."""
    return _exhausted(
        "PENDING_FULL",
        f"{max_pending} predictions of stream {stream} wait for their labels, the most it keeps: "
        "send labels, which are taken meanwhile, and these again; or let it keep more with "
        "'streameval streams update --max-pending'",
    )


def too_many_ids(kept_ids: int, limits: Limits) -> RequestError:
    """Return the error of rows by id while all streams together keep too many ids."""
    return _exhausted(
        "PENDING_FULL",
        f"{kept_ids} ids wait for their labels or predictions, and the most is "
        f"{limits.max_pending_total}: send labels or retractions, or lower label_ttl",
    )


def _exhausted(reason: str, message: str, *, retry_after_s: float = RETRY_AFTER_S) -> RequestError:
    return RequestError(
        Code.RESOURCE_EXHAUSTED, message, reason=reason, retry_after_s=retry_after_s
    )


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a batch was refused. A refusal is final and durable: the batch must not be resent.

    A stream that gets the `segment_keys` takes its rows in another batch.

    Attributes
    ----------
    code : Code
        As in a gRPC status.
    message : str
        What was wrong, where, and the value.
    violations : tuple of (field, description)
        The invalid fields, with the row: ``cases.scores[17]``.
    segment_keys : tuple of str
        If the stream lacks keys of the batch: its own keys and the missing ones; else empty.
    """

    code: Code
    message: str
    violations: tuple[Violation, ...] = field(default=())
    segment_keys: tuple[str, ...] = ()

    def to_message(self) -> status_pb2.Refusal:
        """Encode it as a message."""
        return status_pb2.Refusal(
            code=self.code,
            message=self.message,
            violations=[
                status_pb2.FieldViolation(field=path, description=text)
                for path, text in self.violations
            ],
            segment_keys=self.segment_keys,
        )

    @classmethod
    def from_message(cls, message: status_pb2.Refusal) -> Refused:
        """Decode a message."""
        return cls(
            Code(message.code),
            message.message,
            tuple((violation.field, violation.description) for violation in message.violations),
            tuple(message.segment_keys),
        )

    def to_error(self) -> RequestError:
        """Return it as the error that ends a unary call."""
        return RequestError(
            self.code, self.message, reason=BATCH_REFUSED, violations=self.violations
        )


class RefusedError(Exception):
    """Raised by the validation of a batch and caught by its callers in the server."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused


def refused_input(error: InvalidInputError, prefix: str) -> Refused:
    """Return an error that the library raised for a column as a refusal with the same text.

    Parameters
    ----------
    error
        What the library raised; its `field` is the path inside the rows of the batch.
    prefix
        The batch's kind of rows, for instance ``cases``.
    """
    path = f"{prefix}.{error.field}"
    if error.index is not None:
        path = f"{path}[{error.index}]"
    return Refused(Code.INVALID_ARGUMENT, str(error), ((path, str(error)),))


class StorageError(StreamEvalError):
    """The disk failed, or its content cannot be used."""


class DiskFullError(StorageError):
    """The disk has no room for a write; what was written before can be read.

    Attributes
    ----------
    missing_bytes : int
        How much more must be free until the log can be written; 0 when that is not known.
    """

    def __init__(self, problem: str, missing_bytes: int = 0) -> None:
        super().__init__(f"{problem}: free {_room(missing_bytes)} on its disk")
        self.missing_bytes = missing_bytes


def _room(missing_bytes: int) -> str:
    """Return how much room is missing, in words."""
    return f"at least {-(-missing_bytes // 1024):,} KiB more" if missing_bytes else "some space"


class CorruptLogError(StorageError):
    """A log or checkpoint that is not what was written; the message says where."""
