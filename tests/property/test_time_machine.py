"""Any interleaving of operations on ids, against a recomputation from the list of events."""

from __future__ import annotations

import pickle
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from streameval import Coverage, Evaluator, InvalidInputError, LabelJoiner, WindowedEvaluator

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RETENTION = 6 * HOUR

IDS = st.sampled_from(["a", "b", "c"])
SCORES = st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.9])
AGES = st.one_of(st.integers(0, 10), st.integers(0, 420)).map(lambda age: age * MINUTE)
SPANS = [MINUTE, 30 * MINUTE, 4 * HOUR, 7 * HOUR]


class Row(NamedTuple):
    """One operation on one id; the value is a score or a label."""

    verb: str
    id: str
    value: float | bool | None
    at: datetime


class Event(NamedTuple):
    """Operations at one moment, or a merge."""

    now: datetime
    rows: list[Row]
    merged: list[tuple[bool, float, datetime]]


class Effect(NamedTuple):
    """One effect on one prediction, and its time."""

    name: str
    event: datetime
    score: float
    label: bool
    now: datetime


class Truth:
    """The counts after some events, recomputed from all of them, id by id."""

    def __init__(self, events: list[Event], policy: dict) -> None:
        self.policy = policy
        self.bucket = max(timedelta(seconds=1), min(policy["ttl"], policy["relabel_ttl"]) / 128)
        self.effects: list[Effect] = []
        self.counts: Counter = Counter()
        for id_ in {row.id for event in events for row in event.rows}:
            self.follow(id_, events)

    def due(self, time: datetime) -> int:
        return (time - EPOCH) // self.bucket

    def follow(self, id_: str, events: list[Event]) -> None:
        """Apply all operations of one id."""
        state: dict | None = None
        for event in events:
            state = self.expire(state, event.now)
            for row in event.rows:
                if row.id == id_:
                    state = getattr(self, row.verb)(state, row, event.now)
                    state = self.expire(state, event.now)

    def emit(self, name: str, state: dict, now: datetime) -> None:
        self.effects.append(Effect(name, state["event"], state["score"], state["label"], now))

    def expire(self, state: dict | None, now: datetime) -> dict | None:
        if state is None or self.due(now) <= state["due"]:
            return state
        if state["kind"] == "pending":
            self.emit("expired", state, now)
            if self.policy["expired"] == "negative":
                self.emit("case", {**state, "label": False}, now)
        if state["kind"] == "early":
            self.emit("orphan", state, now)
            if self.policy["orphans"] == "miss":
                self.emit("miss", state, now)
        return None

    def log(self, state: dict | None, row: Row, now: datetime) -> dict:
        if state and state["kind"] != "early":
            self.counts["duplicate_predictions"] += 1
            return state
        made = {"kind": "pending", "event": row.at, "score": row.value, "label": None}
        made["due"] = self.due(row.at + self.policy["ttl"])
        self.emit("predicted", made, now)
        return self.meet(made, state["label"], now) if state else made

    def meet(self, state: dict, label: bool, now: datetime) -> dict:
        state |= {"kind": "labelled", "label": label}
        state["due"] = self.due(now + self.policy["relabel_ttl"])
        self.emit("labelled", state, now)
        self.emit("case", state, now)
        return state

    def label(self, state: dict | None, row: Row, now: datetime) -> dict:
        if state is None:
            due = self.due(now + self.policy["ttl"])
            return {"kind": "early", "event": row.at, "score": None, "label": row.value, "due": due}
        if state["kind"] == "pending":
            return self.meet(state, row.value, now)
        if state["kind"] == "early" or state["label"] == row.value:
            self.counts["duplicate_labels"] += 1
            return {**state, "label": row.value}
        self.counts["relabelled"] += 1
        self.emit("unlabelled", state, now)
        self.emit("uncase", state, now)
        return self.meet(dict(state), row.value, now)

    def retract(self, state: dict | None, _row: Row, now: datetime) -> None:
        if state is None:
            self.counts["unknown_retractions"] += 1
        elif state["kind"] == "early":
            self.counts["retracted_early_labels"] += 1
        else:
            if state["kind"] == "labelled":
                self.emit("unlabelled", state, now)
                self.emit("uncase", state, now)
            self.emit("retracted", state, now)

    def coverage(self, start: datetime = EPOCH, end: datetime | None = None) -> Coverage:
        seen = Counter(
            effect.name
            for effect in self.effects
            if start <= effect.event and (end is None or effect.event < end)
        )
        return Coverage(
            predictions=seen["predicted"],
            labelled=seen["labelled"] - seen["unlabelled"],
            expired=seen["expired"],
            retracted=seen["retracted"],
            orphans=seen["orphan"],
        )

    def fill(self, evaluator: Evaluator, start: datetime, end: datetime | None) -> Evaluator:
        """Add the cases and misses between two times to an evaluator."""
        cases: Counter = Counter()
        for effect in self.effects:
            if effect.event < start or (end is not None and effect.event >= end):
                continue
            if effect.name == "miss":
                (evaluator.add_misses if effect.label else evaluator.add_negative_misses)(1)
            if effect.name in {"case", "uncase"}:
                cases[effect.label, effect.score] += 1 if effect.name == "case" else -1
        assert min(cases.values(), default=0) >= 0
        for (label, score), count in cases.items():
            evaluator.add_cases(labels=[label], scores=[score], counts=[count])
        return evaluator


