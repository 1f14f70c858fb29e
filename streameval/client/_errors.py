"""What the client raises.

::

    StreamEvalError
    ├── InvalidInputError            a bad value: raised at the call, as by Evaluator
    └── ClientError                  anything a server or the way to it answered
        ├── InvalidRequestError      INVALID_ARGUMENT (also ValueError)
        ├── NotFoundError            NOT_FOUND (also LookupError)
        ├── AlreadyExistsError       ALREADY_EXISTS
        ├── FencedError              a newer producer took this one's name
        ├── PreconditionError        FAILED_PRECONDITION: does not go with what there is
        ├── OutOfRangeError          OUT_OF_RANGE: a revision the log has not reached
        ├── ResourceExhaustedError   RESOURCE_EXHAUSTED: over a limit, see retry_after_s
        ├── AccessError              UNAUTHENTICATED, PERMISSION_DENIED
        ├── UnimplementedError       UNIMPLEMENTED
        ├── UnavailableError         UNAVAILABLE: no server there, or it is stopping
        ├── DeadlineError            DEADLINE_EXCEEDED, a flush that timed out (also TimeoutError)
        ├── RowsLostError            flush: rows were refused or dropped, listed once
        └── ClosedError              the client was closed

The text of an error that came from a server is the server's own.
"""

from __future__ import annotations

from dataclasses import dataclass

from streameval._common.errors import StreamEvalError


@dataclass(frozen=True, slots=True)
class Violation:
    """One field that broke a rule.

    Attributes
    ----------
    field : str
        Path of the field, with the row: ``cases.scores[17]``.
    description : str
        The rule and the value that broke it.
    """

    field: str
    description: str


@dataclass(frozen=True, slots=True)
class RefusedBatch:
    """A batch that the server refused for good; none of its rows counts.

    Attributes
    ----------
    stream : str
        Name of the stream that it was for.
    rows : int
        How many rows it had.
    code : str
        Name of the status: ``INVALID_ARGUMENT``, ``NOT_FOUND``, ...
    message : str
        The server's own words.
    violations : tuple of Violation
        The fields at fault, if single fields were.
    """

    stream: str
    rows: int
    code: str
    message: str
    violations: tuple[Violation, ...] = ()


class ClientError(StreamEvalError):
    """Base of what the client raises about the server and the way to it.

    Attributes
    ----------
    code : str
        Name of the gRPC status: ``NOT_FOUND``, ``UNAVAILABLE``, ...
    reason : str
        The server's stable word for the cause (ErrorInfo); empty without one.
    violations : tuple of Violation
        The fields at fault (BadRequest).
    retry_after_s : float or None
        When the server said that a retry may help (RetryInfo), in seconds.
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
    ) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.reason = reason
        self.violations = violations
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), str(self), self.__dict__)

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidRequestError(ClientError, ValueError):
    """The server refused a value (INVALID_ARGUMENT); `violations` says which."""

    __module__ = "streameval.client"

    code = "INVALID_ARGUMENT"


class NotFoundError(ClientError, LookupError):
    """There is no such stream (NOT_FOUND)."""

    __module__ = "streameval.client"

    code = "NOT_FOUND"


class AlreadyExistsError(ClientError):
    """There is a stream of that name already (ALREADY_EXISTS)."""

    __module__ = "streameval.client"

    code = "ALREADY_EXISTS"


class FencedError(ClientError):
    """A newer producer has taken over this one's name: this one must stop.

    Rows that were not durable by then are counted as dropped.
    """

    __module__ = "streameval.client"

    code = "FAILED_PRECONDITION"


class PreconditionError(ClientError):
    """What was asked for does not go with what there is (FAILED_PRECONDITION)."""

    __module__ = "streameval.client"

    code = "FAILED_PRECONDITION"


class OutOfRangeError(ClientError):
    """A revision that the server's log has not reached (OUT_OF_RANGE)."""

    __module__ = "streameval.client"

    code = "OUT_OF_RANGE"


class ResourceExhaustedError(ClientError):
    """Over one of the server's limits (RESOURCE_EXHAUSTED)."""

    __module__ = "streameval.client"

    code = "RESOURCE_EXHAUSTED"


class AccessError(ClientError):
    """The token is missing, wrong, or does not allow this."""

    __module__ = "streameval.client"

    code = "PERMISSION_DENIED"


class UnimplementedError(ClientError):
    """The server does not serve this (UNIMPLEMENTED)."""

    __module__ = "streameval.client"

    code = "UNIMPLEMENTED"


class UnavailableError(ClientError):
    """There is no server at the address, or it is stopping (UNAVAILABLE)."""

    __module__ = "streameval.client"

    code = "UNAVAILABLE"


class DeadlineError(ClientError, TimeoutError):
    """Not done in time (DEADLINE_EXCEEDED)."""

    __module__ = "streameval.client"

    code = "DEADLINE_EXCEEDED"


class ClosedError(ClientError):
    """The client was closed; make a new one."""

    __module__ = "streameval.client"

    code = "CANCELLED"


class RowsLostError(ClientError):
    """Rows given to the client will never count: refused by the server, or dropped.

    Attributes
    ----------
    refusals : tuple of RefusedBatch
        The refused batches since the last such error, at most the last 100.
    refused_rows, dropped_rows : int
        How many rows since the last such error.
    """

    __module__ = "streameval.client"

    code = "ABORTED"

    def __init__(
        self,
        message: str,
        *,
        refusals: tuple[RefusedBatch, ...] = (),
        refused_rows: int = 0,
        dropped_rows: int = 0,
    ) -> None:
        super().__init__(message)
        self.refusals = refusals
        self.refused_rows = refused_rows
        self.dropped_rows = dropped_rows


_BY_CODE: dict[str, type[ClientError]] = {
    "INVALID_ARGUMENT": InvalidRequestError,
    "NOT_FOUND": NotFoundError,
    "ALREADY_EXISTS": AlreadyExistsError,
    "FAILED_PRECONDITION": PreconditionError,
    "OUT_OF_RANGE": OutOfRangeError,
    "RESOURCE_EXHAUSTED": ResourceExhaustedError,
    "UNAUTHENTICATED": AccessError,
    "PERMISSION_DENIED": AccessError,
    "UNIMPLEMENTED": UnimplementedError,
    "UNAVAILABLE": UnavailableError,
    "DEADLINE_EXCEEDED": DeadlineError,
}

_BY_REASON: dict[str, type[ClientError]] = {"EPOCH_FENCED": FencedError}


def error_for(
    code: str,
    message: str,
    *,
    reason: str = "",
    violations: tuple[Violation, ...] = (),
    retry_after_s: float | None = None,
) -> ClientError:
    """Return the error of the tree that a status stands for.

    Examples
    --------
    >>> error_for("NOT_FOUND", "there is no stream 'fraud/v9'")
    NotFoundError("there is no stream 'fraud/v9'")
    >>> error_for("FAILED_PRECONDITION", "epoch 4 is fenced by 5", reason="EPOCH_FENCED")
    FencedError('epoch 4 is fenced by 5')
    """
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code, ClientError)
    return kind(
        message, code=code, reason=reason, violations=violations, retry_after_s=retry_after_s
    )


def _rebuild(kind: type[ClientError], message: str, attributes: dict[str, object]) -> ClientError:
    error = kind(message)
    error.__dict__.update(attributes)
    return error
