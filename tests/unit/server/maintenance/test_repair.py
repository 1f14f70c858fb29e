"""A log from a clock that was ahead is mended from its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streameval.v1 import ingest_pb2 as pb
from streameval_server import DataDirectoryInUseError, Limits
from streameval_server._core.recovery import open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.data_directory import DirectoryLock
from streameval_server._log.rows import Kind
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import StorageError
from streameval_server.maintenance import LOG_NAME, repair, replay_until, verify

from ..sessions import opened

NOW = 1_800_000_000_000_000
SECOND = 1_000_000
DAY = 24 * 3600 * SECOND
YEAR = 365 * DAY
LIMITS = Limits()


class Log:
    """A log that is written with any clock."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.core = open_core(SqliteStorage(directory / LOG_NAME), LIMITS)

    def send(self, at_us: int, **rows: Any) -> int:
        call = UnaryCall(self.core.committer, LIMITS)
        request = pb.IngestBatchRequest(batch=pb.Batch(stream="s", **rows))
        call.ingest_batch(request.SerializeToString(), at_us)
        self.core.committer.step(at_us).deliver()
        self.core.applier.finish()
        return call.response().revision

    def close(self) -> None:
        self.core.drain(NOW)


def predicted(*ids: str, at_us: int) -> dict[str, Any]:
    rows = pb.Predictions(ids=ids, scores=[0.5] * len(ids), event_times_us=[at_us] * len(ids))
    return {"predictions": rows}


def labelled(*ids: str) -> dict[str, Any]:
    return {"labels": pb.Labels(ids=ids, positives=[True] * len(ids))}


def case(at_us: int) -> dict[str, Any]:
    return {"cases": pb.Cases(scores=[0.7], positives=[True], event_times_us=[at_us])}


def coverage(engine: Any) -> tuple[int, int, int]:
    counts = engine.view("s").whole.coverage.counts
    return counts.pending, counts.labelled, counts.expired


def accident(directory: Path, *, compact: bool = False) -> int:
    """Write a log with a clock that is a year ahead for a while; return the first wrong row."""
    log = Log(directory)
    log.send(NOW, **predicted("a", "b", at_us=NOW))
    log.send(NOW + SECOND, **case(NOW + SECOND))
    if compact:
        log.core.applier.request_checkpoint()
        log.core.committer.compact(lambda _: None)
        while log.core.committer.compacting:
            log.core.applier.finish()
            log.core.committer.step(NOW + SECOND)
    first = log.send(NOW + YEAR, **case(NOW + YEAR))
    log.send(NOW + 60 * SECOND, **labelled("a"))
    log.send(NOW + 120 * SECOND, **case(NOW + 119 * SECOND))
    assert coverage(log.core.engine) == (0, 0, 2), "the ids expired"
    log.close()
    return first


@pytest.mark.parametrize("compact", [False, True])
def test_a_year_ahead_is_mended(tmp_path, compact):
    """Ids, panes and dates are as they had been with the right clock."""
    first = accident(tmp_path / "old", compact=compact)
    done = repair(tmp_path / "old", tmp_path / "new", LIMITS, now_us=NOW + DAY)
    assert (done.first, done.last, done.revision) == (first, first + 2, first + 2)
    assert YEAR - 120 * SECOND <= done.moved_us <= YEAR
    engine = replay_until(tmp_path / "new")
    assert engine.state_hash() == done.state_hash
    assert engine.received_us == NOW + 119 * SECOND
    assert coverage(engine) == (1, 1, 0)
    panes = engine.view("s").whole.panes
    assert sum(pane.evaluator.num_cases for pane in panes) == 4
    assert panes[-1].start_us <= NOW + 119 * SECOND, "the case of the accident has the mended time"
    assert verify(tmp_path / "new" / LOG_NAME, LIMITS).ok
    assert replay_until(tmp_path / "old").view("s").whole.coverage.counts.expired == 2


