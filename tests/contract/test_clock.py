"""A clock that is set, or wrong at a start: nothing that it does is final, and ingest goes on."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest

from streameval.v1 import admin_pb2, ingest_pb2, query_pb2
from streameval_server import Limits, Settings
from streameval_server.testing import running_service

from .conftest import Wire, failure, selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MINUTE, DAY = 60, 86_400
YEAR = 365 * DAY
LIMITS = Limits(tick_us=20_000)
"""Ticks often, so that a server without entries looks at the clock often."""


class WallClock:
    """The wall clock of this process, which can be set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_s = 0
        actual = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: actual() + self.ahead_s * 10**9)

    def us(self, ahead_s: float = 0) -> int:
        """Return the correct time, whatever the clock says."""
        return time.time_ns() // 1000 + int((ahead_s - self.ahead_s) * 1e6)


@pytest.fixture
def wall(monkeypatch) -> WallClock:
    return WallClock(monkeypatch)


@contextmanager
def serving(directory: Path | None, http: list[str] | None = None) -> Iterator[Wire]:
    settings = Settings(
        listen="127.0.0.1:0", data=directory, memory=directory is None, limits=LIMITS
    )
    with running_service(settings) as addresses, grpc.insecure_channel(addresses.grpc) as channel:
        if http is not None and addresses.http is not None:
            http.append(addresses.http)
        yield Wire(channel)


def status(wire: Wire) -> Any:
    return wire.admin.GetServerStatus(admin_pb2.GetServerStatusRequest(), timeout=20)


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until, "the condition never came true"
        time.sleep(0.005)


def case(at_us: int) -> ingest_pb2.Batch:
    cases = ingest_pb2.Cases(scores=[0.5], positives=[True], event_times_us=[at_us])
    return ingest_pb2.Batch(stream="s", cases=cases)


def predictions(*ids: str, at_us: int) -> ingest_pb2.Batch:
    rows = ingest_pb2.Predictions(ids=ids, scores=[0.5] * len(ids), event_times_us=[at_us])
    return ingest_pb2.Batch(stream="s", predictions=rows)


def label(*ids: str) -> ingest_pb2.Batch:
    labels = ingest_pb2.Labels(ids=ids, positives=[True] * len(ids))
    return ingest_pb2.Batch(stream="s", labels=labels)


def snapshot(wire: Wire) -> Any:
    durable = status(wire).durable_revision
    request = query_pb2.GetSnapshotRequest(selection=selection("s", durable))
    return wire.query.GetSnapshot(request, timeout=20).snapshot


def panes(wire: Wire, wall: WallClock) -> int:
    """Return how many cases of the last day are in panes."""
    chosen = selection("s", status(wire).durable_revision)
    chosen.between.start_time.FromMicroseconds(wall.us(-DAY))
    chosen.between.end_time.FromMicroseconds(wall.us(DAY))
    request = query_pb2.GetSnapshotRequest(selection=chosen)
    return wire.query.GetSnapshot(request, timeout=20).snapshot.num_positive_ref


def test_a_year_ahead_for_a_while_loses_nothing(wall: WallClock) -> None:
    """Ids wait on, panes stay, ingest goes on; after the mend everything is as it was."""
    http: list[str] = []
    with serving(None, http) as wire:
        wire.one(predictions("a", "b", at_us=wall.us()))
        wire.one(case(wall.us()))
        before = status(wire)
        assert not before.clock_in_doubt
        wall.ahead_s = YEAR
        wire.one(case(wall.us()))
        during = status(wire)
        assert during.clock_in_doubt
        assert "365 d ahead" in " ".join(during.warnings)
        passed_us = during.engine_time.ToMicroseconds() - before.engine_time.ToMicroseconds()
        assert 0 <= passed_us < 60e6, "the server's time passes by the monotonic clock"
        assert "the clock is in doubt" in " ".join(snapshot(wire).warnings)
        wire.one(label("a"))
        series = httpx.get(f"{http[0]}/metrics").text.splitlines()
        assert "streameval_clock_in_doubt 1.0" in series
        (ahead,) = (each for each in series if each.startswith("streameval_clock_ahead_seconds"))
        assert YEAR - MINUTE < float(ahead.split()[1]) < YEAR + MINUTE
        wall.ahead_s = 0
        assert not status(wire).clock_in_doubt
        wire.one(label("b"))
        found = snapshot(wire)
        assert found.warnings == []
        assert (found.coverage.labelled, found.coverage.expired) == (2, 0)
        assert panes(wire, wall) == 4


def test_ten_minutes_behind_refuses_nothing(wall: WallClock) -> None:
    """A batch that is right by one of the two times is counted, before and after the mend."""
    with serving(None) as wire:
        wire.one(case(wall.us()))
        wall.ahead_s = -10 * MINUTE
        wire.one(case(wall.us()))
        answers = wire.sent("p", [numbered(case(wall.us()), 1)])
        assert [answer.WhichOneof("message") for answer in answers] == ["ack"]
        wall.ahead_s = 0
        answers = wire.sent("p", [numbered(case(wall.us()), 2)])
        assert [answer.WhichOneof("message") for answer in answers] == ["ack"]
        assert snapshot(wire).num_positive_ref == 4


