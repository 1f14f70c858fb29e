"""``streameval push``: each row once, however often the command is killed and run again."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer", reason="needs the extra cli")

from streameval import Evaluator
from streameval.cli import _output
from streameval.cli._load import Load
from streameval.client import Client
from streameval.client._delivery.numbered_upload import NumberedUpload
from streameval_server import Settings
from streameval_server.testing import running_server

from ....commands import outcome, refusal, run
from .killed_push import killed_push

if TYPE_CHECKING:
    from collections.abc import Callable


STREAM = "fraud/v3"


def cases(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    labels = random.random(rows) < 0.4
    scores = np.round(8 * random.random(rows) + labels) / 8
    return pd.DataFrame({"label": labels.astype(int), "score": scores})


def write(path: Path, frame: pd.DataFrame) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        frame.to_parquet(path, row_group_size=70)
    elif path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory of three NDJSON files with 120, 130 and 140 rows: nine pieces."""
    for number in range(3):
        write(tmp_path / "history" / f"day={number}" / "a.ndjson", cases(120 + 10 * number, number))
    return tmp_path / "history"


def frame_of(directory: Path) -> pd.DataFrame:
    files = sorted(directory.rglob("*.ndjson"))
    return pd.concat([pd.read_json(file, lines=True) for file in files])


def counted(address: str, stream: str = STREAM) -> Evaluator:
    with Client(address) as client:
        client.list_streams()  # waits until all is visible
        return client.stream(stream).evaluator()


def by_score(evaluator: Evaluator) -> dict[float, tuple[int, int]]:
    """Return the positives and negatives that an evaluator has at each score."""
    points = evaluator.operating_points()
    counts = zip(np.diff(points.tp, prepend=0), np.diff(points.fp, prepend=0), strict=True)
    found = zip(points.thresholds, counts, strict=True)
    return {float(score): (int(tp), int(fp)) for score, (tp, fp) in found if tp or fp}


def by_hand(frame: pd.DataFrame) -> dict[float, tuple[int, int]]:
    """Return the same of rows, each counted once."""
    groups = frame.groupby("score").label
    return {
        float(score): (int(positives), int(rows - positives))
        for score, positives, rows in zip(
            groups.sum().index, groups.sum(), groups.count(), strict=True
        )
    }


@pytest.mark.slow
def test_a_push_that_is_killed_goes_on(address: str, directory: Path) -> None:
    """SIGKILL at one moment after the other: the last run sends the rest, and each row is once."""
    command = ("push", STREAM, str(directory), "--server", address)
    command += ("--create", "--retention", "60d")
    before = 0
    with killed_push(*command) as push, Client(address) as client:
        for moment, times in (
            ("begin", 1),
            ("create", 1),
            ("put", 1),
            ("put", 2),
            ("put", 3),
            ("settle", 2),
            ("finish", 1),
            ("close", 1),
        ):
            assert push(moment, times) == -signal.SIGKILL
            client.list_streams()
            rows = client.stream(STREAM).snapshot().num_cases
            assert rows >= before
            before = rows
    done = run(*command)
    assert done.exit_code == 0, done.output
    wanted = by_hand(frame_of(directory))
    assert sum(map(sum, wanted.values())) == 390
    assert f"{before} rows were durable before" in done.stdout
    assert "390 cases of" in done.stdout
    assert by_score(counted(address)) == wanted
    again = run(*command)
    assert again.exit_code == 0, again.output
    assert "390 rows were durable before" in again.stdout
    assert by_score(counted(address)) == wanted


def test_a_file_without_rows_is_said(address: str, tmp_path: Path) -> None:
    """By push and by evaluate, also in JSON; it is no error, as for a day without orders."""
    file = tmp_path / "rows.csv"
    file.write_text("score,label,country\n")
    said = f"{file} has no rows: is it complete?"
    code, _, errors = outcome("push", STREAM, file, "--server", address)
    assert (code, errors) == (0, f"streameval: {said}\n")
    for options in ((), ("--by", "country"), ("--json",)):
        code, printed, _ = outcome("evaluate", file, *options)
        assert (code, said in printed) == (0, True), options


