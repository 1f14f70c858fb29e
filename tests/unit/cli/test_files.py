"""Files of scores and labels: every format, in chunks, and refused files."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyarrow")
import pyarrow as pa
import pyarrow.parquet

from streameval.cli import _csv, _files, _ndjson
from streameval.cli._files import FileError
from streameval.cli._rows import FileColumns, read_rows

SCORES = [0.9, 0.25, -1.5, 3.0]
LABELS = [1, 0, 1, 0]


def read(path: Path, **options: str | None) -> tuple[list[float], list[bool], list[float]]:
    chunks = list(read_rows(path, FileColumns(**{"score": "score", "label": "label", **options})))
    return (
        [float(score) for chunk in chunks for score in chunk.scores],
        [bool(label) for chunk in chunks for label in chunk.labels],
        [chunk.progress for chunk in chunks],
    )


def write(path: Path, frame: pd.DataFrame) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **{name: frame[name].to_numpy() for name in frame})
    elif path.suffix == ".parquet":
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.to_parquet(path)
    elif ".ndjson" in path.name or ".jsonl" in path.name:
        rows = json.loads(frame.to_json(orient="records", double_precision=15))
        text = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    "name", ["a.csv", "a.csv.gz", "a.ndjson", "a.ndjson.gz", "a.jsonl", "a.parquet", "a.npz"]
)
@pytest.mark.parametrize("labels", [LABELS, [True, False, True, False], [1.0, 0.0, 1.0, 0.0]])
def test_formats_give_the_same_columns(tmp_path: Path, name: str, labels: list[object]) -> None:
    """The same table in any format and any kind of 0/1 reads the same."""
    path = write(tmp_path / name, pd.DataFrame({"label": labels, "score": SCORES, "other": "x"}))
    if name.endswith(".gz"):
        assert b"label" in gzip.decompress(path.read_bytes())[:10]
    scores, positives, progress = read(path)
    assert scores == SCORES
    assert positives == [True, False, True, False]
    assert progress[-1] == 1.0


@pytest.mark.parametrize("name", ["a.csv", "a.ndjson", "a.parquet", "a.npz"])
def test_chunks_cover_the_file(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunk by chunk gives every row once, in order; progress only grows."""
    for module in (_files, _ndjson):
        monkeypatch.setattr(module, "ROWS_PER_CHUNK", 100)
    for module in (_csv, _ndjson):
        monkeypatch.setattr(module, "BLOCK_BYTES", 1000)
    frame = pd.DataFrame({"score": np.arange(1234) / 8, "label": np.arange(1234) % 2})
    scores, labels, progress = read(write(tmp_path / name, frame))
    assert scores == list(frame["score"])
    assert labels == list(frame["label"] == 1)
    assert len(progress) > 5
    assert progress == sorted(progress)


@pytest.mark.parametrize("name", ["a.csv", "a.ndjson", "a.parquet", "a.npz"])
def test_named_positive_class(tmp_path: Path, name: str) -> None:
    """--positive names one class; the other value is the negative one."""
    frame = pd.DataFrame({"p": SCORES, "y": ["fraud", "ok", "fraud", "ok"]})
    frame["y"] = frame["y"].astype(str if name != "a.npz" else object)
    if name == "a.npz":
        np.savez(tmp_path / name, p=SCORES, y=np.array(["fraud", "ok", "fraud", "ok"]))
        path = tmp_path / name
    else:
        path = write(tmp_path / name, frame)
    assert read(path, score="p", label="y", positive="fraud")[1] == [True, False, True, False]


