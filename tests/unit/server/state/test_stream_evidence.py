"""A stream's evidence: the base that it chooses, what it observes and when, restarts, replays."""

from __future__ import annotations

import numpy as np
import pytest

from streameval import CorruptStateError
from streameval._verdict.evidence_base import MAX_BYTES
from streameval.statistics import decode_evidence
from streameval.wire import SegmentCodes
from streameval_server import Limits
from streameval_server._core.engine import Engine
from streameval_server._core.entries import Entry
from streameval_server._log.checkpoint import LazyParts
from streameval_server._log.rows import Kind
from streameval_server._model.row_kinds import CaseRows, LabelRows, PredictionRows
from streameval_server._model.stream_settings import StreamSettings
from streameval_server._model.verdict_change import (
    MAX_CALLED,
    CalledRow,
    VerdictChange,
    called_of,
    with_called,
)
from streameval_server._state.stream_file import StreamFile
from streameval_server._state.views import EvidenceView

LIMITS = Limits()
MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US
START_US = 20_500 * DAY_US
SETTINGS = StreamSettings(segment_keys=("country",))
NAMES = ("DE", "IT")


def rows_of(rng: np.random.Generator, size: int, at_us: object, *, falls: bool) -> CaseRows:
    """Return cases; where they fall, Italy's are in no order."""
    labels, codes = rng.random(size) < 0.3, rng.integers(2, size=size)
    distance = np.where(falls & (codes == 1), 0.0, 2.0)
    scores = np.round(1 / (1 + np.exp(-distance * labels - rng.normal(size=size))), 3)
    segments = (SegmentCodes("country", NAMES, codes.astype(np.uint16)),)
    return CaseRows(labels, scores, None, size, size, at_us, segments)


def live(days: int, *, falls_at: int = 1_000, size: int = 60, seed: int = 1) -> list[Entry]:
    """Return the log of a stream that gets a batch each hour, for a number of days."""
    rng = np.random.default_rng(seed)
    log = [Entry(1, START_US, Kind.CREATE_STREAM, "s", "", 0, 0, None, SETTINGS)]
    for hour in range(24 * days):
        at_us = START_US + hour * HOUR_US + 7 * MINUTE_US
        times = at_us - rng.integers(0, 50, size) * 1_000_000
        rows = rows_of(rng, size, times, falls=hour >= 24 * falls_at)
        log.append(Entry(len(log) + 1, at_us, Kind.BATCH, "s", "", 0, 0, rows))
    return log


def history(days: int, *, falls_at: int = 1_000, seed: int = 1) -> list[Entry]:
    """Return the log of the same rows, loaded at once after their last day."""
    at_us = START_US + days * DAY_US
    log = [Entry(1, at_us, Kind.CREATE_STREAM, "s", "", 0, 0, None, SETTINGS)]
    for place, entry in enumerate(live(days, falls_at=falls_at, seed=seed)[1:]):
        log.append(Entry(len(log) + 1, at_us + place, Kind.BATCH, "s", "", 0, 0, entry.rows))
    log.append(Entry(len(log) + 1, at_us + MINUTE_US, Kind.TICK, "", "", 0, 0, None))
    return log


def engine_of(log: list[Entry]) -> Engine:
    engine = Engine(LIMITS)
    engine.apply(log)
    return engine


def evidence_of(engine: Engine) -> EvidenceView:
    found = engine.view("s").evidence
    assert found is not None
    return found


def test_the_base_is_the_first_week_and_each_later_step_is_observed() -> None:
    log = live(10)
    engine = engine_of(log[:1])
    assert evidence_of(engine).reason == "it has no rows yet"
    engine.apply(log[1 : 24 * 7])
    assert not evidence_of(engine).data
    assert "first week" in evidence_of(engine).reason
    engine.apply(log[24 * 7 :])
    found = evidence_of(engine)
    assert not found.reason
    evidence = decode_evidence(found.data)
    assert (evidence.base.start_us, evidence.base.end_us) == (START_US, START_US + 7 * DAY_US)
    assert not evidence.is_declared
    # The last hour is not over, or not known to be.
    assert evidence.next_us >= START_US + 10 * DAY_US - 2 * HOUR_US
    assert len(found.data) <= 16_384
    assert max(evidence.evidence(call) for call in ("auc_roc_worse", "ranking_worse")) < 1


def test_rows_move_no_quality_until_a_step_is_observed() -> None:
    """What a verdict is computed for says so: a step, a base, an acceptance; nothing else."""
    log = live(8)
    engine, moved = engine_of(log[:1]), []
    for entry in log[1:]:
        before, (*_, known) = evidence_of(engine), engine.revisions()[0]
        engine.apply([entry])
        changed, decided = engine.revisions()[0][2:]
        assert changed == entry.revision
        assert decided in {known, entry.revision}
        if evidence_of(engine).data != before.data:
            assert decided == entry.revision
        moved.append(decided != known)
    assert not any(moved[: 24 * 7 - 1])
    assert sum(moved) >= 20
    assert restored(engine).revisions()[0][3] >= engine.revisions()[0][3]