def test_batches_of_an_ingest_stream_are_mended(tmp_path):
    """Their times, too; the producer that sends one again is told that it is durable."""
    log = Log(tmp_path / "old")
    log.send(NOW, **case(NOW))
    ahead = pb.Batch(sequence=1, stream="s", **case(NOW + YEAR))
    frame = pb.IngestRequest(batch=ahead).SerializeToString()

    def resent(core: Any, at_us: int) -> int:
        session, last = opened(core)
        session.feed(frame, at_us)
        core.committer.step(at_us).deliver()
        assert session.error is None
        return last

    assert resent(log.core, NOW + YEAR) == 0
    log.close()
    done = repair(tmp_path / "old", tmp_path / "new", LIMITS, now_us=NOW + DAY)
    assert done.moved_us == YEAR
    panes = replay_until(tmp_path / "new").view("s").whole.panes
    assert panes[-1].start_us <= NOW, "the row of the accident has the mended time"
    mended = open_core(SqliteStorage(tmp_path / "new" / LOG_NAME), LIMITS)
    assert resent(mended, NOW + SECOND) == 1
    mended.drain(NOW)


def test_only_the_named_rows_are_mended(tmp_path):
    """An accident that lies in the past by now; rows after it keep their times."""
    first = accident(tmp_path / "old")
    now_us = NOW + 2 * YEAR
    with pytest.raises(StorageError, match="--first"):
        repair(tmp_path / "old", tmp_path / "new", LIMITS, now_us=now_us)
    log = Log(tmp_path / "old")
    log.send(NOW + YEAR + DAY, **case(NOW + YEAR + DAY))
    log.close()
    done = repair(
        tmp_path / "old", tmp_path / "new", LIMITS, now_us=now_us, first=first, last=first + 2
    )
    engine = replay_until(tmp_path / "new", first + 2)
    assert coverage(engine)[1] == 1
    assert replay_until(tmp_path / "new").received_us == NOW + YEAR + DAY
    assert (done.last, done.revision) == (first + 2, first + 3)


def test_a_hold_because_of_the_accident_ends(tmp_path):
    """The clock was wrong at a start: the log is held since, and is not after the repair."""
    log = Log(tmp_path / "old")
    log.send(NOW, **predicted("a", at_us=NOW))
    log.core.committer.disputed_us = NOW
    log.send(NOW + YEAR, **case(NOW + YEAR))
    log.close()
    assert replay_until(tmp_path / "old").held_us == NOW
    repair(tmp_path / "old", tmp_path / "new", LIMITS, now_us=NOW + DAY)
    engine = replay_until(tmp_path / "new")
    assert engine.held_us is None
    assert coverage(engine) == (1, 0, 0)
    storage = SqliteStorage(tmp_path / "new" / LOG_NAME, read_only=True)
    storage.open()
    assert [Kind(row.kind) for row in storage.read(0)] == [Kind.BATCH, Kind.TICK, Kind.BATCH]
    storage.close()


def test_nothing_is_written_when_it_cannot_be_mended(tmp_path):
    accident(tmp_path / "old")
    log = Log(tmp_path / "old")
    log.core.applier.request_checkpoint()
    log.send(NOW, **case(NOW))
    log.core.committer.compact(lambda _: None)
    while log.core.committer.compacting:
        log.core.applier.finish()
        log.core.committer.step(NOW)
    log.close()
    with pytest.raises(StorageError, match="compacted at revision"):
        repair(tmp_path / "old", tmp_path / "new", LIMITS, now_us=NOW + DAY)
    assert not (tmp_path / "new").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    with pytest.raises(StorageError, match="is not empty"):
        repair(tmp_path / "old", tmp_path / "full", LIMITS, now_us=NOW + DAY)
    lock = DirectoryLock(tmp_path / "old")
    with pytest.raises(DataDirectoryInUseError):
        repair(tmp_path / "old", tmp_path / "new", LIMITS, now_us=NOW + DAY)
    lock.release()
