"""Groups of cases: each as an evaluator of its rows alone, and against the rest."""

from __future__ import annotations

import math
from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from streameval import Evaluator, InvalidInputError, compare, evaluate_by, holm


def table(seed: int, rows: int = 900) -> pd.DataFrame:
    """Return cases of three countries and two devices, tied and of different difficulty."""
    rng = np.random.default_rng(seed)
    country = rng.choice(["DE", "FR", "US"], size=rows, p=[0.2, 0.3, 0.5])
    label = rng.random(rows) < np.where(country == "DE", 0.3, 0.15)
    score = np.round(rng.normal(size=rows) + label * np.where(country == "FR", 0.3, 1.5), 1)
    device = rng.choice(["phone", "web"], size=rows)
    return pd.DataFrame({"country": country, "device": device, "label": label, "score": score})


def of_rows(df: pd.DataFrame) -> Evaluator:
    ev = Evaluator()
    ev.add_cases(labels=df.label, scores=df.score)
    return ev


@pytest.mark.parametrize("metric", ["auc_pr", "average_precision", "auc_roc", "prevalence"])
def test_each_group_is_compared_with_the_rest(metric: str) -> None:
    """By hand: filter the rows, compare with the other rows, adjust by Holm, sort."""
    df = table(3)
    ranking = evaluate_by(labels=df.label, scores=df.score, by=df.country, metric=metric)
    greatest = float(df.groupby("country").label.mean().max())
    at = greatest if metric in {"auc_pr", "average_precision"} else "own"
    by_hand = {
        name: compare(of_rows(part), of_rows(df[df.country != name]), metric=metric, prevalence=at)
        for name, part in df.groupby("country")
    }
    adjusted = dict(zip(by_hand, holm([each.p_value for each in by_hand.values()]), strict=True))
    order = sorted(by_hand, key=lambda name: by_hand[name].upper)
    assert [each.group for each in ranking] == order
    for each in ranking:
        expected = by_hand[each.group]
        found = (each.difference, each.lower, each.upper, each.value)
        assert found == (expected.difference, expected.lower, expected.upper, expected.a)
        assert each.p_value == adjusted[each.group]
        assert each.evaluator == of_rows(df[df.country == each.group])
    if metric != "prevalence":
        assert ranking.groups[0].group == "FR"
        assert ranking.groups[0].p_value < 0.001


def test_own_prevalences_are_scikit_learn_s() -> None:
    """Without a common prevalence each value is that of the group's rows alone."""
    df = table(4)
    names = {"average_precision": average_precision_score, "auc_roc": roc_auc_score}
    for metric, function in names.items():
        ranking = evaluate_by(
            labels=df.label, scores=df.score, by=df.country, metric=metric, prevalence="own"
        )
        for each in ranking:
            part = df[df.country == each.group]
            assert each.value.estimate == pytest.approx(function(part.label, part.score), rel=1e-12)


def test_several_columns_make_their_combinations() -> None:
    """A group for each combination that occurs, as tuples, and a column for each key."""
    df = table(5)
    df = df[(df.country != "FR") | (df.device == "web")]
    by = {"country": df.country, "device": df.device}
    ranking = evaluate_by(labels=df.label, scores=df.score, by=by)
    assert {each.group for each in ranking} == set(zip(df.country, df.device, strict=True))
    assert sum(each.evaluator.num_cases for each in ranking) == len(df)
    frame = pd.DataFrame(ranking.to_rows())
    assert list(frame.columns[:3]) == ["country", "device", "num_cases"]
    assert (frame.auc_pr_lower <= frame.auc_pr).all()
    assert pl.DataFrame(ranking.to_rows()).height == 5
    one = evaluate_by(labels=df.label, scores=df.score, by={"country": df.country})
    assert [each.group for each in one] == [
        each.group for each in evaluate_by(labels=df.label, scores=df.score, by=df.country)
    ]