def test_a_bad_row_is_named_and_nothing_is_sent(address: str, tmp_path: Path) -> None:
    """In the last file of a directory: one line with file, row and value; mended, all count."""
    first, last = tmp_path / "rows" / "0.ndjson", tmp_path / "rows" / "1.ndjson"
    command = ("push", STREAM, tmp_path / "rows", "--server", address, "--id", "id")
    command += ("--labels", tmp_path / "labels.ndjson")
    frame = cases(70, 1).assign(id=[f"r{row}" for row in range(70)])
    write(first, frame)
    write(tmp_path / "labels.ndjson", frame[["id", "label"]])
    for bad, told in (
        ('{"id": "x"}', "score is missing"),
        ('{"id": "x", "score": "high"}', "score 'high' is not a number"),
        ('{"id": "x", "score": NaN}', "score must be finite, got nan"),
        ('{"id": "x", "score": [0.1, 0.2]}', "score '[0.1, 0.2]' is not a number"),
        ('{"score": 0.5}', "id is missing"),
        (f'{{"id": "{"x" * 10_000}", "score": 0.5}}', "id must be at most 128 bytes of UTF-8"),
        ("{", "it is not JSON"),
    ):
        last.write_text('{"id": "y", "score": 0.5}\n' + bad + "\n")
        assert f"1.ndjson: row 2: {told}" in refusal(run(*command))
        with Client(address) as client:
            assert not client.list_streams()
    last.write_text("")
    done = run(*command)
    assert done.exit_code == 0, done.output
    assert by_score(counted(address)) == by_hand(frame)


class _BrokenOffError(BaseException):
    pass


