"""The log's time: ticks without entries, expiry in steps, and limits on what is kept."""

from __future__ import annotations

import numpy as np
import pytest

from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import stream_pb2
from streameval_server._core import applier
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.entries import Kind
from streameval_server._log.storage import MemoryStorage, NullStorage
from streameval_server._model.errors import RequestError
from streameval_server._model.limits import Limits

NOW = 1_800_000_000_000_000
SECOND = 1_000_000
HOUR = 3600 * SECOND


def sent(core: ServerCore, at: int, **rows) -> None:
    call = UnaryCall(core.committer, core.limits)
    request = pb.IngestBatchRequest(batch=pb.Batch(stream="s", **rows))
    call.ingest_batch(request.SerializeToString(), at)
    core.committer.step(at).deliver()
    call.response()
    core.applier.finish()


def predictions(ids, scores=None) -> pb.Predictions:
    return pb.Predictions(ids=ids, scores=scores or [0.5] * len(ids))


def coverage(core: ServerCore):
    return core.engine.view("s").whole.coverage.counts


@pytest.mark.parametrize("storage", [MemoryStorage, NullStorage])
def test_ticks_expire_what_is_due(storage):
    """Only after a while without entries, and only when something is due."""
    core = open_core(storage(), Limits())
    assert not core.committer.step(NOW).pushed, "an empty server has nothing to do"
    sent(core, NOW, predictions=predictions(["a"]))
    due = core.engine.due_us
    assert NOW < due <= NOW + HOUR, "panes coarsen at the next hour at the latest"
    for at in (NOW + 5 * SECOND, NOW + 20 * SECOND):
        assert not core.committer.step(at).pushed
    late = NOW + 15 * 24 * HOUR
    assert core.committer.step(late).pushed
    core.applier.finish()
    assert core.engine.received_us == late
    assert (coverage(core).expired, coverage(core).pending) == (1, 0)
    assert not core.committer.step(late + 60 * SECOND).pushed


def test_a_tick_is_an_entry():
    """A tick is an entry of the log, and replays."""
    storage = MemoryStorage()
    core = open_core(storage, Limits())
    sent(core, NOW, predictions=predictions(["a"]))
    core.committer.step(NOW + 15 * 24 * HOUR)
    core.applier.finish()
    assert [row.kind for row in storage.rows] == [Kind.BATCH, Kind.TICK]
    again = open_core(storage, Limits())
    assert again.engine.state_hash() == core.engine.state_hash()
    assert coverage(again).expired == 1


def test_a_shorter_retention_holds_at_once():
    """It does not need a next entry."""
    core = open_core(MemoryStorage(), Limits())
    for minutes in (0, 30, 50, 125):
        cases = pb.Cases(scores=[0.5], positives=[True])
        sent(core, NOW + minutes * 60 * SECOND, cases=cases)
    request = stream_pb2.UpdateStreamRequest(stream=stream_pb2.Stream(name="s"))
    request.stream.settings.retention.seconds = 2 * 3600
    request.stream.settings.label_ttl.seconds = 3600
    request.update_mask.paths.extend(["settings.retention", "settings.label_ttl"])
    UnaryCall(core.committer, core.limits).update_stream(request.SerializeToString())
    core.committer.step(NOW + 175 * 60 * SECOND).deliver()
    core.applier.finish()
    (pane,) = core.engine.view("s").whole.panes
    assert pane.start_us == NOW + 125 * 60 * SECOND


def test_no_tick_while_entries_wait_to_be_applied():
    """What is due is known only after the restore."""
    core = open_core(MemoryStorage(), Limits())
    sent(core, NOW, predictions=predictions(["a"]))
    call = UnaryCall(core.committer, core.limits)
    batch = pb.Batch(stream="s", labels=pb.Labels(ids=["a"], positives=[True]))
    call.ingest_batch(pb.IngestBatchRequest(batch=batch).SerializeToString(), NOW)
    core.committer.step(NOW)
    assert not core.committer.step(NOW + 15 * 24 * HOUR).pushed
    core.applier.finish()
    assert core.committer.step(NOW + 15 * 24 * HOUR).pushed


