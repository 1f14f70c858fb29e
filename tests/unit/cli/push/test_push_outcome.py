"""What a push says at its end, and a push that counts nothing of use."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

pytest.importorskip("typer", reason="needs the extra cli")

from streameval.client import Client, NotFoundError

from ....commands import refusal, run

if TYPE_CHECKING:
    from pathlib import Path

IDS = [10000001, 10000002, 10000003, 10000004, 10000005]
STREAM = "fraud/v3"


def write(path: Path, **columns: Any) -> Path:
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def test_the_end_of_a_push(address: str, tmp_path: Path) -> None:
    """The span, the positives, what joined and was rejected, the seconds; and a command."""
    now = pd.Timestamp.now("UTC").floor("s")
    times = [str(now - pd.Timedelta(hours=each)) for each in range(5)]
    scores = write(tmp_path / "scores.csv", id=IDS, score=[0.9, "x", 0.3, 0.2, 0.1], t=times)
    labels = write(tmp_path / "labels.csv", id=[*IDS[2:], 7], label=[1, 0, 0, 1])
    command = ("push", STREAM, scores, "--labels", labels, "--id", "id", "--time", "t")
    command += ("--server", address, "--rejects", tmp_path / "rejects.ndjson")
    done = run(*command)
    assert done.exit_code == 1
    facts, look = done.stdout.splitlines()[-2:]
    oldest = (now - pd.Timedelta(hours=4)).strftime("%Y-%m-%dT%H:%M:%SZ")
    span = f"from {oldest} to {now.strftime('%Y-%m-%dT%H:%M:%SZ')}"
    assert facts.startswith(f"{span}, 2 positives, 3 of 4 labels joined, 1 rejected, ")
    assert facts.endswith(" s")
    said, _, query = look.partition(": streameval ")
    assert said == "look at it"
    assert run(*shlex.split(query)).exit_code == 0


def test_labels_that_meet_nothing(address: str, tmp_path: Path) -> None:
    """Ids that became floats: said with exit code 1, unless it is meant; later ones do meet."""
    scores = write(tmp_path / "scores.csv", id=IDS, score=[0.9, 0.5, 0.3, 0.2, 0.1])
    floats = write(tmp_path / "floats.csv", id=[f"{each}.0" for each in IDS], label=[1, 0, 1, 0, 0])
    to = ("--id", "id", "--server", address)
    done = run("push", STREAM, scores, "--labels", floats, *to)
    assert done.exit_code == 1
    assert "0 of 5 labels joined" in done.stdout
    assert f"none of 5 labels has met a prediction of {STREAM}" in done.stderr
    again = run("push", STREAM, scores, "--labels", floats, *to)
    assert again.exit_code == 0, again.output  # it sends none
    early = write(tmp_path / "early.csv", id=["later"], label=[1])
    assert run("push", STREAM, "--labels", early, *to, "--allow-no-joins").exit_code == 0
    whole = write(tmp_path / "whole.csv", id=IDS, label=[1, 0, 1, 0, 0])
    done = run("push", STREAM, "--labels", whole, *to)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "5 of 5 labels joined" in done.stdout
    repeated = run("push", STREAM, "--labels", whole, *to, "--source", "another")
    assert repeated.exit_code == 0, repeated.output  # each meets its prediction again


def test_json_ids_that_are_floats_meet(address: str, tmp_path: Path) -> None:
    """In NDJSON 10000001.0 is the number 10000001."""
    (tmp_path / "p.ndjson").write_text("".join(f'{{"id": {i}, "score": 0.5}}\n' for i in IDS))
    (tmp_path / "l.ndjson").write_text("".join(f'{{"id": {i}.0, "label": 1}}\n' for i in IDS))
    command = (
        "push",
        STREAM,
        tmp_path / "p.ndjson",
        "--labels",
        tmp_path / "l.ndjson",
        "--id",
        "id",
    )
    done = run(*command, "--server", address)
    assert done.exit_code == 0, done.output
    assert "5 of 5 labels joined" in done.stdout


@pytest.mark.parametrize(
    ("labels", "positive"),
    [(["0", "0", "0"], None), (["legit"] * 3, "Fraud"), (["fraud"] * 3, "yes"), ([2, 2, 2], "3")],
)
@pytest.mark.parametrize("by_id", [False, True])
def test_no_positive(
    address: str, tmp_path: Path, labels: list[object], positive: str | None, by_id: bool
) -> None:
    """Nothing is sent nor created, and the exit code is 1; unless it is meant."""
    rows = write(tmp_path / "a.csv", id=IDS[:3], score=[0.1, 0.2, 0.3], label=labels)
    command = ("push", STREAM, *(("--labels", rows, "--id", "id") if by_id else (rows,)))
    command += ("--server", address)
    command += () if positive is None else ("--positive", positive)
    if positive == "yes":
        # A list of frauds only is no list of negatives.
        assert "must be" in refusal(run("push", STREAM, rows, "--server", address))
    done = run(*command)
    assert done.exit_code == 1
    assert "no row was pushed: none of 3 labels is positive" in done.stderr
    with Client(address) as client, pytest.raises(NotFoundError):
        client.get_stream(STREAM)
    done = run(*command, "--allow-no-positives", "--allow-no-joins")
    assert done.exit_code == 0, done.output
    assert "0 positives" in done.stdout


def test_a_stream_that_lacks_a_key(address: str, tmp_path: Path) -> None:
    """The command that adds it can be pasted; then the same push works."""
    rows = write(tmp_path / "a.csv", score=[0.9, 0.1], label=[1, 0], country=["DE", "US"])
    assert run("streams", "create", "--server", address, STREAM).exit_code == 0
    command = ("push", STREAM, rows, "--server", address, "--segment", "country")
    remedy = refusal(run(*command)).partition("run streameval ")[2]
    assert run(*shlex.split(remedy)).exit_code == 0
    assert run(*command).exit_code == 0
