"""The exceptions of the library.

::

    StreamEvalError
    ├── InvalidInputError (also ValueError)   a value that cannot be counted
    ├── CorruptStateError (also ValueError)   bytes that are not a complete evaluator
    └── streameval.client's errors            see streameval/client/_errors.py

A call that raises has changed nothing. A message names the field, the row and the
value at fault.
"""

from __future__ import annotations


class StreamEvalError(Exception):
    """Base class of the exceptions that streameval raises on purpose."""

    __module__ = "streameval"


class InvalidInputError(StreamEvalError, ValueError):
    """A value that cannot be counted.

    Parameters
    ----------
    message : str
        What was wrong, with the value and, for columns, the row:
        ``score must be finite, got nan at index 3``.
    field : str
        The argument or column at fault: ``scores``, ``labels``, ``counts``, ...
    index : int or None
        The first row at fault, from 0; None when no single row is.
    """

    __module__ = "streameval"

    def __init__(self, message: str, *, field: str, index: int | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.index = index

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (str(self), self.field, self.index)


class CorruptStateError(StreamEvalError, ValueError):
    """Bytes that are not a complete, unaltered evaluator of a known format."""

    __module__ = "streameval"


class UnknownFormatError(CorruptStateError):
    """Bytes of a format that this version does not know; they may well be sound."""


def _rebuild(message: str, field: str, index: int | None) -> InvalidInputError:
    return InvalidInputError(message, field=field, index=index)
