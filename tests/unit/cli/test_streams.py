"""Streams are listed, created, changed and deleted; history is loaded by one command."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
import typer.main

from streameval._common.spans import format_span, parse_span
from streameval.v1 import stream_pb2
from streameval_server.testing import running_server

from ...commands import app
from ...commands import outcome as run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Yield the address of a running server."""
    with running_server() as address:
        yield address


def streams(verb: str, *arguments: object, **options: str | None) -> tuple[int, str, str]:
    return run("streams", verb, *arguments, **options)


def test_each_setting_of_the_proto_is_an_option() -> None:
    """`create` has all of them, `update` those that can change; alarms have commands."""
    commands = typer.main.get_command(app).commands["streams"].commands
    fields = {field.name.replace("_", "-") for field in stream_pb2.StreamSettings.DESCRIPTOR.fields}
    wanted = {f"--{name}" for name in fields - {"segment-keys", "alarms"}} | {"--segment"}
    found = {
        verb: {option for parameter in commands[verb].params for option in parameter.opts}
        for verb in ("create", "update")
    }
    assert wanted <= found["create"]
    fixed = {"--pane", "--resolution", "--scale", "--cluster-key", "--cluster-groups"}
    assert wanted - fixed <= found["update"]
    assert not fixed & found["update"]


def test_create_list_update_delete(address: str) -> None:
    """Every setting arrives; an update keeps what is not given, and adds segment keys."""
    code, printed, errors = streams(
        *(
            "create",
            "--server",
            address,
            "s/1",
            "--pane",
            "10s",
            "--retention",
            "10y",
            "--resolution",
            14,
        ),
        *("--scale", "probability", "--label-ttl", "30d", "--relabel-ttl", "2h"),
        *("--max-pending", 1000, "--orphans", "miss", "--expired", "drop"),
        *("--segment", "country", "--segment", "device", "--threshold", 0.5),
        *("--cost-fp", 1, "--cost-fn", 12.5, "--min-label-probability", 0.05, "--json"),
    )
    assert (code, errors) == (0, "")
    created = json.loads(printed)
    settings = {
        "pane": "10s",
        "retention": "315360000s",
        "resolution": 14,
        "scale": "probability",
        "label_ttl": "2592000s",
        "relabel_ttl": "7200s",
        "max_pending": 1000,
        "orphans": "miss",
        "expired": "drop",
        "segment_keys": ["country", "device"],
        "cluster_key": "",
        "cluster_groups": 0,
        "threshold": 0.5,
        "cost_fp": 1.0,
        "cost_fn": 12.5,
        "min_label_probability": 0.05,
        "alarms": None,
    }
    assert (created["name"], created["settings"]) == ("s/1", settings)
    listed = json.loads(streams("settings", "--server", address, "--prefix", "s/", "--json")[1])
    assert listed == [created]
    code, printed, _ = streams("settings", "--server", address, "--prefix", "s/")
    row = printed.splitlines()[1]
    assert [word in row for word in ("s/1", "10s", "10y", "30d", "14", "country, device")] == [
        True
    ] * 6
    code, printed, _ = streams(
        *("update", "--server", address, "s/1", "--label-ttl", "7d", "--segment", "plan", "--json")
    )
    changed = {
        **settings,
        "label_ttl": "604800s",
        "segment_keys": ["country", "device", "plan"],
    }
    assert json.loads(printed)["settings"] == changed
    code, printed, _ = streams("update", "--server", address, "s/1", "--orphans", "drop")
    assert code == 0
    assert {tuple(line.split()) for line in printed.splitlines()} >= {
        ("orphans", "drop"),
        ("segment", "keys", "country,", "device,", "plan"),
        ("retention", "10y"),
    }
    code, printed, _ = streams("update", "--server", address, "s/1", "--threshold", 0.25, "--json")
    assert json.loads(printed)["settings"]["threshold"] == 0.25
    code, printed, _ = streams("update", "--server", address, "s/1", "--cost-fn", 20, "--json")
    costs = [json.loads(printed)["settings"][name] for name in ("cost_fp", "cost_fn")]
    assert costs == [1.0, 20.0]
    printed = streams("update", "--server", address, "s/1", "--min-label-probability", 0.1)[1]
    assert ["min", "label", "probability", "0.1"] in [each.split() for each in printed.splitlines()]
    printed = streams("update", "--server", address, "s/1", "--no-costs")[1]
    lines = [line.split() for line in printed.splitlines()]
    assert ["cost", "fp", "none"] in lines
    assert ["threshold", "0.25"] in lines
    code, _, errors = streams("update", "--server", address, "s/1", "--cost-fp", 2)
    assert code == 2
    assert "cost_fp without cost_fn: declare both costs, or none" in errors
    assert streams("update", "--server", address, "s/1", "--cost-fp", 2, "--cost-fn", 3)[0] == 0
    code, printed, _ = streams("update", "--server", address, "s/1", "--no-threshold", "--json")
    gone = json.loads(printed)["settings"]
    assert [gone[name] for name in ("threshold", "cost_fp", "cost_fn")] == [None] * 3
    for options, said in (
        (("--no-costs", "--cost-fp", 2), "give --cost-fp and --cost-fn, or --no-costs, not both"),
        (("--no-threshold", "--cost-fp", 2), "costs need a threshold: leave out --no-threshold"),
    ):
        code, _, errors = streams("update", "--server", address, "s/1", *options)
        assert (code, errors) == (2, f"streameval: {said}\n")
    printed = streams("update", "--server", address, "s/1", "--orphans", "drop")[1]
    assert ["threshold", "none"] in [line.split() for line in printed.splitlines()]
    code, _, errors = streams(
        "update", "--server", address, "s/1", "--no-threshold", "--threshold", 0.5
    )
    assert (code, errors) == (2, "streameval: give --threshold or --no-threshold, not both\n")
    code, _, errors = streams("delete", "--server", address, "s/1", answer="n\n")
    assert code == 1
    assert json.loads(streams("settings", "--server", address, "--prefix", "s/", "--json")[1])
    code, printed, errors = streams("delete", "--server", address, "s/1", "--yes")
    assert (code, printed, errors) == (0, "s/1 is deleted\n", "")
    assert json.loads(streams("settings", "--server", address, "--prefix", "s/", "--json")[1]) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("update", "no/such", "--retention", "1d"), "no/such"),
        (("update", "no/such"), "give at least one setting to change"),
        (("create", "s/2", "--pane", "soon"), "--pane 'soon': use a span such as"),
        (("create", "s/2", "--retention", "9" * 30 + "d"), "too long"),
        (("create", "s/2", "--label-ttl", "60d"), "label_ttl"),
        (("delete", "no/such", "--yes"), "no/such"),
    ],
)
def test_refusals_are_one_line(address: str, arguments: tuple[str, ...], said: str) -> None:
    """Wrong settings change nothing and say what is wrong."""
    code, printed, errors = run("streams", *arguments, "--server", address)
    assert (code, printed) == (2, "")
    assert errors.startswith("streameval: ")
    assert said in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize("text", ["10s", "90m", "36h", "14d", "1y", "10y", "1.5s", "0.00005s"])
