"""Sends alarms to a webhook: signed, one at a time, until the receiver has taken each.

An alarm is sent until a 2xx answers; that it was taken is then written to the log. So none
is lost: one that was sent and not written before a crash is sent again, under the same id, by
which a receiver drops it. Headers and signature are those of Standard Webhooks
(standardwebhooks.com). Redirects are not followed: only the declared address is called.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.client
import json
import logging
import random
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from google.protobuf.json_format import MessageToDict

from streameval_server._model.alarm_change import AlarmChange
from streameval_server._model.errors import RequestError
from streameval_server._model.server_settings import SettingsError
from streameval_server._queries.alarms import alarm_message

if TYPE_CHECKING:
    from pathlib import Path

    from streameval._drift import Alarm
    from streameval_server._model.stream_info import StreamInfo
    from streameval_server._runtime.runtime import Runtime

_log = logging.getLogger(__name__)

_PAUSE_S = 0.5
"""Between two looks for alarms that were not sent."""
_MIN_RETRY_S, _MAX_RETRY_S = 1.0, 300.0
_RECORD_RETRY_S = 30.0
_TIMEOUT_S = 5.0
_MIN_SECRET_BYTES = 24
_MAX_AT_ONCE = 100


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
        self._failures = 0

    async def run(self) -> None:
        """Send alarms until the task is cancelled."""
        runtime = self._runtime
        while True:
            # Read first: an alarm that is raised meanwhile belongs to a later revision.
            revision = runtime.visible_revision()
            try:
                found = await asyncio.to_thread(runtime.undelivered_alarms, _MAX_AT_ONCE)
                for info, alarm in found:
                    await self._deliver(info, alarm)
                await runtime.visibility.wait(revision + 1)
            except RequestError as error:
                _log.warning("an alarm was sent, and that could not be recorded: %s", error)
                await asyncio.sleep(_RECORD_RETRY_S)
            await asyncio.sleep(_PAUSE_S)

    async def _deliver(self, info: StreamInfo, alarm: Alarm) -> None:
        """Send an alarm until it is taken, then record that."""
        body, headers = signed(info, alarm, self._secret, int(time.time()))
        while True:
            problem = await asyncio.to_thread(_post, self._url, body, headers)
            if problem is None:
                break
            self._failures += 1
            level = logging.WARNING if self._failures == 1 else logging.DEBUG
            _log.log(level, "the webhook did not take an alarm, and is tried again: %s", problem)
            longest = min(_MIN_RETRY_S * 2 ** min(self._failures - 1, 20), _MAX_RETRY_S)
            await asyncio.sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            body, headers = signed(info, alarm, self._secret, int(time.time()))
        if self._failures:
            _log.info("the webhook takes alarms again")
        self._failures = 0
        change = AlarmChange(alarm.number, is_delivery=True)
        response = await self._runtime.settled(lambda call: call.change_alarm(info.name, change))
        await self._runtime.visible(response.revision)


def signed(
    info: StreamInfo, alarm: Alarm, secret: bytes, sent_s: int
) -> tuple[bytes, dict[str, str]]:
    """Return an alarm as the body of a request, and its headers. O(segments)."""
    message = alarm_message(info, alarm, delivered=False)
    data = MessageToDict(message, always_print_fields_with_no_presence=True)
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
    """Send a request; return why it failed, without secrets, or None."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
    try:
        target = parts.path or "/"
        target += f"?{parts.query}" if parts.query else ""
        connection.request("POST", target, body, headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"{parts.hostname}: {error!r}"
    finally:
        connection.close()
    return None if 200 <= status < 300 else f"{parts.hostname} answered {status}"


def _read_secret(path: Path) -> bytes:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"webhook_secret cannot be read: {error}") from error
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
