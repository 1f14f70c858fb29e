"""Requests above the server's capacity are refused with a delay and change nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streameval.v1 import ingest_pb2, stream_pb2
from streameval_server import Limits
from streameval_server._core.applier import Applier
from streameval_server._core.recovery import open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.storage import MemoryStorage
from streameval_server._model.errors import Code, RequestError

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
    with pytest.raises(RequestError, match="been idle for 2 days") as caught:
        opened(core, producer="other")
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


def test_changes_of_streams_do_not_wait_for_producers_to_go():
    """With their request ids too: deleting a stream is one way out of a full server."""
    core = open_core(MemoryStorage(), Limits(max_producers=1))
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    commit(core)
    call = UnaryCall(core.committer, core.limits)
    request = stream_pb2.DeleteStreamRequest(name="s", request_id="once")
    call.delete_stream(request.SerializeToString())
    commit(core)
    assert call.response().revision == core.committer.revision
    assert core.engine.stream("s") is None


def test_full_memory_asks_to_come_back_later():
    """Above the limit on state every batch is refused."""
    core = open_core(MemoryStorage(), Limits(max_state_bytes=4_000))
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    commit(core)
    commit(core)  # counts what the first one applied
    with pytest.raises(RequestError) as caught:
        session.feed(frame(2), NOW)
    assert (caught.value.code, caught.value.reason) == (Code.RESOURCE_EXHAUSTED, "STATE_FULL")


def test_a_batch_that_was_queued_before_memory_filled_is_refused():
    """What was queued while there was room is refused when it is committed without any."""
    core = open_core(MemoryStorage(), Limits(max_state_bytes=4_000))
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    core.committer.step(NOW).deliver()
    session.feed(frame(2), NOW)
    core.applier.finish()
    commit(core)
    core.committer.step(NOW).deliver()
    assert session.error is not None
    assert session.error.reason == "STATE_FULL"
    assert counted(core) == 2
    assert core.committer.queued == 0
    again, last = opened(core)
    assert (again.error, last) == (None, 1)


def _spread(rows: int, number: int, stream: str = "attack", *, minutes: int = 180) -> bytes:
    """Return a batch of 4 keys with 50 values, its times spread over 3 hours.

    With 2 minutes these are the first and the last one, and of 300 rows 50 have other values than
    the first of each key.
    """
    rng = np.random.default_rng(number)
    ages_us = rng.integers(0, 3 * 3_600_000_000, rows)
    codes = rng.integers(0, 50, (4, rows))
    if minutes == 2:
        ages_us = np.arange(rows) % 2 * (3 * 3_600_000_000 - 1)
        codes[:] = np.maximum(np.arange(rows) - rows + 50, 0)
    names = [f"v{value}" for value in range(50)]
    cases = ingest_pb2.Cases(
        scores_f64le=rng.normal(size=rows).astype("<f8").tobytes(),
        positives=(rng.random(rows) < 0.2).tolist(),
        event_times_us=(NOW - ages_us).tolist(),
        segments=[
            ingest_pb2.SegmentColumn(
                key=f"k{key}",
                values=names,
                codes_u16le=codes[key].astype("<u2").tobytes(),
            )
            for key in range(4)
        ],
    )
    batch = ingest_pb2.Batch(sequence=number, stream=stream, cases=cases)
    return ingest_pb2.IngestRequest(batch=batch).SerializeToString()


@pytest.mark.parametrize("rows", [300, 3_000])
@pytest.mark.slow
def test_a_full_server_exceeds_its_limit_by_a_stated_amount(rows):
    """Thin slices of all panes, queued at once: at most 8 MiB above, counted or not."""
    limit = 48 << 20
    core = open_core(MemoryStorage(), Limits(max_state_bytes=limit))
    settings = stream_pb2.StreamSettings(segment_keys=[f"k{key}" for key in range(4)])
    request = stream_pb2.CreateStreamRequest(
        stream=stream_pb2.Stream(name="attack", settings=settings)
    )
    UnaryCall(core.committer, core.limits).create_stream(request.SerializeToString())
    commit(core)
    committer, applier = core.committer, core.applier
    session, highest, reasons = opened(core)[0], 0, []
    for number in range(1, 120_000 // rows):
        try:
            session.feed(_spread(rows, number), NOW)
        except RequestError as error:
            reasons.append(error.reason)
            break
        if number % 16:
            continue
        result = committer.step(NOW)
        while result.more or result.blocked:
            result.deliver()
            applier.step()
            applier.finish_step()
            highest = max(highest, committer.memory_bytes)
            result = committer.step(NOW)
        result.deliver()
        applier.finish()
        highest = max(highest, committer.memory_bytes)
        if session.error is not None:
            reasons.append(session.error.reason)
            break
    assert reasons == ["STATE_FULL"]
    assert limit * 0.5 < highest <= limit + (8 << 20)
    assert core.engine.view("attack") is not None
    assert committer.memory_bytes <= limit + (8 << 20)
    replayed = open_core(core.storage, Limits(max_state_bytes=limit))
    assert replayed.engine.state_hash() == core.engine.state_hash()


@pytest.mark.parametrize("streams", [1, 3])
def test_memory_is_counted_before_rows_are_refused(streams):
    """Rows that may be in all slices of 180 minutes, and are in few of two: all are taken."""
    limit = 48 << 20
    core = open_core(MemoryStorage(), Limits(max_state_bytes=limit))
    for stream in range(streams):
        settings = stream_pb2.StreamSettings(segment_keys=[f"k{key}" for key in range(4)])
        request = stream_pb2.CreateStreamRequest(
            stream=stream_pb2.Stream(name=f"s{stream}", settings=settings)
        )
        UnaryCall(core.committer, core.limits).create_stream(request.SerializeToString())
    commit(core)
    session, estimates = opened(core)[0], []
    for number in range(1, 61):
        session.feed(_spread(300, number, f"s{number % streams}", minutes=2), NOW)
        while core.committer.queued:
            commit(core)
        assert session.error is None, number
        estimates.append(core.committer.memory_bytes)
    assert max(estimates) > limit - (8 << 20)
    for stream in range(streams):
        core.engine.view(f"s{stream}")
    assert sum(counted(core, f"s{stream}") for stream in range(streams)) == 60 * 300
    while core.engine.has_uncounted:
        core.engine.count_deferred()
    assert core.engine.memory_bytes < max(estimates) / 5
    assert open_core(core.storage, Limits()).engine.state_hash() == core.engine.state_hash()


def test_near_the_limit_of_memory_few_rows_wait_to_be_applied():
    """Rows that are committed and not applied cannot be refused any more."""
    core = open_core(MemoryStorage(), Limits(max_state_bytes=64_000))
    session, _ = opened(core)
    committer, applier = core.committer, core.applier
    for sequence in range(1, 9):
        session.feed(frame(sequence, scores=(0.1,) * 8, positives=(True,) * 8), NOW)
    longest = 0
    result = committer.step(NOW)
    while result.more or result.blocked:
        result.deliver()
        longest = max(longest, applier.lag_rows)
        if result.blocked:
            applier.finish()
        result = committer.step(NOW)
    result.deliver()
    applier.finish()
    assert counted(core) == 64
    # Each batch may take 14 KB, and a stream 8 KB: there is room for a few at a time.
    assert 8 <= longest < 64


def test_memory_counts_what_waits():
    """Requests, and rows that are durable and not applied; nothing of them is left then."""
    core = open_core(MemoryStorage(), Limits(max_state_bytes=0))
    session, _ = opened(core)
    commit(core)
    before = core.committer.memory_bytes
    session.feed(frame(1, scores=(0.1,) * 1_000, positives=(True,) * 1_000), NOW)
    queued = core.committer.memory_bytes
    assert queued > before + 9 * 1_000
    core.committer.step(NOW).deliver()
    assert core.committer.memory_bytes > before + 9 * 1_000
    core.applier.finish()
    state = core.engine.memory_bytes
    assert core.applier.memory_bytes == state
    core.committer.cache_bytes = lambda: 7_000_000
    assert core.committer.memory_bytes > state + 7_000_000


def test_a_full_state_takes_no_new_producer():
    """A mark takes memory too; a known producer's refused batch takes none."""
    core = open_core(MemoryStorage(), Limits(max_state_bytes=4_000))
    session, _ = opened(core)
    session.feed(frame(1), NOW)
    commit(core)
    with pytest.raises(RequestError) as caught:
        opened(core, producer="other")
    assert caught.value.reason == "STATE_FULL"
    session.feed(frame(2, scores=(math.nan, 0.1)), NOW)
    commit(core)
    assert session.error is None


