"""The metric registry: its rows agree with the methods, and no other list names metrics."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import math
import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval import Confusion, Evaluator, PairedEvaluator, Snapshot, compare, functional
from streameval import _metric_registry as registry
from streameval._metric_registry import METRICS
from streameval._metrics.shards import ShardPosition, shard_of
from streameval._uncertainty.rules import ShareRule
from streameval.client import AsyncClient, Client, Stream
from streameval.statistics import BY_NAME, Place
from streameval.v1.types_pb2 import UndefinedReason
from streameval_server._queries.metrics import MetricSelection, metric_messages
from streameval_server._web.metrics_script import metrics_module

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "server/streameval_server/_web/static"

# Shards compute the six metrics of a snapshot by formulas of their own; the functions of
# `functional` are public names.
COMPUTES_ITS_OWN = {ROOT / "streameval/_metrics/shards.py"}


def filled() -> Evaluator:
    """Return an evaluator of probabilities."""
    rng = np.random.default_rng(4)
    labels = rng.random(500) < 0.3
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=np.round(rng.beta(1 + labels, 2), 2))
    return ev


@pytest.mark.parametrize(
    "call",
    [
        Evaluator.interval,
        Evaluator.bounds,
        compare,
        PairedEvaluator.compare,
        functional.interval,
        Client.compare,
        AsyncClient.compare,
        Stream.rank_segments,
    ],
    ids=lambda call: call.__qualname__,
)
def test_one_word_and_one_default(call: Callable[..., object]) -> None:
    """Whatever takes one metric calls it `metric`, and takes the headline by default."""
    assert inspect.signature(call).parameters["metric"].default == registry.HEADLINE


def test_names_are_unique_and_of_methods() -> None:
    """A row is called as its method, and takes what that takes."""
    assert len(BY_NAME) == len(METRICS)
    for metric in METRICS:
        owner = Confusion if metric.is_at_threshold else Evaluator
        assert hasattr(owner, metric.name.removesuffix("_hull"))
        assert set(metric.arguments) <= set(inspect.signature(metric.function).parameters)
        assert metric.is_hull == metric.name.endswith("_hull")


@pytest.mark.parametrize("name", Place.REQUEST.names())
def test_served_metrics_have_a_value_without_arguments(name: str) -> None:
    """In the range that the row says."""
    metric = BY_NAME[name]
    value = metric.value(filled())
    assert isinstance(value, float)
    assert metric.least <= value <= metric.greatest
    assert not metric.needs


@pytest.mark.parametrize(
    ("misses", "negative_misses", "labels"),
    [(0, 0, []), (3, 0, []), (0, 3, []), (3, 2, []), (0, 0, [1]), (2, 0, [0]), (2, 0, [1])],
)
def test_server_and_spark_give_the_same_reason(
    misses: int, negative_misses: int, labels: list[int], require: Callable
) -> None:
    """Metrics of probabilities are undefined for want of scored cases, others of a class."""
    require("pyspark")
    from streameval.spark._result_rows import row_metrics, row_of

    ev = Evaluator()
    ev.add_cases(labels=labels, scores=[0.5] * len(labels))
    ev.add_misses(misses)
    ev.add_negative_misses(negative_misses)
    row = row_of(ev, row_metrics(Place.REQUEST.names(), 0.95, known=Place.REQUEST.names()))
    messages = metric_messages(ev, MetricSelection(Place.REQUEST.names()))
    served = {
        message.name: UndefinedReason.Name(message.undefined_reason).removeprefix(
            "UNDEFINED_REASON_"
        )
        for message in messages
        if not message.HasField("value")
    }
    assert dict(row["reasons"]) == served
    if not labels:
        assert served["brier_score"] == served["log_loss"] == "EMPTY"
    assert served.keys() == {
        name for name in Place.REQUEST.names() if math.isnan(BY_NAME[name].value(ev))
    }


def test_metrics_of_a_snapshot_are_its_fields() -> None:
    """In the same order, and each defined for shards."""
    fields = [field.name for field in dataclasses.fields(Snapshot)]
    assert tuple(name for name in fields if name in BY_NAME) == Place.SNAPSHOT.names()
    whole = filled()._view()
    figures = shard_of(whole, ShardPosition(0, 0, whole.P, whole.N)).metrics()
    assert tuple(figures) == Place.SNAPSHOT.names()


def test_what_is_compared_can_be() -> None:
    """An estimator needs an interval, and bounds for its ends."""
    for name in Place.COMPARISON.names():
        assert BY_NAME[name].interval
        assert BY_NAME[name].bounds
    assert Place.COMPARISON.names()[0] == registry.HEADLINE


def test_the_page_has_the_table() -> None:
    """The module names every metric that can be asked for, with its title."""
    text = metrics_module().decode()
    exports = {
        name: json.loads(value)
        for name, value in re.findall(r"^export const (\w+) = (.*);$", text, re.MULTILINE)
    }
    assert {name: each["title"] for name, each in exports["METRICS"].items()} == {
        name: BY_NAME[name].title for name in Place.REQUEST.names() + Place.DECISION.names()
    }
    assert (*exports["RATES"], *exports["COSTS"]) == Place.POINT.names()
    assert set(exports["SHOWN"]) <= set(Place.REQUEST.names())
    assert exports["HEADLINE"] == registry.HEADLINE


def test_the_documentation_has_the_table() -> None:
    """One row for each metric."""
    page = runpy.run_path(str(ROOT / "docs/conf.py"))["metrics_page"]()
    rows = re.findall(r"^\| `(\w+)` \|.*\|$", page, re.MULTILINE)
    assert rows == [metric.name for metric in METRICS]


LISTED = {metric.name for metric in METRICS if not isinstance(metric.interval, ShareRule)}
"""Names that no other list has. Rates at a threshold are columns of every curve as well."""


@pytest.mark.slow
def test_no_other_list_names_metrics() -> None:
    """No literal of Python or JavaScript holds the names of two metrics."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for package in ("streameval", "server/streameval_server")
        for path in sorted((ROOT / package).rglob("*.py"))
        if path not in COMPUTES_ITS_OWN and path.name != "_metric_registry.py"
        for node in lists_of(ast.parse(path.read_text()))
        if len(names_in(node)) > 1
    ]
    assert not found
    quoted = {
        name
        for path in PAGE.glob("*.js")
        for name in re.findall(r"[\"'`](\w+)[\"'`]", path.read_text())
    }
    assert quoted & LISTED <= {"prevalence"}


def lists_of(tree: ast.Module) -> list[ast.expr]:
    """Return the literals of a module that hold several values, `__all__` left out."""
    public = {
        id(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    }
    kinds = (ast.Tuple, ast.List, ast.Set, ast.Dict)
    return [node for node in ast.walk(tree) if isinstance(node, kinds) and id(node) not in public]


def names_in(node: ast.expr) -> set[str]:
    """Return the names of metrics among the values of a literal, or the keys of a dict."""
    values = node.keys if isinstance(node, ast.Dict) else node.elts
    return {each.value for each in values if isinstance(each, ast.Constant)} & LISTED
