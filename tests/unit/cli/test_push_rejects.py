"""``streameval push --rejects``: what cannot be counted is in a file, and all else counts."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer", reason="needs the extra cli")

from streameval._common.atomic_file import write_atomically
from streameval.cli import _csv, _files, _ndjson, _output, _pieces
from streameval.cli._file_values import Reason
from streameval.cli._good_rows import BadRow, read_good_rows
from streameval.cli._load import Load
from streameval.cli._pieces import read_pieces
from streameval.cli._rejects import RejectsFile
from streameval.cli._rows import Layout, read_rows
from streameval.client import Client
from streameval.client._delivery.numbered_upload import NumberedUpload
from streameval_server import Settings
from streameval_server.testing import running_server

from ...commands import refusal, run
from .killed_push import PIECE_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


KILLED = Path(__file__).with_name("killed_push.py")
STREAM = "fraud/v3"


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut files as the killed commands do."""
    monkeypatch.setattr(_pieces, "PIECE_ROWS", PIECE_ROWS)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Yield the address of a server with a log."""
    with running_server(Settings(listen="127.0.0.1:0", data=tmp_path / "data")) as address:
        yield address


def rejected(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def state_of(address: str, stream: str, **options: Any) -> bytes:
    with Client(address) as client:
        client.list_streams()  # waits until all is visible
        return client.stream(stream).evaluator(**options).to_bytes()


NOW = pd.Timestamp.now("UTC").floor("min")
"""Once for all tests: files that are written twice have the same times."""


def minutes(rows: int) -> list[str]:
    """Return times of the last hours."""
    return [(NOW - pd.Timedelta(minutes=row + 1)).isoformat() for row in range(rows)]


def good_cases(rows: int, seed: int) -> list[dict[str, Any]]:
    """Return rows with every column, as text has them."""
    random = np.random.default_rng(seed)
    scores, labels = random.integers(0, 64, rows) / 64, random.integers(0, 2, rows)
    return [
        {
            "score": float(score),
            "label": int(label),
            "time": time,
            "country": str(random.choice(["DE", "US"])),
            "user": f"u{random.integers(0, 20)}",
        }
        for score, label, time in zip(scores, labels, minutes(rows), strict=True)
    ]


BAD_CASES: list[tuple[dict[str, Any], str, str]] = [
    ({"score": "high"}, "score", "score 'high' is not a number"),
    ({"score": "nan"}, "score", "score must be finite, got nan"),
    ({"score": "-inf"}, "score", "score must be finite, got -inf"),
    ({"score": "[0.1, 0.2]"}, "score", "score '[0.1, 0.2]' is not a number"),
    ({"label": "maybe"}, "label", "label 'maybe' is none of 0, 1, true, false"),
    ({"time": "yesterday"}, "time", "time 'yesterday' is not a time"),
    ({"time": "1970-01-01"}, "time", "time must be after 1970 and in seconds, got '1970-01-01'"),
    ({"time": "0"}, "time", "time must be after 1970 and in seconds, got '0'"),
    ({"time": "2999-01-01T00:00:00Z"}, "store", "event time must not lie in the future"),
    ({"country": "x" * 200}, "segment", "segment value must be at most 128 bytes of UTF-8"),
]
"""What a case has instead, and the reason and message of its rejection."""


def mixed(good: list[dict[str, Any]], bad: list[tuple[Any, str, str]]) -> list[tuple[Any, Any]]:
    """Return good rows and bad ones between them, with what each bad one is rejected for."""
    rows: list[tuple[Any, Any]] = [(row, None) for row in good]
    for place, (change, *why) in enumerate(bad):
        at = (7 * place * place + 3) % len(rows)
        row = change if isinstance(change, bytes) else good[place] | change
        rows.insert(at, (row, why))
    return rows


def write(path: Path, rows: list[Any]) -> None:
    """Write rows; those that are bytes are lines as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pd.DataFrame(rows).astype({"score": str, "label": str}).to_parquet(path, row_group_size=70)
        return
    if ".csv" in path.name:
        lines = [b"score,label,time,country,user"]
        lines += [
            row if isinstance(row, bytes) else ",".join(f'"{row[key]}"' for key in row).encode()
            for row in rows
        ]
    else:
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    content = b"\n".join(lines) + b"\n"
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


