"""Labels with weights: they count and are removed exactly, and an id keeps its weight."""

from __future__ import annotations

import struct
import zlib
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import (
    CorruptStateError,
    Evaluator,
    InvalidInputError,
    LabelJoiner,
    WindowedEvaluator,
)
from streameval._joining import codec
from streameval.kernel import Joiner, JoinSettings

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
UNIT = 2**16

IDS = [f"id {number}" for number in range(6)]
_steps = st.lists(
    st.tuples(
        st.sampled_from(["log", "label", "retract", "wait"]),
        st.sampled_from(IDS),
        st.booleans(),
        st.sampled_from([0.25, 0.5, 0.75]),
        st.sampled_from([0.0, 0.5, 1.0, 1.0, 3.25]),
    ),
    max_size=40,
)


class Model:
    """A joiner as a dict: id to score, label and weight; and the cases that are counted."""

    def __init__(self, *, expired: str) -> None:
        self.expired = expired
        self.kept: dict[str, dict] = {}
        self.forgotten: list[tuple[bool, float, float]] = []

    def label(self, id_: str, positive: bool, weight: float) -> bool:
        """Return whether the label is taken."""
        held = self.kept.setdefault(id_, {})
        if held.get("weight", weight) != weight:
            return False
        held |= {"label": positive, "weight": weight}
        return True

    def cases(self) -> list[tuple[bool, float, float]]:
        counted = [
            (each["label"], each["score"], each["weight"])
            for each in self.kept.values()
            if "label" in each and "score" in each
        ]
        return [*self.forgotten, *counted]

    def expire(self) -> None:
        """Forget all ids, those that wait as `expired` says."""
        self.forgotten = self.cases()
        if self.expired == "negative":
            self.forgotten += [
                (False, each["score"], 1.0)
                for each in self.kept.values()
                if "score" in each and "label" not in each
            ]
        self.kept = {}


def evaluator_of(cases: list[tuple[bool, float, float]]) -> Evaluator:
    evaluator = Evaluator()
    for label, score, weight in cases:
        evaluator.add_case(label, score, weight=weight)
    return evaluator


@given(steps=_steps, expired=st.sampled_from(["drop", "negative"]))
def test_a_joiner_is_its_model(steps: list[tuple], expired: str) -> None:
    """Labels early, repeated, changed, retracted and forgotten leave the model's cases."""
    joiner = LabelJoiner(Evaluator(), ttl=DAY, relabel_ttl=DAY, expired=expired)
    model, now = Model(expired=expired), NOON
    for verb, id_, positive, score, weight in steps:
        if verb == "log":
            joiner.log(id_, score, at=now)
            model.kept.setdefault(id_, {}).setdefault("score", score)
        elif verb == "retract":
            joiner.retract(id_, at=now)
            model.kept.pop(id_, None)
        elif verb == "wait":
            now += 3 * DAY
            joiner.advance(now)
            model.expire()
        elif model.label(id_, positive, weight):
            joiner.label(id_, positive, weight=weight, at=now)
        else:
            before = joiner.to_bytes()
            with pytest.raises(InvalidInputError, match="the one that its id has"):
                joiner.label(id_, positive, weight=weight, at=now)
            assert joiner.to_bytes() == before
        joiner._check()
        assert joiner.evaluator == evaluator_of(model.cases())
    assert LabelJoiner.from_bytes(joiner.to_bytes()) == joiner == joiner.copy()


@pytest.mark.parametrize("seed", range(4))
def test_columns_are_rows(seed: int) -> None:
    """Columns and single rows leave the same bytes, in panes and with repeated ids."""
    rng = np.random.default_rng(seed)
    weight_of = rng.integers(1, 2**18, size=60) / UNIT
    joiners = [
        LabelJoiner(WindowedEvaluator(), ttl=DAY, relabel_ttl=HOUR, expired="negative")
        for _ in range(2)
    ]
    now = NOON
    for _ in range(25):
        now += timedelta(minutes=int(rng.integers(0, 90)))
        picked = rng.integers(0, 60, size=int(rng.integers(1, 40)))
        ids = [f"id {number}" for number in picked]
        verb = rng.integers(0, 5)
        if verb < 2:
            scores = rng.random(picked.size)
            joiners[0].log_cases(ids=ids, scores=scores, at=now)
            for id_, score in zip(ids, scores.tolist(), strict=True):
                joiners[1].log(id_, score, at=now)
        elif verb < 4:
            labels = rng.random(picked.size) < 0.5
            weights = weight_of[picked]
            joiners[0].label_cases(ids=ids, labels=labels, weights=weights, at=now)
            for id_, label, weight in zip(ids, labels.tolist(), weights.tolist(), strict=True):
                joiners[1].label(id_, label, weight=weight, at=now)
        else:
            joiners[0].retract_cases(ids=ids[:3], at=now)
            for id_ in ids[:3]:
                joiners[1].retract(id_, at=now)
        for joiner in joiners:
            joiner._check()
        assert joiners[0].to_bytes() == joiners[1].to_bytes()
    assert joiners[0].evaluator.last(30 * DAY).weights is not None
    # All that was counted with a weight is removed with it.
    joiners[0].retract_cases(ids=[f"id {number}" for number in range(60)], at=now)
    left = joiners[0].evaluator.last(30 * DAY)
    kept = LabelJoiner.from_bytes(joiners[0].to_bytes())
    assert kept.evaluator.last(30 * DAY).evaluator() == left.evaluator()


