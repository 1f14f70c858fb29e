"""Figures of the groups of a DataFrame equal those of an evaluator with all rows."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError
from streameval.statistics import Place

from .conftest import counted, frame, fraud, write_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.heavy

SCHEMA = "model string, country string, score double, label boolean, minute long"
WITH_BOUNDS = ("auc_roc", "auc_roc_hull", "auc_pr", "auc_pr_hull", "average_precision")
INTEGER = ("auc_roc", "auc_roc_hull", "auc_pr_hull", "prevalence")


@pytest.fixture(scope="module")
def columns() -> dict[str, np.ndarray]:
    """Rows of two models, one six times the other."""
    return fraud(20_000)


@pytest.fixture(scope="module")
def df(spark: Any, columns: dict[str, np.ndarray]) -> Any:
    """Return the rows as a cached DataFrame."""
    return frame(spark, columns, SCHEMA).cache()


def same(value: float | None, expected: float, *, exact: bool) -> bool:
    """Return whether a column has the evaluator's value."""
    if value is None:
        return math.isnan(expected)
    return value == expected if exact else value == pytest.approx(expected, rel=1e-12)


def check(row: Any, ev: Evaluator, *, exact: bool) -> None:
    """Assert that every column has the evaluator's value."""
    snapshot = ev.snapshot()
    assert row.num_cases == ev.num_cases
    assert (row.num_positive_ref, row.num_negative_ref) == (
        ev.num_positive_ref,
        ev.num_negative_ref,
    )
    assert row.resolution == ev.resolution
    for name in Place.SNAPSHOT.names():
        value = getattr(snapshot, name)
        assert same(row[name], value, exact=exact or name in INTEGER), name
    for name, interval in snapshot.intervals.items():
        limits = row.intervals[name]
        assert same(limits.lower, interval.lower, exact=exact), name
        assert same(limits.upper, interval.upper, exact=exact), name
    for name in WITH_BOUNDS:
        lower, upper = snapshot.bounds[name]
        assert same(row.bounds[name].lower, lower, exact=exact), name
        assert same(row.bounds[name].upper, upper, exact=exact), name
    assert row.reasons == dict(snapshot.reasons)


@pytest.mark.parametrize("settings", [{}, {"resolution": 8}, {"shards": 9}], ids=str)
def test_every_group_is_the_evaluator_s(
    df: Any, columns: dict[str, np.ndarray], settings: dict[str, int]
) -> None:
    """Figures, intervals and bounds of each group, merged on one node or from shards."""
    from streameval.spark import evaluate

    rows = evaluate(df, score="score", label="label", by=["model", "country"], **settings).collect()
    assert len(rows) == 4
    kept = {name: value for name, value in settings.items() if name != "shards"}
    for row in rows:
        where = (columns["model"] == row.model) & (columns["country"] == row.country)
        check(row, counted(columns, where, **kept), exact="shards" not in settings)


@pytest.mark.parametrize("shards", [None, 1, 40])
def test_all_rows_are_one_group(
    df: Any, columns: dict[str, np.ndarray], shards: int | None
) -> None:
    """Without groups there is one row, however many shards it came from."""
    from streameval.spark import evaluate

    (row,) = evaluate(df, score="score", label="label", shards=shards).collect()
    check(row, counted(columns), exact=shards is None)


@pytest.mark.parametrize("shards", [None, 50])
def test_ties_never_part(spark: Any, shards: int | None) -> None:
    """Four distinct scores, zeros of both signs, more shards than scores: ties are not split."""
    from streameval.spark import evaluate

    rng = np.random.default_rng(2)
    columns = {
        "score": rng.choice([-1.0, -0.0, 0.0, 2.0, 3.0], 2_000),
        "label": rng.random(2_000) < 0.3,
    }
    df = frame(spark, columns, "score double, label boolean", partitions=5)
    (row,) = evaluate(df, score="score", label="label", shards=shards).collect()
    check(row, counted(columns), exact=shards is None)


@pytest.mark.parametrize("tied", [0.0, 0.6])
def test_a_score_that_fills_ranges_comes_as_one_row(spark: Any, tied: float) -> None:
    """A tie of any number of rows reaches one task as one row of each class."""
    from streameval.spark import _sharded
    from streameval.spark._columns import rows_of

    rng = np.random.default_rng(3)
    model = rng.choice(["a", "b"], 2_000)
    score = rng.normal(size=2_000)
    score[(model == "a") & (rng.random(2_000) < tied)] = 0.25
    columns = {"model": model, "score": score, "label": rng.random(2_000) < 0.3}
    df = frame(spark, columns, "model string, score double, label boolean")
    rows = rows_of(df, score="score", label="label", by=["model"])
    cuts = _sharded._cuts(rows, _sharded._sizes(rows), 8)
    gathered = _sharded._gather_ties(_sharded._with_shards(rows, cuts), rows, cuts)
    distinct = set(zip(*(column.tolist() for column in columns.values()), strict=True))
    assert gathered.count() == len(distinct)

    found = _sharded_rows(df)
    for name in ("a", "b"):
        check(found[name], counted(columns, model == name), exact=False)


