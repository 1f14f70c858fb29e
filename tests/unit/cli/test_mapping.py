"""``streameval mapping try``: what a configuration's mappings extract from a sample."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
pytest.importorskip("jmespath", reason="needs the extra payloads")
from ...commands import CommandRunner, app

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

CONFIGURATION = """
[[ingest]]
preset = "kserve-v2"
stream = "fraud/{inferenceservicename}"
class = 1
segments = { shop = "headers.namespace" }

[[ingest]]
preset = "sagemaker-labels"
stream = "fraud/v3"
"""
EVENT = {
    "specversion": "1.0",
    "id": "7",
    "type": "org.kubeflow.serving.inference.response",
    "source": "x",
    "time": "2026-01-02T03:04:05Z",
    "inferenceservicename": "v3",
    "namespace": "eu",
    "data": {"id": "a", "outputs": [{"shape": [2, 2], "data": [0.9, 0.1, 0.5, "x"]}]},
}
WITHOUT = {"segments": {}, "weight": None, "cluster": None, "label_time_us": None}
LABEL = {"groundTruthData": {"data": "1"}, "eventMetadata": {"eventId": "a/0"}}


def attempt(
    folder: Path, sample: Path, *options: str, configuration: str = CONFIGURATION
) -> Result:
    """Run the command on a sample."""
    file = folder / "server.toml"
    file.write_text(configuration)
    command = ["mapping", "try", str(file), "--sample", str(sample), *options]
    return CommandRunner(env={"COLUMNS": "100"}).invoke(app, command)


def test_row_by_row(tmp_path: Path) -> None:
    """Rows as a table, refused ones with reasons; 1 because one is refused."""
    sample = tmp_path / "sample.json"
    sample.write_text(json.dumps(EVENT))
    result = attempt(tmp_path, sample)
    assert result.exit_code == 1, result.output
    assert [line.split() for line in result.stdout.splitlines()[:2]] == [
        ["event", "stream", "id", "score", "label", "time", "segments"],
        ["0", "fraud/v3", "a/0", "0.1", "2026-01-02T03:04:05+00:00", "shop=eu"],
    ]
    refused = "event 0, row 1 is refused by mapping 1 (score): score must be a number, got 'x'"
    assert result.stdout.splitlines()[2:] == [refused]


@pytest.mark.parametrize(
    ("keys", "title", "shown"),
    [('weight = "body.w"\nlabel_probability = "body.p"', "weight", "4.0"),
     ('label_time = "body.known"', "label_time", "2026-01-02T03:04:05+00:00"),
     ('cluster = "body.user"', "cluster", "u1")],
)  # fmt: skip
def test_what_few_rows_have_has_columns(tmp_path: Path, keys: str, title: str, shown: str) -> None:
    """Where a row has one."""
    sample = tmp_path / "sample.json"
    line = {"id": "a", "score": 0.5, "label": 1, "w": 2, "p": 0.5, "user": "u1"}
    line["known"] = "2026-01-02T03:04:05Z"
    sample.write_text(json.dumps(line))
    configuration = f'[[ingest]]\npreset = "ndjson"\nstream = "s"\n{keys}\n'
    result = attempt(tmp_path, sample, configuration=configuration)
    assert result.exit_code == 0, result.output
    head, row = (line.split() for line in result.stdout.splitlines())
    assert (head[-1], row[-1]) == (title, shown)


def test_as_json_from_packed_lines(tmp_path: Path) -> None:
    """A payload a line, packed: each by the first mapping that takes it."""
    sample = tmp_path / "lines.ndjson.gz"
    sample.write_bytes(gzip.compress(f"{json.dumps(LABEL)}\n\n{json.dumps(LABEL)}\n".encode()))
    result = attempt(tmp_path, sample, "--json")
    assert result.exit_code == 0, result.output
    row = {"stream": "fraud/v3", "id": "a/0", "score": None, "label": True, "time_us": None}
    assert (
        json.loads(result.stdout)
        == [{"mapping": 2, "rows": [{**row, **WITHOUT}], "refusals": []}] * 2
    )


def test_a_line_that_cannot_be_read_leaves_the_others(tmp_path: Path) -> None:
    """It is named by its number, blank lines counted; exit code 1."""
    sample = tmp_path / "lines.ndjson"
    sample.write_text(f"{json.dumps(LABEL)}\n\nno JSON\n{json.dumps(LABEL)}\n")
    result = attempt(tmp_path, sample)
    assert result.exit_code == 1, result.output
    shown = result.stdout.splitlines()
    assert [line.split()[0] for line in shown[1:3]] == ["0", "2"]
    assert shown[3].startswith("event 1 is refused (unreadable): line 3: the body is not JSON")


def test_why_an_event_is_ignored(tmp_path: Path) -> None:
    """By its type, or by `when`."""
    sample = tmp_path / "sample.json"
    mapping = '[[ingest]]\npreset = "ndjson"\nstream = "s"\n'
    sample.write_text(json.dumps({"id": "a", "score": 0.5, "env": "test"}))
    for key, why in (
        ("when = \"body.env == 'live'\"", "`when` is not true"),
        ('types = ["scored"]', "no mapping takes its type"),
    ):
        result = attempt(tmp_path, sample, configuration=mapping + key)
        assert result.exit_code == 1, result.output
        assert result.stdout.splitlines() == [f"event 0 is ignored: {why}"]


def test_headers_of_a_payload(tmp_path: Path) -> None:
    """The attributes that are in headers over HTTP are options here."""
    sample = tmp_path / "sample.json"
    sample.write_text(json.dumps({"id": "a", "outputs": [{"data": [[0.2, 0.8]]}]}))
    attributes = {k: v for k, v in EVENT.items() if k != "data"}
    options = [f"--header=ce-{name}={value}" for name, value in attributes.items()]
    result = attempt(tmp_path, sample, *options, "--json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)
    assert [(row["id"], row["score"], row["segments"]) for row in found["rows"]] == [
        ("a", 0.8, {"shop": "eu"})
    ]


@pytest.mark.parametrize(
    ("configuration", "sample", "message"),
    [
        ("x", "{}", "server.toml: it is not TOML"),
        ("listen = 'x'", "{}", "it has no [[ingest]] table, which is a mapping"),
        ("[ingest]", "{}", "ingest must be tables: [[ingest]]"),
        ("[[ingest]]\nid = 'x'", "{}", "ingest 1: stream is needed"),
        (CONFIGURATION, "{", "sample.json: the body is not JSON"),
        (CONFIGURATION, '{"specversion": "1.0"}', "sample.json: the event has no id"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    tmp_path: Path, configuration: str, sample: str, message: str
) -> None:
    """The file at fault, and what is wrong; exit code 2."""
    file = tmp_path / "sample.json"
    file.write_text(sample)
    result = attempt(tmp_path, file, configuration=configuration)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