def test_weights_of_one_leave_the_bytes_of_none() -> None:
    """The ids have a column of weights only while a label has a weight other than 1."""
    plain, weighted = (LabelJoiner(WindowedEvaluator(), ttl=DAY) for _ in range(2))
    for joiner in (plain, weighted):
        joiner.log_cases(ids=["a", "b", "c"], scores=[0.1, 0.2, 0.3], at=NOON)
    plain.label_cases(ids=["a", "b"], labels=[1, 0], at=NOON)
    weighted.label_cases(ids=["a", "b"], labels=[1, 0], weights=[1, 1], at=NOON)
    assert plain.to_bytes() == weighted.to_bytes()
    weighted.label("c", True, weight=2, at=NOON)
    assert codec.encode_joiner(weighted._joiner)[:7] == struct.pack("<4sHB", b"SVEJ", 1, 1)
    weighted.retract("c", at=NOON)
    plain.retract("c", at=NOON)
    data = codec.encode_joiner(weighted._joiner)
    assert data == codec.encode_joiner(plain._joiner)
    altered = bytearray(data)
    altered[6] = 1
    altered[-4:] = struct.pack("<I", zlib.crc32(bytes(altered[:-4])))
    with pytest.raises(CorruptStateError, match="bytes"):
        codec.decode_joiner(bytes(altered))


def test_altered_weights_are_refused() -> None:
    """A weight of an id that waits for its label, and one out of range."""
    joiner = LabelJoiner(Evaluator(), ttl=DAY)
    joiner.log("a", 0.5, at=NOON)
    joiner.label("b", True, weight=2, at=NOON)
    data = codec.encode_joiner(joiner._joiner)
    for column, message in (
        ((3 * UNIT, 2 * UNIT), "the weight of a label that is not there"),
        ((UNIT, -1), "weights out of range"),
        ((UNIT, 2**47 + 1), "weights out of range"),
        ((UNIT, UNIT), "the flag of weights, and none"),
    ):
        altered = bytearray(data)
        altered[-20:-4] = struct.pack("<2q", *column)
        altered[-4:] = struct.pack("<I", zlib.crc32(bytes(altered[:-4])))
        with pytest.raises(CorruptStateError, match=message):
            codec.decode_joiner(bytes(altered))


def test_another_weight_refuses_the_whole_column() -> None:
    """The message names the row, and nothing has changed, not even the time."""
    joiner = LabelJoiner(WindowedEvaluator(), ttl=DAY)
    joiner.log_cases(ids=["a", "b", "c"], scores=[0.1, 0.2, 0.3], at=NOON)
    joiner.label("a", True, weight=2, at=NOON)
    before = joiner.to_bytes()
    for weights, ids, row in (([5, 3], ["b", "a"], 1), ([5, 5, 4], ["b", "c", "b"], 2)):
        with pytest.raises(InvalidInputError, match=f"at index {row}") as caught:
            joiner.label_cases(ids=ids, labels=[1] * len(ids), weights=weights, at=NOON + HOUR)
        assert (caught.value.field, caught.value.index) == ("weights", row)
    with pytest.raises(InvalidInputError, match="the one that its id has, 2, got 1;"):
        joiner.label("a", True, at=NOON + HOUR)
    with pytest.raises(InvalidInputError, match="must be finite"):
        joiner.label("b", True, weight=-1, at=NOON)
    with pytest.raises(InvalidInputError, match="label probability must be"):
        joiner.label_cases(ids=["b"], labels=[1], label_probability=0, at=NOON)
    assert joiner.to_bytes() == before
    # The same weight is a repeat, or changes the label; a new case of the id has a new one.
    joiner.label("a", True, weight=2, at=NOON)
    joiner.label("a", False, label_probability=0.5, at=NOON)
    assert (joiner.counts.duplicate_labels, joiner.counts.relabelled) == (1, 1)
    joiner.label("a", False, weight=2, at=NOON)
    joiner.advance(NOON + 2 * HOUR)  # past relabel_ttl
    joiner.log("a", 0.1, at=NOON + 2 * HOUR)
    joiner.label("a", True, weight=7, at=NOON + 2 * HOUR)
    assert joiner.evaluator.last(DAY).weights.positives == 7


