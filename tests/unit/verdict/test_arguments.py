"""What is passed to `WindowedEvaluator.verdict`: refused, or read as what it is."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from streameval import Evaluator, InvalidInputError, WindowedEvaluator
from streameval._time.times import to_datetime
from streameval._verdict.replay import joined_panes

from .streams import DAY_US, HOUR_US, START_US

PANES = {"pane": timedelta(hours=1), "retention": timedelta(days=30)}
ITALY = WindowedEvaluator(**PANES)


@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        ({"segments": {"country=IT": ITALY}}, "segments", '{"country": {"IT": evaluator}}'),
        ({"segments": ITALY}, "segments", '{"country": {"IT": evaluator}}'),
        ({"segments": [ITALY]}, "segments", "evaluators by key, then by value"),
        ({"segments": {"country": {"IT": 3.5}}}, "segments", "got 3.5 at 'IT'"),
        ({"segments": {"country": {"IT": Evaluator()}}}, "segments", "at 'IT'"),
        (
            {"segments": {"a": {"b": WindowedEvaluator()}}},
            "segments",
            "a=b has 0:01:00 and 30 days",
        ),
        ({"threshold": "high"}, "threshold", "must be a number"),
        ({"cost_fp": 1.0, "threshold": 0.5}, "cost_fp", "needs cost_fn"),
        ({"cost_fn": 1.0}, "cost_fn", "needs threshold and cost_fp"),
        ({"cost_fp": 1.0, "cost_fn": 1.0}, "cost_fp", "needs threshold"),
        ({"label_wait": timedelta.max}, "label_wait", "at most the retention"),
        ({"margin": float("nan")}, "margin", "between 0 and 1"),
    ],
)
def test_arguments_that_are_none_are_refused(given: Any, field: str, said: str) -> None:
    """Also before there are rows: with the field, the value, and the call to write."""
    with pytest.raises(InvalidInputError, match=re.escape(said)) as caught:
        WindowedEvaluator(**PANES).verdict(**given)
    assert caught.value.field == field


def test_a_segment_that_ended_earlier_has_all_its_cases() -> None:
    """Its panes are as wide as at its own newest row, and finer than the whole's."""
    kept, italy = WindowedEvaluator(**PANES), WindowedEvaluator(**PANES)
    for day in range(20):
        at = to_datetime(START_US + day * DAY_US + 7 * HOUR_US)
        for hours in range(3):
            kept.add_case(True, 0.5, at=at + timedelta(hours=hours))
            if day < 8:
                italy.add_case(True, 0.5, at=at + timedelta(hours=hours))
    panes = joined_panes(kept._view(), {"country=IT": italy._view()}, START_US + 30 * DAY_US)
    found = [each.segments["country=IT"].total for each in panes if each.segments]
    assert found == [3] * 8


def test_the_time_at_which_a_base_is_complete_has_the_wait_for_labels() -> None:
    ev = WindowedEvaluator(**PANES)
    ev.add_case(True, 0.5, at=to_datetime(START_US + HOUR_US))
    at = to_datetime(START_US + 8 * DAY_US)
    said = ev.verdict(at=at, label_wait=timedelta(days=3)).sentence
    assert f"{to_datetime(START_US + 10 * DAY_US):%Y-%m-%d}" in said