def test_a_fall_is_called_live_and_in_history() -> None:
    """In the hour that it takes, or by steps of an hour and a day: at overlapping times."""
    for log in (live(12, falls_at=9), history(12, falls_at=9)):
        evidence = decode_evidence(evidence_of(engine_of(log)).data)
        called_us = evidence.last_called_us("auc_roc_worse", "ranking_worse")
        assert START_US + 9 * DAY_US < called_us <= START_US + 12 * DAY_US
        assert max(evidence.segment_values(), key=evidence.segment_values().get) == "country=IT"


def test_a_history_that_is_being_loaded_says_so() -> None:
    """Its first week may be long over: what it waits for is the rest of it."""
    log = history(12)
    engine = engine_of(log[:-1])
    assert "earlier are still coming" in evidence_of(engine).reason
    engine.apply(log[-1:])
    assert not evidence_of(engine).reason
    log = history(3)
    for entries in (log[:-1], log):
        assert evidence_of(engine_of(entries)).reason == "its first week is not over yet"


def by_id(waits_us: tuple[int, int | None], settings: StreamSettings) -> list[Entry]:
    """Return twelve days of a healthy stream whose classes are labelled after their waits."""
    rng = np.random.default_rng(3)
    log = [Entry(1, START_US, Kind.CREATE_STREAM, "s", "", 0, 0, None, settings)]
    labels = np.arange(24 * 12 * 40).reshape(-1, 40) % 12 == 0
    for hour, here in enumerate(labels):
        at_us = START_US + (hour + 1) * HOUR_US
        scores = 1 / (1 + np.exp(-2.0 * here - rng.normal(size=here.size)))
        ids = [b"%d-%d" % (hour, place) for place in range(here.size)]
        rows = [PredictionRows(ids, scores, len(ids), len(ids), at_us - HOUR_US)]
        for label, wait_us in enumerate(waits_us):
            if wait_us is not None and hour * HOUR_US >= wait_us:
                then = hour - wait_us // HOUR_US
                late = [b"%d-%d" % (then, place) for place in np.flatnonzero(labels[then] == label)]
                rows.append(LabelRows(late, np.full(len(late), label > 0), len(late), len(late)))
        for each in rows:
            log.append(Entry(len(log) + 1, at_us, Kind.BATCH, "s", "", 0, 0, each))
    return log


@pytest.mark.parametrize(
    ("waits_us", "settings", "wait_us"),
    [
        ((HOUR_US, 20 * HOUR_US), StreamSettings(), 20 * HOUR_US),
        # A prediction without a label is a negative case once it expires.
        ((None, HOUR_US), StreamSettings(label_ttl_us=DAY_US, expired="negative"), DAY_US),
    ],
)
def test_a_step_waits_for_the_class_that_is_labelled_later(
    waits_us: tuple[int, int | None], settings: StreamSettings, wait_us: int
) -> None:
    """Positives are few, so nine tenths of all labels are in without any of theirs."""
    log = by_id(waits_us, settings)
    evidence = decode_evidence(evidence_of(engine_of(log)).data)
    assert evidence.mean_of("prevalence") == pytest.approx(1 / 12)
    assert evidence.called_us.max() < 0
    waited_us = log[-1].received_us - evidence.next_us
    assert wait_us <= waited_us <= 1.2 * wait_us + 2 * HOUR_US


def restored(engine: Engine) -> Engine:
    """Return the engine after a checkpoint and a restart."""
    made = engine.checkpoint(-1)
    return Engine.restore(LIMITS, made.revision, made.received_us, made.changed)


def with_changes() -> list[Entry]:
    """Return a log with a fall, that it was called, told to a webhook, and accepted."""
    log = live(12, falls_at=9, size=30)
    from_us = START_US + 9 * DAY_US
    for place, change in (
        (248, VerdictChange(called="unsure")),
        (249, VerdictChange(called="worse", from_us=from_us)),
        (250, VerdictChange(told="worse")),
        (260, VerdictChange(from_us=from_us)),
    ):
        at_us = log[place].received_us
        log.insert(place, Entry(0, at_us, Kind.CHANGE_VERDICT, "s", "", 0, 0, None, change))
    for revision, entry in enumerate(log, 1):
        entry.revision = revision
    return log