COLUMNS = ("--time", "time", "--segment", "country", "--cluster", "user")


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "ndjson", "parquet"])
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
        bad.append((b'{"score": 0.5, "label": 1, "x": "\xff"}', "unreadable", "it is not JSON"))
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
    command = ("push", dirty, "--to", address, "--stream", "dirty", *COLUMNS)
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

    assert run("push", clean, "--to", address, "--stream", "clean", *COLUMNS).exit_code == 0
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
        ({"w": 0.3}, "weight", "weight must be"),
        ({"label": "unsure"}, "label", "label 'unsure' is neither 'fraud' nor 'ok'"),
        ({"label": None}, "label", "label is missing"),
        ({"id": None}, "id", "id is missing"),
    ]
    for name, good, bad in (("scores", scores, bad_scores), ("labels", labels, bad_labels)):
        write(tmp_path / f"clean-{name}.ndjson", good)
        write(tmp_path / f"dirty-{name}.ndjson", [row for row, _ in mixed(good, bad)])
    for kind, code in (("clean", 0), ("dirty", 1)):
        done = run(
            *("push", tmp_path / f"{kind}-scores.ndjson", "--to", address, "--stream", kind),
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
        *("push", tmp_path / "dirty.ndjson", "--to", address, "--stream", "dirty", *COLUMNS),
        *("--rejects", rejects),
    )
    assert first.exit_code == 1
    assert len(rejected(rejects)) == 14
    mended = tmp_path / "mended.ndjson"
    mended.write_text(rejects.read_text().replace('?"', '"'))
    for file, stream in ((mended, "dirty"), (tmp_path / "whole.ndjson", "whole")):
        done = run("push", file, "--to", address, "--stream", stream, *COLUMNS)
        assert done.exit_code == 0, done.output
    assert state_of(address, "dirty") == state_of(address, "whole")


@pytest.fixture
def dirty(tmp_path: Path) -> Path:
    """Return a directory of three files with bad rows, 390 good ones in all."""
    for number in range(3):
        rows = mixed(good_cases(130, number), BAD_CASES)
        write(tmp_path / "dirty" / f"{number}.ndjson", [row for row, _ in rows])
    return tmp_path / "dirty"


def clean_state(address: str, tmp_path: Path) -> bytes:
    for number in range(3):
        write(tmp_path / "clean" / f"{number}.ndjson", good_cases(130, number))
    command = ("push", tmp_path / "clean", "--to", address, "--stream", "clean", *COLUMNS)
    assert run(*command).exit_code == 0
    return state_of(address, "clean")


def test_a_push_that_is_killed_goes_on(address: str, tmp_path: Path, dirty: Path) -> None:
    """SIGKILL at one moment after the other: the file has each reject once."""
    rejects = tmp_path / "rejects.ndjson"
    command = ("push", str(dirty), "--to", address, "--stream", STREAM, *COLUMNS)
    command += ("--rejects", str(rejects))
    contents = set()
    for moment, times in (("put", 2), ("settle", 2), ("close", 1)):
        arguments = [sys.executable, str(KILLED), moment, str(times), *command]
        assert subprocess.run(arguments, check=False).returncode == -signal.SIGKILL
        contents.add(rejects.read_bytes())
    done = run(*command)
    assert done.exit_code == 1, done.output
    assert "rows were durable before" in done.stdout
    contents.add(rejects.read_bytes())
    assert len(contents) == 1
    assert len(rejected(rejects)) == 3 * len(BAD_CASES)
    assert state_of(address, STREAM) == clean_state(address, tmp_path)
    again = run(*command)
    assert (again.exit_code, rejects.read_bytes()) == (1, contents.pop())
    assert again.stdout.startswith("390 rows were durable before")


class _BrokenOffError(BaseException):
    pass


