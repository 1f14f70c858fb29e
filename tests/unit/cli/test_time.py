"""Commands with time: ids, a separate file of labels, windows, slices, replay."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("typer", reason="needs the extra cli")

from streameval.checks import OTHER_VALUE
from streameval.client import Client
from streameval_server import Settings
from streameval_server.testing import running_server

from ...commands import run

if TYPE_CHECKING:
    from collections.abc import Iterator


COUNTRIES = ("US", "DE")


def figures(*arguments: object) -> dict:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return the server's data directory."""
    return tmp_path / "data"


@pytest.fixture
def address(data: Path) -> Iterator[str]:
    """Yield the address of a server with a log."""
    with running_server(Settings(listen="127.0.0.1:0", data=data)) as address:
        yield address


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Return 48 predictions, one each hour of two days, and their labels."""
    now = datetime.now(UTC)
    predictions, labels = tmp_path / "predictions.csv", tmp_path / "labels.csv"
    rows = [
        f"order-{i},{i % 7},{(now - timedelta(hours=i, minutes=1)).isoformat()},{COUNTRIES[i % 2]}"
        for i in range(48)
    ]
    predictions.write_text("order,score,at,country\n" + "\n".join(rows) + "\n")
    labels.write_text(
        "order,label\n" + "".join(f"order-{i},{'fraud' if i % 3 else 'ok'}\n" for i in range(48))
    )
    return predictions, labels


def test_predictions_and_labels_by_id(address: str, data: Path, files: tuple[Path, Path]) -> None:
    """Predictions and labels are joined; windows and slices are parts; replay equals the past."""
    predictions, labels = files
    columns = ("--id", "order", "--time", "at", "--segment", "country", "--positive", "fraud")
    to = ("--server", address)
    first = run("push", "orders/v1", predictions, *columns, *to)
    assert first.exit_code == 0, first.output
    assert "48 predictions of" in first.stdout
    before = int(first.stdout.splitlines()[0].split()[-1])
    assert figures("query", "--server", address, "orders/v1")["num_cases"] == 0
    second = run("push", "orders/v1", "--labels", labels, *columns, *to)
    assert second.exit_code == 0, second.output
    assert "48 labels of" in second.stdout
    with Client(address) as client:
        client.list_streams()  # waits until the rows are visible to other clients

    everything = figures("query", "--server", address, "orders/v1")
    assert (everything["num_cases"], everything["num_positive_ref"]) == (48, 32)
    day = figures("query", "--server", address, "orders/v1", "--window", "24h")
    assert 24 <= day["num_cases"] <= 26
    told = run("query", "--server", address, "orders/v1", "--window", "24h").stdout
    assert "covers 20" in told
    assert f"{day['num_cases']} of {day['num_cases']} predictions labelled (100.0%)" in told
    german = figures("query", "--server", address, "orders/v1", "--segment", "country=DE")
    assert german["num_cases"] == 24

    then = figures("admin", "replay", "orders/v1", "--data", data, "--until", before)
    assert (then["num_cases"], then["revision"]) == (0, before)
    now = figures("admin", "replay", "orders/v1", "--data", data)
    assert now["auc_pr"] == everything["auc_pr"]
    assert "as it was at revision" in run("admin", "replay", "orders/v1", "--data", data).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "--server", "x:1"], "give a FILE of scores, or --labels, or both"),
        (["a", "--labels", "LABELS", "--server", "x:1"], "name the column with --id"),
    ],
)
def test_push_needs_files_that_fit(
    files: tuple[Path, Path], arguments: list[str], message: str
) -> None:
    """Missing files or options give one line that says what is missing."""
    result = run("push", *[files[1] if word == "LABELS" else word for word in arguments])
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--window", "1x"], "--window '1x': use a span such as 90s, 15m, 1h or 7d"),
        (["--window", "0h"], "--window '0h': use a span"),
        (["--segment", "US"], "--segment 'US': use key=value, for instance country=US"),
        (["--segment", "k=(no value)"], "'k=(no value)': these rows are --segment k="),
        (["--segment", "k=(other values)"], f"these rows are --segment k={OTHER_VALUE}"),
    ],
)
def test_windows_and_segments_are_read(arguments: list[str], message: str) -> None:
    """An invalid span or segment is refused before the server is called."""
    result = run("query", "--server", "127.0.0.1:1", "a", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_replay_refuses_what_never_was(address: str, data: Path, files: tuple[Path, Path]) -> None:
    """A missing revision, a stream that did not exist yet, a missing log."""
    columns = ("--id", "order", "--server", address)
    assert run("push", "orders/v1", files[0], *columns).exit_code == 0
    for arguments, message in (
        (("orders/v1", "--until", 10**6, "--data", data), "and none 1000000"),
        (("orders/v2", "--data", data), "there was no stream orders/v2 at revision"),
        (("orders/v1", "--data", data / "nowhere"), "there is no log at"),
    ):
        result = run("admin", "replay", *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
        assert result.stderr.count("\n") == 1
