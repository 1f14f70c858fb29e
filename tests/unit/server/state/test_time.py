"""The log's time: ticks without entries, expiry in steps, and limits on what is kept."""

from __future__ import annotations

import numpy as np
import pytest

from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import stream_pb2
from streameval_server import Limits
from streameval_server._core import applier
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.rows import Kind
from streameval_server._log.storage import MemoryStorage, NullStorage, Storage
from streameval_server._model.alarm_settings import AlarmSettings
from streameval_server._model.errors import RequestError
from streameval_server._model.row_kinds import PredictionRows
from streameval_server._model.stream_info import StreamInfo
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._state.alarms.stream_alarms import StreamAlarms
from streameval_server._state.counting.counts import StreamCounts
from streameval_server._state.delays.label_delays import StreamDelays
from streameval_server._state.ids.join_table import Joins
from streameval_server._state.stream_marks import StreamMarks
from streameval_server._state.stream_state import StreamState
from streameval_server._state.verdict.stream_evidence import StreamEvidence

NOW = 1_800_000_000_000_000
SECOND = 1_000_000
HOUR = 3600 * SECOND


def sent(core: ServerCore, at: int, **rows) -> None:
    call = UnaryCall(core.committer, core.limits)
    request = pb.IngestBatchRequest(batch=pb.Batch(stream="s", **rows))
    call.ingest_batch(request.SerializeToString(), at)
    core.committer.step(at).deliver()
    while core.committer.queued:  # until the applier has counted what it deferred
        core.applier.finish()
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


def test_a_start_knows_what_its_streams_take():
    """Memory and ids are measured at the end of a replay."""
    storage = MemoryStorage()
    core = open_core(storage, Limits())
    sent(core, NOW, predictions=predictions(["a", "b", "c"]))
    sent(core, NOW, labels=pb.Labels(ids=["d"], positives=[True]))
    again = open_core(storage, Limits()).engine
    assert again.kept_ids == core.engine.kept_ids == 4
    assert again.memory_bytes >= again.stream_bytes("s") == core.engine.stream_bytes("s") > 0


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


@pytest.mark.slow
def test_rows_wait_to_be_counted_while_panes_coarsen():
    """They count where rows count that a view had counted before.

    They wait until evidence reads its next step, which is after the panes of then coarsen.
    """
    limits = Limits(pane_cells=16)
    waiting, viewed = open_core(MemoryStorage(), limits), open_core(MemoryStorage(), limits)
    rng = np.random.default_rng(33)
    for hour in range(0, 24 * 36, 4):
        ids = [f"{hour}-{row}" for row in range(6)]
        scores, positives = rng.normal(size=6).tolist(), (rng.random(6) < 0.5).tolist()
        times = (NOW + rng.integers(hour - 20, hour + 1, 6) * HOUR).tolist()
        rows = (
            {"predictions": pb.Predictions(ids=ids, scores=scores, event_times_us=times)},
            {"labels": pb.Labels(ids=ids, positives=positives)},
            {"cases": pb.Cases(scores=scores, positives=positives, event_times_us=times)},
        )
        for core in (waiting, viewed):
            for minute, columns in enumerate(rows):
                sent(core, NOW + hour * HOUR + minute * 60 * SECOND, **columns)
        viewed.engine.view("s")
        counts, seen = (core.engine._streams["s"].counts for core in (waiting, viewed))
        assert counts.has_uncounted, "panes coarsen without them"
        assert not seen.has_uncounted
        assert counts.due_us <= NOW + (hour + 3) * HOUR
        for core in (waiting, viewed):
            core.committer.step(NOW + (hour + 3) * HOUR)
            core.applier.finish()
        if hour % 240 == 120:
            assert waiting.engine.state_hash() == viewed.engine.state_hash()


def test_too_many_ids_are_refused_until_some_are_gone():
    """The limit is for all streams together; predictions get RetryInfo, other rows pass."""
    core = open_core(MemoryStorage(), Limits(max_pending_total=3))
    sent(core, NOW, predictions=predictions(["a", "b", "c", "d"]))
    with pytest.raises(RequestError, match="4 ids wait for their labels") as caught:
        sent(core, NOW, predictions=predictions(["e"]))
    assert caught.value.reason == "PENDING_FULL"
    assert caught.value.retry_after_s
    sent(core, NOW, labels=pb.Labels(ids=["c"], positives=[True]))
    sent(core, NOW, cases=pb.Cases(scores=[1.0], positives=[True]))
    sent(core, NOW, retractions=pb.Retractions(ids=["a", "b"]))
    sent(core, NOW, predictions=predictions(["e"]))


def with_room(most: int, storage: Storage | None = None) -> tuple[ServerCore, list[float]]:
    """Return a server whose stream keeps `most` ids, and what its monotonic clock says."""
    core, now_s = open_core(storage or MemoryStorage(), Limits()), [100.0]
    core.committer.monotonic_s = lambda: now_s[0]
    call = UnaryCall(core.committer, core.limits)
    stream = stream_pb2.Stream(name="s")
    stream.settings.max_pending = most
    call.create_stream(stream_pb2.CreateStreamRequest(stream=stream).SerializeToString())
    return core, now_s


