"""``streameval push --rejects``, broken off or run again: each row is once, here or there."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from streameval.cli._load import Load
from streameval.cli._rejects import RejectsFile
from streameval.client._delivery.numbered_upload import NumberedUpload

from ....commands import refusal, run
from .bad_rows import (
    BAD_CASES,
    COLUMNS,
    STREAM,
    clean_state,
    good_cases,
    mixed,
    rejected,
    state_of,
    write,
)
from .killed_push import killed_push

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.slow
def test_a_push_that_is_killed_goes_on(address: str, tmp_path: Path, dirty: Path) -> None:
    """SIGKILL at one moment after the other: the file has each reject once."""
    rejects = tmp_path / "rejects.ndjson"
    command = ("push", STREAM, str(dirty), "--server", address, *COLUMNS)
    command += ("--rejects", str(rejects))
    contents = set()
    with killed_push(*command) as push:
        for moment, times in (("put", 2), ("settle", 2), ("close", 1)):
            assert push(moment, times) == -signal.SIGKILL
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
@pytest.mark.slow
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
        command = ("push", stream, dirty, "--server", address, *COLUMNS)
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
    command = ("push", STREAM, dirty, "--server", address, *COLUMNS)
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
    command = ("push", STREAM, dirty, "--server", address, *COLUMNS)
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
    command = ("push", STREAM, dirty, "--server", address, *COLUMNS)
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
    command = ("push", STREAM, tmp_path / "a.ndjson", "--server", address, *COLUMNS)
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
    command = ("push", STREAM, dirty, "--server", address, *COLUMNS)
    told = refusal(run(*command, "--rejects", tmp_path / "rejects.ndjson"))
    assert "a file was changed while it was pushed" in told
