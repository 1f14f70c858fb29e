"""Weights and label probabilities of files: figures equal scikit-learn's with `sample_weight`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer", reason="needs the extra cli")

from sklearn.metrics import average_precision_score, roc_auc_score

from streameval.functional import auc_pr

from ...commands import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cases() -> pd.DataFrame:
    """Return weighted cases of which a part was chosen to be labelled, in two countries."""
    random = np.random.default_rng(11)
    labels = random.random(600) < 0.4
    return pd.DataFrame(
        {
            "label": labels.astype(int),
            "score": np.round(random.normal(size=600) + labels, 1),
            "w": random.integers(0, 9, 600) / 4,
            "share": random.choice([0.125, 0.5, 1.0], 600),
            "country": random.choice(["DE", "US"], 600),
        }
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet", "ndjson"])
def test_evaluate_weighs_rows(cases: pd.DataFrame, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"cases.{suffix}"
    if suffix == "csv":
        cases.to_csv(file, index=False)
    elif suffix == "parquet":
        cases.to_parquet(file)
    else:
        cases.to_json(file, orient="records", lines=True)
    result = run("evaluate", file, "--weight", "w", "--label-probability", "share", "--json")
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    weights = (cases.w / cases.share).to_numpy()
    for name, function in (
        ("auc_roc", roc_auc_score),
        ("average_precision", average_precision_score),
    ):
        wanted = function(cases.label, cases.score, sample_weight=weights)
        assert figures[name] == pytest.approx(wanted, abs=1e-12)


def test_the_table_says_what_cases_weigh(cases: pd.DataFrame, tmp_path: Path) -> None:
    """Beside the numbers of cases: the sums of weights, and the effective numbers."""
    file = tmp_path / "cases.csv"
    cases.to_csv(file, index=False)
    result = run("evaluate", file, "--weight", "w")
    assert result.exit_code == 0, result.output
    positives, negatives = (cases.w[cases.label == label] for label in (1, 0))
    effective = [each.sum() ** 2 / (each**2).sum() for each in (positives, negatives)]
    assert (
        f"weights of {positives.sum():,g} positive and {negatives.sum():,g} negative; "
        f"as many as {effective[0]:.0f} and {effective[1]:.0f} of equal weight"
    ) in result.stdout
    assert "note: no least label probability bounds the weights" in result.stdout
    declared = run("evaluate", file, "--weight", "w", "--min-label-probability", 0.25)
    assert "no least label probability" not in declared.stdout
    assert "weights" not in run("evaluate", file).stdout
    cases[:60].assign(w=1.0).assign(w=lambda rows: rows.w.where(rows.index > 0, 99)).to_csv(
        file, index=False
    )
    assert "no interval: TOO_FEW_EFFECTIVE" in run("evaluate", file, "--weight", "w").stdout


def test_evaluate_by_weighs_each_group(cases: pd.DataFrame, tmp_path: Path) -> None:
    file = tmp_path / "cases.csv"
    cases.to_csv(file, index=False)
    options = ("--by", "country", "--metric", "auc_roc", "--weight", "w", "--json")
    result = run("evaluate", file, *options)
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    (warning,) = answer["warnings"]
    assert warning.startswith("no least label probability bounds the weights")
    assert f"note: {warning}" in run("evaluate", file, *options[:-1]).stdout
    found = {row["country"]: row["auc_roc"] for row in answer["groups"]}
    for country, rows in cases.groupby("country"):
        wanted = roc_auc_score(rows.label, rows.score, sample_weight=rows.w)
        assert found[country] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("given", [("w",), ("share",), ("w", "share")])
def test_auc_takes_weights_at_the_end_of_lines(
    cases: pd.DataFrame, tmp_path: Path, given: tuple[str, ...]
) -> None:
    """The areas, and a precision-recall curve that integrates to the area."""
    file = tmp_path / "cases.txt"
    columns = cases[["score", "label", *given]]
    columns.to_csv(file, sep=" ", index=False, header=False)
    options = {"w": "--weight", "share": "--label-probability"}
    result = run("auc", file, *(options[name] for name in given))
    assert result.exit_code == 0, result.output
    assert "(sums of weights)" in result.stdout
    weights = np.ones(len(cases))
    for name in given:
        weights = weights * (cases.w if name == "w" else 1 / cases.share)
    areas = dict(line.replace(",", "").split()[:2] for line in result.stdout.splitlines())
    wanted = roc_auc_score(cases.label, cases.score, sample_weight=weights)
    assert float(areas["AUC-ROC"]) == pytest.approx(wanted, abs=1e-6)
    exact = auc_pr(labels=cases.label, scores=cases.score, weights=weights)
    assert float(areas["AUC-PR"]) == pytest.approx(exact, abs=1e-6)
    curve = np.loadtxt(tmp_path / "cases.txt.pr.csv", delimiter=",", skiprows=1)
    recall, precision = curve[:, 0], curve[:, 1]
    assert recall[-1] == pytest.approx(1)
    area = float(np.sum(np.diff(recall) * (precision[1:] + precision[:-1]) / 2))
    assert area == pytest.approx(exact, abs=2e-3)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("w", -1, "weight must be finite, from 0 to 2**31, got -1.0"),
        ("w", "nan", "weight must be finite, got nan"),
        ("w", 1e-6, "weight over label probability 2e-06 would change by more than a thousandth"),
        ("w", "much", "w 'much' is not a number"),
        ("share", 0, "label probability must be above 0 and at most 1, got 0.0"),
        ("share", 1.5, "label probability must be above 0 and at most 1, got 1.5"),
    ],
)
def test_wrong_weights_are_named_by_row(
    cases: pd.DataFrame, tmp_path: Path, column: str, value: object, message: str
) -> None:
    rows = cases.astype(object)
    rows.loc[6, column] = value
    file = tmp_path / "cases.csv"
    rows.to_csv(file, index=False)
    for command in (
        ("evaluate", file),
        ("push", "s", file, "--server", "localhost:1"),
    ):
        result = run(*command, "--weight", "w", "--label-probability", "share")
        assert result.exit_code == 2
        assert f"row 7: {message}" in result.stderr
        assert result.stderr.count("\n") == 1


def test_what_does_not_fit_together_is_refused(cases: pd.DataFrame, tmp_path: Path) -> None:
    file = tmp_path / "cases.csv"
    cases.to_csv(file, index=False)
    to = ("--server", "localhost:1")
    for arguments, message in (
        (
            ("push", "s", file, *to, "--id", "country", "--weight", "w"),
            "--weight and --label-probability belong to labels: give --labels",
        ),
        (
            ("auc", file, "--format", "roc", "--positives", 1, "--negatives", 1, "--weight"),
            "--weight and --label-probability need --format list",
        ),
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert result.stderr.strip().endswith(message)


def test_clusters_of_a_file_are_text_or_integers(cases: pd.DataFrame, tmp_path: Path) -> None:
    file = tmp_path / "cases.parquet"
    cases.to_parquet(file)
    result = run("push", "s", file, "--server", "localhost:1", "--cluster", "share")
    assert result.exit_code == 2
    assert "row 1: cluster is a double, not text or an integer" in result.stderr
