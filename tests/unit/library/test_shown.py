"""Results in a notebook: `repr` is what `print` says, HTML, plain values and rows of a table."""

from __future__ import annotations

import importlib
import json
import re
import sys
from datetime import UTC, datetime, timedelta
from enum import Enum
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streameval import (
    Comparison,
    Coverage,
    Evaluator,
    Interval,
    WindowedEvaluator,
    allocate_labels,
    compare,
    evaluate_by,
    one_vs_rest,
)
from streameval._common.result import Shown
from streameval._common.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def evaluator(seed: int = 1, **settings: Any) -> Evaluator:
    rng = np.random.default_rng(seed)
    labels = rng.random(300) < 0.3
    made = Evaluator(**settings)
    made.add_cases(labels=labels, scores=1 / (1 + np.exp(-1.0 * labels - rng.normal(size=300))))
    return made


def window() -> Any:
    made = WindowedEvaluator()
    made.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1], at=NOON)
    return made.last(timedelta(hours=1))


MADE: dict[str, Callable[[], Any]] = {
    "evaluator": evaluator,
    "empty evaluator": Evaluator,
    "window": window,
    "snapshot": lambda: evaluator(resolution=4).snapshot(),
    "interval": lambda: evaluator().interval("auc_roc"),
    "interval without limits": lambda: Evaluator().interval("auc_pr"),
    "comparison": lambda: compare(evaluator(), evaluator(2)),
    "comparison without limits": lambda: compare(evaluator(), Evaluator()),
    "confusion": lambda: evaluator().confusion_at(0.5),
    "reliability": lambda: evaluator().reliability(),
    "reliability of nothing": lambda: Evaluator().reliability(),
    "calibration": lambda: evaluator().brier_decomposition(),
    "points": lambda: evaluator().operating_points(),
    "hull": lambda: evaluator().roc_hull(),
    "costs": lambda: evaluator().cost_curve(),
    "gain": lambda: evaluator().precision_recall_gain_curve(),
    "coverage": lambda: Coverage(predictions=3, labelled=2),
    "allocation": lambda: allocate_labels(evaluator(), scores=[0.1, 0.4, 0.8], size=2),
    "sample": lambda: allocate_labels(evaluator(), scores=[0.1, 0.4, 0.8], size=2).draw(
        ids=["a", "b", "c"], scores=[0.1, 0.4, 0.8]
    ),
    "groups": lambda: evaluate_by(
        labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1], by=["a", "a", "b", "b"]
    ),
    "classes": lambda: one_vs_rest(["a", "b", "a", "b"], {"a": [4, 1, 3, 2], "b": [1, 4, 2, 3]}),
}


@pytest.mark.parametrize("name", MADE)
def test_repr_is_what_print_says(name: str) -> None:
    made = MADE[name]()
    assert repr(made) == str(made)
    assert " object at 0x" not in repr(made)


@pytest.mark.parametrize("package", ["streameval", "streameval.client"])
def test_every_public_class_is_shown_in_one_way(
    package: str, require: Callable[[str], ModuleType]
) -> None:
    """None has a text of its own for `print` and another one for `repr`."""
    if package == "streameval.client":
        require("grpc")
    module = importlib.import_module(package)
    public = [each for name in module.__all__ if isinstance(each := getattr(module, name), type)]
    shown = [
        each
        for each in public
        if each.__str__ is not object.__str__
        and not issubclass(each, BaseException | Enum | str | int)
    ]
    assert len(shown) > 5
    for each in shown:
        if issubclass(each, Shown):
            assert each.__repr__ is each.__str__, each
        else:
            assert each.__name__ == "WeightTotals"  # a tuple, which cannot have the base


class Tags(HTMLParser):
    """The tags that are open at the end, and all that were."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", MADE)
def test_html_has_no_script_and_no_colour(name: str) -> None:
    """A notebook's dark and light page both have their own colours."""
    page = MADE[name]()._repr_html_()
    tags = Tags()
    tags.feed(page)
    assert not tags.open
    table = {"table", "caption", "thead", "tbody", "tr", "th", "td", "div", "br"}
    assert tags.seen <= {*table, "pre"}
    assert not re.search("color|background|class=|on[a-z]+=", page)


def test_html_says_the_figures_that_print_says() -> None:
    """To the digit: the value with its limits, and the reason where there are none."""
    ev = evaluator()
    assert f"{ev.interval('auc_pr')}" in ev._repr_html_()
    found = compare(ev, evaluator(2))
    assert f"{found.a}" in found._repr_html_()
    assert f"{found.difference:+.4f} ({found.lower:+.4f} to {found.upper:+.4f})" in (
        found._repr_html_()
    )
    alone = compare(ev, Evaluator())
    assert "no interval: EMPTY, b has no labelled case" in alone._repr_html_()
    assert "no limits: TOO_FEW" in Evaluator().interval("auc_pr")._repr_html_()
    assert "recall 0." in ev.confusion_at(0.5)._repr_html_()


def test_html_escapes_what_a_caller_named() -> None:
    named = "<script>alert(1)</script>"
    ranking = evaluate_by(labels=[1, 0, 1, 0], scores=[4, 3, 2, 1], by=[named, named, "b", "b"])
    assert named not in ranking._repr_html_()
    assert "&lt;script&gt;" in ranking._repr_html_()
    warned = Comparison(
        "auc_roc", 0.1, 0.0, 0.2, 0.95, 0.04, None, Interval(0, 1, 0.95, "m"),
        Interval(0, 1, 0.95, "m"), warnings=(named,),
    )  # fmt: skip
    assert named not in warned._repr_html_()
    assert named not in Table(named, [named], [[named]], [named]).as_html()
    assert "<b>" not in Coverage.__mro__[1]._repr_html_(_Text("<b>"))  # type: ignore[arg-type]


class _Text(Shown):
    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


@pytest.mark.parametrize(
    "name", [each for each in MADE if each not in {"points", "hull", "classes"}]
)
def test_values_are_what_json_can_hold(name: str) -> None:
    """Columns of curves are arrays; of all else JSON takes the values."""
    values = MADE[name]().to_dict()
    assert json.loads(json.dumps(values, allow_nan=False)) == values


@pytest.mark.parametrize("name", MADE)
def test_rows_are_flat_and_frames_have_them(name: str) -> None:
    pd = pytest.importorskip("pandas")
    rows = MADE[name]().to_rows()
    for row in rows:
        assert not any(isinstance(each, dict | list | np.ndarray | Shown) for each in row.values())
    frame = MADE[name]().to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == len(rows)
    if rows:
        assert list(frame) == list(rows[0])


def test_rows_have_the_figures() -> None:
    """Limits are next to their value; a curve has a row a point; a comparison one a metric."""
    interval = evaluator().interval("auc_roc")
    assert interval.to_rows()[0]["lower"] == interval.lower
    found = compare(evaluator(), evaluator(2))
    assert [row["metric"] for row in found.to_rows()] == ["auc_pr", "auc_roc"]
    assert found.to_rows()[0]["a_lower"] == found.a.lower
    assert found.to_rows()[1]["difference"] == found.auc_roc.difference
    points = evaluator().operating_points()
    assert points.to_rows()[7]["precision"] == points.precision[7]
    costs = evaluator().cost_curve()
    assert costs.to_rows()[0]["threshold"] == costs.thresholds[0]
    assert np.isnan(costs.to_rows()[-1]["threshold"])


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        evaluator().to_frame()
    assert str(caught.value) == "pandas is missing; pip install 'streameval[notebook]'"
