"""``streameval push --rejects``: what cannot be counted is in a file, and all else counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streameval.cli import _output
from streameval.cli._file_values import RowFault
from streameval.client import Client

from ....commands import refusal, run
from .bad_rows import (
    BAD_CASES,
    COLUMNS,
    STREAM,
    good_cases,
    mixed,
    rejected,
    state_of,
    write,
)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "ndjson", "parquet"])
@pytest.mark.slow
def test_all_but_the_bad_rows_count(address: str, tmp_path: Path, suffix: str) -> None:
    """Each kind of bad row in directories of each kind of file: in the file, once, with its place.

    The state is byte for byte that of the good rows alone, and so is each slice.
    """
    bad = list(BAD_CASES)
    if suffix.startswith("csv"):
        bad.append((b"0.5", "unreadable", "Expected 5 columns, got 1"))
        bad.append((b'0.5,1,"\xff",DE,u1', "unreadable", "it is not UTF-8"))
        bad.append((b"\x00\xff\xfe", "unreadable", "Expected 5 columns, got 1"))
    elif suffix.startswith("ndjson"):
        bad.append((b'{"score": 0.5, "label":', "unreadable", "it is not JSON"))
        bad.append((b'{"score": 0.5, "label": 1, "x": "\xff"}', "unreadable", "it is not UTF-8"))
        bad.append((b"[0.5, 1]", "unreadable", "it is not a JSON object"))
        bad.append((b'{"label": 1}', "score", "score is missing"))
    dirty, clean = tmp_path / "dirty", tmp_path / "clean"
    expected = []
    for number in range(3):
        good = good_cases(130, number)
        rows = mixed(good, bad)
        write(dirty / f"day={number}" / f"a.{suffix}", [row for row, _ in rows])
        write(clean / f"day={number}" / f"a.{suffix}", good)
        file = str((dirty / f"day={number}" / f"a.{suffix}").resolve())
        expected += [(file, place, *why) for place, (_, why) in enumerate(rows, start=1) if why]
    rejects = tmp_path / "rejects.ndjson"
    command = ("push", "dirty", dirty, "--server", address, *COLUMNS)
    done = run(*command, "--rejects", rejects)
    assert done.exit_code == 1, done.output
    assert f"390 cases of {dirty} are durable in dirty" in done.stdout

    names = ("file", "row", "reason", "message")
    found = [[row[f"streameval_{name}"] for name in names] for row in rejected(rejects)]
    assert [each[:3] for each in found] == [list(each[:3]) for each in expected]
    for each, (_, _, _, message) in zip(found, expected, strict=True):
        assert each[3].startswith(message)
    # Each reason is told once, with its count and its first place.
    told = done.stderr.splitlines()
    assert told[0] == f"{len(expected)} rows do not count, they are in {rejects}:"
    reasons = sorted({reason for _, _, reason, _ in expected})
    assert len(told) == 1 + len(reasons)
    for line, reason in zip(told[1:], reasons, strict=True):
        file, row, _, message = next(each for each in expected if each[2] == reason)
        count = sum(each[2] == reason for each in expected)
        wanted = f"{count} for {reason}, the first {file}: row {row}: {message}"
        assert line.startswith(wanted[:200])

    assert run("push", "clean", clean, "--server", address, *COLUMNS).exit_code == 0
    for segment in (None, ("country", "DE"), ("country", "US")):
        wanted = state_of(address, "clean", segment=segment)
        assert state_of(address, "dirty", segment=segment) == wanted
    # Without the option nothing is pushed, as ever.
    assert "row " in refusal(run(*command, "--source", "other"))


def test_predictions_labels_and_weights(address: str, tmp_path: Path) -> None:
    """Two files joined by id: each has its own bad rows, ids and weights among them."""
    random = np.random.default_rng(5)
    weights = [int(value) for value in random.integers(1, 9, 120)]
    scores = [{"id": f"r{row}", "score": int(random.integers(0, 9))} for row in range(120)]
    labels = [
        {"id": f"r{row}", "label": "fraud" if row % 3 == 0 else "ok", "w": weights[row]}
        for row in range(120)
    ]
    bad_scores = [({"id": "x" * 10_000}, "id", "id must be at most 128 bytes of UTF-8")]
    bad_scores += [({"id": ""}, "id", "id must not be empty")]
    bad_labels = [
        ({"w": -1}, "weight", "weight must be"),
        ({"w": "many"}, "weight", "w 'many' is not a number"),
        ({"w": 1e-3}, "weight", "weight 0.001 would change"),
        ({"label": "unsure"}, "label", "label 'unsure' is neither 'fraud' nor 'ok'"),
        ({"label": None}, "label", "label is missing"),
        ({"id": None}, "id", "id is missing"),
    ]
    for name, good, bad in (("scores", scores, bad_scores), ("labels", labels, bad_labels)):
        write(tmp_path / f"clean-{name}.ndjson", good)
        write(tmp_path / f"dirty-{name}.ndjson", [row for row, _ in mixed(good, bad)])
    for kind, code in (("clean", 0), ("dirty", 1)):
        done = run(
            *("push", kind, tmp_path / f"{kind}-scores.ndjson", "--server", address),
            *("--labels", tmp_path / f"{kind}-labels.ndjson", "--id", "id", "--weight", "w"),
            *("--positive", "fraud", "--rejects", tmp_path / f"{kind}.ndjson"),
        )
        assert done.exit_code == code, done.output
    assert (tmp_path / "clean.ndjson").read_text() == ""
    found = rejected(tmp_path / "dirty.ndjson")
    expected = [
        why
        for good, bad in ((scores, bad_scores), (labels, bad_labels))
        for _, why in mixed(good, bad)
        if why
    ]
    assert len(found) == 8
    for row, (reason, message) in zip(found, expected, strict=True):
        assert row["streameval_reason"] == reason
        assert row["streameval_message"].startswith(message)
    assert state_of(address, "dirty") == state_of(address, "clean")


def test_rejects_that_are_mended_are_pushed_from_their_file(address: str, tmp_path: Path) -> None:
    """The file has the rows as they were: mended, it is a file like any other."""
    good = good_cases(150, 1)
    write(tmp_path / "whole.ndjson", good)
    broken = [
        row | {"score": f"{row['score']}?"} if n % 11 == 4 else row for n, row in enumerate(good)
    ]
    write(tmp_path / "dirty.ndjson", broken)
    rejects = tmp_path / "rejects.ndjson"
    first = run(
        *("push", "dirty", tmp_path / "dirty.ndjson", "--server", address, *COLUMNS),
        *("--rejects", rejects),
    )
    assert first.exit_code == 1
    assert len(rejected(rejects)) == 14
    mended = tmp_path / "mended.ndjson"
    mended.write_text(rejects.read_text().replace('?"', '"'))
    for file, stream in ((mended, "dirty"), (tmp_path / "whole.ndjson", "whole")):
        done = run("push", stream, file, "--server", address, *COLUMNS)
        assert done.exit_code == 0, done.output
    assert state_of(address, "dirty") == state_of(address, "whole")


def test_files_of_bad_rows_alone_push_nothing(address: str, tmp_path: Path) -> None:
    """The wrong column: one line, no stream, and the file to look into."""
    write(tmp_path / "a.ndjson", good_cases(300, 1))
    rejects = tmp_path / "rejects.ndjson"
    told = refusal(
        run(
            *("push", STREAM, tmp_path / "a.ndjson", "--server", address),
            *("--score", "country", "--rejects", rejects),
        )
    )
    assert told.startswith(f"streameval: no row was pushed: all 300 are in {rejects}, the first")
    assert "row 1: score " in told
    assert len(rejected(rejects)) == 300
    with Client(address) as client:
        assert not client.list_streams()


def test_one_bad_row_is_one(address: str, tmp_path: Path) -> None:
    """In the singular."""
    write(tmp_path / "a.ndjson", [*good_cases(5, 1), good_cases(1, 2)[0] | {"score": "high"}])
    rejects = tmp_path / "rejects.ndjson"
    command = ("push", STREAM, tmp_path / "a.ndjson", "--server", address, *COLUMNS)
    done = run(*command, "--rejects", rejects)
    assert done.exit_code == 1, done.output
    assert done.stderr.splitlines()[0] == f"1 row does not count, it is in {rejects}:"


def test_where_rejects_may_be_written(address: str, tmp_path: Path, dirty: Path) -> None:
    """Never over the files that are pushed, nor over what has something else."""
    other = tmp_path / "other.ndjson"
    other.write_text('{"score": 0.5}\n')
    for target, told in (
        (dirty / "0.ndjson", "is among the files to push"),
        (dirty / "new.ndjson", "is among the files to push"),
        (tmp_path / "rejects.csv", "--rejects must name an NDJSON file, .ndjson or .jsonl"),
        (other, "exists, and is no file of rejected rows: move it"),
        (tmp_path / "nowhere" / "rejects.ndjson", "No such file or directory"),
    ):
        content = target.read_bytes() if target.exists() else None
        command = ("push", STREAM, dirty, "--server", address, *COLUMNS)
        assert told in refusal(run(*command, "--rejects", target))
        assert (target.read_bytes() if target.exists() else None) == content
    with Client(address) as client:
        assert not client.list_streams()


def test_a_terminal_shows_the_bar_and_the_rejects(
    address: str, tmp_path: Path, dirty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The progress bar is as without rejects, and their lines are below it."""
    shown = _output.Console(force_terminal=True, width=400, record=True, highlight=False)
    monkeypatch.setattr(_output, "err", shown)
    monkeypatch.setattr("streameval.cli._push.err", shown)
    command = ("push", STREAM, dirty, "--server", address, *COLUMNS)
    assert run(*command, "--rejects", tmp_path / "rejects.ndjson").exit_code == 1
    printed = shown.export_text()
    assert "pushing to fraud/v3" in printed
    assert "100%" in printed
    assert " rows/s" in printed
    assert f"{3 * len(BAD_CASES)} rows do not count" in printed.splitlines()[-6]


def test_reasons_are_those_of_payloads() -> None:
    """One word for one reason, in the file, in answers of the intake and in dead letters."""
    payloads = pytest.importorskip("streameval.payloads", reason="needs the extra payloads")
    names = {each.value for each in payloads.Reason} | {"store"}
    assert {each.value for each in RowFault} <= names