def test_an_id_that_falls_due_on_the_way_has_no_weight() -> None:
    """Within one call, time passes with the rows: the label before it is forgotten."""
    joiner = LabelJoiner(Evaluator(), ttl=DAY, relabel_ttl=HOUR)
    joiner.log("a", 0.5, at=NOON)
    joiner.label("a", True, weight=2, at=NOON)
    joiner.label_cases(ids=["b", "a"], labels=[1, 1], weights=[3, 5], at=[NOON, NOON + 5 * HOUR])
    assert joiner.coverage().labelled == 1
    assert joiner.num_ids == 2


def test_joiners_that_take_no_weights() -> None:
    """A projection weighs labels itself; a miss weighs 1."""
    keeps = LabelJoiner(WindowedEvaluator(), ttl=DAY, keep_delays=True)
    misses = LabelJoiner(Evaluator(), ttl=DAY, orphans="miss")
    clusters = LabelJoiner(Evaluator(cluster_groups=16), ttl=DAY)
    for joiner, message in (
        (keeps, "keeps delays takes no weights"),
        (misses, "a miss weighs 1"),
        (clusters, "declares clusters takes no weights"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            joiner.label("a", True, weight=2, at=NOON)
        with pytest.raises(InvalidInputError, match=message):
            joiner.label_cases(ids=["a"], labels=[1], label_probability=0.5, at=NOON)
        assert joiner.num_ids == 0


def test_early_labels_count_towards_the_limit() -> None:
    """Labels that wait are as heavy as their cases will be."""
    joiner = LabelJoiner(WindowedEvaluator(), ttl=DAY)
    ids = [str(number) for number in range(2**15)]
    ones = np.ones(len(ids), dtype=np.bool_)
    joiner.label_cases(ids=ids[:-1], labels=ones[:-1], weights=ones[:-1] * 2.0**31, at=NOON)
    with pytest.raises(InvalidInputError, match=r"below 2\*\*46"):
        joiner.label(ids[-1], True, weight=2.0**31, at=NOON)
    joiner.log_cases(ids=ids[:-1], scores=np.zeros(len(ids) - 1), at=NOON)
    assert joiner.evaluator.last(DAY).weights.positives == (2**15 - 1) * 2.0**31


def test_a_joiner_whose_caller_does_not_check_keeps_the_first_weight() -> None:
    """Columns and rows of `Joiner` take a label with another weight for a repetition."""
    settings = JoinSettings(3_600_000_000, expired="negative")
    joiners = [Joiner(settings), Joiner(settings)]
    rng = np.random.default_rng(0)
    for now_us in range(10**15, 10**15 + 40):
        picked = [b"%d" % number for number in rng.permutation(30)[:12]]
        labels, units = rng.random(12) < 0.5, rng.choice([UNIT, 2 * UNIT, 5], size=12)
        scores = rng.random(12)
        event_us = np.full(12, now_us)
        kind = rng.integers(0, 4)
        for joiner, cut in zip(joiners, (12, 1), strict=True):
            for start in range(0, 12, cut):
                part = slice(start, start + cut)
                if kind == 0:
                    joiner.predict(
                        picked[part], scores=scores[part], event_us=event_us[part], now_us=now_us
                    )
                elif kind == 3:
                    joiner.retract(picked[part][:1], now_us=now_us)
                    break
                else:
                    joiner.label(
                        picked[part],
                        positives=labels[part],
                        now_us=now_us,
                        event_us=event_us[part],
                        scores=scores[part] if kind == 2 else None,
                        units=units[part],
                    )
        for joiner in joiners:
            joiner._check()
        assert codec.encode_joiner(joiners[0]) == codec.encode_joiner(joiners[1])
