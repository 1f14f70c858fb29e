"""The commands as a user runs them: output and exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer", reason="needs the extra cli")
import typer.main
from sklearn.metrics import average_precision_score, roc_auc_score

from streameval import evaluate_by
from streameval.cli import _output
from streameval.client import Client
from streameval_server.testing import running_server

from ...commands import app, run

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a file of 500 cases, 100 of them positive."""
    random = np.random.default_rng(7)
    labels = np.arange(500) % 5 == 0
    scores = random.normal(size=500) + labels
    path = tmp_path / "scores.csv"
    rows = [f"{label:d},{score!r}" for label, score in zip(labels, scores.tolist(), strict=True)]
    path.write_text("\n".join(["label,score", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Yield the address of a running server."""
    with running_server() as address:
        yield address


def columns(path: Path) -> tuple[np.ndarray, np.ndarray]:
    rows = np.loadtxt(path, delimiter=",", skiprows=1)
    return rows[:, 0], rows[:, 1]


def test_evaluate_prints_json_that_scikit_learn_agrees_with(table: Path) -> None:
    """--json holds the figures, equal to scikit-learn's where both define the same."""
    result = run("evaluate", table, "--json")
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    labels, scores = columns(table)
    assert figures["num_positive_ref"] == 100
    assert figures["auc_roc"] == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    expected = average_precision_score(labels, scores)
    assert figures["average_precision"] == pytest.approx(expected, abs=1e-12)


def test_evaluate_prints_a_table(table: Path) -> None:
    """Without --json people get a table with names and aligned figures."""
    result = run("evaluate", table)
    assert result.exit_code == 0, result.output
    for words in ("AUC-PR ", "AUC-PR, achievable", "Positives", "400"):
        assert words in result.stdout


def test_a_bar_names_a_file_as_it_is(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brackets in a path are no markup."""
    file = tmp_path / "[dim]cases.csv"
    file.write_bytes(table.read_bytes())
    shown = _output.Console(force_terminal=True, width=120, record=True, highlight=False)
    monkeypatch.setattr(_output, "err", shown)
    assert run("evaluate", file).exit_code == 0
    assert "reading [dim]cases.csv" in shown.export_text()


def test_evaluate_draws(table: Path, tmp_path: Path) -> None:
    """--plot writes a picture; an unknown kind of picture is refused before reading."""
    picture = tmp_path / "out.png"
    result = run("evaluate", table, "--plot", picture)
    assert result.exit_code == 0, result.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    refused = run("evaluate", table, "--plot", tmp_path / "out.doc")
    assert refused.exit_code == 2
    assert "use .png, .svg, .pdf" in refused.stderr


def test_a_picture_that_cannot_be_written(table: Path, tmp_path: Path) -> None:
    """A missing directory gives one line and exit code 2."""
    result = run("evaluate", table, "--plot", tmp_path / "nowhere" / "out.png")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "nowhere/out.png: No such file or directory" in result.stderr


def test_evaluate_bounded(table: Path) -> None:
    """--resolution bounds memory, and the output names the resolution."""
    result = run("evaluate", table, "--resolution", 8, "--json")
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    exact = json.loads(run("evaluate", table, "--json").stdout)
    assert figures["resolution"] == 8
    lower, upper = figures["bounds"]["auc_roc"]
    assert lower <= exact["auc_roc"] <= upper


@pytest.fixture
def countries(tmp_path: Path) -> pd.DataFrame:
    """Write a file of cases in three countries, one of them missing, in three formats."""
    random = np.random.default_rng(8)
    country = random.choice(["DE", "US", ""], size=600)
    label = random.random(600) < 0.2
    score = np.round(random.normal(size=600) + label * np.where(country == "DE", 0.1, 2.0), 3)
    frame = pd.DataFrame({"country": country, "web": country > "E", "label": label, "score": score})
    frame.to_csv(tmp_path / "cases.csv", index=False)
    frame.to_json(tmp_path / "cases.ndjson", orient="records", lines=True)
    for name, part in frame.groupby("country"):
        folder = tmp_path / "cases" / f"country={name or '__HIVE_DEFAULT_PARTITION__'}"
        folder.mkdir(parents=True)
        part.drop(columns="country").to_parquet(folder / "part-0.parquet")
    return frame


@pytest.mark.parametrize("name", ["cases.csv", "cases.ndjson", "cases"])
def test_evaluate_by_groups(countries: pd.DataFrame, tmp_path: Path, name: str) -> None:
    """The same rows as `evaluate_by` of the columns, from every kind of file."""
    result = run("evaluate", tmp_path / name, "--by", "country", "--metric", "auc_roc", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    by = countries.country.replace("", None)
    expected = evaluate_by(
        labels=countries.label, scores=countries.score, by=by, metric="auc_roc"
    ).to_rows()
    assert found["groups"] == expected
    assert (found["metric"], found["level"], found["prevalence"]) == ("auc_roc", 0.95, None)
    assert found["groups"][0]["country"] == "DE"
    assert None in [row["country"] for row in found["groups"]]


@pytest.mark.usefixtures("countries")
def test_evaluate_by_prints_a_table(tmp_path: Path) -> None:
    """One line a group, the worst first; several columns give their combinations."""
    result = run("evaluate", tmp_path / "cases.csv", "--by", "country")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[1].startswith("AUC-PR by country at prevalence ")
    assert lines[3].split()[0] == "DE"
    assert len(lines) == 6
    both = run("evaluate", tmp_path / "cases.csv", "--by", "country", "--by", "web", "--json")
    rows = json.loads(both.stdout)["groups"]
    assert {(row["country"], row["web"]) for row in rows} == {
        ("DE", "False"), ("US", "True"), (None, "False"),
    }  # fmt: skip
    bounded = run("evaluate", tmp_path / "cases.csv", "--by", "country", "--resolution", 6)
    assert bounded.exit_code == 0, bounded.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--score", "p"], "scores.csv: no column 'p'; it has label, score"),
        (["--by", "country"], "scores.csv: no column 'country'; it has label, score"),
        (["--metric", "auc_roc"], "--metric is what groups are ranked by: give --by COLUMN"),
        (
            ["--by", "label", "--plot", "a.png"],
            "--plot draws the curves of all rows: leave --by out",
        ),
        (
            ["--positive", "2"],
            "leave such rows out, or replace the value",
        ),
    ],
)
def test_evaluate_refuses_in_one_line(table: Path, arguments: list[str], message: str) -> None:
    """Wrong input is one line on stderr, nothing on stdout, exit code 2."""
    result = run("evaluate", table, *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_push_and_query(table: Path, address: str) -> None:
    """The server answers with the pushed rows; a second push adds to them."""
    pushed = run("push", "cli/push", table, "--server", address)
    assert pushed.exit_code == 0, pushed.output
    assert "500 cases" in pushed.stdout
    assert "durable in cli/push at revision" in pushed.stdout
    result = run("query", "--server", address, "cli/push", "--json")
    assert result.exit_code == 0, result.output
    figures, exact = json.loads(result.stdout), json.loads(run("evaluate", table, "--json").stdout)
    for name in ("auc_pr", "auc_pr_hull", "auc_roc", "auc_roc_hull", "average_precision"):
        assert figures[name] == exact[name], name
    assert "cli/push at revision" in run("query", "--server", address, "cli/push").stdout
    assert (
        run("streams", "update", "--server", address, "cli/push", "--threshold", 0.5).exit_code == 0
    )
    at = json.loads(run("query", "--server", address, "cli/push", "--json").stdout)
    assert at["operating_point"]["threshold"] == 0.5
    shown = run("query", "--server", address, "cli/push").stdout
    limits = at["intervals"]["precision"]
    line = next(each for each in shown.splitlines() if each.startswith("Precision"))
    assert line.split()[1:] == [
        f"{at['precision']:.6f}",
        f"{limits['lower']:.4f}",
        "to",
        f"{limits['upper']:.4f}",
    ]
    assert "Declared threshold" in shown
    assert "Cost per case" not in shown
    costs = ("--cost-fp", 2, "--cost-fn", 9)
    assert run("streams", "update", "--server", address, "cli/push", *costs).exit_code == 0
    at = json.loads(run("query", "--server", address, "cli/push", "--json").stdout)
    limits = at["intervals"]["expected_cost"]
    line = next(
        each
        for each in run("query", "--server", address, "cli/push").stdout.splitlines()
        if each.startswith("Cost per case")
    )
    assert line.split()[3:] == [
        f"{at['expected_cost']:.6f}",
        f"{limits['lower']:.4f}",
        "to",
        f"{limits['upper']:.4f}",
    ]


def test_reliability(table: Path, tmp_path: Path, address: str) -> None:
    """The table and the figures are the library's; scores that are none are refused."""
    labels, scores = columns(table)
    path = tmp_path / "probabilities.csv"
    pd.DataFrame({"label": labels.astype(int), "score": 1 / (1 + np.exp(-scores))}).to_csv(
        path, index=False
    )
    assert run("push", "cli/rel", path, "--server", address).exit_code == 0
    found = json.loads(
        run("reliability", "--server", address, "cli/rel", "--bins", 5, "--json").stdout
    )
    with Client(address) as client:
        ev = client.evaluator("cli/rel")
    assert [row["counts"] for row in found["bins"]] == ev.reliability(5).counts.tolist()
    assert found["calibration_error"] == ev.calibration_error()
    limits = found["intervals"]["observed_expected_ratio"]
    assert (limits["lower"], limits["upper"]) == tuple(ev.interval("observed_expected_ratio"))
    shown = run("reliability", "--server", address, "cli/rel").stdout.splitlines()
    assert shown[0].startswith("cli/rel at revision")
    assert len(shown) == 2 + len(ev.reliability()) + 2
    assert shown[-1] == f"calibration error {ev.interval('calibration_error'):.4f}"
    assert f"ratio {ev.interval('observed_expected_ratio'):.4f}" in shown[-2]
    recent = run("reliability", "--server", address, "cli/rel", "--window", "1h").stdout
    assert recent.startswith("cli/rel, the last 1h at revision")
    assert run("push", "cli/scores", table, "--server", address).exit_code == 0
    refused = run("reliability", "--server", address, "cli/scores")
    assert refused.exit_code == 2
    assert "scores of stream cli/scores are no probabilities" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_push_checks_the_whole_file_first(table: Path, address: str) -> None:
    """A NaN in the last row refuses the file; nothing of it is counted."""
    with table.open("a") as file:
        file.write("1,nan\n")
    result = run("push", "cli/refused", table, "--server", address)
    assert result.exit_code == 2
    assert "row 501: score must be finite, got nan; run: streameval push" in result.stderr
    missing = run("query", "--server", address, "cli/refused")
    assert missing.exit_code == 2
    assert "cli/refused" in missing.stderr


def test_query_of_nothing(address: str) -> None:
    """An unknown stream gives one line that names it."""
    result = run("query", "--server", address, "no/such")
    assert result.exit_code == 2
    assert "no/such" in result.stderr
    assert result.stderr.count("\n") == 1


def test_serve_refuses_the_world() -> None:
    """Listening on all addresses needs --insecure, and the message says so."""
    result = run("serve", "--listen", "0.0.0.0:0", "--memory")
    assert result.exit_code == 2
    assert "--insecure" in result.stderr


def every_command(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield a command's path, and those of the commands below it."""
    yield path
    for name, each in getattr(command, "commands", {}).items():
        yield from every_command(each, (*path, name))


@pytest.mark.slow
def test_help_is_whole_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """All names and words, brackets too; values are SPAN, COLUMN or choices, and have no types."""
    monkeypatch.setenv("COLUMNS", "80")
    root = typer.main.get_command(app)
    seen = 0
    for path in every_command(root):
        command: Any = root
        for name in path:
            command = command.commands[name]
        shown = run(*path, "--help").stdout
        assert all(len(line) <= 80 for line in shown.splitlines()), path
        assert not re.findall(r"<\w+>|INTEGER|FLOAT|RANGE|[<>]=", shown), path
        names = [*getattr(command, "commands", ())]
        for parameter in command.params:
            names += (
                parameter.opts if parameter.param_type_name == "option" else [parameter.metavar]
            )
            missing = set((parameter.help or "").split()) - set(shown.split())
            assert not missing, (path, parameter.name)
            seen += 1
        for name in names:
            assert re.search(rf"^  (\S+, )*{re.escape(name)}( |,|$)", shown, re.MULTILINE), name
    assert seen > 200


def test_version_and_help() -> None:
    """--version prints it; help lists the commands."""
    assert run("--version").stdout.strip().count(".") == 2
    listed = run("--help").stdout
    for command in ("evaluate", "push", "query", "serve"):
        assert command in listed