@pytest.mark.parametrize(
    ("kind", "name", "most"),
    [(NumberedUpload, "put", 9), (NumberedUpload, "finish", 2), (Load, "_begin", 1)],
)
@pytest.mark.slow
def test_wherever_a_push_ends(  # noqa: PLR0917 - fixtures
    address: str,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    name: str,
    most: int,
) -> None:
    """Broken off at each call of a method, and run again: each row is once."""
    wanted = by_hand(frame_of(directory))
    method: Callable[..., Any] = getattr(kind, name)
    for end in range(1, most + 1):
        left = end

        def ending(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                raise _BrokenOffError
            return method(*arguments, **options)

        stream = f"ended/{name.strip('_')}-{end}"
        command = ("push", stream, directory, "--server", address)
        with monkeypatch.context() as patched:
            patched.setattr(kind, name, ending)
            with pytest.raises(_BrokenOffError):
                run(*command)
        done = run(*command)
        assert done.exit_code == 0, done.output
        assert by_score(counted(address, stream)) == wanted


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_what_is_new_at_the_end_is_added(address: str, tmp_path: Path, suffix: str) -> None:
    """Files of one kind in the order of their names; a repetition sends only later ones."""
    data = tmp_path / "days"
    frames = [cases(rows, seed=rows) for rows in (170, 90, 200)]
    for number, frame in enumerate(frames[:2]):
        write(data / f"{number}.{suffix}", frame)
    command = ("push", STREAM, data, "--server", address)
    assert run(*command).exit_code == 0
    write(data / f"2.{suffix}", frames[2])
    done = run(*command)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("260 rows were durable before\n460 cases of ")
    assert by_score(counted(address)) == by_hand(pd.concat(frames))


def test_every_column_of_directories(address: str, tmp_path: Path) -> None:
    """Weights and label probabilities, clusters, segments, ids and their labels: as of one file."""
    random = np.random.default_rng(8)
    frame = cases(330, 8).assign(
        id=[f"r{row}" for row in range(330)],
        w=random.integers(1, 9, 330) / 4,
        p=random.choice([0.125, 0.5, 1.0], 330),
        user_id=random.integers(0, 30, 330),
        country=random.choice(["DE", "US"], 330),
        at=pd.Timestamp.now("UTC") - pd.to_timedelta(random.integers(1, 900, 330), unit="m"),
    )
    for number, rows in enumerate(np.array_split(np.arange(330), 3)):
        write(tmp_path / "all" / f"{number}.parquet", frame.iloc[rows])
        write(tmp_path / "truth" / f"{number}.ndjson", frame.iloc[rows][["id", "label", "w", "p"]])
    labels, scores = frame.label.to_numpy(), frame.score.to_numpy()
    weighted, clustered = Evaluator(), Evaluator(cluster_groups=32)
    weights = {"weights": frame.w.to_numpy(), "label_probability": frame.p.to_numpy()}
    weighted.add_cases(labels=labels, scores=scores, **weights)
    clustered.add_cases(labels=labels, scores=scores, clusters=frame.user_id.to_numpy())
    sampling = ("--weight", "w", "--label-probability", "p")
    for stream, options, wanted in (
        ("by/weight", sampling, weighted),
        ("by/cluster", ("--cluster", "user_id"), clustered),
        ("by/id", ("--id", "id", "--labels", tmp_path / "truth", *sampling), weighted),
    ):
        command = ("push", stream, tmp_path / "all", "--server", address, *options)
        command += ("--time", "at", "--segment", "country")
        for _ in range(2):
            done = run(*command)
            assert done.exit_code == 0, done.output
        found = counted(address, stream)
        assert (found.num_cases, found.auc_pr()) == (330, wanted.auc_pr())
        assert found.weights == wanted.weights
        assert tuple(found.interval("auc_roc")) == tuple(wanted.interval("auc_roc"))
        with Client(address) as client:
            german = client.stream(stream).snapshot(segment=("country", "DE"))
            hours = client.stream(stream).evaluator(window=pd.Timedelta(hours=48).to_pytimedelta())
        assert german.num_cases == (frame.country == "DE").sum()
        assert hours.num_cases == 330


def test_a_directory_that_changed_is_refused(address: str, directory: Path) -> None:
    """A row, a file before the place of resumption, or a file less: one line, nothing counted."""
    command = ("push", STREAM, directory, "--server", address)
    assert run(*command).exit_code == 0
    wanted = by_hand(frame_of(directory))
    first = directory / "day=0" / "a.ndjson"
    original = first.read_text()
    first.write_text(original.replace('"label":0', '"label":1', 1))
    changed = "rows up to here are not those that were pushed to fraud/v3 before"
    assert changed in refusal(run(*command))
    first.write_text(original)
    write(directory / "day=0" / "b.ndjson", cases(3, 9))
    assert changed in refusal(run(*command))
    (directory / "day=0" / "b.ndjson").unlink()
    last = directory / "day=2" / "a.ndjson"
    kept = last.read_text()
    last.unlink()
    told = refusal(run(*command))
    assert "250 rows are there, and more were pushed" in told
    assert told.endswith("another load: --source NAME")
    last.write_text(kept)
    assert run(*command).exit_code == 0
    assert by_score(counted(address)) == wanted


def test_a_load_with_a_name_is_another_one(address: str, directory: Path) -> None:
    """--source counts the rows once more, once; elsewhere, the name finds the load again."""
    command = ("push", STREAM, directory, "--server", address)
    for source in ((), ("--source", "again"), ("--source", "again")):
        assert run(*command, *source).exit_code == 0
    frame = frame_of(directory)
    assert by_score(counted(address)) == by_hand(pd.concat([frame, frame]))
    moved = directory.rename(directory.with_name("moved"))
    done = run("push", STREAM, moved, *command[3:], "--source", "again")
    assert done.stdout.startswith("390 rows were durable before")


def test_a_stream_that_was_deleted_begins_from_nothing(address: str, directory: Path) -> None:
    """With --create and without it: what was pushed to the old stream does not count as pushed."""
    command = ("push", STREAM, directory, "--server", address)
    for options in ((), ("--create",), ("--create",)):
        done = run(*command, *options)
        assert done.exit_code == 0, done.output
        assert "before" not in done.stdout
        assert by_score(counted(address)) == by_hand(frame_of(directory))
        assert run("streams", "delete", "--server", address, STREAM, "--yes").exit_code == 0


def test_a_load_that_does_not_fit_its_stream_counts_nothing(address: str, tmp_path: Path) -> None:
    """The first piece is refused alone; once the stream fits, the same command works."""
    write(tmp_path / "a.csv", cases(300, 1).assign(country="DE"))
    assert run("streams", "create", "--server", address, STREAM).exit_code == 0
    command = ("push", STREAM, tmp_path / "a.csv", "--server", address)
    command += ("--segment", "country")
    for _ in range(2):
        told = refusal(run(*command))
        assert told.startswith("streameval: no row was pushed: segment key")
    assert (
        run("streams", "update", "--server", address, STREAM, "--segment", "country").exit_code == 0
    )
    done = run(*command)
    assert done.exit_code == 0, done.output
    assert "before" not in done.stdout
    assert counted(address).num_cases == 300


def test_rows_that_are_refused_later_are_named(address: str, tmp_path: Path) -> None:
    """A piece with a time in the future: the others count, and each run says which rows do not."""
    now = pd.Timestamp.now("UTC")
    times = [now] * 120 + [now + pd.Timedelta(days=2)] + [now] * 60
    frame = cases(181, 1).assign(time=[each.isoformat() for each in times])
    write(tmp_path / "a.csv", frame)
    command = ("push", STREAM, tmp_path / "a.csv", "--server", address, "--time", "time")
    for _ in range(2):
        told = refusal(run(*command))
        assert "50 of 181 rows do not count, and all others do: " in told
        assert "a.csv: rows 101 to 150: event time must not lie in the future" in told
    kept = pd.concat([frame[:100], frame[150:]])
    assert by_score(counted(address)) == by_hand(kept)


def test_a_token_must_be_able_to_ask(tmp_path: Path, directory: Path) -> None:
    """Without the scope query there is no way to know where a load goes on."""
    tokens, file = tmp_path / "tokens.toml", tmp_path / "token"
    file.write_text(run("admin", "token", "x", "--scope", "ingest", "--tokens", tokens).stdout)
    with running_server(Settings(listen="127.0.0.1:0", memory=True, tokens=tokens)) as address:
        command = ("push", STREAM, directory, "--server", address)
        told = refusal(run("--token-file", file, *command))
    assert "its token needs the scopes ingest and query" in told


def test_a_directory_has_files_of_one_kind(tmp_path: Path) -> None:
    write(tmp_path / "a" / "a.csv", cases(3, 1))
    write(tmp_path / "a" / "b.parquet", cases(3, 1))
    told = refusal(run("evaluate", tmp_path / "a"))
    assert told.endswith("a: a directory of CSV and Parquet files: use one kind")


def test_a_terminal_shows_how_far_it_is(
    address: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Share, rows per second and time left on stderr; nothing where that is no terminal."""
    command = ("push", STREAM, directory, "--server", address)
    assert run(*command).stderr == ""
    shown = _output.Console(force_terminal=True, width=120, record=True, highlight=False)
    monkeypatch.setattr(_output, "err", shown)
    assert run(*command, "--source", "again").exit_code == 0
    printed = shown.export_text()
    assert "pushing to fraud/v3" in printed
    assert "100%" in printed
    assert " rows/s" in printed


def test_three_years_in_any_order(address: str, tmp_path: Path) -> None:
    """Hourly rows of three years, shuffled over files: each window is what a count by hand gives.

    Panes older than 7 days are a day wide.
    """
    random = np.random.default_rng(3)
    end = pd.Timestamp.now("UTC").floor("h")
    frame = cases(3 * 365 * 24, seed=4)
    frame["time"] = end - pd.to_timedelta(np.arange(len(frame)), unit="h")
    shuffled = frame.iloc[random.permutation(len(frame))]
    for number, part in enumerate(np.array_split(np.arange(len(frame)), 4)):
        write(tmp_path / "years" / f"{number}.parquet", shuffled.iloc[part])
    command = ("push", STREAM, tmp_path / "years", "--server", address, "--time", "time")
    told = refusal(run(*command))
    assert f"run streameval streams create {STREAM} --retention 4y --server {address}" in told
    with Client(address) as client:
        assert client.list_streams() == []
    done = run(*command, "--create", "--retention", "4y")
    assert done.exit_code == 0, done.output
    assert by_score(counted(address)) == by_hand(frame)

    day = pd.Timedelta(days=1)
    midnight = end.floor("D")
    spans = [(midnight - int(age) * day, 1) for age in random.integers(9, 3 * 365 - 2, 12)]
    spans += [(midnight - 1000 * day, 30), (midnight - 700 * day, 365), (midnight - 1090 * day, 9)]
    with Client(address) as client:
        stream = client.stream(STREAM)
        for start, days in spans:
            window = (start.to_pydatetime(), (start + days * day).to_pydatetime())
            rows = frame[(frame.time >= start) & (frame.time < start + days * day)]
            assert len(rows) == 24 * days
            assert by_score(stream.evaluator(window=window)) == by_hand(rows)
            assert stream.snapshot(window=window).window == window
        # An hour two years ago is widened to its day.
        hour = midnight - 730 * day + pd.Timedelta(hours=5)
        found = stream.snapshot(
            window=(hour.to_pydatetime(), (hour + pd.Timedelta(hours=1)).to_pydatetime())
        )
        whole = hour.floor("D")
        assert found.window == (whole.to_pydatetime(), (whole + day).to_pydatetime())
        assert found.num_cases == 24
    windows = json.loads(
        run("query", "--server", address, STREAM, "--window", "4y", "--json").stdout
    )
    assert windows["num_cases"] == len(frame)