def oldest(now: datetime) -> datetime:
    """Return the end of retention: whole hours, the coarsest pane."""
    return EPOCH + (now - RETENTION - EPOCH) // HOUR * HOUR


class TimeMachine(RuleBasedStateMachine):
    """A joiner into a windowed evaluator, one into a plain one, and the list of events."""

    @initialize(
        ttl=st.sampled_from([20 * MINUTE, 5 * HOUR, RETENTION]),
        relabel_ttl=st.sampled_from([10 * MINUTE, 8 * HOUR]),
        policies=st.sampled_from([("drop", "drop"), ("miss", "drop"), ("drop", "negative")]),
        scalar_rows=st.sampled_from([0, 8]),
    )
    def begin(
        self, ttl: timedelta, relabel_ttl: timedelta, policies: tuple[str, str], scalar_rows: int
    ) -> None:
        # With 0, all batches are joined as columns; with 8, small ones row by row.
        self.patched = patch("streameval._joining.operations._MAX_SCALAR_ROWS", scalar_rows)
        self.patched.start()
        self.policy = {
            "ttl": ttl,
            "relabel_ttl": relabel_ttl,
            "orphans": policies[0],
            "expired": policies[1],
        }
        self.joiner = LabelJoiner(WindowedEvaluator(retention=RETENTION), **self.policy)
        self.plain = LabelJoiner(Evaluator(), **self.policy)
        self.events: list[Event] = []
        self.beyond = 0
        self.clock = self.panes_now = NOON
        self.advance(0)

    def teardown(self) -> None:
        if hasattr(self, "patched"):
            self.patched.stop()

    def both(self, verb: str, *args: object, **columns: object) -> None:
        for joiner in (self.joiner, self.plain):
            getattr(joiner, verb)(*args, **columns)

    def record(self, rows: list[Row], merged: list | None = None) -> None:
        self.panes_now = max(self.panes_now, self.clock)
        before = Truth(self.events, self.policy).effects
        self.events.append(Event(self.clock, rows, merged or []))
        new = Counter(Truth(self.events, self.policy).effects) - Counter(before)
        shown = {"predicted", "labelled", "unlabelled", "expired", "retracted", "orphan"}
        self.beyond += sum(
            count
            for effect, count in new.items()
            if effect.name in shown and effect.event < oldest(self.panes_now)
        )

    @rule(minutes=st.sampled_from([0, 1, 7, 60, 200]))
    def advance(self, minutes: int) -> None:
        self.clock += minutes * MINUTE
        self.both("advance", self.clock)
        self.record([])

    @rule(id_=IDS, score=SCORES, age=AGES)
    def predict(self, id_: str, score: float, age: timedelta) -> None:
        at = self.clock - age
        if at < oldest(self.panes_now):
            with pytest.raises(InvalidInputError, match="at is older than retention"):
                self.joiner.log(id_, score, at=at)
            return
        self.both("log", id_, score, at=at)
        self.record([Row("log", id_, score, at)])

    @rule(id_=IDS, positive=st.booleans(), age=AGES)
    def label(self, id_: str, positive: bool, age: timedelta) -> None:
        at = self.clock - age
        self.both("label", id_, positive, at=at)
        self.record([Row("label", id_, positive, at)])

    @rule(id_=IDS)
    def retract(self, id_: str) -> None:
        self.both("retract", id_, at=self.clock)
        self.record([Row("retract", id_, None, self.clock)])

    @rule(rows=st.lists(st.tuples(IDS, SCORES, AGES), min_size=1, max_size=12))
    def predict_columns(self, rows: list[tuple]) -> None:
        rows = [Row("log", id_, score, self.clock - age) for id_, score, age in rows]
        columns = {
            "ids": [row.id for row in rows],
            "scores": np.array([row.value for row in rows]),
            "at": [row.at for row in rows],
        }
        if min(columns["at"]) < oldest(self.panes_now):
            with pytest.raises(InvalidInputError, match="at is older than retention"):
                self.joiner.log_cases(**columns)
            return
        self.both("log_cases", **columns)
        self.record(rows)

    @rule(rows=st.lists(st.tuples(IDS, st.booleans(), AGES), min_size=1, max_size=12))
    def label_columns(self, rows: list[tuple]) -> None:
        rows = [Row("label", id_, positive, self.clock - age) for id_, positive, age in rows]
        columns = {
            "ids": [row.id.encode() for row in rows],
            "labels": [row.value for row in rows],
            "at": [row.at for row in rows],
        }
        self.both("label_cases", **columns)
        self.record(rows)

    @rule(ids=st.lists(IDS, max_size=4))
    def retract_columns(self, ids: list[str]) -> None:
        self.both("retract_cases", ids=ids, at=self.clock)
        self.record([Row("retract", id_, None, self.clock) for id_ in ids])

    @rule(
        cases=st.lists(st.tuples(st.booleans(), SCORES, AGES), max_size=4),
        ahead=st.sampled_from([0, 0, 30, 90]),
    )
    def merge(self, cases: list[tuple], ahead: int) -> None:
        """Merge cases of another evaluator, whose time may be later."""
        other = WindowedEvaluator(retention=RETENTION)
        now = self.clock + ahead * MINUTE
        kept = [
            (positive, score, now - age)
            for positive, score, age in cases
            if now - age >= oldest(max(self.panes_now, now))
        ]
        for positive, score, at in kept:
            other.add_case(positive, score, at=at)
        other.advance(now)
        self.joiner.evaluator.merge(other)
        self.panes_now = max(self.panes_now, now)
        self.record([], kept)

    @rule(way=st.sampled_from(["bytes", "copy", "pickle"]))
    def restore(self, way: str) -> None:
        for name in ("joiner", "plain"):
            before = getattr(self, name)
            data = before.to_bytes()
            if way == "copy":
                after = before.copy()
            elif way == "pickle":
                after = pickle.loads(pickle.dumps(before))
            else:
                after = LabelJoiner.from_bytes(data)
            assert after == before
            assert after.to_bytes() == data
            setattr(self, name, after)

    @invariant()
    def equals_the_recomputation(self) -> None:
        truth = Truth(self.events, self.policy)
        for joiner in (self.joiner, self.plain):
            joiner._check()
            assert joiner.coverage() == truth.coverage()
            for name, count in truth.counts.items():
                assert getattr(joiner.counts, name) == count
        assert self.joiner.counts.beyond_retention == self.beyond
        assert self.plain.evaluator == truth.fill(Evaluator(), EPOCH, None)
        windowed = self.joiner.evaluator
        assert windowed.now == self.panes_now
        for window in [*(windowed.last(span) for span in SPANS), *windowed.panes()]:
            start = max(window.start, oldest(self.panes_now))
            want = truth.fill(Evaluator(resolution=12, max_cells=16_384), start, window.end)
            for event in self.events:
                for positive, score, at in event.merged:
                    if start <= at < window.end:
                        want.add_case(positive, score)
            assert window.evaluator() == want
            assert self.joiner.coverage(window) == truth.coverage(start, window.end)