def numbered(batch: ingest_pb2.Batch, sequence: int) -> ingest_pb2.Batch:
    batch.sequence = sequence
    return batch


def test_wrong_by_both_times_is_refused(wall: WallClock) -> None:
    """A row dated 2100 is no fault of the clock."""
    with serving(None) as wire:
        wire.one(case(wall.us()))
        wall.ahead_s = YEAR
        error = failure(lambda: wire.one(case(wall.us(50 * YEAR))))
        assert "must not lie in the future" in error.message


def test_small_steps_are_believed(wall: WallClock) -> None:
    with serving(None) as wire:
        for ahead_s in (4 * MINUTE, 0, -4 * MINUTE):
            wall.ahead_s = ahead_s
            wire.one(case(wall.us()))
            assert not status(wire).clock_in_doubt


def test_an_operator_confirms_the_clock(wall: WallClock) -> None:
    """Then what is due by it expires."""
    with serving(None) as wire:
        wire.one(predictions("a", at_us=wall.us()))
        wall.ahead_s = YEAR
        wire.one(case(wall.us()))
        assert snapshot(wire).coverage.pending == 1
        answer = wire.admin.AcceptClock(admin_pb2.AcceptClockRequest(), timeout=20)
        assert abs(answer.time.ToMicroseconds() - wall.us(YEAR)) < 60e6
        wait_for(lambda: snapshot(wire).coverage.expired == 1)
        assert not status(wire).clock_in_doubt
        again = status(wire).durable_revision
        wire.admin.AcceptClock(admin_pb2.AcceptClockRequest(), timeout=20)
        assert status(wire).durable_revision == again, "a clock without doubt: nothing changes"


@pytest.mark.parametrize(
    ("ahead_s", "in_doubt"),
    [(-10 * MINUTE, True), (-4 * MINUTE, False), (12 * 3600, False), (2 * DAY, True)],
)
def test_a_start(wall: WallClock, tmp_path, ahead_s: int, in_doubt: bool) -> None:
    """Downtime of a day is believed; a longer one, or a clock behind the log, is in doubt."""
    with serving(tmp_path) as wire:
        wire.one(predictions("a", at_us=wall.us()))
        wire.one(case(wall.us()))
    wall.ahead_s = ahead_s
    with serving(tmp_path) as wire:
        assert status(wire).clock_in_doubt is in_doubt
        wire.one(case(wall.us(max(ahead_s, 0))))
        assert snapshot(wire).num_positive_ref == 2


def test_a_long_stop_is_confirmed(wall: WallClock, tmp_path) -> None:
    """Rows without a time are dated by the wall clock at once; ids expire when it is accepted."""
    with serving(tmp_path) as wire:
        wire.one(predictions("a", at_us=wall.us()))
    wall.ahead_s = YEAR
    with serving(tmp_path) as wire:
        found = status(wire)
        assert "after the log's last entry when the server started" in " ".join(found.warnings)
        assert abs(found.engine_time.ToMicroseconds() - wall.us(YEAR)) < 60e6
        wire.one(label("b"))
        assert snapshot(wire).coverage.pending == 1
    with serving(tmp_path) as wire:
        assert status(wire).clock_in_doubt, "a restart confirms nothing"
        wire.admin.AcceptClock(admin_pb2.AcceptClockRequest(), timeout=20)
        wait_for(lambda: snapshot(wire).coverage.expired == 1)


def test_a_restart_does_not_turn_a_step_into_downtime(wall: WallClock, tmp_path) -> None:
    with serving(tmp_path) as wire:
        wire.one(case(wall.us()))
        wall.ahead_s = 10 * 3600
        wire.one(case(wall.us()))
    with serving(tmp_path) as wire:
        assert status(wire).clock_in_doubt
    wall.ahead_s = 0
    with serving(tmp_path) as wire:
        assert not status(wire).clock_in_doubt


def test_a_long_stop_that_was_none(wall: WallClock, tmp_path) -> None:
    """The clock was wrong at the start, and is corrected: accepting would expire everything."""
    with serving(tmp_path) as wire:
        wire.one(predictions("a", at_us=wall.us()))
    wall.ahead_s = YEAR
    with serving(tmp_path) as wire:
        wire.one(case(wall.us()))
        wall.ahead_s = 0
        assert status(wire).clock_in_doubt
        wire.one(case(wall.us()))
        error = failure(lambda: wire.admin.AcceptClock(admin_pb2.AcceptClockRequest(), timeout=20))
        assert error.code is grpc.StatusCode.FAILED_PRECONDITION
        assert error.reason == "LOG_AHEAD_OF_CLOCK"
        assert snapshot(wire).coverage.pending == 1