def test_spans_are_read_and_written_alike(text: str) -> None:
    """What is printed can be given back."""
    assert format_span(parse_span(text)) == text
    assert parse_span("2w") == timedelta(days=14)


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Return a file of last year's cases."""
    start = datetime.now(UTC) - timedelta(days=380)
    rows = [
        f"{day % 3 == 0:d},{(day * 37 % 100) / 100},{(start + timedelta(days=day)).isoformat()},"
        f"{'US' if day % 2 else 'DE'}"
        for day in range(365)
    ]
    path = tmp_path / "history.csv"
    path.write_text("\n".join(["label,score,time,country", *rows]) + "\n")
    return path


def test_history_is_loaded_by_one_command(address: str, history: Path) -> None:
    """Rows older than the default retention need --create --retention; refusals say so."""
    push = ("--server", address, "--time", "time", "--segment", "country")
    code, _, errors = run("push", "h/1", history, *push)
    assert code == 2
    assert "event time must not be older than retention" in errors
    remedy = f"streameval streams create h/1 --segment country --retention 2y --server {address}"
    assert f"run {remedy}, or" in errors
    assert run(*remedy.split()[1:])[0] == 0
    assert run("push", "h/1", history, *push)[0] == 0
    loaded = ("push", "h/2", history, *push, "--create", "--retention", "10y")
    code, printed, errors = run(*loaded)
    assert (code, errors) == (0, "")
    assert "365 cases" in printed
    figures = json.loads(run("query", "--server", address, "h/2", "--window", "2y", "--json")[1])
    assert figures["num_positive_ref"] + figures["num_negative_ref"] == 365
    code, printed, _ = run(*loaded)
    assert (code, printed.splitlines()[0]) == (0, "365 rows were durable before")
    code, _, errors = run(*loaded, "--source", "another")
    assert code == 2
    assert "leave out --create" in errors


def test_settings_of_push_need_create(address: str, history: Path) -> None:
    """A setting that would be ignored is refused."""
    code, _, errors = run("push", "h/3", history, "--server", address, "--pane", "1h")
    assert code == 2
    assert "--pane needs --create: a stream that exists keeps its pane" in errors
    _, _, errors = run("push", "h/3", history, "--server", address, "--retention", "2y")
    remedy = f"streameval streams update h/3 --retention 2y --server {address}"
    assert errors.endswith(f"--retention needs --create; if the stream exists, run: {remedy}\n")
