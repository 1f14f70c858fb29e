"""The pages' examples inside other libraries run as shown.

A ```pycon block is a doctest; its tag is the library that it needs. Blocks without
a tag are run by tests/docs.
"""

from __future__ import annotations

import doctest
import math
from pathlib import Path
from typing import Any

import pytest

from streameval import Evaluator

from ..pages import codes

DOCS = Path(__file__).parents[2] / "docs"
ADAPTERS = (DOCS / "adapters.md").read_text()


@pytest.mark.filterwarnings("ignore")  # of the host libraries, at import
@pytest.mark.parametrize("host", ["river", "sklearn", "torchmetrics"])
def test_adapter_examples(host: str, require) -> None:
    """Each adapter's example runs inside its host library."""
    require(host)
    examples = "".join(codes(ADAPTERS, "pycon", host))
    test = doctest.DocTestParser().get_doctest(examples, {}, host, "adapters.md", 0)
    assert len(test.examples) >= 4
    report: list[str] = []
    failed, _ = doctest.DocTestRunner().run(test, out=report.append)
    assert not failed, "".join(report)


@pytest.mark.filterwarnings("ignore")  # of the host library, at import
def test_calls_beside_scikit_learns(require) -> None:
    """Each call of scikit-learn and ours beside it give what the page shows."""
    require("sklearn")
    examples = "".join(codes((DOCS / "from-scikit-learn.md").read_text(), "pycon", "sklearn"))
    test = doctest.DocTestParser().get_doctest(examples, {}, "sklearn", "from-scikit-learn.md", 0)
    assert len(test.examples) >= 30
    report: list[str] = []
    failed, _ = doctest.DocTestRunner().run(test, out=report.append)
    assert not failed, "".join(report)


def test_the_true_area_of_the_tuning_page(require) -> None:
    """0.538 is the integral of precision over recall at prevalence 0.05."""
    integrate, stats = require("scipy.integrate"), require("scipy.stats")

    def precision(score: float) -> float:
        found, false = 0.05 * stats.norm.sf(score - 2), 0.95 * stats.norm.sf(score)
        return stats.norm.pdf(score - 2) * found / (found + false)

    area, _ = integrate.quad(precision, -8, 12)
    assert round(area, 3) == 0.538
    assert "true AUC-PR of 0.538" in (DOCS / "tuning-set.md").read_text()


class Run:
    """Stand in for mlflow and for a wandb run: floats by name, at a step."""

    def __init__(self) -> None:
        self.logged: dict[int, dict[str, float]] = {}

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        """Keep the logged values that a server would accept."""
        assert all(type(value) is float and math.isfinite(value) for value in metrics.values())
        self.logged[step] = metrics

    log = log_metrics


def test_two_lines_for_trackers() -> None:
    """The page's two lines log every defined metric, with either tracker."""
    (lines,) = codes(ADAPTERS, "python", "mlflow")
    first, second, _ = lines.split("\n")
    second, _, other = second.partition("  # with wandb: ")
    ev = Evaluator()
    ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
    snapshot = ev.snapshot()
    for call in (second, other):
        tracker = Run()
        space: dict[str, Any] = {"ev": ev, "epoch": 3, "mlflow": tracker, "run": tracker}
        exec(f"{first}\n{call}", space)
        assert tracker.logged[3]["auc_pr"] == snapshot.auc_pr
        assert len(tracker.logged[3]) == 6
    empty = {"ev": Evaluator(), "epoch": 0, "mlflow": (tracker := Run())}
    exec(f"{first}\n{second}", empty)
    assert tracker.logged == {0: {}}
