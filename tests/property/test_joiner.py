"""The joiner against a plain dict: any interleaving, any policy, any cut into batches."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Coverage, InvalidInputError
from streameval._time.effects import COVERAGE
from streameval.kernel import Effect, Joiner, JoinSettings

S = 1_000_000
IDS = st.sampled_from([b"a", b"b", b"c", b"d"])
PREDICT = st.tuples(st.just("predict"), IDS, st.integers(0, 3), st.integers(-40, 5))
LABEL = st.tuples(st.just("label"), IDS, st.booleans())
FULL_LABEL = st.tuples(st.just("full"), IDS, st.booleans(), st.integers(0, 3), st.integers(-40, 5))
RETRACT = st.tuples(st.just("retract"), IDS)
WAIT = st.tuples(st.just("wait"), st.integers(0, 30))
OPERATIONS = st.lists(st.one_of(PREDICT, LABEL, FULL_LABEL, RETRACT, WAIT), max_size=40)
SETTINGS = st.builds(
    JoinSettings,
    ttl_us=st.sampled_from([10 * S, 40 * S]),
    relabel_ttl_us=st.sampled_from([5 * S, 60 * S]),
    max_pending=st.sampled_from([2, 100]),
    orphans=st.just("drop"),
    expired=st.sampled_from(["drop", "negative"]),
) | st.builds(
    JoinSettings,
    ttl_us=st.sampled_from([10 * S, 40 * S]),
    relabel_ttl_us=st.just(5 * S),
    orphans=st.just("miss"),
)


class Oracle:
    """The rules, one id at a time, in a dict."""

    def __init__(self, settings: JoinSettings) -> None:
        self.settings, self.ids = settings, {}
        self.effects: Counter = Counter()

    def emit(self, effect: Effect, event: int, score: float | None) -> None:
        self.effects[effect.name, event, None if score is None else float(score)] += 1

    def bucket(self, time: int) -> int:
        return max(time // self.settings.bucket_us, 0)

    def labelled(self, positive: bool) -> Effect:
        return Effect.LABELLED_POSITIVE if positive else Effect.LABELLED_NEGATIVE

    def unlabelled(self, positive: bool) -> Effect:
        return Effect.UNLABELLED_POSITIVE if positive else Effect.UNLABELLED_NEGATIVE

    def take_due(self, before: int) -> None:
        for key in [k for k, row in self.ids.items() if row["due"] < before]:
            row = self.ids.pop(key)
            if row["state"] == "pending":
                drop = self.settings.expired == "drop"
                self.emit(
                    Effect.EXPIRED if drop else Effect.EXPIRED_NEGATIVE, row["event"], row["score"]
                )
            elif row["state"] == "early":
                if self.settings.orphans == "drop":
                    effect = Effect.ORPHANED
                else:
                    effect = Effect.MISSED_POSITIVE if row["positive"] else Effect.MISSED_NEGATIVE
                self.emit(effect, row["event"], None)

    def make_room(self) -> None:
        while len(self.ids) > self.settings.max_pending:
            self.take_due(min(row["due"] for row in self.ids.values()) + 1)

    def step(self, now: int, operation: tuple) -> None:
        self.take_due(self.bucket(now))
        kind, *rest = operation
        if kind != "wait":
            row = self.ids.get(rest[0])
            getattr(self, kind)(now, row, *rest)
        self.take_due(self.bucket(now))
        self.make_room()

    def relabel_due(self, now: int) -> int:
        return self.bucket(now + self.settings.relabel_ttl_us)

    def predict(self, now: int, row: dict | None, key: bytes, score: int, event: int) -> None:
        if row is None:
            due = self.bucket(event + self.settings.ttl_us)
            self.ids[key] = {"state": "pending", "score": score, "event": event, "due": due}
            self.emit(Effect.PREDICTED, event, score)
        elif row["state"] == "early":
            row.update(state="labelled", score=score, event=event, due=self.relabel_due(now))
            self.emit(Effect.PREDICTED, event, score)
            self.emit(self.labelled(row["positive"]), event, score)

    def label(self, now: int, row: dict | None, key: bytes, positive: bool) -> None:
        if row is None:
            due = self.bucket(now + self.settings.ttl_us)
            self.ids[key] = {"state": "early", "positive": positive, "event": now, "due": due}
        else:
            self.relabel(now, row, positive)

    def full(  # noqa: PLR0917 - the operation's own fields
        self, now: int, row: dict | None, key: bytes, positive: bool, score: int, event: int
    ) -> None:
        if row is None or row["state"] == "early":
            self.ids[key] = {
                "state": "labelled",
                "positive": positive,
                "score": score,
                "event": event,
                "due": self.relabel_due(now),
            }
            self.emit(Effect.PREDICTED, event, score)
            self.emit(self.labelled(positive), event, score)
        else:
            self.relabel(now, row, positive)

    def relabel(self, now: int, row: dict, positive: bool) -> None:
        if row["state"] == "early":
            row["positive"] = positive
        elif row["state"] == "pending" or row["positive"] != positive:
            if row["state"] == "labelled":
                self.emit(self.unlabelled(row["positive"]), row["event"], row["score"])
            row.update(state="labelled", positive=positive, due=self.relabel_due(now))
            self.emit(self.labelled(positive), row["event"], row["score"])

    def retract(self, _now: int, row: dict | None, key: bytes) -> None:
        if row is None:
            return
        if row["state"] == "labelled":
            self.emit(self.unlabelled(row["positive"]), row["event"], row["score"])
        if row["state"] != "early":
            self.emit(Effect.RETRACTED, row["event"], row["score"])
        del self.ids[key]


def tally(effects: Counter, table) -> Counter:
    for kind, event, score in zip(
        table.kinds.tolist(), table.event_us.tolist(), table.scores.tolist(), strict=True
    ):
        effects[Effect(kind).name, event, None if np.isnan(score) else score] += 1
    return effects


def absolute(operation: tuple, now: int) -> tuple:
    """Make the event times of an operation absolute."""
    if operation[0] == "predict":
        return (*operation[:3], now + operation[3] * S)
    if operation[0] == "full":
        return (*operation[:4], now + operation[4] * S)
    return operation


def apply(joiner: Joiner, now: int, operations: list[tuple], scalar_rows: int = 8):
    """Apply operations of one kind as one batch; more rows than `scalar_rows` as columns."""
    with patch("streameval._joining.operations._MAX_SCALAR_ROWS", scalar_rows):
        return apply_batch(joiner, now, operations)


def apply_batch(joiner: Joiner, now: int, operations: list[tuple]):
    kind = operations[0][0]
    if kind == "wait":
        return joiner.advance(now)
    ids = [operation[1] for operation in operations]
    if kind == "predict":
        return joiner.predict(
            ids,
            scores=np.array([float(operation[2]) for operation in operations]),
            event_us=np.array([operation[3] for operation in operations]),
            now_us=now,
        )
    if kind == "retract":
        return joiner.retract(ids, now_us=now)
    positives = np.array([operation[2] for operation in operations])
    if kind == "label":
        return joiner.label(ids, positives=positives, now_us=now)
    return joiner.label(
        ids,
        positives=positives,
        now_us=now,
        scores=np.array([float(operation[3]) for operation in operations]),
        event_us=np.array([operation[4] for operation in operations]),
    )


SCALAR_ROWS = st.sampled_from([0, 2, 8])


@given(settings=SETTINGS, operations=OPERATIONS, rows=SCALAR_ROWS)
def test_any_interleaving_equals_the_rules(
    settings: JoinSettings, operations: list[tuple], rows: int
) -> None:
    """Applied one by one, operations have the oracle's effects, and the table stays sound."""
    joiner, oracle, effects = Joiner(settings), Oracle(settings), Counter()
    now = 1_000 * S
    for operation in operations:
        if operation[0] == "wait":
            now += operation[1] * S
        absolute_operation = absolute(operation, now)
        tally(effects, apply(joiner, now, [absolute_operation], rows))
        oracle.step(now, absolute_operation)
        joiner._check()
        assert len(joiner) == len(oracle.ids)
        assert effects == oracle.effects