def refused(core: ServerCore, ids: list[str], at: int = NOW) -> bool:
    """Send predictions; return whether they are to be sent again."""
    try:
        sent(core, at, predictions=predictions(ids))
    except RequestError as error:
        return error.reason == "PENDING_FULL" and bool(error.retry_after_s)
    return False


def test_predictions_wait_for_labels_before_ids_expire_early():
    """Labels pass, and make room; relabelled ids do not count as waiting."""
    core, now_s = with_room(4)
    assert not refused(core, ["a", "b", "c"])
    assert refused(core, ["d", "e"])
    assert not refused(core, ["d"])
    for number in range(20):
        now_s[0] += 59
        waits = [f"w{number}"]
        assert refused(core, waits)
        label = "abcd"[number] if number < 4 else f"w{number - 4}"
        sent(core, NOW, labels=pb.Labels(ids=[label], positives=[True]))
        assert not refused(core, waits)
    assert core.engine.expired_early == {}
    assert (coverage(core).pending, coverage(core).labelled) == (4, 20)


def test_what_is_not_applied_yet_counts():
    """Batches of one moment do not pass together where one of them has room."""
    core, _ = with_room(4)
    sent(core, NOW, predictions=predictions(["a"]))

    def submit(ids: list[str]) -> None:
        request = pb.IngestBatchRequest(batch=pb.Batch(stream="s", predictions=predictions(ids)))
        UnaryCall(core.committer, core.limits).ingest_batch(request.SerializeToString(), NOW)

    submit(["b", "c"])
    with pytest.raises(RequestError, match="4 predictions of stream s wait"):
        submit(["d", "e"])
    core.committer.step(NOW).deliver()
    with pytest.raises(RequestError, match="4 predictions of stream s wait"):
        submit(["d", "e"])
    core.applier.finish()
    submit(["d"])


def test_early_labels_do_not_hold_predictions_back():
    """The predictions are what makes room."""
    core, _ = with_room(4)
    ids = ["a", "b", "c", "d"]
    sent(core, NOW, labels=pb.Labels(ids=ids, positives=[True] * 4))
    assert not refused(core, ids)
    assert coverage(core).labelled == 4


def test_a_batch_above_the_room_passes_when_no_id_waits():
    core, _ = with_room(4)
    assert not refused(core, [f"id-{number}" for number in range(9)])
    assert core.engine.expired_early == {"s": 9}  # ids that fall due together expire together
    assert not refused(core, ["b"])


def test_where_no_label_comes_ids_expire_early_and_are_counted():
    """After a minute without room they pass, until a part of the room is free again."""
    storage = MemoryStorage()
    core, now_s = with_room(32, storage)
    for number in range(32):
        assert not refused(core, [f"id-{number}"], NOW + number * 2 * HOUR)
    late = NOW + 64 * HOUR
    assert refused(core, ["a"], late)
    now_s[0] += 59.9
    assert refused(core, ["a"], late)
    now_s[0] += 0.1
    assert not refused(core, ["a"], late)
    assert not refused(core, ["b"], late)
    assert core.engine.expired_early == {"s": 2}
    assert open_core(storage, Limits()).engine.expired_early == {"s": 2}
    ids = ["a", "b", "id-30"]
    sent(core, late, labels=pb.Labels(ids=ids, positives=[True] * len(ids)))
    assert not refused(core, ["c"], late)
    assert not refused(core, ["d", "e"], late)
    assert refused(core, ["f"], late)
    assert core.engine.expired_early == {"s": 2}


def test_max_pending_lets_the_oldest_go_early():
    """The limit is for each stream, and refused rows are counted."""
    core, now_s = with_room(3)
    for day in range(5):
        at = NOW + day * 24 * HOUR
        if refused(core, [f"id-{day}"], at):
            now_s[0] += 60
            assert not refused(core, [f"id-{day}"], at)
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


def test_a_stream_calls_its_observers_in_one_order(monkeypatch):
    """Rows and the time reach ids, counts, delays, detector and annotations in this order."""
    calls = []

    def recorded(kind, method):
        before = getattr(kind, method)

        def call(self, *arguments):
            calls.append((kind.__name__, method))
            return before(self, *arguments)

        monkeypatch.setattr(kind, method, call)

    settings = StreamSettings(
        label_ttl_us=HOUR, alarms=AlarmSettings(watches=(("calibration", 0.1),))
    )
    state = StreamState(StreamInfo("s", NOW, 1, settings), Limits(), NOW)
    state.keep_ids()
    order = [Joins, StreamCounts, StreamDelays, StreamAlarms, StreamMarks, StreamEvidence]
    assert [type(each) for each in state.observers] == order
    for kind in order:
        recorded(kind, "take")
        recorded(kind, "pass_time")
    recorded(Joins, "expire")
    rows = PredictionRows([b"a"], np.array([0.5]), 1, 1)
    state.take(rows, 2, NOW, NOW)
    names = [kind.__name__ for kind in order]
    assert calls == [(name, "take") for name in names]
    calls.clear()
    late = NOW + 60 * 24 * HOUR
    while state.due_us <= late:
        state.pass_time(late, 3, 1000)
    assert calls == [
        ("Joins", "expire"),
        *((name, "take") for name in names),
        ("StreamCounts", "pass_time"),
        ("StreamAlarms", "pass_time"),
        ("StreamEvidence", "pass_time"),
    ]
