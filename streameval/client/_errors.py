"""The errors that the client raises.

::

    StreamEvalError
    ├── InvalidInputError            a bad value: raised at the call, as by Evaluator
    └── ClientError                  an error of the server or the connection
        ├── InvalidRequestError      INVALID_ARGUMENT (also ValueError)
        ├── NotFoundError            NOT_FOUND (also LookupError)
        ├── AlreadyExistsError       ALREADY_EXISTS
        ├── FencedError              a newer producer uses this producer's name
        ├── PreconditionError        FAILED_PRECONDITION: conflicts with the present state
        ├── OutOfRangeError          OUT_OF_RANGE: a revision the log has not reached
        ├── ResourceExhaustedError   RESOURCE_EXHAUSTED: over a limit, see retry_after_s
        ├── AccessError              UNAUTHENTICATED, PERMISSION_DENIED
        ├── UnimplementedError       UNIMPLEMENTED
        ├── UnavailableError         UNAVAILABLE: no server at the address, or it is stopping
        ├── DeadlineError            DEADLINE_EXCEEDED, a flush that timed out (also TimeoutError)
        ├── RowsLostError            flush: rows were refused, dropped or lost, listed once
        └── ClosedError              the client was closed

The text of an error from a server is the server's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streameval._common.errors import StreamEvalError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Violation:
    """A field of a request that breaks a rule.

    Attributes
    ----------
    field : str
        Path of the field, with the row: ``cases.scores[17]``.
    description : str
        The rule and the value that breaks it.
    """

    field: str
    description: str


@dataclass(frozen=True, slots=True)
class RefusedBatch:
    """A batch that the server refused permanently; none of its rows counts.

    Attributes
    ----------
    stream : str
        Name of its stream.
    rows : int
        How many rows it had.
    code : str
        Name of the status: ``INVALID_ARGUMENT``, ``NOT_FOUND``, ...
    message : str
        The server's message.
    violations : tuple of Violation
        The invalid fields, if the refusal names any.
    """

    stream: str
    rows: int
    code: str
    message: str
    violations: tuple[Violation, ...] = ()


class ClientError(StreamEvalError):
    """Base of the errors about the server and the connection to it.

    Attributes
    ----------
    code : str
        Name of the gRPC status: ``NOT_FOUND``, ``UNAVAILABLE``, ...
    reason : str
        The server's stable identifier of the cause (ErrorInfo); empty without one.
    violations : tuple of Violation
        The invalid fields (BadRequest).
    retry_after_s : float or None
        How long to wait before a retry (RetryInfo), in seconds; None when the
        server does not say.
    metadata : dict of str to str
        What the reason is about (ErrorInfo), for instance ``{"current_epoch": "7"}``.
    """

    __module__ = "streameval.client"

    code = "UNKNOWN"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        reason: str = "",
        violations: tuple[Violation, ...] = (),
        retry_after_s: float | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.reason = reason
        self.violations = violations
        self.retry_after_s = retry_after_s
        self.metadata = dict(metadata or {})

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), str(self), self.__dict__)

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidRequestError(ClientError, ValueError):
    """The server refused a value (INVALID_ARGUMENT); `violations` names the fields."""

    code = "INVALID_ARGUMENT"


class NotFoundError(ClientError, LookupError):
    """There is no such stream (NOT_FOUND)."""

    code = "NOT_FOUND"


class AlreadyExistsError(ClientError):
    """A stream of that name exists (ALREADY_EXISTS)."""

    code = "ALREADY_EXISTS"


class FencedError(ClientError):
    """Another process uses this producer's name, so this one must stop.

    It has a higher epoch (``EPOCH_FENCED``), or the same epoch and has sent other rows under
    the same numbers (``SEQUENCE_REUSED``), or has moved the producer on (``EPOCH_MOVED``).

    Rows that are not durable by then are counted as dropped.
    """

    code = "FAILED_PRECONDITION"


class PreconditionError(ClientError):
    """The request conflicts with the present state of the stream (FAILED_PRECONDITION)."""

    code = "FAILED_PRECONDITION"


class OutOfRangeError(ClientError):
    """A revision that the server's log has not reached (OUT_OF_RANGE)."""

    code = "OUT_OF_RANGE"


class ResourceExhaustedError(ClientError):
    """The request exceeds one of the server's limits (RESOURCE_EXHAUSTED)."""

    code = "RESOURCE_EXHAUSTED"


class AccessError(ClientError):
    """The token is missing or wrong, or does not permit the call."""

    code = "PERMISSION_DENIED"


class UnimplementedError(ClientError):
    """The server does not implement the call (UNIMPLEMENTED)."""

    code = "UNIMPLEMENTED"


class UnavailableError(ClientError):
    """There is no server at the address, or it is stopping (UNAVAILABLE)."""

    code = "UNAVAILABLE"


class DeadlineError(ClientError, TimeoutError):
    """Not done in time (DEADLINE_EXCEEDED)."""

    code = "DEADLINE_EXCEEDED"


class ClosedError(ClientError):
    """The client is closed."""

    code = "CANCELLED"


class RowsLostError(ClientError):
    """Rows are lost: refused or lost by the server, or dropped by the client.

    Attributes
    ----------
    refusals : tuple of RefusedBatch
        The refused batches since the last such error, at most the last 100.
    refused_rows, dropped_rows : int
        Rows since the last such error.
    lost_rows : int
        Rows since the last such error that the server had acknowledged and has lost: its log
        was damaged, or is another one.
    """

    code = "ABORTED"

    def __init__(
        self,
        message: str,
        *,
        refusals: tuple[RefusedBatch, ...] = (),
        refused_rows: int = 0,
        dropped_rows: int = 0,
        lost_rows: int = 0,
    ) -> None:
        super().__init__(message)
        self.refusals = refusals
        self.refused_rows = refused_rows
        self.dropped_rows = dropped_rows
        self.lost_rows = lost_rows


_BY_CODE: Mapping[str, type[ClientError]] = {
    kind.code: kind
    for kind in (
        InvalidRequestError,
        NotFoundError,
        AlreadyExistsError,
        PreconditionError,
        OutOfRangeError,
        ResourceExhaustedError,
        AccessError,
        UnimplementedError,
        UnavailableError,
        DeadlineError,
    )
} | {"UNAUTHENTICATED": AccessError}
_FENCED = frozenset({"EPOCH_FENCED", "EPOCH_MOVED", "SEQUENCE_REUSED"})
"""The reasons of a FencedError."""


def error_for(code: str, message: str, *, reason: str = "", **details: Any) -> ClientError:
    """Return the error for a gRPC status; `details` are attributes of it.

    Examples
    --------
    >>> error_for("NOT_FOUND", "there is no stream 'fraud/v9'")
    NotFoundError("there is no stream 'fraud/v9'")
    >>> error_for("FAILED_PRECONDITION", "epoch 4 is fenced by 5", reason="EPOCH_FENCED")
    FencedError('epoch 4 is fenced by 5')
    """
    kind = FencedError if reason in _FENCED else _BY_CODE.get(code, ClientError)
    return kind(message, code=code, reason=reason, **details)


def _rebuild(kind: type[ClientError], message: str, attributes: dict[str, object]) -> ClientError:
    error = kind(message)
    error.__dict__.update(attributes)
    return error
