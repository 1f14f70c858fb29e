"""Verdicts as messages and back: nothing is lost, in any state."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from streameval import Interval, Verdict, VerdictFigure
from streameval._verdict.verdict import Base, Because, Called, Moved, Since
from streameval.client._wire.verdicts import read_verdict
from streameval.v1 import verdict_pb2
from streameval_server._model.verdict_change import QUALITIES, CalledRow
from streameval_server._queries.verdict_message import verdict_message

NUMBERS = st.floats(-2, 2, allow_subnormal=False)
MAYBE = NUMBERS | st.just(float("nan"))
TIMES = st.integers(0, 10**15).map(lambda us: datetime(2020, 1, 1, tzinfo=UTC) + us * MICROSECOND)
MICROSECOND = timedelta(microseconds=1)
TEXTS = st.text(max_size=20)
SINCE = st.builds(Since, TIMES, TIMES, TIMES, st.lists(TEXTS, max_size=3).map(tuple))
INTERVALS = st.builds(
    Interval, MAYBE, MAYBE, st.just(0.95), TEXTS, estimate=MAYBE, anytime=st.booleans()
)
FIGURES = st.builds(VerdictFigure, TEXTS, st.none() | NUMBERS, INTERVALS, INTERVALS, INTERVALS)
SEGMENTS = st.builds("{}={}".format, st.sampled_from(["country", "a"]), TEXTS)
VERDICTS = st.builds(
    Verdict,
    quality=st.sampled_from(["worse", "better", "recovered", "steady", "unsure", "immature"]),
    at=TIMES,
    valid_until=TIMES,
    sentence=TEXTS,
    flow=st.sampled_from(["ok", "silent", "no_labels", "late"]),
    figures=st.lists(FIGURES, max_size=3).map(tuple),
    since=st.none() | SINCE,
    returned=st.none() | SINCE,
    because=st.lists(st.builds(Because, SEGMENTS, st.none() | NUMBERS, NUMBERS), max_size=3).map(
        tuple
    ),
    first=st.sampled_from([None, "scores", "prevalence", "labelled_share", "same_time"]),
    moved=st.lists(
        st.builds(Moved, st.just("scores"), NUMBERS, NUMBERS, st.none() | SINCE), max_size=2
    ).map(tuple),
    alarm=st.none() | st.integers(1, 2**32 - 1),
    base=st.none()
    | st.builds(Base, TIMES, TIMES, st.integers(0, 2**40), st.integers(0, 2**40), st.booleans()),
    excluded=MAYBE,
    projected=st.none() | INTERVALS,
    margin=NUMBERS,
    could_be_wrong=st.lists(TEXTS, max_size=2).map(tuple),
    sure=TEXTS,
)


@given(VERDICTS, st.lists(st.sampled_from(QUALITIES), max_size=3))
def test_a_verdict_comes_back_whole(verdict: Verdict, qualities: list[str]) -> None:
    """Through the bytes of the contract, with every field."""
    rows = [CalledRow(each, 60_000_000, len(each) * 10**6) for each in qualities]
    message = verdict_message("fraud/v3", verdict, rows)
    back = read_verdict(verdict_pb2.Verdict.FromString(message.SerializeToString()))
    minute = datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    verdict = dataclasses.replace(
        verdict,
        history=tuple(
            Called(each, minute, minute.replace(minute=0, second=len(each)))
            if each
            else Called("immature", minute, is_accepted=True)
            for each in qualities
        ),
    )
    assert message.stream == "fraud/v3"
    assert back == verdict
    assert back.to_dict() == verdict.to_dict()


def test_no_field_of_a_verdict_is_missing_from_the_contract() -> None:
    """A field that is added to a result is added to its message."""
    for kind, message in (
        (Verdict, verdict_pb2.Verdict),
        (VerdictFigure, verdict_pb2.VerdictFigure),
        (Since, verdict_pb2.VerdictSince),
        (Because, verdict_pb2.VerdictCause),
        (Moved, verdict_pb2.VerdictMove),
        (Called, verdict_pb2.VerdictCalled),
    ):
        named = {each.name for each in dataclasses.fields(kind)}
        assert named == set(message.DESCRIPTOR.fields_by_name) - {"stream"}