@given(
    settings=SETTINGS.filter(lambda s: s.max_pending > 2),
    operations=OPERATIONS,
    rows=SCALAR_ROWS,
)
def test_batches_equal_single_calls(
    settings: JoinSettings, operations: list[tuple], rows: int
) -> None:
    """A batch has the effects of its rows applied in order at one instant."""
    joiner, oracle, effects = Joiner(settings), Oracle(settings), Counter()
    now, batch = 1_000 * S, []
    for operation in [*operations, ("wait", 1)]:
        absolute_operation = absolute(operation, now)
        first = not batch or batch[0][0] != operation[0]
        if batch and first:
            tally(effects, apply(joiner, now, batch, rows))
            batch = []
        if operation[0] == "wait":
            now += operation[1] * S
            tally(effects, joiner.advance(now))
        else:
            batch.append(absolute_operation)
        oracle.step(now, absolute_operation)
    assert effects == oracle.effects
    joiner._check()


@given(settings=SETTINGS, operations=OPERATIONS)
def test_coverage_adds_up(settings: JoinSettings, operations: list[tuple]) -> None:
    """Predictions are pending, labelled, expired or retracted, and nothing else."""
    joiner, coverage = Joiner(settings), Coverage()
    now = 1_000 * S
    for operation in operations:
        if operation[0] == "wait":
            now += operation[1] * S
        coverage += _coverage_of(apply(joiner, now, [absolute(operation, now)]).kinds)
        assert coverage.pending >= 0
        assert coverage.labelled >= 0
    coverage += _coverage_of(joiner.advance(now + 1_000 * S).kinds)
    assert coverage.pending == 0
    assert len(joiner) == 0


def test_settings_that_contradict_are_refused() -> None:
    """A late positive must not count both as a negative case and as a miss."""
    with pytest.raises(InvalidInputError, match="count a late positive twice"):
        JoinSettings(ttl_us=S, orphans="miss", expired="negative")
    with pytest.raises(InvalidInputError, match="ttl_us must be positive, got 0"):
        JoinSettings(ttl_us=0)
    with pytest.raises(InvalidInputError, match="orphans must be one of"):
        JoinSettings(ttl_us=1, orphans="keep")  # type: ignore[arg-type]


def _coverage_of(kinds: np.ndarray) -> Coverage:
    """Sum what each effect adds, one effect at a time."""
    total = Coverage()
    for kind in kinds.tolist():
        total += Coverage(**{name: int(table[kind]) for name, table in COVERAGE.items()})
    return total