@pytest.mark.parametrize(
    ("scores", "labels", "positive", "message"),
    [
        ([0.5] * 16 + [float("nan")], [0] * 17, None, "row 17: score must be finite, got nan"),
        (["0.5", "high"], [0, 1], None, "row 2: score 'high' is not a number"),
        (["0.5", ""], [0, 1], None, "row 2: score '' is not a number"),
        (["0.5", "-inf"], [0, 1], None, "row 2: score must be finite, got -inf"),
        ([1, 2, 3], [0, 1, 2], None, "row 3: label must be true, false, 0 or 1, got '2'"),
        ([1, 2, 3], ["a", "b", "c"], "b", "row 3: label 'c' is neither 'b' nor 'a'"),
    ],
)
def test_bad_rows_are_named(
    tmp_path: Path, scores: list[object], labels: list[object], positive: str | None, message: str
) -> None:
    """The error names the file and the row, counted from 1 after the header."""
    rows = "".join(f"{score},{label}\n" for score, label in zip(scores, labels, strict=True))
    path = tmp_path / "bad.csv"
    path.write_text("score,label\n" + rows)
    with pytest.raises(FileError) as refused:
        read(path, positive=positive)
    assert str(refused.value).startswith(f"{path}: {message}")


def test_row_numbers_go_on_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad row in a later chunk has its row number in the file."""
    monkeypatch.setattr(_csv, "BLOCK_BYTES", 64)
    path = tmp_path / "a.csv"
    path.write_text("score,label\n" + "0.5,1\n" * 100 + "x,1\n")
    with pytest.raises(FileError, match="row 101: score 'x' is not a number"):
        read(path)


def test_missing_values_in_parquet(tmp_path: Path) -> None:
    """A null score or label is refused by its row."""
    path = write(tmp_path / "a.parquet", pd.DataFrame({"score": [0.5, None], "label": [1, 0]}))
    with pytest.raises(FileError, match="row 2: score is missing"):
        read(path)
    frame = pd.DataFrame({"score": [0.5, 0.5], "label": pd.array([1, None], dtype="Int64")})
    with pytest.raises(FileError, match="row 2: label is missing"):
        read(write(tmp_path / "b.parquet", frame))


def test_wrong_columns_and_files(tmp_path: Path) -> None:
    """A wrong column lists the right ones; a broken file is one clear line."""
    path = write(tmp_path / "a.csv", pd.DataFrame({"a": [1], "b": [2]}))
    with pytest.raises(FileError, match=r"no column 'score'; it has a, b$"):
        read(path)
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(FileError, match=r"unknown kind of file; use .csv"):
        read(tmp_path / "a.txt")
    for name in ("x.parquet", "x.npz", "x.csv", "x.csv.gz", "x.ndjson", "x.jsonl.gz"):
        (tmp_path / name).write_bytes(b"\x00\x01garbage")
        with pytest.raises(FileError, match=name) as refused:
            read(tmp_path / name)
        assert "\n" not in str(refused.value)


def test_npz_of_the_wrong_shape(tmp_path: Path) -> None:
    """NPZ arrays must be plain columns of one length, and are never unpickled."""
    path = tmp_path / "a.npz"
    np.savez(path, score=np.zeros(3), label=np.zeros(2))
    with pytest.raises(FileError, match="score has 3 rows, label has 2"):
        read(path)
    np.savez(path, score=np.zeros((2, 2)), label=np.zeros(2))
    with pytest.raises(FileError, match="not one plain column"):
        read(path)
    np.savez(path, score=np.array([1, None], dtype=object), label=np.zeros(2))
    with pytest.raises(FileError, match="not one plain column"):
        read(path)


def test_short_lines_and_twins(tmp_path: Path) -> None:
    """The error of a short line has its row number; a column that occurs twice is refused."""
    path = tmp_path / "a.csv"
    path.write_text("score,label\n" + "0.5,1\n" * 16 + "0.5\n")
    with pytest.raises(FileError, match=r"row 17: Expected 2 columns, got 1"):
        read(path)
    path.write_text("score,score,label\n1,2,1\n")
    with pytest.raises(FileError, match=r"column 'score' occurs 2 times"):
        read(path)


def test_npz_of_other_machines(tmp_path: Path) -> None:
    """Big-endian arrays read as they are; complex ones are refused."""
    path = tmp_path / "a.npz"
    np.savez(path, score=np.array(SCORES, dtype=">f8"), label=np.array(LABELS, dtype=">i4"))
    assert read(path)[0] == SCORES
    np.savez(path, score=np.array(SCORES, dtype=complex), label=np.array(LABELS))
    with pytest.raises(FileError, match="score is complex128 of shape"):
        read(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"score": "high", "label": 1}', "row 3: score 'high' is not a number"),
        ('{"score": true, "label": 1}', "row 3: score 'true' is not a number"),
        ('{"score": NaN, "label": 1}', "row 3: score must be finite, got nan"),
        ('{"score": 1e999, "label": 1}', "row 3: score must be finite, got inf"),
        ('{"score": null, "label": 1}', "row 3: score is missing"),
        ('{"score": 1}', "row 3: label is missing"),
        ('{"score": 1, "label": 2}', "row 3: label must be true, false, 0 or 1, got '2'"),
        ('{"score": {"a": 1}, "label": 1}', "row 3: score '{\"a\": 1}' is not a number"),
        ("[1, 1]", r"row 3: it is not a JSON object, {...}"),
        ('{"score": 1, ', "row 3: it is not JSON: "),
        ("[" * 100_000, "row 3: it is not JSON: "),
        ('{"score": ' + "9" * 5_000 + ', "label": 1}', "row 3: it is not JSON: Exceeds the limit"),
        ('{"score": "\udcfc"}', "row 3: it is not UTF-8: b'\\xfc'"),
        ('{"score": "' + "9" * (5 << 20), "a row is longer than 4 MiB"),
    ],
)
def test_bad_lines_of_ndjson_are_named(tmp_path: Path, line: str, message: str) -> None:
    """Blank lines do not count; every refusal is one line."""
    path = tmp_path / "bad.ndjson"
    good = '{"score": 0.5, "label": true, "more": [1]}\n'
    text = f"\ufeff{good}\r\n\n{good}{line}\n{good}"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(FileError) as refused:
        read(path)
    assert str(refused.value).startswith(f"{path}: {message}")
    assert "\n" not in str(refused.value)


def test_columns_of_ndjson(tmp_path: Path) -> None:
    """A key may be absent from the first object; one that is absent everywhere is named."""
    path = tmp_path / "a.ndjson"
    path.write_text('{"score": 1, "label": 0}\n{"label": 1, "score": 2.5, "country": "DE"}')
    assert read(path)[0] == [1.0, 2.5]
    (chunk,) = read_rows(path, FileColumns(score="score", label="label", by=("country",)))
    assert chunk.by == {"country": [None, "DE"]}
    with pytest.raises(FileError, match=r"no column 'p'; it has score, label, country$"):
        read(path, score="p")
    path.write_text("")
    assert read(path) == ([], [], [])


def test_a_parquet_directory(tmp_path: Path) -> None:
    """All its files, in order of their names, with the columns that directories give."""
    for number, day in enumerate(["01", "02", "__HIVE_DEFAULT_PARTITION__"]):
        frame = pd.DataFrame({"score": [number + 0.25, number + 0.5], "label": [1, 0]})
        write(tmp_path / "data" / f"day={day}" / "country=C%C3%B4te%20d" / "part-0.parquet", frame)
    (tmp_path / "data" / "_SUCCESS").write_text("")
    broken = tmp_path / "data" / "_temporary" / "part-9.parquet"
    broken.parent.mkdir()
    broken.write_bytes(b"half")
    layout = FileColumns(score="score", label="label", by=("day", "country"))
    chunks = list(read_rows(tmp_path / "data", layout))
    assert [list(chunk.scores) for chunk in chunks] == [[0.25, 0.5], [1.25, 1.5], [2.25, 2.5]]
    assert [chunk.by["day"][0] for chunk in chunks] == ["01", "02", None]
    assert chunks[0].by["country"] == ["Côte d", "Côte d"]
    assert [chunk.progress for chunk in chunks] == pytest.approx([1 / 3, 2 / 3, 1])
    part = tmp_path / "data" / "day=02" / "country=C%C3%B4te%20d" / "part-0.parquet"
    write(part, pd.DataFrame({"score": [1.0, None], "label": [1, 0]}))
    with pytest.raises(FileError) as refused:
        read(tmp_path / "data")
    assert str(refused.value) == f"{part}: row 2: score is missing"
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        FileError,
        match=r"empty: a directory without Parquet, NDJSON or CSV files: write its rows as one$",
    ):
        read(tmp_path / "empty")


PEAK = """
import sys
from pathlib import Path
import pyarrow as pa
from streameval.cli._rows import FileColumns, read_rows
layout = FileColumns(score="score", label="label")
rows = sum(each.count for each in read_rows(Path(sys.argv[1]), layout))
print(rows, pa.default_memory_pool().max_memory())
"""


@pytest.mark.slow
def test_a_row_group_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    """Of 48 MB of scores in one row group, Arrow holds some pages."""
    rows = 6_000_000
    scores = np.random.default_rng(1).random(rows)
    path = tmp_path / "a.parquet"
    pd.DataFrame({"score": scores, "label": scores < 0.5}).to_parquet(path, row_group_size=rows)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)], check=True, capture_output=True, text=True
    )
    counted, peak = map(int, done.stdout.split())
    assert counted == rows
    assert peak < 30_000_000


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(["DE", None, "", "DE"]),
        pd.Series(["DE", None, "", "DE"], dtype="category"),
        pd.Series([7, None, None, 7], dtype="Int64"),
        pd.Series([True, None, None, True], dtype="boolean"),
    ],
)
def test_groups_may_be_missing(tmp_path: Path, values: pd.Series) -> None:
    """A null or an empty text is None; other values are text."""
    frame = pd.DataFrame({"score": SCORES, "label": LABELS, "group": values})
    path = write(tmp_path / "a.parquet", frame)
    (chunk,) = read_rows(path, FileColumns(score="score", label="label", by=("group",)))
    first = {"Int64": "7", "boolean": "true"}.get(str(values.dtype), "DE")
    assert chunk.by == {"group": [first, None, None, first]}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_times_are_read_one_by_one(tmp_path: Path, kind: pa.DataType) -> None:
    """Seconds and ISO 8601 in one column; the error names the row that is neither."""
    path = tmp_path / "a.parquet"
    good = [
        "1700000000",
        "2023-11-14T22:13:20Z",
        "2023-11-14 22:13:20",
        "2023-11-14",
        "1700000000.5",
    ]

    def times_of(values: list[object], kind: pa.DataType) -> list[str]:
        table = {"score": [0.5] * len(values), "at": pa.array(values, kind)}
        pyarrow.parquet.write_table(pa.table(table), path)
        (chunk,) = read_rows(path, FileColumns(score="score", time="at"))
        return [str(time) for time in chunk.times]

    second = "2023-11-14T22:13:20.000000"
    midnight = "2023-11-14T00:00:00.000000"
    assert times_of(list(good), kind) == [second] * 3 + [midnight, "2023-11-14T22:13:20.500000"]
    with pytest.raises(FileError, match="row 3: at must be a time, got 'soon'"):
        times_of([*good[:2], "soon"], kind)
    for bad in ("0", "1969-12-31"):
        with pytest.raises(FileError, match=f"row 2: at must be after 1970, got '{bad}'"):
            times_of([good[0], bad], kind)
    nanoseconds = 1_700_000_000_000_000_001
    with pytest.raises(
        FileError, match=f"row 1: at must .* in s .*, got {nanoseconds}: give --time-unit ns"
    ):
        times_of([nanoseconds], pa.int64())
    with pytest.raises(FileError, match="row 2: at must be a time, got nan"):
        times_of([1.7e9, float("nan")], pa.float64())