def test_a_replay_decodes_few_rows_before_it_applies_them(monkeypatch):
    """A log of large batches takes no more memory when it is replayed than when it was sent."""
    storage = MemoryStorage()
    core = open_core(storage, Limits())
    session, _ = opened(core)
    for sequence in range(1, 9):
        session.feed(frame(sequence, scores=(0.1,) * 30_000, positives=(True,) * 30_000), NOW)
        commit(core)
    lags = []
    finish = Applier.finish

    def noted(applier: Applier) -> None:
        lags.append(applier.lag_rows)
        finish(applier)

    monkeypatch.setattr(Applier, "finish", noted)
    again = open_core(storage, Limits())
    assert again.engine.state_hash() == core.engine.state_hash()
    assert max(lags) <= 90_001 < sum(lags)


class SlowStorage(MemoryStorage):
    """Tells what acknowledgements wait for while it writes."""

    committer = None

    def append(self, rows) -> None:
        if self.committer is not None:
            self.seen = self.committer.ack_wait()
        super().append(rows)


def test_what_acknowledgements_wait_for():
    """Each reason, with the age of the oldest batch; none once everything is acknowledged."""
    storage, now_s = SlowStorage(), [100.0]
    core = open_core(storage, Limits(max_lag_rows=4, max_state_bytes=90_000))
    committer = storage.committer = core.committer
    committer.monotonic_s = lambda: now_s[0]
    session, _ = opened(core)
    commit(core)
    assert committer.ack_wait() is None
    rows = {"scores": (0.1,) * 4, "positives": (True,) * 4}
    session.feed(frame(1, **rows), NOW)
    now_s[0] += 2
    assert committer.ack_wait() == ("queue", 2.0)
    result = committer.step(NOW)
    assert storage.seen == ("disk", 2.0)
    assert committer.ack_wait() is None
    result.deliver()
    session.feed(frame(2, **rows), NOW)
    now_s[0] += 1
    assert committer.step(NOW).blocked
    assert committer.ack_wait() == ("lag", 1.0)
    core.applier.finish()
    commit(core)
    assert committer.ack_wait() is None


def test_rows_that_wait_for_memory():
    """Behind what is not applied yet, and refused while there is none; not once there is some."""
    now_s = [100.0]
    core = open_core(MemoryStorage(), Limits(max_state_bytes=64_000))
    committer, applier = core.committer, core.applier
    committer.monotonic_s = lambda: now_s[0]
    session, _ = opened(core)
    for sequence in range(1, 9):
        session.feed(frame(sequence, scores=(0.1,) * 8, positives=(True,) * 8), NOW)
    now_s[0] += 3
    result = committer.step(NOW)
    while not result.blocked:
        result.deliver()
        result = committer.step(NOW)
    assert committer.ack_wait() == ("memory", 3.0)
    while committer.queued:
        applier.finish()
        committer.step(NOW).deliver()
    applier.finish()
    assert committer.ack_wait() is None
    committer.cache_bytes = lambda: 64_000
    commit(core)
    committer.step(NOW)
    for _ in range(2):
        with pytest.raises(RequestError, match="more than 64000 bytes"):
            session.feed(frame(9), NOW)
        now_s[0] += 1
    assert committer.ack_wait() == ("memory", 2.0)
    committer.cache_bytes = int
    committer.step(NOW)
    assert committer.ack_wait() is None