def test_many_due_ids_expire_in_steps(monkeypatch):
    """Each step expires a few ids; views in between are consistent; the outcome is the same."""
    monkeypatch.setattr(applier, "_MAX_DUE_IDS", 10)
    storage = MemoryStorage()
    core = open_core(storage, Limits())
    sent(core, NOW, predictions=predictions([f"id-{n}" for n in range(95)]))
    late = NOW + 15 * 24 * HOUR
    core.committer.step(late)
    steps = 0
    seen = set()
    while core.applier.step():
        steps += 1
        seen.add(coverage(core).expired)
        assert core.engine.revision == 1
    assert steps >= 9
    assert len(seen) > 5
    assert coverage(core).expired == 95
    assert core.engine.revision == 2
    monkeypatch.undo()
    assert open_core(storage, Limits()).engine.state_hash() == core.engine.state_hash()


def test_panes_coarsen_and_expire_in_idle_streams():
    """A stream without new rows keeps no more than its retention; its all-time counts stay."""
    core = open_core(MemoryStorage(), Limits())
    call = UnaryCall(core.committer, core.limits)
    stream = stream_pb2.Stream(name="s")
    stream.settings.retention.seconds = 24 * 3600
    call.create_stream(stream_pb2.CreateStreamRequest(stream=stream).SerializeToString())
    for minute in range(0, 180, 30):
        cases = pb.Cases(scores=[0.5], positives=[True])
        sent(core, NOW + minute * 60 * SECOND, cases=cases)
    assert len(core.engine.view("s").whole.panes) == 6
    panes = []
    for hours in (4, 8, 24, 30):
        core.committer.step(NOW + hours * HOUR)
        core.applier.finish()
        panes.append(len(core.engine.view("s").whole.panes))
    assert panes[0] > panes[1] > 0 == panes[3]
    assert core.engine.view("s").evaluator.num_cases == 6


def test_too_many_ids_are_refused_until_some_are_gone():
    """The limit is for all streams together; rows without ids pass, others get RetryInfo."""
    core = open_core(MemoryStorage(), Limits(max_pending_total=3))
    sent(core, NOW, predictions=predictions(["a", "b", "c", "d"]))
    for rows in (
        {"predictions": predictions(["e"])},
        {"labels": pb.Labels(ids=["e"], positives=[True])},
    ):
        with pytest.raises(RequestError, match="4 ids wait for their labels") as caught:
            sent(core, NOW, **rows)
        assert caught.value.reason == "PENDING_FULL"
        assert caught.value.retry_after_s
    sent(core, NOW, cases=pb.Cases(scores=[1.0], positives=[True]))
    sent(core, NOW, retractions=pb.Retractions(ids=["a", "b"]))
    sent(core, NOW, predictions=predictions(["e"]))


def test_max_pending_lets_the_oldest_go_early():
    """The limit is for each stream, and refused rows are counted."""
    core = open_core(MemoryStorage(), Limits())
    call = UnaryCall(core.committer, core.limits)
    stream = stream_pb2.Stream(name="s")
    stream.settings.max_pending = 3
    call.create_stream(stream_pb2.CreateStreamRequest(stream=stream).SerializeToString())
    for day in range(5):
        sent(core, NOW + day * 24 * HOUR, predictions=predictions([f"id-{day}"]))
    counters = core.engine.view("s").counters
    assert (counters.kept_ids, counters.expired_early) == (3, 2)
    assert coverage(core).expired == 2


def test_a_full_state_refuses_rows_and_nothing_else():
    """After a stream is deleted, rows are accepted again."""
    core = open_core(MemoryStorage(), Limits(max_state_bytes=90_000))
    rng = np.random.default_rng(1)
    cases = pb.Cases(scores=rng.random(1000).tolist(), positives=[True] * 1000)
    sent(core, NOW, cases=cases)
    sent(core, NOW, cases=cases)
    with pytest.raises(RequestError, match="the counts take more than 90000 bytes") as caught:
        sent(core, NOW, cases=cases)
    assert caught.value.reason == "STATE_FULL"
    call = UnaryCall(core.committer, core.limits)
    call.delete_stream(stream_pb2.DeleteStreamRequest(name="s").SerializeToString())
    core.committer.step(NOW).deliver()
    core.applier.finish()
    sent(core, NOW, cases=cases)
