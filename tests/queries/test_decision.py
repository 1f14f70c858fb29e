"""Decisions compared with trying every threshold."""

from __future__ import annotations

import math
import random

import pytest

from streameval.v1 import query_pb2, types_pb2
from streameval_server._queries.decision import decision, parse_decision_request

from .conftest import NOW, Event, View, answers_of, invalid_field

Reason = types_pb2.UndefinedReason


def of(view: View, **wanted) -> query_pb2.GetDecisionResponse:
    """Return the answer about a view."""
    request = query_pb2.GetDecisionRequest(selection=types_pb2.Selection(stream="s"), **wanted)
    return decision(answers_of(view), parse_decision_request(request))


def made(seed: int, size: int = 60) -> list[Event]:
    """Return cases with ties."""
    rng = random.Random(seed)
    return [Event(rng.random() < 0.4, rng.randrange(20) / 20, NOW) for _ in range(size)]


def tried(events: list[Event], threshold: float) -> tuple[int, int, int, int]:
    """Return tp, fp, fn and tn of a threshold."""
    called = [event.positive for event in events if event.score >= threshold]
    rest = [event.positive for event in events if event.score < threshold]
    return sum(called), len(called) - sum(called), sum(rest), len(rest) - sum(rest)


def rates_of(answer: query_pb2.GetDecisionResponse) -> dict[str, float]:
    """Return the defined metrics of an answer by name."""
    return {each.name: each.value for each in answer.metrics if each.HasField("value")}


def check(answer, events: list[Event]) -> None:
    """Compare counts and rates with those of the answer's threshold."""
    tp, fp, fn, tn = counts = tried(events, answer.threshold)
    assert (answer.tp, answer.fp, answer.fn, answer.tn) == counts
    rates = rates_of(answer)
    assert rates["precision"] == (tp / (tp + fp) if tp + fp else 1.0)
    assert rates["recall"] == tp / (tp + fn)
    assert rates["fpr"] == fp / (fp + tn)
    assert rates["f_measure"] == pytest.approx(2 * tp / (2 * tp + fp + fn), rel=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_a_threshold_does_what_counting_says(seed: int) -> None:
    """Thresholds at scores, between them, beyond them, and infinite."""
    events = made(seed)
    for threshold in (-math.inf, -1.0, 0.0, 0.05, 0.07, 0.5, 0.95, 1.0, math.inf):
        answer = of(View(events), threshold=threshold)
        assert answer.threshold == threshold
        check(answer, events)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("costs", [(1.0, 10.0), (10.0, 1.0), (1.0, 1.0), (0.0, 1.0), (3.0, 0.0)])
def test_the_cheapest_threshold_is_the_cheapest(seed: int, costs: tuple[float, float]) -> None:
    """No threshold costs less, and of equal ones it is the highest."""
    events = made(seed)
    answer = of(
        View(events), costs=query_pb2.Costs(false_positive=costs[0], false_negative=costs[1])
    )
    check(answer, events)

    def cost(threshold: float) -> float:
        _, fp, fn, _ = tried(events, threshold)
        return costs[0] * fp + costs[1] * fn

    every = [math.inf, *sorted({event.score for event in events}, reverse=True)]
    least = min(map(cost, every))
    assert cost(answer.threshold) == least
    assert answer.threshold == next(each for each in every if cost(each) == least)


def test_targets() -> None:
    """The largest recall, the highest and the lowest threshold that reach them."""
    events = made(7)
    every = sorted({event.score for event in events})
    by_recall = of(View(events), recall=0.8)
    check(by_recall, events)
    assert by_recall.threshold == max(
        each for each in every if (c := tried(events, each))[0] >= 0.8 * (c[0] + c[2])
    )
    by_fpr = of(View(events), fpr=0.3)
    check(by_fpr, events)
    assert by_fpr.threshold == min(
        each for each in every if (c := tried(events, each))[1] <= 0.3 * (c[1] + c[3])
    )
    few = of(View(events), flagged_share=0.25)
    check(few, events)
    assert few.threshold == min(
        each for each in every if sum(tried(events, each)[:2]) <= 0.25 * len(events)
    )
    assert of(View(events), flagged_share=0.0).threshold == math.inf
    by_precision = of(View(events), precision=0.45)
    check(by_precision, events)
    assert rates_of(by_precision)["precision"] >= 0.45
    assert rates_of(by_precision)["recall"] == max(
        c[0] / (c[0] + c[2])
        for each in every
        if (c := tried(events, each))[0] >= 0.45 * (c[0] + c[1])
    )


def test_out_of_reach_is_not_undefined() -> None:
    """Without a threshold the answer has no counts; the reason tells whether there could be one."""
    out_of_reach = of(View([Event(False, 0.9, NOW), Event(True, 0.1, NOW)]), precision=0.9)
    assert out_of_reach.undefined_reason == Reason.UNDEFINED_REASON_UNSPECIFIED
    for field in ("threshold", "tp", "fn"):
        assert not out_of_reach.HasField(field)
    assert not out_of_reach.metrics
    costs = query_pb2.Costs(false_positive=1, false_negative=1)
    positive, negative = Event(True, 0.5, NOW), Event(False, 0.5, NOW)
    for events, wanted, reason in (
        ([], {"costs": costs}, Reason.UNDEFINED_REASON_EMPTY),
        ([positive], {"costs": costs}, Reason.UNDEFINED_REASON_NO_NEGATIVES),
        ([negative], {"costs": costs}, Reason.UNDEFINED_REASON_NO_POSITIVES),
        ([negative], {"recall": 0.5}, Reason.UNDEFINED_REASON_NO_POSITIVES),
        ([positive], {"fpr": 0.5}, Reason.UNDEFINED_REASON_NO_NEGATIVES),
        ([], {"flagged_share": 0.5}, Reason.UNDEFINED_REASON_EMPTY),
    ):
        answer = of(View(events), **wanted)
        assert not answer.HasField("threshold")
        assert answer.undefined_reason == reason


def test_rates_that_are_undefined_are_absent() -> None:
    """A given threshold still has counts."""
    answer = of(View([Event(False, 0.5, NOW)]), threshold=0.5)
    rates = rates_of(answer)
    assert (answer.fp, rates["fpr"], rates["precision"]) == (1, 1.0, 0.0)
    assert not {"recall", "f_measure"} & rates.keys()


@pytest.mark.parametrize(
    ("wanted", "field", "text"),
    [
        ({}, "threshold", "set one of threshold, costs, precision, recall, fpr and flagged_share"),
        ({"threshold": math.nan}, "threshold", "threshold must not be NaN, got nan"),
        ({"precision": 1.5}, "precision", "precision must be between 0 and 1, got 1.5"),
        (
            {"costs": query_pb2.Costs(false_positive=-1, false_negative=1)},
            "costs.false_positive",
            "cost_fp must be finite and 0 or more, got -1.0",
        ),
        (
            {"costs": query_pb2.Costs()},
            "costs.false_negative",
            "cost_fp and cost_fn must not both be 0",
        ),
    ],
)
def test_refusals(wanted, field: str, text: str) -> None:
    """The error names the field."""
    assert invalid_field(lambda: of(View([Event(True, 0.5, NOW)]), **wanted)) == (field, text)
