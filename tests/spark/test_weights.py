"""Weights and label probabilities of a DataFrame: the figures of an evaluator with all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError
from streameval.statistics import Place

from .conftest import frame, fraud

pytestmark = pytest.mark.heavy

SCHEMA = "model string, country string, score double, label boolean, minute long, w double, p float"
NAMES = [*Place.SNAPSHOT.names(), "maximum_mcc"]


@pytest.fixture(scope="module")
def columns() -> dict[str, np.ndarray]:
    """Weights, some 0, one of "a" heavy, and probabilities whose inverses need rounding."""
    rng = np.random.default_rng(3)
    rows = fraud(4_000)
    rows["w"] = rng.integers(0, 2**18, 4_000) / 2**16
    rows["w"][np.flatnonzero((rows["model"] == "a") & rows["label"])[0]] = 10_000.0
    rows["p"] = rng.choice(np.array([0.1, 0.3, 1.0], dtype=np.float32), 4_000)
    return rows


@pytest.fixture(scope="module")
def df(spark: Any, columns: dict[str, np.ndarray]) -> Any:
    return frame(spark, columns, SCHEMA).cache()


def weighted(columns: dict[str, Any], where: Any) -> Evaluator:
    ev = Evaluator()
    ev.add_cases(
        labels=columns["label"][where],
        scores=columns["score"][where],
        weights=columns["w"][where],
        label_probability=columns["p"][where].astype(float),
    )
    return ev


def test_figures_are_those_of_all_rows(df: Any, columns: dict[str, np.ndarray]) -> None:
    """To the last bit: both round each quotient to the same integer."""
    from streameval.spark import evaluate, states

    options = {"by": ["model"], "weight": "w", "label_probability": "p"}
    given = {"score": "score", "label": "label", **options}
    for row in evaluate(df, metrics=NAMES, **given).collect():
        ev = weighted(columns, columns["model"] == row.model)
        assert row.num_cases == ev.num_cases
        for name in Place.SNAPSHOT.names():
            assert row[name] == getattr(ev.snapshot(), name), name
        interval = ev.interval("auc_roc")
        assert (interval.refused is None) == (row.model == "b")
        wanted = None if interval.refused else interval.lower
        assert row.intervals.auc_roc.lower == wanted
        assert row.maximum_mcc == ev.maximum_mcc()
    for row in states(df, **given).collect():
        ev = weighted(columns, columns["model"] == row.model)
        assert bytes(row.state) == ev.to_bytes()


@pytest.mark.parametrize(
    ("w", "p"),
    [
        (-1.0, 1.0),
        (0.001, 1.0),
        (float("nan"), 1.0),
        (float("inf"), 1.0),
        (None, 1.0),
        (1.0, 0.0),
        (1.0, 1.5),
        (1.0, float("nan")),
        (1.0, None),
        (2.0**31, 0.5),
    ],
)
def test_wrong_weights_fail_the_job(spark: Any, w: float | None, p: float | None) -> None:
    from streameval.spark._columns import UNITS, rows_of

    df = spark.createDataFrame([(0.5, True, w, p)], "s double, y boolean, w double, p double")
    rows = rows_of(df, score="s", label="y", weight="w", label_probability="p")
    assert rows.frame.collect()[0][UNITS] is None


def test_the_error_names_the_group(spark: Any) -> None:
    from streameval.spark import evaluate

    rows = [("a", 0.5, True, -1.0), ("b", 0.5, True, 1.0)]
    df = spark.createDataFrame(rows, "model string, s double, y boolean, w double")
    figures = evaluate(df, score="s", label="y", by=["model"], weight="w")
    with pytest.raises(Exception, match="model='a': 1 of 1 weights are null, negative"):
        figures.collect()


def test_what_does_not_fit_together_is_refused(df: Any) -> None:
    from streameval.spark import evaluate

    for options, field in (
        ({"weight": "country"}, "weight"),
        ({"weight": "nowhere"}, "weight"),
        ({"label_probability": "label"}, "label_probability"),
        ({"weight": "w", "shards": 4}, "shards"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            evaluate(df, score="score", label="label", **options)
        assert caught.value.field == field
