"""Reading files with bad rows: the good ones are those that are good by themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from streameval.cli import _csv, _files, _ndjson
from streameval.cli._file_values import RowFault
from streameval.cli._good_rows import BadRow, read_good_rows
from streameval.cli._pieces import read_pieces
from streameval.cli._rejects import RejectsFile
from streameval.cli._rows import FileColumns, read_rows

from .bad_rows import (
    STREAM,
    rejected,
)


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
    layout = FileColumns(score="score", label="label", time="at")
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
    assert first.counts[RowFault.SCORE] == bad.sum()


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
    layout = FileColumns(score="score", label="label", time="at")

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
