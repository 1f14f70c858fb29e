"""The log's formats: text for people, or one JSON object per line.

Every line of a call has its request id. Two things never get into the log:

- tokens: everything that looks like one is redacted, in every field
- values that clients sent, prediction ids among them: tracebacks leave out the
  messages of unexpected exceptions, which may quote values; messages of errors
  of the disk and of settings quote none and stay
"""

from __future__ import annotations

import json
import logging
import sqlite3
import sys
import threading
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from streameval.checks import redact_tokens
from streameval_server._model.errors import StorageError
from streameval_server._model.server_settings import SettingsError
from streameval_server._security.access import current_call

if TYPE_CHECKING:
    from types import TracebackType

    from streameval_server._model.server_settings import LogFormat, LogLevel

_log = logging.getLogger(__name__)

_QUOTED_ERRORS = (OSError, StorageError, SettingsError, sqlite3.Error)


class _Formatter(logging.Formatter):
    """The base of both formats: redaction and tracebacks."""

    def formatException(  # noqa: N802 - logging's name
        self, ei: tuple[type[BaseException], BaseException, object] | tuple[None, None, None]
    ) -> str:
        """Return a traceback without the values that exceptions quote."""
        error = ei[1]
        return "" if error is None else "\n".join(_traceback_lines(error, set()))

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's line, with tokens redacted."""
        return redact_tokens(self.line(record))

    def line(self, record: logging.LogRecord) -> str:
        """Return the line before redaction."""
        raise NotImplementedError


class TextFormatter(_Formatter):
    """``2026-11-20T12:00:00.000Z WARNING streameval_server.calls: call NOT_FOUND method=...``."""

    def line(self, record: logging.LogRecord) -> str:
        """Return the line, and the traceback below it."""
        fields = "".join(f" {key}={value}" for key, value in _fields(record).items())
        # A line break in a client's text must not start a forged line of the log.
        message = record.getMessage().replace("\r", "\\r").replace("\n", "\\n")
        line = f"{_time(record)} {record.levelname} {record.name}: {message}{fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(_Formatter):
    """One object a line: time, level, logger, message, the call's fields, a traceback."""

    def line(self, record: logging.LogRecord) -> str:
        """Return the object."""
        values: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            values["traceback"] = self.formatException(record.exc_info)
        return json.dumps(values, default=str)


def configure(log_format: LogFormat, level: LogLevel) -> None:
    """Send all that this process logs to stderr, warnings and uncaught exceptions too.

    `begin_program` stops gRPC's own lines, which cannot be formatted.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_exception
    sys.unraisablehook = _log_unraisable
    threading.excepthook = _log_exception_of_thread
    # At debug level it logs the events' content.
    logging.getLogger("sse_starlette").setLevel(logging.WARNING)


def _log_exception(
    _kind: type[BaseException], error: BaseException, _traceback: TracebackType | None
) -> None:
    _log.critical("the process ends", exc_info=error)


def _log_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    _log.error("an exception was ignored", exc_info=unraisable.exc_value)


def _log_exception_of_thread(ended: threading.ExceptHookArgs) -> None:
    name = "" if ended.thread is None else ended.thread.name
    _log.error("the thread %s ended", name, exc_info=ended.exc_value)


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """Return a record's fields, and the request id of the call in progress."""
    fields: dict[str, object] = dict(getattr(record, "fields", {}))
    call = current_call.get(None)
    if call is not None:
        fields["request_id"] = call.request_id
    return fields


def _traceback_lines(error: BaseException, seen: set[int]) -> list[str]:
    """Return the lines of a traceback, causes first, without messages that may quote values."""
    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    lines: list[str] = []
    if before is not None and id(before) not in seen:
        lines = [*_traceback_lines(before, seen), "and then:"]
    lines += [
        f"  {frame.filename}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    kind = type(error)
    text = f": {error}" if isinstance(error, _QUOTED_ERRORS) else ""
    lines.append(f"{kind.__module__}.{kind.__qualname__}{text}")
    return lines