TestTimeMachine = TimeMachine.TestCase
TestTimeMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


SECONDS = st.one_of(st.integers(0, 60), st.integers(0, 4000))
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["log", "log", "label", "label", "retract"]),
        st.lists(st.tuples(IDS, SCORES, SECONDS), min_size=1, max_size=8),
    ),
    max_size=8,
)


@given(operations=OPERATIONS, windowed=st.booleans(), rows=st.sampled_from([0, 8]))
def test_columns_equal_single_calls(operations: list[tuple], windowed: bool, rows: int) -> None:
    """Columns of any times, ids and length have the effects of a call for each row."""
    with patch("streameval._joining.operations._MAX_SCALAR_ROWS", rows):
        columns_equal_single_calls(operations, windowed)


def columns_equal_single_calls(operations: list[tuple], windowed: bool) -> None:
    joiners = [
        LabelJoiner(
            WindowedEvaluator() if windowed else Evaluator(),
            ttl=45 * MINUTE,
            relabel_ttl=31 * MINUTE,
        )
        for _ in range(2)
    ]
    for verb, rows in operations:
        ids = [id_ for id_, _, _ in rows]
        times = [NOON + seconds * timedelta(seconds=1) for _, _, seconds in rows]
        for id_, score, time in zip(ids, (score for _, score, _ in rows), times, strict=True):
            value = {"log": (score,), "label": (score > 0.3,), "retract": ()}[verb]
            getattr(joiners[0], verb)(id_, *value, at=time)
        columns = {
            "log": {"scores": [score for _, score, _ in rows]},
            "label": {"labels": [score > 0.3 for _, score, _ in rows]},
            "retract": {},
        }[verb]
        getattr(joiners[1], f"{verb}_cases")(ids=ids, at=times, **columns)
        assert joiners[0].counts == joiners[1].counts
        assert joiners[0].coverage_by_score() == joiners[1].coverage_by_score()
        assert joiners[0] == joiners[1]
    joiners[1]._check()
