"""How much a figure changed: the hull over all beginnings, from merged panes."""

from __future__ import annotations

import numpy as np
import pytest

from streameval import Evaluator, compare
from streameval._evaluator_queries import RevisionQueries
from streameval._verdict.difference import cases_since, changed_figure
from streameval._verdict.search import Beginning

HOUR_US = 3_600_000_000


def evaluator(rng: np.random.Generator, size: int, apart: float, share: float = 0.2) -> Evaluator:
    labels = rng.random(size) < share
    ev = Evaluator(resolution=12)
    ev.add_cases(labels=labels, scores=rng.normal(apart * labels))
    return ev


def panes_of(evaluators) -> list:
    return [(hour * HOUR_US, each._view()) for hour, each in enumerate(evaluators)]


def beginning(earliest: float, latest: float) -> Beginning:
    return Beginning(*(int(each * HOUR_US) for each in (earliest, earliest, latest)))


@pytest.mark.parametrize(
    ("earliest", "latest", "starts"),
    [
        (3, 5, [5, 4, 3]),
        (2.5, 4.5, [5, 4, 3]),
        (4, 4, [4]),
        (0, 9, [9, 8, 6, 5, 4, 3, 1, 0]),
        (7, 12, [9, 8, 7]),
        (9.5, 12, []),
    ],
)
def test_cases_since_each_beginning(earliest: float, latest: float, starts: list[int]) -> None:
    """The last possible one first; both limits, and others evenly between them."""
    rng = np.random.default_rng(1)
    evaluators = [evaluator(rng, 20 + hour, 1.0) for hour in range(10)]
    found = cases_since(panes_of(evaluators), beginning(earliest, latest))
    assert len(found) == len(starts)
    for state, start in zip(found, starts, strict=True):
        cases = sum(20 + hour for hour in range(start, 10))
        assert cases == state.P + state.N
        expected = sum(evaluators[start + 1 :], evaluators[start])
        assert RevisionQueries(state).auc_pr() == expected.auc_pr()


def test_the_limits_are_the_hull() -> None:
    """At one prevalence, the greater one of base and now; now is after the last beginning."""
    rng = np.random.default_rng(2)
    base = evaluator(rng, 5_000, 2.0)
    hours = [evaluator(rng, 400, 2.0 if hour < 4 else 0.8, 0.25) for hour in range(10)]
    since = [RevisionQueries(each) for each in cases_since(panes_of(hours), beginning(2, 6))]
    for metric in ("auc_pr", "auc_roc", "prevalence"):
        found = changed_figure(base, since, metric)
        now = compare(since[0], base, metric=metric)
        assert found.now.estimate == now.a.estimate
        assert found.before.estimate == now.b.estimate
        assert found.difference.estimate == now.difference
        assert found.prevalence == now.prevalence
        at = "own" if now.prevalence is None else now.prevalence
        each = [compare(one, base, metric=metric, prevalence=at) for one in since]
        assert found.difference.lower == min(one.lower for one in each)
        assert found.difference.upper == max(one.upper for one in each)
        assert len({one.lower for one in each}) == 5


def test_at_a_threshold_and_with_costs() -> None:
    rng = np.random.default_rng(3)
    base, now = evaluator(rng, 5_000, 2.0), evaluator(rng, 500, 1.0)
    found = changed_figure(base, [now], "recall", threshold=1.0)
    recalls = [each.interval("recall", threshold=1.0).estimate for each in (now, base)]
    assert found.difference.estimate == recalls[0] - recalls[1]
    costly = changed_figure(base, [now], "expected_cost", threshold=1.0, cost_fp=1, cost_fn=50)
    assert costly.difference.estimate > 0.5


def test_too_few_cases_are_said() -> None:
    """Where now has too few, there are limits only if an earlier beginning has more."""
    rng = np.random.default_rng(4)
    base, few = evaluator(rng, 5_000, 2.0), Evaluator(resolution=12)
    few.add_cases(labels=[1, 0], scores=[0.3, 0.2])
    alone = changed_figure(base, [few], "auc_pr").difference
    assert alone.reason == "TOO_FEW"
    more = changed_figure(base, [few, evaluator(rng, 500, 1.0)], "auc_pr").difference
    assert more.reason is None
