"""Sends events to a webhook: signed, one at a time, until the receiver has taken each.

An event is sent until the receiver answers 2xx; the delivery is then written to the log. So no
event is lost: after a crash between the answer and the log, an alarm is sent again under the
same id, and the receiver drops it by the id. Before each attempt the waiting events are read
again, so that an alarm is not sent any more once it is acknowledged or its stream is deleted.
Each event waits for its own next attempt, so one that the receiver refuses delays no other.
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
import logging
import random
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from streameval.checks import read_text
from streameval_server._model.errors import RequestError
from streameval_server._model.server_settings import SettingsError
from streameval_server._service.webhook_events import alarm_event, verdict_event

if TYPE_CHECKING:
    from pathlib import Path

    from streameval_server._model.stream_info import StreamInfo
    from streameval_server._runtime.runtime import Runtime
    from streameval_server._service.webhook_events import Event

_log = logging.getLogger(__name__)

_PAUSE_S = 0.5
"""Between two looks for alarms that were not sent."""
_LOOK_S = 2.0
"""After which time there may be other verdicts: they are computed in the background."""
_MIN_RETRY_S, _MAX_RETRY_S = 1.0, 300.0
_RECORD_RETRY_S = 30.0
_TIMEOUT_S = 5.0
_MIN_SECRET_BYTES = 24
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
        self._changed: dict[tuple[StreamInfo, str, str], Event] = {}

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
            key = min(due, key=lambda each: (self._failures(each), waiting[each].at))
            tried.add(key)
            await self._send(waiting[key])

    async def _waiting(self) -> dict[str, Event]:
        """Return what the receiver has not taken, by ids: open alarms, and changed verdicts."""
        found = await asyncio.to_thread(self._read)
        return {each.id: each for each in found}

    def _read(self) -> list[Event]:
        runtime = self._runtime
        alarms = runtime.undelivered_alarms(_MAX_WAITING)
        changed = {
            (info, told, quality): verdict
            for info, told, quality, verdict in runtime.changed_verdicts(_MAX_WAITING)
        }
        # What was tried once keeps its content.
        self._changed = {
            key: self._changed.get(key) or verdict_event(key[0].name, verdict, *key[1:])
            for key, verdict in changed.items()
        }
        return [*(alarm_event(*each) for each in alarms), *self._changed.values()]

    async def _send(self, event: Event) -> None:
        """Send an event once; record that it was taken, or when it is sent again."""
        key = event.id
        try:
            body = event.body()
            headers = signed(key, body, self._secret, int(time.time()))
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
            response = await self._runtime.settled(event.record)
            await self._runtime.visible(response.revision)

    def _failures(self, key: str) -> int:
        found = self._attempts.get(key)
        return 0 if found is None else found.failures

    async def _wait_for(self, revision: int) -> None:
        """Wait until a revision is visible, something is to be sent again, or `_LOOK_S` passed."""
        dues = [each.due_s for each in self._attempts.values()]
        pause_s = min([_LOOK_S, *(max(each - time.monotonic(), 0.0) for each in dues)])
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._runtime.visibility.wait(revision), pause_s)


def signed(key: str, body: bytes, secret: bytes, sent_s: int) -> dict[str, str]:
    """Return the headers of an event. O(bytes)."""
    content = f"{key}.{sent_s}.".encode() + body
    code = base64.b64encode(hmac.new(secret, content, hashlib.sha256).digest()).decode()
    return {
        "content-type": "application/json",
        "user-agent": "streameval",
        "webhook-id": key,
        "webhook-timestamp": str(sent_s),
        "webhook-signature": f"v1,{code}",
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
