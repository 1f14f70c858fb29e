"""What the core answers when it does not do what it was asked.

::

    StreamEvalError
    ├── RequestError      ends a call: a gRPC status with its details
    └── StorageError      the disk failed, or what it holds cannot be used
        └── CorruptLogError   a log or checkpoint that is not what was written

A batch that breaks a rule is not an error of its stream: it is `Refused`,
durably, and the stream lives on.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streameval import InvalidInputError, StreamEvalError
from streameval.v1 import status_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

Violation = tuple[str, str]
"""A field's path inside its message, and the rule that it broke."""


class Code(enum.IntEnum):
    """google.rpc.Code, as far as the core uses it."""

    INVALID_ARGUMENT = 3
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
    """A call that ends without what it asked for; nothing was changed by it.

    Attributes
    ----------
    code : Code
        The status.
    message : str
        What was wrong, with which value, and what to do.
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
    """Return the refusal of a field, by its path inside a request."""
    return RequestError(
        Code.INVALID_ARGUMENT, problem, reason="INVALID_FIELD", violations=((path, problem),)
    )


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a batch was refused: final, durable, never to be resent.

    Attributes
    ----------
    code : Code
        As in a gRPC status.
    message : str
        What was wrong, where, with which value.
    violations : tuple of (field, description)
        The fields at fault, with the row: ``cases.scores[17]``.
    """

    code: Code
    message: str
    violations: tuple[Violation, ...] = field(default=())

    def to_message(self) -> status_pb2.Refusal:
        """Return the same as a message."""
        return status_pb2.Refusal(
            code=self.code,
            message=self.message,
            violations=[
                status_pb2.FieldViolation(field=path, description=text)
                for path, text in self.violations
            ],
        )

    @classmethod
    def from_message(cls, message: status_pb2.Refusal) -> Refused:
        """Read it back."""
        return cls(
            Code(message.code),
            message.message,
            tuple((violation.field, violation.description) for violation in message.violations),
        )

    def to_error(self) -> RequestError:
        """Return the same as the end of a unary call."""
        return RequestError(
            self.code, self.message, reason="BATCH_REFUSED", violations=self.violations
        )


class RefusedError(Exception):
    """Carries a refusal out of the validation of a batch; never leaves the core."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused


def refused_input(error: InvalidInputError, prefix: str) -> Refused:
    """Return the library's complaint about a column as a refusal with the same text.

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
    """The disk failed, or what it holds cannot be used."""


class CorruptLogError(StorageError):
    """A log or checkpoint that is not what was written: it says where."""
