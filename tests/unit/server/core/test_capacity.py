"""Requests above the server's capacity are refused with a delay and change nothing."""

from __future__ import annotations

import math

import pytest

from streameval_server._core.recovery import open_core
from streameval_server._log.storage import MemoryStorage
from streameval_server._model.errors import Code, RequestError
from streameval_server._model.limits import Limits

from ..sessions import NOW, commit, counted, frame, opened


def test_a_full_queue_asks_to_come_back_later():
    """RESOURCE_EXHAUSTED with a delay; the batches that were queued before count once."""
    size = len(frame(1))
    core = open_core(MemoryStorage(), Limits(max_queue_bytes=2 * size))
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    session.feed(frame(2), NOW)
    with pytest.raises(RequestError) as caught:
        session.feed(frame(3), NOW)
    assert caught.value.code == Code.RESOURCE_EXHAUSTED
    assert caught.value.reason == "QUEUE_FULL"
    assert caught.value.retry_after_s > 0
    commit(core)
    assert core.committer.queued_bytes == 0
    session, last = opened(core)
    assert last == 2
    session.feed(frame(3), NOW)
    commit(core)
    assert counted(core) == 6


def test_one_producer_too_many_asks_to_come_back_later():
    """Known producers can still send. When they are all idle, a tick makes them be forgotten."""
    day = 24 * 3600 * 1_000_000
    core = open_core(MemoryStorage(), Limits(max_producers=1, marks_ttl_us=2 * day))
    session, _ = opened(core)
    session.feed(frame(1, scores=(math.nan, 0.1)), NOW)  # refused, so no stream is created
    commit(core)
    other, _ = opened(core, producer="other")
    with pytest.raises(RequestError, match="been idle for 2 days") as caught:
        other.feed(frame(1), NOW)
    assert caught.value.code == Code.RESOURCE_EXHAUSTED
    assert caught.value.reason == "TOO_MANY_PRODUCERS"
    assert caught.value.retry_after_s > 1
    session.feed(frame(2), NOW)
    commit(core)
    assert counted(core) == 2
    core = open_core(MemoryStorage(), Limits(max_producers=1, marks_ttl_us=2 * day))
    session, _ = opened(core)
    session.feed(frame(1, scores=(math.nan, 0.1)), NOW)
    commit(core)
    assert not core.committer.step(NOW + 2 * day).pushed
    assert core.committer.step(NOW + 2 * day + 1).pushed
    assert not core.committer.step(NOW + 3 * day).pushed
    opened(core, producer="other")[0].feed(frame(1), NOW + 3 * day)
    commit(core)
    assert counted(core) == 2


def test_full_memory_asks_to_come_back_later():
    """Above the limit on state every batch is refused."""
    core = open_core(MemoryStorage(), Limits(max_state_bytes=1))
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    commit(core)
    with pytest.raises(RequestError) as caught:
        session.feed(frame(2), NOW)
    assert (caught.value.code, caught.value.reason) == (Code.RESOURCE_EXHAUSTED, "STATE_FULL")
