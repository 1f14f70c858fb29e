"""``streameval auc``: lists of scores, points of curves, refused input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.integrate import trapezoid

pytest.importorskip("typer", reason="needs the extra cli")

from streameval import Evaluator, pr_between

from ...commands import run

if TYPE_CHECKING:
    from click.testing import Result


def auc(file: Path, *options: object) -> Result:
    return run("auc", file, *options)


def figures(result: Result) -> tuple[float, float]:
    assert result.exit_code == 0, result.output
    lines = dict(line.replace(",", "").split()[:2] for line in result.stdout.splitlines())
    return float(lines["AUC-ROC"]), float(lines["AUC-PR"])


def table(path: Path) -> np.ndarray:
    return np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)


def test_list_equals_the_evaluator(tmp_path: Path) -> None:
    """A list of scores gives the evaluator's areas, and curves that integrate to them."""
    random = np.random.default_rng(5)
    labels = random.random(300) < 0.2
    scores = np.round(random.normal(size=300) + labels, 1)
    file = tmp_path / "scores.txt"
    rows = [f"{score} {label:d}" for score, label in zip(scores, labels, strict=True)]
    file.write_text("# score label\n\n" + "\n".join(rows))
    evaluator = Evaluator()
    evaluator.add_cases(labels=labels, scores=scores)
    area_roc, area_pr = figures(auc(file))
    assert area_roc == pytest.approx(evaluator.auc_roc(), abs=1e-6)
    assert area_pr == pytest.approx(evaluator.auc_pr(), abs=1e-6)
    roc, pr = table(tmp_path / "scores.txt.roc.csv"), table(tmp_path / "scores.txt.pr.csv")
    assert trapezoid(roc[:, 1], roc[:, 0]) == pytest.approx(evaluator.auc_roc(), abs=1e-12)
    unit = evaluator.auc_pr(method="unit")
    assert trapezoid(pr[:, 1], pr[:, 0]) == pytest.approx(unit, abs=1e-12)


def test_min_recall(tmp_path: Path) -> None:
    """--min-recall integrates only from that recall, and the output says so."""
    file = tmp_path / "a.csv"
    file.write_text("0.9,1\n0.8,0\n0.7,true\n0.1,FALSE\n")
    result = auc(file, "--min-recall", 0.5)
    evaluator = Evaluator()
    evaluator.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.8, 0.7, 0.1])
    assert figures(result)[1] == pytest.approx(evaluator.auc_pr(min_recall=0.5), abs=1e-6)
    assert "for recall >= 0.5" in result.stdout


def test_points_of_both_spaces_are_one_curve(tmp_path: Path) -> None:
    """The paper's table 1 as PR points and as ROC points: the same areas and curve."""
    pr, roc = tmp_path / "pr.txt", tmp_path / "roc.txt"
    pr.write_text("0.5 0.25\n0.25 0.5\n0 1\n")
    roc.write_text("0.0025 0.25\n0.015 0.5\n")
    totals = ("--positives", 20, "--negatives", 2000)
    from_pr = auc(pr, "--format", "pr", *totals, "--curves", tmp_path / "out")
    from_roc = auc(roc, "--format", "roc", *totals)
    assert figures(from_pr) == figures(from_roc)
    assert "rounded" not in from_pr.stdout
    assert (table(tmp_path / "out.pr.csv") == table(tmp_path / "roc.txt.pr.csv")).all()
    between = pr_between((5, 5), (30, 10), 20)
    rows = table(tmp_path / "out.pr.csv")
    inside = rows[(rows[:, 3] >= 5) & (rows[:, 3] <= 10)]
    assert inside[:, 1] == pytest.approx(between.precision)


def test_rounding_is_said(tmp_path: Path) -> None:
    """Rates that are not whole counts are rounded, and the output says by how much."""
    file = tmp_path / "a.txt"
    file.write_text("0.02 1\n")
    result = auc(file, "--format", "pr", "--positives", 433, "--negatives", 56164)
    assert "by at most 0.34 of a case" in result.stdout


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("0.5 1\nhigh 0\n", [], "line 2: score 'high' is not a number"),
        ("0.5 1\n# nan\nnan 0\n", [], "line 3: score must be finite, got nan"),
        ("0.5 2\n", [], "line 1: label '2' is none of 0, 1, true, false"),
        ("0.5\n", [], "line 1: expected 'score label', got '0.5'"),
        ("0.5 1\n", [], "needs at least one positive and one negative"),
        ("0.5 1\n", ["--positives", 2], "are counted with --format list; leave them"),
        ("0.5 1\n", ["--format", "roc"], "--format roc needs --positives and --negatives"),
        (
            "0.5 1.5\n",
            ["--format", "roc", "--positives", 2, "--negatives", 2],
            "line 1: tpr must be",
        ),
        ("", ["--format", "pr", "--positives", 2, "--negatives", 2], "no points"),
        (
            "0.2 0.8\n0.6 0.4\n",
            ["--format", "roc", "--positives", 10, "--negatives", 10],
            "line 2: fewer true positives than line 1",
        ),
        (
            "0.5 0.001\n",
            ["--format", "pr", "--positives", 10, "--negatives", 10],
            "line 1: precision 0.001 at recall 0.5",
        ),
    ],
)
def test_refusals(tmp_path: Path, text: str, options: list[object], message: str) -> None:
    """Wrong input is one line with the file's line, exit code 2, and no files."""
    file = tmp_path / "a.txt"
    file.write_text(text)
    result = auc(file, *options)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == [file]
