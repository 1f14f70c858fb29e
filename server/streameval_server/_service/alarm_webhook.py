"""Sends alarms to a webhook: signed, one at a time, until the receiver has taken each.

An alarm is sent until the receiver answers 2xx; the delivery is then written to the log. So no
alarm is lost: after a crash between the answer and the log, the alarm is sent again under the
same id, and the receiver drops it by the id. Before each attempt the waiting alarms are read
again, so that an alarm is not sent any more once it is acknowledged or its stream is deleted. The
content sent under an id never differs: it has only what does not change once an alarm is raised.
Each alarm waits for its own next attempt, so an alarm that the receiver refuses delays no other.
Headers and signature follow Standard Webhooks (standardwebhooks.com). Redirects are not followed:
only the declared address is called.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import logging
import random
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from google.protobuf.json_format import MessageToDict

from streameval.checks import read_text
from streameval_server._model.alarm_change import AlarmChange
from streameval_server._model.errors import RequestError
from streameval_server._model.server_settings import SettingsError
from streameval_server._queries.alarms import alarm_id, alarm_message

if TYPE_CHECKING:
    from pathlib import Path

    from streameval import Alarm
    from streameval_server._model.stream_info import StreamInfo
    from streameval_server._runtime.runtime import Runtime

_log = logging.getLogger(__name__)

_PAUSE_S = 0.5
"""Between two looks for alarms that were not sent."""
_MIN_RETRY_S, _MAX_RETRY_S = 1.0, 300.0
_RECORD_RETRY_S = 30.0
_TIMEOUT_S = 5.0
_MIN_SECRET_BYTES = 24
_FIXED = (
    *("number", "id", "stream", "watch", "changed", "direction", "raisedAt", "since"),
    *("sinceLimits", "reference", "value", "difference", "changedFirst"),
    *("scoresChangedAt", "labelsChangedAt", "lookAt"),
)
"""What an alarm says for ever: receivers may drop a second body of an id without reading it. The
segments that explain it, its repeats and its acknowledgement may still change."""
_MAX_WAITING = 10_000
"""The most alarms that are read at once; more are read when some were taken."""


@dataclass(slots=True)
class _Attempts:
    """How often an alarm was sent in vain, and when it is sent next, in seconds of `monotonic`."""

    failures: int
    due_s: float


class AlarmWebhook:
    """Sends the alarms of all streams to one address.

    Parameters
    ----------
    runtime
        The server's.
    url : str
        https, or http to this machine.
    secret_file : Path
        Its content, without spaces at its ends, is the key of the signatures.

    Raises
    ------
    SettingsError
        When the secret cannot be read, or is too short.
    """

    def __init__(self, runtime: Runtime, url: str, secret_file: Path) -> None:
        self._runtime = runtime
        self._url = url
        self._secret = _read_secret(secret_file)
        self._attempts: dict[str, _Attempts] = {}

    async def run(self) -> None:
        """Send alarms until the task is cancelled."""
        runtime = self._runtime
        while True:
            # Read first: an alarm that is raised meanwhile belongs to a later revision.
            revision = runtime.visible_revision()
            try:
                await self._send_due()
                await self._wait_for(revision + 1)
            except RequestError as error:
                _log.warning("an alarm was sent, and that could not be recorded: %s", error)
                await asyncio.sleep(_RECORD_RETRY_S)
            except Exception:  # noqa: BLE001 - without the sender no alarm is sent any more
                _log.exception("sending alarms failed unexpectedly, and is tried again")
                await asyncio.sleep(_RECORD_RETRY_S)
            await asyncio.sleep(_PAUSE_S)

    async def _send_due(self) -> None:
        """Send each alarm that is due once; those with the fewest failures first."""
        tried: set[str] = set()
        while True:
            waiting = await self._waiting()
            self._attempts = {key: self._attempts[key] for key in waiting if key in self._attempts}
            due = [
                key
                for key in waiting
                if key not in tried
                and (key not in self._attempts or self._attempts[key].due_s <= time.monotonic())
            ]
            if not due:
                return
            key = min(due, key=lambda each: (self._failures(each), waiting[each][1].raised_at))
            tried.add(key)
            await self._send(key, *waiting[key])

    async def _waiting(self) -> dict[str, tuple[StreamInfo, Alarm]]:
        """Return the alarms that are open and that the receiver has not taken, by their ids."""
        found = await asyncio.to_thread(self._runtime.undelivered_alarms, _MAX_WAITING)
        return {alarm_id(info, alarm.number): (info, alarm) for info, alarm in found}

    async def _send(self, key: str, info: StreamInfo, alarm: Alarm) -> None:
        """Send an alarm once; record that it was taken, or when it is sent again."""
        try:
            body, headers = signed(info, alarm, self._secret, int(time.time()))
            problem = await asyncio.to_thread(_post, self._url, body, headers)
        except Exception as error:  # noqa: BLE001 - others are sent, whatever is wrong with one
            problem = repr(error)
        if problem is not None:
            failures = self._failures(key) + 1
            longest = min(_MIN_RETRY_S * 2 ** min(failures - 1, 20), _MAX_RETRY_S)
            pause_s = longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
            level = logging.DEBUG if self._attempts else logging.WARNING
            _log.log(level, "the webhook did not take an alarm, and is tried again: %s", problem)
            self._attempts[key] = _Attempts(failures, time.monotonic() + pause_s)
            return
        if self._attempts:
            _log.info("the webhook takes alarms again")
            # What failed with it need not wait for the rest of its pause.
            for each in self._attempts.values():
                each.due_s = 0.0
            self._attempts.pop(key, None)
        # Another stream may have the name meanwhile: its alarm of this number was not sent.
        if key in await self._waiting():
            change = AlarmChange(alarm.number, is_delivery=True)
            response = await self._runtime.settled(
                lambda call: call.change_alarm(info.name, change)
            )
            await self._runtime.visible(response.revision)

    def _failures(self, key: str) -> int:
        found = self._attempts.get(key)
        return 0 if found is None else found.failures

    async def _wait_for(self, revision: int) -> None:
        """Wait until a revision is visible, or an alarm is to be sent again."""
        dues = [each.due_s for each in self._attempts.values()]
        pause_s = max(min(dues) - time.monotonic(), 0.0) if dues else None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._runtime.visibility.wait(revision), pause_s)


def signed(
    info: StreamInfo, alarm: Alarm, secret: bytes, sent_s: int
) -> tuple[bytes, dict[str, str]]:
    """Return an alarm as the body of a request, one for each id, and headers. O(segments)."""
    message = alarm_message(info, alarm, delivered=False)
    known = MessageToDict(message, always_print_fields_with_no_presence=True)
    data = {name: known[name] for name in _FIXED if name in known}
    event = {"type": "alarm.raised", "timestamp": data["raisedAt"], "data": data}
    body = json.dumps(event).encode()
    content = f"{message.id}.{sent_s}.".encode() + body
    signature = base64.b64encode(hmac.new(secret, content, hashlib.sha256).digest()).decode()
    return body, {
        "content-type": "application/json",
        "user-agent": "streameval",
        "webhook-id": message.id,
        "webhook-timestamp": str(sent_s),
        "webhook-signature": f"v1,{signature}",
    }


def _post(url: str, body: bytes, headers: dict[str, str]) -> str | None:
    """Send a request; return why it failed, without secrets, or None.

    A receiver that answers a byte at a time is cut off: the timeout is of the whole request.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
    cut, is_late = None, threading.Event()
    try:
        connection.connect()
        cut = threading.Timer(_TIMEOUT_S, _cut_off, (connection.sock, is_late))
        cut.daemon = True
        cut.start()
        target = parts.path or "/"
        target += f"?{parts.query}" if parts.query else ""
        connection.request("POST", target, body, headers)
        status = connection.getresponse().status
        if is_late.is_set():  # what came until then may look like an answer
            return f"{parts.hostname} did not answer within {_TIMEOUT_S:g} s"
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        # UnicodeError: a name that cannot be encoded for DNS.
        return f"{parts.hostname}: {error!r}"
    finally:
        if cut is not None:
            cut.cancel()
        connection.close()
    return None if 200 <= status < 300 else f"{parts.hostname} answered {status}"


def _cut_off(sock: socket.socket, is_late: threading.Event) -> None:
    is_late.set()  # first: the reader returns at once
    with contextlib.suppress(OSError):  # it may have ended by itself
        sock.shutdown(socket.SHUT_RDWR)


def _read_secret(path: Path) -> bytes:
    try:
        text = read_text(path).strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(f"webhook_secret {path} cannot be read: {reason}") from error
    secret = text.encode()
    if text.startswith("whsec_"):
        try:
            secret = base64.b64decode(text.removeprefix("whsec_"), validate=True)
        except ValueError as error:
            raise SettingsError("webhook_secret: what follows whsec_ is not base64") from error
    if len(secret) < _MIN_SECRET_BYTES:
        raise SettingsError(
            f"webhook_secret must have at least {_MIN_SECRET_BYTES} bytes, got {len(secret)}: "
            "write one with 'openssl rand -base64 32'"
        )
    return secret