def _sharded_rows(df: Any) -> dict[str, Any]:
    """Return the row of each model, from eight ranges."""
    from streameval.spark import evaluate

    found = evaluate(df, score="score", label="label", by=["model"], shards=8).collect()
    return {row.model: row for row in found}


@pytest.mark.parametrize("shards", [None, 3])
def test_counts_and_other_types(spark: Any, shards: int | None) -> None:
    """A row may count as many cases; integers and floats are accepted as labels and scores."""
    from streameval.spark import evaluate

    rows = [(1, 3, 2), (0, 3, 5), (0, 1, 0), (1, 1, 2**40), (0, -2, 2**41)]
    df = spark.createDataFrame(rows, "y int, s bigint, c bigint")
    ev = Evaluator()
    labels, scores, counts = zip(*rows, strict=True)
    ev.add_cases(labels=labels, scores=scores, counts=counts)
    (row,) = evaluate(df, score="s", label="y", count="c", shards=shards).collect()
    check(row, ev, exact=shards is None)


@pytest.mark.parametrize("shards", [None, 3])
def test_names_with_dots(spark: Any, shards: int | None) -> None:
    """Dots, backticks and spaces are parts of a name; those of groups cannot have the first two."""
    from streameval.spark import evaluate

    rows = [(i / 8, i % 3 == 0, 2, "v") for i in range(8)]
    df = spark.createDataFrame(rows, ["a `raw.score`", "is.it", "how many", "model.name"])
    ev = Evaluator()
    scores, labels, counts, _ = zip(*rows, strict=True)
    ev.add_cases(labels=labels, scores=scores, counts=counts)
    asked = {"score": "a `raw.score`", "label": "is.it", "count": "how many", "shards": shards}
    (row,) = evaluate(df, **asked).collect()
    check(row, ev, exact=shards is None)
    text = "by cannot have a column with a dot or a backtick in its name, got 'model.name': rename"
    with pytest.raises(InvalidInputError, match=text):
        evaluate(df, **asked, by=["model.name"])


@pytest.mark.parametrize("shards", [None, 2])
def test_one_class_has_reasons(spark: Any, shards: int | None) -> None:
    """What is undefined is null, with its reason; a null group is a group."""
    from streameval.spark import evaluate

    rows = [(None, 1.0, True), (None, 2.0, True), ("x", 1.0, False)]
    df = spark.createDataFrame(rows, "model string, score double, label boolean")
    found = evaluate(df, score="score", label="label", by=["model"], shards=shards).collect()
    by_model = {row.model: row for row in found}
    assert set(by_model) == {None, "x"}
    assert by_model[None].auc_pr == 1.0
    assert by_model[None].reasons == {"auc_roc": "NO_NEGATIVES", "auc_roc_hull": "NO_NEGATIVES"}
    assert by_model["x"].auc_pr is None
    assert by_model["x"].reasons["auc_pr"] == "NO_POSITIVES"
    assert by_model["x"].intervals.auc_pr.lower is None


def test_figures_by_name(spark: Any) -> None:
    """Any metric that a server has by name, also one that needs probabilities."""
    from streameval.spark import evaluate

    rows = [("p", 0.9, True), ("p", 0.2, False), ("q", 3.0, True), ("q", 0.2, False)]
    df = spark.createDataFrame(rows, "model string, score double, label boolean")
    names = ["brier_score", "maximum_f_measure"]
    found = evaluate(df, score="score", label="label", by=["model"], metrics=names).collect()
    by_model = {row.model: row for row in found}
    assert by_model["p"].brier_score == pytest.approx(0.025)
    assert by_model["q"].brier_score is None
    assert by_model["q"].reasons == {"brier_score": "NOT_PROBABILITIES"}
    assert by_model["q"].maximum_f_measure == 1.0


def test_rows_that_change_between_passes_are_noticed(spark: Any, tmp_path: Path) -> None:
    """A DataFrame that does not give the same rows twice gets an error, not a figure."""
    from pyspark.errors import PythonException

    from streameval.spark import evaluate

    scores = np.arange(100) / 8 + 10
    labels = scores > 14
    write_json(tmp_path / "0.json", {"score": scores, "label": labels})
    df = spark.read.schema("score double, label boolean").json(str(tmp_path))
    found = evaluate(df, score="score", label="label", shards=4)
    (tmp_path / "0.json").write_text((tmp_path / "0.json").read_text().replace("14.", "18."))
    with pytest.raises(PythonException, match="shards must be adjacent"):
        found.collect()


