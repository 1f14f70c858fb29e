"""``streameval sample``: the table, the file that comes back, JSON; repeated from the log."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs the extra cli")

from streameval.client import Client
from streameval_server import Settings
from streameval_server.testing import running_server

from ...commands import outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STREAM = "fraud/v3"


def run(*arguments: object, code: int = 0) -> str:
    """Run a command; return what it printed, errors if it failed."""
    status, printed, errors = outcome(*arguments)
    assert status == code, errors
    return errors if code else printed


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def address(data: Path) -> Iterator[str]:
    """Return the address of a server with 300 predictions, 100 of them labelled."""
    rng = np.random.default_rng(3)
    labels = rng.random(300) < 0.4
    scores = rng.normal(labels)
    ids = [f"order-{row}" for row in range(300)]
    with running_server(Settings(data=data, listen="127.0.0.1:0")) as address:
        with Client(address) as client:
            stream = client.stream(STREAM)
            stream.log_cases(ids=ids, scores=scores)
            stream.label_cases(ids=ids[:100], labels=labels[:100])
            client.flush()
            stream.snapshot()  # waits until all is visible
        yield address


def test_a_table_of_bands(address: str) -> None:
    """Highest scores first, as many rows as bands, with their sums in the heading."""
    printed = run(
        "sample", "--server", address, STREAM, "--size", 20, "--metric", "auc_roc", "--seed", 5
    )
    head, _, *rows = printed.splitlines()
    assert head.startswith("20 of 200 predictions of fraud/v3 to label, for AUC-ROC, at revision ")
    assert head.endswith("with seed 5")
    assert len(rows) == 2
    assert sum(int(row.split()[3]) for row in rows) == 20
    assert "inf" in rows[0]


def test_the_file_has_ids_probabilities_and_room_for_labels(address: str, tmp_path: Path) -> None:
    """Only its owner can read it; it is never overwritten; a seed gives the same again."""
    file, again = tmp_path / "first.csv", tmp_path / "second.csv"
    printed = run("sample", "--server", address, STREAM, "--size", 20, "--seed", 5, "--csv", file)
    assert printed.splitlines()[-1] == f"20 ids to label are in {file}: fill in the column label"
    with Client(address) as client:
        found = client.stream(STREAM).sample_for_labels(20, seed=5)
    with file.open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert [row["id"] for row in rows] == list(found.ids)
    assert [float(row["label_probability"]) for row in rows] == list(found.label_probabilities)
    assert {row["label"] for row in rows} == {""}
    assert file.stat().st_mode & 0o777 == 0o600
    run("sample", "--server", address, STREAM, "--size", 20, "--seed", 5, "--csv", again)
    assert again.read_bytes() == file.read_bytes()
    error = run("sample", "--server", address, STREAM, "--size", 20, "--csv", file, code=2)
    assert "exists" in error


def test_the_file_comes_back(address: str, tmp_path: Path) -> None:
    """Filled in and pushed, each label counts as often as the predictions that it stands for."""
    file, filled = tmp_path / "to-label.csv", tmp_path / "filled.csv"
    ids = [f"p{row}" for row in range(300)]
    labels = np.random.default_rng(3).random(300) < 0.4
    with Client(address) as client:
        stream = client.stream("back")
        stream.log_cases(ids=ids, scores=np.random.default_rng(4).normal(labels))
        stream.label_cases(ids=ids[:100], labels=labels[:100])
        client.flush()
        stream.snapshot()  # waits until all is visible
    run("sample", "--server", address, "back", "--size", 80, "--metric", "auc_roc", "--csv", file)
    with file.open(newline="") as text:
        drawn = list(csv.DictReader(text))
    with filled.open("w", newline="") as text:
        rows = csv.DictWriter(text, list(drawn[0]))
        rows.writeheader()
        for row in drawn:
            rows.writerow(row | {"label": int(labels[int(row["id"][1:])])})
    columns = ("--id", "id", "--label", "label", "--label-probability", "label_probability")
    printed = run("push", "back", "--labels", filled, *columns, "--server", address)
    assert printed.startswith("80 labels of ")
    revision = int(printed.splitlines()[0].split()[-1])
    answer = json.loads(run("query", "--server", address, "back", "--json"))
    assert answer["revision"] == revision
    assert answer["num_positive_ref"] + answer["num_negative_ref"] == 180
    weights = answer["weights"]
    assert weights["positives"] + weights["negatives"] == pytest.approx(300, rel=1e-4)


def test_json_and_the_same_draw_from_the_data_directory(address: str, data: Path) -> None:
    """What the answer has repeats it: the revision, the time covered, the seed."""
    arguments = ("--size", 30, "--metric", "precision", "--threshold", 0.5, "--json", "--ids")
    found = json.loads(run("sample", "--server", address, STREAM, *arguments, "--window", "1d"))
    assert len(found["ids"]) == found["size"] == 30
    assert (found["bands"][0]["lower"], found["bands"][-1]["upper"]) == (None, None)
    with Client(address) as client:
        client.stream(STREAM).label(found["ids"][0]["id"], True)
        client.flush()
    start, end = found["window"]
    same = ("--from", start, "--to", end, "--seed", found["seed"], "--data", data)
    again = json.loads(
        run("admin", "sample", STREAM, *arguments, *same, "--until", found["revision"])
    )
    assert again | {"warnings": []} == found | {"warnings": []}
    later = json.loads(run("admin", "sample", STREAM, *arguments, *same))
    assert later["ids"] != found["ids"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--ids",), "--ids needs --json, or give --csv FILE: the table has no ids"),
        (("--from", "2026-01-01"), "give both --from and --to"),
        (
            ("--from", "x", "--to", "y"),
            "--from must be a time, got 'x': write ISO 8601",
        ),
        (
            ("--from", "2026-01-01", "--to", "2026-01-02", "--window", "1d"),
            "give --window, or --from and --to",
        ),
        (("--metric", "kappa"), "labels cannot be allocated for 'kappa'"),
        (("--from", "2020-01-01", "--to", "2020-01-02"), "no prediction of stream fraud/v3 waits"),
    ],
)
def test_wrong_options(address: str, options: tuple[str, ...], message: str) -> None:
    """One line, and nothing on standard output."""
    error = run("sample", "--server", address, STREAM, "--size", 5, *options, code=2)
    assert message in error.replace("\n", " ")