@pytest.mark.parametrize("pieces", [1, 7, 40])
def test_a_restart_and_another_grouping_change_nothing(pieces: int) -> None:
    """The same log gives the same bytes, wherever it is cut, read or saved."""
    log = with_changes()
    whole = engine_of(log)
    engine = Engine(LIMITS)
    for place, some in enumerate(np.array_split(np.arange(len(log)), pieces)):
        engine.apply([log[each] for each in some])
        if place % 3 == 1:
            engine = restored(engine)
        elif place % 3 == 2:
            engine.view("s")
    assert engine.state_hash() == whole.state_hash()
    assert evidence_of(engine).data == evidence_of(whole).data != b""
    assert evidence_of(engine).called == evidence_of(whole).called != b""


def test_what_it_was_called_is_kept_with_both_times() -> None:
    """When it was called so, and since when it was; what was accepted ends a fall."""
    log = with_changes()
    from_us = START_US + 9 * DAY_US
    minutes = [log[at].received_us // MINUTE_US * MINUTE_US for at in (248, 249, 260)]
    assert called_of(evidence_of(engine_of(log)).called) == [
        CalledRow("unsure", minutes[0], 0),
        CalledRow("worse", minutes[1], from_us),
        CalledRow("", minutes[2], from_us),
    ]
    first, second = engine_of(log[:249]).noted("s"), engine_of(log[:251]).noted("s")
    assert first[1:] == ("unsure", "immature", 0)
    assert second[1:] == ("worse", "worse", log[250].received_us)


def test_the_record_is_bounded_and_keeps_falls() -> None:
    """The same quality again is no change; steps between quiet ones displace only one another."""
    data = b""
    for hour in range(500):
        quality = "worse" if hour == 3 else ("steady", "unsure", "unsure")[hour % 3]
        data = with_called(data, CalledRow(quality, START_US + hour * HOUR_US, 0))
    found = called_of(data)
    assert len(found) == MAX_CALLED
    assert [each.quality for each in found[:3]] == ["steady", "worse", "unsure"]
    assert found[1].at_us == START_US + 3 * HOUR_US
    assert found[-1] == CalledRow("unsure", START_US + 499 * HOUR_US, 0)
    assert len(data) + MAX_BYTES <= 16_384
    for each in range(40):
        data = with_called(data, CalledRow(("worse", "")[each % 2], each, 0))
    assert [each.quality for each in called_of(data)] == ["worse", ""] * 12
    for wrong in (data[1:], data + data[:9], b"\x07" + data[1:], b"\xff" * 9):
        with pytest.raises(CorruptStateError):
            called_of(wrong)


def test_what_is_accepted_is_the_base_from_then_on() -> None:
    """As soon as it has cases enough; what was called before is not called any more."""
    engine = engine_of(with_changes())
    found = evidence_of(engine)
    evidence = decode_evidence(found.data)
    assert evidence.is_declared
    assert evidence.base.start_us == START_US + 9 * DAY_US
    assert evidence.base.end_us > evidence.base.start_us
    assert evidence.last_called_us("auc_roc_worse", "ranking_worse") < 0
    known = engine.noted("s")
    assert known is not None
    assert known[1:] == ("immature", "worse", with_changes()[250].received_us)


def test_a_state_from_before_begins_again() -> None:
    """A checkpoint without evidence is read; the base is found in the kept panes."""
    log = live(10)
    engine = engine_of(log[:-24])
    made = engine.checkpoint(-1)
    parts = made.changed.items()
    old = LazyParts.holding({name: data for name, data in parts if not name.startswith("verdict/")})
    assert len(old) == len(made.changed) - 1
    engine = Engine.restore(LIMITS, made.revision, made.received_us, old)
    assert not evidence_of(engine).data
    engine.apply(log[-24:-23])
    evidence = decode_evidence(evidence_of(engine).data)
    assert evidence.base.start_us == START_US


def test_an_export_has_the_evidence() -> None:
    engine = engine_of(with_changes())
    made = engine.export("s")
    assert made is not None
    file = StreamFile.from_bytes(made()[1])
    other = file.restored("t", 7, LIMITS)
    assert other.evidence.view().data == evidence_of(engine).data != b""
    assert other.evidence.view().called == evidence_of(engine).called != b""


def test_a_change_comes_back_from_the_log() -> None:
    """And no other bytes are one."""
    for change in (
        VerdictChange(told="steady"),
        VerdictChange(called="steady"),
        VerdictChange(called="worse", from_us=START_US),
        VerdictChange(from_us=START_US),
    ):
        assert VerdictChange.from_bytes(change.to_bytes()) == change
    one = b"\x01"
    for data in (b"", b"\x07" + bytes(9), bytes(10), bytes(1) + one * 9, one * 2 + bytes(8)):
        with pytest.raises(CorruptStateError):
            VerdictChange.from_bytes(data)
