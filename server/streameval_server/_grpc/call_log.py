"""One log line per call; lines of refused calls are limited to one a second.

A line has the method, the status, the duration and the token's id. It never has
requests or answers, because those hold ids and values.

==================  =====================================================
level               which calls
==================  =====================================================
DEBUG               successful, failed by the client's fault, or cancelled by the client
WARNING             refused: the token is missing, unknown or not sufficient
ERROR               failed by the server's fault
==================  =====================================================
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

import grpc

from streameval_server._security.access import current_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    class CallOutcome(Protocol):
        """The status and the peer of a call: gRPC's context, or `_web`'s own."""

        def code(self) -> object: ...
        def peer(self) -> str: ...

    class CallObserver(Protocol):
        """Learns when calls begin and end: the metrics."""

        def began(self, method: str, transport: Transport) -> None: ...
        def ended(self, method: str, transport: Transport, code: str, took_s: float) -> None: ...


Transport: TypeAlias = Literal["grpc", "http"]

_log = logging.getLogger("streameval_server.calls")

_REFUSED = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED"})
_SERVER_FAULTS = frozenset({"INTERNAL", "UNKNOWN", "DATA_LOSS"})
_MIN_REFUSAL_INTERVAL_S = 1.0


class CallLog:
    """Writes the log lines of calls.

    Parameters
    ----------
    clock
        Monotonic, in seconds.

    Attributes
    ----------
    observer : CallObserver or None
        Called at the start of each call, and at its end with its status and its seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.observer: CallObserver | None = None
        self._clock = clock
        self._next_refusal_s = -float("inf")
        self._unlogged_refusals = 0

    @contextmanager
    def call(self, context: CallOutcome, transport: Transport = "grpc") -> Iterator[None]:
        """Log this task's call when the ``with`` block ends."""
        began, method = self._clock(), current_call.get().method
        code = ""
        if self.observer is not None:
            self.observer.began(method, transport)
        try:
            yield
        except asyncio.CancelledError:
            code = "CANCELLED"
            raise
        finally:
            code, took_s = code or _code(context), self._clock() - began
            if self.observer is not None:
                self.observer.ended(method, transport, code, took_s)
            self._write(code, context, took_s)

    def unexpected(self, error: Exception) -> None:
        """Log an exception that a handler did not expect."""
        _log.error("%s failed unexpectedly", current_call.get().method, exc_info=error)

    def _write(self, code: str, context: CallOutcome, took_s: float) -> None:
        level = _level(code)
        if not _log.isEnabledFor(level):
            return
        call = current_call.get()
        fields: dict[str, object] = {
            "method": call.method,
            "code": code,
            "duration_ms": round(took_s * 1000, 3),
        }
        if call.reason:
            fields["reason"] = call.reason
        if call.access is not None and call.access.token_id:
            fields["token"] = call.access.token_id
        if code in _REFUSED:
            # A client that guesses tokens, or has a wrong one, may call very often.
            if self._clock() < self._next_refusal_s:
                self._unlogged_refusals += 1
                return
            self._next_refusal_s = self._clock() + _MIN_REFUSAL_INTERVAL_S
            fields["peer"] = context.peer()
            fields["more_refused"] = self._unlogged_refusals
            self._unlogged_refusals = 0
        _log.log(level, "call %s", code, extra={"fields": fields})


def _level(code: str) -> int:
    if code in _REFUSED:
        return logging.WARNING
    return logging.ERROR if code in _SERVER_FAULTS else logging.DEBUG


def _code(context: CallOutcome) -> str:
    """Return the name of a call's status; grpc.aio has 0 for OK."""
    code = context.code()
    return code.name if isinstance(code, grpc.StatusCode) else "OK"
