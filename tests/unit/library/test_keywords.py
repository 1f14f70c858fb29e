"""Columns and options go by keyword; a call by position is told which."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any

import pytest

from streameval import (
    Evaluator,
    LabelJoiner,
    PairedEvaluator,
    WindowedEvaluator,
    compare,
    functional,
)
from streameval.client import Stream
from streameval.display import RocCurveDisplay

Y, S = [1, 0], [0.9, 0.1]
BOTH = "labels=..., scores=..."
JOINER = LabelJoiner(Evaluator(), ttl=timedelta(hours=1))
STREAM = Stream.__new__(Stream)  # columns by position are refused before anything else


@pytest.mark.parametrize(
    ("call", "arguments", "keywords", "message"),
    [
        (Evaluator().add_cases, (Y, S), {}, BOTH),
        (Evaluator().add_cases, (Y,), {"scores": S}, BOTH),
        (Evaluator().add_cases, (Y, S), {"labels": Y, "scores": S}, BOTH),
        (Evaluator().add_cases, (), {"scores": S}, BOTH),
        (Evaluator().remove_cases, (Y, S), {}, BOTH),
        (WindowedEvaluator().add_cases, (Y, S), {}, "labels=..., scores=..., at=..."),
        (WindowedEvaluator().remove_cases, (Y, S), {}, "labels=..., scores=..., at=..."),
        (PairedEvaluator().add_cases, (Y, S, S), {}, "labels=..., scores_a=..., scores_b=..."),
        (
            PairedEvaluator().compare,
            ("auc_pr",),
            {},
            "metric=...), or with level=, prevalence=, anytime=",
        ),
        (
            compare,
            (Evaluator(), Evaluator(), "auc_pr"),
            {},
            "a, b, metric=...), or with level=, prevalence=, threshold=, cost_fp=, cost_fn=",
        ),
        (JOINER.log_cases, (Y, S), {}, "ids=..., scores=..., at=..."),
        (JOINER.label_cases, (Y, S), {}, "ids=..., labels=..., at=..."),
        (JOINER.retract_cases, (Y,), {}, "ids=..., at=..."),
        (RocCurveDisplay.from_predictions, (Y, S), {}, BOTH),
        (STREAM.add_cases, (Y, S), {}, BOTH),
        (STREAM.log_cases, (Y, S), {}, "ids=..., scores=..."),
        (STREAM.label_cases, (Y, S), {}, "ids=..., labels=..."),
        (STREAM.retract_cases, (Y,), {}, "ids=..."),
        *(
            (getattr(functional, name), (Y, S), {}, BOTH)
            for name in functional.__all__
            if name != "interval"
        ),
    ],
)
def test_a_call_by_position_is_told_the_keywords(
    call: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], message: str
) -> None:
    """It is a TypeError with the call to write: the required keywords, or one and all others."""
    with pytest.raises(TypeError) as caught:
        call(*arguments, **keywords)
    name = call.__name__
    end = "" if "or with" in message else ")"
    assert str(caught.value) == f"{name}() takes keywords: write {name}({message}{end}"


def test_signatures_stay_as_declared() -> None:
    """Required keywords have no default to see, and no positional columns."""
    shown = inspect.signature(Evaluator.add_cases).parameters
    assert list(shown) == [
        *("self", "labels", "scores", "counts"),
        *("weights", "label_probability", "clusters", "positive", "negative"),
    ]
    assert shown["labels"].default is inspect.Parameter.empty