COLUMNS = {
    "list": ["a", "b", None, "a"],
    "mixed": ["a", 3, math.nan, "a"],
    "numpy": np.array(["a", "b", None, "a"], dtype=object),
    "floats": np.array([1.0, 2.0, math.nan, 1.0]),
    "integers": np.array([1, 2, 9, 1], dtype=np.int32),
    "masked": np.ma.array([1, 2, 0, 1], mask=[0, 0, 1, 0]),
    "categorical": pd.Series(["a", "b", None, "a"], dtype="category"),
    "nullable": pd.Series([1, 2, None, 1], dtype="Int64"),
    "text": pd.Series(["a", "b", None, "a"], dtype="string"),
    "times": pd.to_datetime(pd.Series(["2026-01-01", "2026-01-02", None, "2026-01-01"])),
    "polars": pl.Series("by", ["a", "b", None, "a"]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_group_may_have_any_value(kind: str) -> None:
    """Values come back as they are, and missing ones are the group None."""
    ranking = evaluate_by(labels=[1, 0, 1, 0], scores=[4, 3, 2, 1], by=COLUMNS[kind])
    sizes = {each.group: each.evaluator.num_cases for each in ranking}
    first, second, missing = {
        "mixed": ("a", 3, None),
        "floats": (1.0, 2.0, None),
        "integers": (1, 2, 9),
        "masked": (1, 2, None),
        "nullable": (1, 2, None),
        "times": (datetime(2026, 1, 1), datetime(2026, 1, 2), None),  # noqa: DTZ001
    }.get(kind, ("a", "b", None))
    assert sizes == {first: 2, second: 1, missing: 1}
    assert "(missing)" in str(ranking) or missing is not None


def test_a_group_of_one_class_is_told() -> None:
    """What it lacks, or the rest lacks, in the table and in the rows; it decides no prevalence."""
    labels, scores = [1, 1, 1, 0, 1, 0, 1], [3, 2, 1, 3, 4, 5, 6]
    ranking = evaluate_by(labels=labels, scores=scores, by=list("aaabbcc"))
    assert ranking.prevalence == 0.5
    assert [(each.group, each.reason) for each in ranking][-1] == ("a", "NO_NEGATIVES")
    assert str(ranking).splitlines()[-1].split("undefined")[1].strip() == "no negative case"
    two = evaluate_by(labels=[1, 0, 1], scores=[3, 2, 1], by=list("aab"))
    assert [row["reason"] for row in two.to_rows()] == ["NO_NEGATIVES"] * 2
    assert "the rest has no negative case" in str(two)


def test_counts_and_empty_columns() -> None:
    """A row that stands for many cases counts as many; no rows are no groups."""
    ranking = evaluate_by(
        labels=[1, 0, 1, 0], scores=[4, 3, 2, 1], by=list("aabb"), counts=[3, 4, 5, 6]
    )
    assert {each.group: each.evaluator.num_cases for each in ranking} == {"a": 7, "b": 11}
    assert len(evaluate_by(labels=[], scores=[], by=[])) == 0
    whole = evaluate_by(labels=[1, 0], scores=[2, 1], by=["x", "x"])
    assert math.isnan(whole.groups[0].difference)
    assert whole.groups[0].value.estimate == 1.0


def test_it_prints_as_a_table() -> None:
    """The caption says what, by what, where; each row has its figures."""
    df = table(6)
    ranking = evaluate_by(labels=df.label, scores=df.score, by=df.country, metric="auc_roc")
    lines = str(ranking).splitlines()
    assert lines[0] == (
        "AUC-ROC by country, worst first (95 % intervals, if cases are independent)"
    )
    assert lines[1].split()[:3] == ["country", "cases", "positives"]
    assert lines[2].split()[0] == "FR"
    assert f"{ranking.groups[0].value:.3f}" in lines[2]
    assert ranking._repr_html_().count("<tr>") == 4
    plain = evaluate_by(labels=df.label, scores=df.score, by=df.country.to_list())
    greatest = df.groupby("country").label.mean().max()
    assert str(plain).startswith(f"AUC-PR by group at prevalence {greatest:.4g}, worst")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"by": ["a", "b"]}, "by must have one row for each of labels, got 2 rows and 4"),
        ({"by": "abcd"}, "by must be a column"),
        ({"by": None}, "by must be a column"),
        ({"by": {}}, "by must name at least one column, got none"),
        ({"by": {"x": [1, 2, 3, 4], "y": [1]}}, r"by\['y'\] must have one row for each of the"),
        ({"by": ["a", ["b"], "c", "d"]}, r"by must have values that can be hashed.* at index 1"),
        ({"metric": "auc_roc_hull"}, "auc_roc_hull has no interval"),
        ({"level": 2}, "level must be between 0 and 1"),
        ({"prevalence": 0}, "prevalence must be between 0 and 1"),
        ({"prevalence": "other"}, "prevalence must be a number, 'common' or 'own'"),
        ({"scores": [1, 2, math.nan, 4]}, "score must be finite, got nan at index 2"),
    ],
)
def test_what_is_refused(change: dict, message: str) -> None:
    """Each refusal names the argument, and the row where there is one."""
    columns = {"labels": [1, 0, 1, 0], "scores": [4, 3, 2, 1], "by": list("aabb")}
    with pytest.raises(InvalidInputError, match=message):
        evaluate_by(**columns | change)