@pytest.mark.parametrize(
    ("kind", "name", "ends"),
    [
        (NumberedUpload, "put", (1, 2, 9)),
        (NumberedUpload, "finish", (1, 2)),
        (RejectsFile, "counting", (1,)),
    ],
)
def test_wherever_a_push_ends(  # noqa: PLR0917 - fixtures
    address: str,
    tmp_path: Path,
    dirty: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    name: str,
    ends: tuple[int, ...],
) -> None:
    """Broken off at each call of a method, and run again: each row is once, here or there."""
    wanted = clean_state(address, tmp_path)
    method: Callable[..., Any] = getattr(kind, name)
    for end in ends:
        left = end

        def ending(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                raise _BrokenOffError
            return method(*arguments, **options)

        stream, rejects = f"ended/{name.strip('_')}-{end}", tmp_path / f"{end}.ndjson"
        command = ("push", dirty, "--to", address, "--stream", stream, *COLUMNS)
        command += ("--rejects", rejects)
        with monkeypatch.context() as patched:
            patched.setattr(kind, name, ending)
            with pytest.raises(_BrokenOffError):
                run(*command)
        assert len(rejected(rejects)) == 3 * len(BAD_CASES)
        done = run(*command)
        assert done.exit_code == 1, done.output
        assert len(rejected(rejects)) == 3 * len(BAD_CASES)
        assert state_of(address, stream) == wanted


def test_a_first_pass_that_ends_leaves_the_file_as_it_was(
    address: str, tmp_path: Path, dirty: Path
) -> None:
    """A column that is missing in the last file, and what a killed process has left beside."""
    rejects = tmp_path / "rejects.ndjson"
    command = ("push", dirty, "--to", address, "--stream", STREAM, *COLUMNS)
    assert run(*command, "--rejects", rejects).exit_code == 1
    before = rejects.read_bytes()
    (tmp_path / "rejects.ndjson.partial").write_text("half a li")
    write(dirty / "3.ndjson", [{"score": 1, "label": 1, "time": 1, "country": "DE"}])
    assert "3.ndjson: no column 'user'" in refusal(run(*command, "--rejects", rejects))
    assert rejects.read_bytes() == before
    assert [each.name for each in tmp_path.glob("rejects*")] == ["rejects.ndjson"]


def test_new_files_are_added_and_rejects_stay(address: str, tmp_path: Path, dirty: Path) -> None:
    """A daily job: the file has the rejects of all days, each once."""
    rejects = tmp_path / "rejects.ndjson"
    command = ("push", dirty, "--to", address, "--stream", STREAM, *COLUMNS)
    assert run(*command, "--rejects", rejects).exit_code == 1
    first = rejected(rejects)
    new = good_cases(60, 9)
    write(dirty / "3.ndjson", [row for row, _ in mixed(new, BAD_CASES[:2])])
    done = run(*command, "--rejects", rejects)
    assert done.exit_code == 1
    assert done.stdout.startswith("390 rows were durable before\n450 cases of ")
    assert rejected(rejects)[: len(first)] == first
    assert len(rejected(rejects)) == len(first) + 2


def test_files_without_the_bad_rows_are_the_same_load(
    address: str, tmp_path: Path, dirty: Path
) -> None:
    """Bad rows that are taken out afterwards change nothing: all is durable before."""
    command = ("push", dirty, "--to", address, "--stream", STREAM, *COLUMNS)
    assert run(*command, "--rejects", tmp_path / "rejects.ndjson").exit_code == 1
    for number in range(3):
        write(dirty / f"{number}.ndjson", good_cases(130, number))
    done = run(*command)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("390 rows were durable before\n390 cases of ")
    assert state_of(address, STREAM) == clean_state(address, tmp_path)


def test_a_future_that_has_come_stays_rejected(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is rejected for its time; when the load goes on later, it cuts the same pieces."""
    rows = good_cases(130, 1)
    rows[60]["time"] = (pd.Timestamp.now("UTC") + pd.Timedelta(minutes=30)).isoformat()
    write(tmp_path / "a.ndjson", rows)
    rejects = tmp_path / "rejects.ndjson"
    command = ("push", tmp_path / "a.ndjson", "--to", address, "--stream", STREAM, *COLUMNS)
    command += ("--rejects", rejects)
    assert run(*command).exit_code == 1
    (row,) = rejected(rejects)
    assert (row["streameval_row"], row["streameval_reason"]) == (61, "store")
    # As if an hour had passed for the command.
    monkeypatch.setattr("streameval.cli._rejects.MAX_FUTURE", np.timedelta64(90, "m"))
    done = run(*command)
    assert done.exit_code == 1, done.output
    assert done.stdout.startswith("129 rows were durable before")
    assert rejected(rejects) == [row]


def test_files_of_bad_rows_alone_push_nothing(address: str, tmp_path: Path) -> None:
    """The wrong column: one line, no stream, and the file to look into."""
    write(tmp_path / "a.ndjson", good_cases(300, 1))
    rejects = tmp_path / "rejects.ndjson"
    told = refusal(
        run(
            *("push", tmp_path / "a.ndjson", "--to", address, "--stream", STREAM),
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
    command = ("push", tmp_path / "a.ndjson", "--to", address, "--stream", STREAM, *COLUMNS)
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
        command = ("push", dirty, "--to", address, "--stream", STREAM, *COLUMNS)
        assert told in refusal(run(*command, "--rejects", target))
        assert (target.read_bytes() if target.exists() else None) == content
    with Client(address) as client:
        assert not client.list_streams()


def test_a_file_that_changes_meanwhile_is_told(
    address: str, tmp_path: Path, dirty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that becomes bad between the two passes is not silently left out."""
    begin = Load._begin

    def changing(self: Load, *arguments: Any) -> Any:
        with (dirty / "2.ndjson").open("a") as file:
            file.write("{}\n")
        return begin(self, *arguments)

    monkeypatch.setattr(Load, "_begin", changing)
    command = ("push", dirty, "--to", address, "--stream", STREAM, *COLUMNS)
    told = refusal(run(*command, "--rejects", tmp_path / "rejects.ndjson"))
    assert "a file was changed while it was pushed" in told


def test_a_terminal_shows_the_bar_and_the_rejects(
    address: str, tmp_path: Path, dirty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The progress bar is as without rejects, and their lines are below it."""
    shown = _output.Console(force_terminal=True, width=400, record=True, highlight=False)
    monkeypatch.setattr(_output, "err", shown)
    monkeypatch.setattr("streameval.cli._push.err", shown)
    command = ("push", dirty, "--to", address, "--stream", STREAM, *COLUMNS)
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
    assert {each.value for each in Reason} <= names


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet", "npz"])
@pytest.mark.parametrize("share", [0.01, 1.0])
def test_pieces_are_those_of_the_good_rows(
    tmp_path: Path, suffix: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many chunks, few bad rows to bad rows alone: the same batches, and each bad row once."""
    for module in (_files, _ndjson):
        monkeypatch.setattr(module, "ROWS_PER_CHUNK", 100)
    for module in (_csv, _ndjson):
        monkeypatch.setattr(module, "BLOCK_BYTES", 1000)
    random = np.random.default_rng(int(100 * share))
    frame = pd.DataFrame(
        {
            "score": random.integers(0, 99, 1234) / 8,
            "label": random.integers(0, 2, 1234),
            "at": 1.7e9 + np.arange(1234),
        }
    )
    bad = random.random(1234) < share
    dirty, clean = tmp_path / f"dirty.{suffix}", tmp_path / f"clean.{suffix}"
    for path, rows in ((dirty, frame.assign(score=frame.score.mask(bad))), (clean, frame[~bad])):
        if suffix == "npz":
            np.savez(path, **{name: rows[name].to_numpy() for name in rows})
        elif suffix == "parquet":
            rows.to_parquet(path)
        elif suffix == "csv":
            rows.to_csv(path, index=False)
        else:
            rows.to_json(path, orient="records", lines=True)
    layout = Layout(score="score", label="label", time="at")
    sink = RejectsFile(tmp_path / "rejects.ndjson", [])
    with sink.writing() as first:
        found = list(read_pieces(dirty, layout, STREAM, first))
    wanted = list(read_pieces(clean, layout, STREAM)) if not bad.all() else []
    assert [each.columns.batch(1) for each in found] == [each.columns.batch(1) for each in wanted]
    assert [each.rows for each in found] == [each.rows for each in wanted]
    numbers = np.flatnonzero(~bad) + 1
    if numbers.size:
        assert (found[0].first_row, found[-1].last_row) == (numbers[0], numbers[-1])
    rows_of = [row["streameval_row"] for row in rejected(tmp_path / "rejects.ndjson")]
    assert rows_of == list(np.flatnonzero(bad) + 1)
    assert first.counts[Reason.SCORE] == bad.sum()


def test_every_row_is_good_or_bad_by_itself(tmp_path: Path) -> None:
    """Random rows: one is good in a file of many if it is good in a file of its own."""
    random = np.random.default_rng(17)
    choices = {
        "score": ["0.5", "1e3", "", "x", "inf", " 1", "0x1"],
        "label": ["0", "1", "true", "2", ""],
        "at": ["1700000000", "2023-11-14", "2023-11-14T22:13:20+01:00", "0", "x", ""],
    }
    weights = {
        name: [0.8] + [0.2 / (len(values) - 1)] * (len(values) - 1)
        for name, values in choices.items()
    }
    rows = [
        [str(random.choice(values, p=weights[name])) for name, values in choices.items()]
        for _ in range(120)
    ]
    layout = Layout(score="score", label="label", time="at")

    def read(lines: list[list[str]]) -> tuple[list[int], list[BadRow]]:
        path = tmp_path / "rows.csv"
        path.write_text("score,label,at\n" + "".join(",".join(row) + "\n" for row in lines))
        bad: list[BadRow] = []
        chunks = read_good_rows(path, layout, lambda _rows: None, bad.append)
        return [number for rows in chunks for number in rows.numbers.tolist()], bad

    good, bad = read(rows)
    assert sorted(good + [each.number for each in bad]) == list(range(1, 121))
    assert 20 < len(good) < 100
    alone = [number for number, row in enumerate(rows, start=1) if read([row])[0]]
    assert good == alone
    # What is strict reads the same values of the good ones.
    path = tmp_path / "good.csv"
    kept = "".join(",".join(rows[number - 1]) + "\n" for number in good)
    path.write_text("score,label,at\n" + kept)
    (strict,) = read_rows(path, layout)
    assert strict.count == len(good)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    """With `replace`: an error leaves the old content, and what was left beside does not stand."""
    target = tmp_path / "a"
    target.write_text("old")
    (tmp_path / "a.partial").write_text("left")

    def fail() -> None:
        with write_atomically(target, replace=True) as partial:
            partial.write_text("half")
            raise _BrokenOffError

    with pytest.raises(_BrokenOffError):
        fail()
    assert target.read_text() == "old"
    with write_atomically(target, replace=True) as partial:
        partial.write_text("new")
    assert target.read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