def test_empty_has_no_groups(spark: Any) -> None:
    """Without rows the result is empty."""
    from streameval.spark import evaluate

    df = spark.createDataFrame([], "score double, label boolean")
    assert evaluate(df, score="score", label="label").collect() == []
    assert evaluate(df, score="score", label="label", shards=4).collect() == []


BAD = [(None, True), (float("nan"), True), (float("inf"), False), (1.0, None), (1.0, True)]


def test_bad_values_are_refused_with_group_and_count(spark: Any) -> None:
    """The error for invalid scores and labels names the group and their number."""
    from pyspark.errors import PythonException

    from streameval.spark import evaluate

    rows = [("good", 1.0, True), *(("bad", score, label) for score, label in BAD)]
    df = spark.createDataFrame(rows, "model string, score double, label boolean")
    text = (
        r"model='bad': 3 of 5 scores are null, NaN or infinite \(or have no time\); "
        r"1 of 5 labels are not True, False, 1 or 0: filter or repair them"
    )
    with pytest.raises(PythonException, match=text):
        evaluate(df, score="score", label="label", by=["model"]).collect()
    with pytest.raises(InvalidInputError, match=text):
        evaluate(df, score="score", label="label", by=["model"], shards=2)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"score": "nope"}, "score must name a column of model, country, score, label, minute"),
        ({"score": "model"}, "score must be a number, the column 'model' is string"),
        ({"label": "model"}, "label must be a boolean, or 1 and 0, the column 'model' is string"),
        ({"by": "model"}, "by must be a list of columns"),
        ({"by": ["model", "model"]}, "by must name each column once"),
        ({"metrics": ["auc"]}, "no figure is called 'auc': choose from auc_roc, "),
        ({"metrics": ["gini"], "shards": 2}, "gini cannot be put together from shards"),
        ({"shards": 0}, "shards must be an integer from 1 to 10000, got 0"),
        ({"shards": 2, "resolution": 12}, "shards are for exact figures"),
        ({"resolution": 99}, "resolution must be between 1 and 53"),
    ],
)
def test_refused_arguments(df: Any, arguments: dict[str, Any], text: str) -> None:
    """Invalid arguments are refused before any job starts."""
    from streameval.spark import evaluate

    with pytest.raises(InvalidInputError) as caught:
        evaluate(df, **{"score": "score", "label": "label", **arguments})
    assert text in str(caught.value)


def test_states_by_group_and_pane(df: Any, columns: dict[str, np.ndarray]) -> None:
    """States merge to the whole, and each has the cases of its pane."""
    from pyspark.sql import functions as sf

    from streameval.spark import states

    timed = df.withColumn("at", sf.timestamp_seconds(sf.lit(1_700_000_000) + sf.col("minute") * 60))
    found = states(
        timed, score="score", label="label", by=["model"], at="at", pane=timedelta(minutes=1)
    ).collect()
    assert len(found) == 6
    for row in found:
        start = row.pane.replace(tzinfo=UTC)
        minute = round((start - datetime.fromtimestamp(1_699_999_980, UTC)) / timedelta(minutes=1))
        where = (columns["model"] == row.model) & (columns["minute"] == minute)
        assert Evaluator.from_bytes(row.state) == counted(columns, where)
        assert row.num_cases == where.sum()
    whole = Evaluator()
    whole.merge(*(Evaluator.from_bytes(row.state) for row in found))
    assert whole == counted(columns)


def test_partitions_are_counted_in_bounded_memory(
    require: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task emits its states when they exceed the limit, and starts again."""
    require("pyspark")
    pa = require("pyarrow")
    from streameval.spark import _partial

    monkeypatch.setattr(_partial, "_MIN_CHUNK_ROWS", 500)
    monkeypatch.setattr(_partial, "_MAX_CELLS", 800)
    columns = fraud(5_000, seed=3)
    table = pa.table(
        {
            "model": columns["model"],
            "__score": columns["score"],
            "__positive": columns["label"],
            "__count": np.ones(5_000, dtype=np.int64),
        }
    )
    batches = table.to_batches(max_chunksize=100)
    emitted = list(_partial.partial_states(batches, ("model",), Evaluator))
    assert len(emitted) > 2
    for model in ("a", "b"):
        whole = Evaluator()
        for batch in emitted:
            for row in batch.to_pylist():
                if row["model"] == model:
                    whole.merge(Evaluator.from_bytes(row["state"]))
        assert whole == counted(columns, columns["model"] == model)
