"""CSV: Python's csv module is the oracle, wherever a block ends."""

from __future__ import annotations

import csv
import gzip
import io
import random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow")
import pyarrow as pa

from streameval.cli import _csv
from streameval.cli._csv import read_table
from streameval.cli._file_values import FileError
from streameval.cli._rows import FileColumns, read_rows

from ...commands import refusal, run

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["score", "label", "note"]
HEAD = b"score,label,note\n"


def packed(text: bytes, suffix: str) -> bytes:
    if suffix == ".gz":
        return gzip.compress(text)
    if suffix == ".zst":
        return bytes(pa.compress(text, codec="zstd", asbytes=True))
    return text


def read(path: Path, *, skip: bool = False) -> list[tuple[str, ...]]:
    """Return the readable rows; check that every row of the file has one number."""
    rows, numbers = [], []
    for chunk in read_table(path, NAMES, skip=skip):
        rows += list(zip(*(chunk.columns[name].to_pylist() for name in NAMES), strict=True))
        if skip:
            assert chunk.numbers is not None
            numbers += [*chunk.numbers.tolist(), *(each.number for each in chunk.unreadable)]
    assert not skip or sorted(numbers) == list(range(1, len(numbers) + 1))
    return rows


def oracle(text: bytes) -> list[tuple[str, ...]]:
    rows = csv.reader(io.StringIO(text.decode(), newline=""))
    next(rows)
    return [tuple(row) for row in rows if row]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("skip", [False, True])
def test_every_offset_of_a_block_s_edge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, skip: bool
) -> None:
    """A block may end at any byte: inside quotes, between CR and LF, inside a character."""
    mail = b'0.9,1,"mail:\r\n0.1,0,r\xc3\xb6w\r\n\r\n""0.2"",0,end"\r\n'
    rows = b"0.3,0,x\r\n" + mail + b'0.7,1,y\r0.4,0,"z"\n'
    text = HEAD + 3 * rows + b"0.5,0,last"
    path = tmp_path / f"edge.csv{suffix}"
    path.write_bytes(packed(text, suffix))
    for block in range(30, len(text) + 2):
        monkeypatch.setattr(_csv, "BLOCK_BYTES", 4 * block)
        assert read(path, skip=skip) == oracle(text), block


@pytest.mark.parametrize("seed", range(300))
def test_random_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Any text has the rows that the csv module finds; those of another width are left out."""
    chosen = random.Random(seed)

    def value() -> str:
        if chosen.random() < 0.5:
            return chosen.choice(["1", "0.5", "", " ", '5"', "'", ' "a"', "é", "\u2028", "\x0b"])
        parts = ["a", '""', "\n", "\r\n", "\r", ",", " ", "\ufeff"]
        inner = "".join(chosen.choices(parts, k=chosen.randrange(6)))
        return f'"{inner}"' + chosen.choice(["", "", "x"])

    end = chosen.choice(["\n", "\r\n", "\r"])
    rows = [",".join(value() for _ in range(chosen.choice([3, 3, 3, 2]))) for _ in range(8)]
    rows += [""] * chosen.randrange(3)
    chosen.shuffle(rows)
    text = (end.join(["score,label,note", *rows]) + chosen.choice(["", end])).encode()
    path = tmp_path / "random.csv"
    path.write_bytes(text)
    monkeypatch.setattr(_csv, "BLOCK_BYTES", 4 * chosen.randrange(60, 120))
    assert read(path, skip=True) == [row for row in oracle(text) if len(row) == 3]


def evaluated(path: Path) -> tuple[int, int]:
    """Return the rows and the positives of a file, both with and without --rejects' reader."""
    chunks = list(read_rows(path, FileColumns(score="score", label="label")))
    return sum(chunk.count for chunk in chunks), int(sum(chunk.labels.sum() for chunk in chunks))


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_quoted_newline_at_4_mib(tmp_path: Path, suffix: str) -> None:
    """A mail whose lines look like rows is one value where a block of 4 MiB ends, too."""
    head, padding = b"score,label,note\r\n", b"0.30,0,"
    evil = b'0.9,1,"quoted mail:\r\n0.1,0,row\r\n0.2,0,end"\r\n'
    size = (4 << 20) - 10 - len(head)
    lines, rest = divmod(size, 64)
    body = head + (padding + b"x" * 55 + b"\r\n") * (lines - 1)
    body += padding + b"x" * (55 + rest) + b"\r\n" + evil + b"0.7,1,y\r\n" * 3
    path = tmp_path / f"edge.csv{suffix}"
    path.write_bytes(packed(body, suffix))
    assert evaluated(path) == (65_539, 4)


def test_quoted_newlines_in_8_mb(tmp_path: Path) -> None:
    """Every row has a note of six lines, in a file of several blocks."""
    path = tmp_path / "notes.csv"
    with path.open("w", newline="") as text:
        rows = csv.writer(text)
        rows.writerow(NAMES)
        rows.writerows([i / 200_000, int(i % 5 == 0), "line\n" * 6] for i in range(200_000))
    assert evaluated(path) == (200_000, 40_000)


PUBLIC = {
    "pola-rs/polars#19078: a row in two pieces": b'0.9,1,"a\nb;\n"\n0.1,0,c\n',
    "ragflow#16881: a value that opens with a quote": b'0.9,1,"hello, world"\n0.1,0,\n',
    "agent-os#1218: line ends of Unicode": "0.9,1,a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\n".encode(),
    "CsvHelper#645: CR alone inside quotes": b'0.9,1,"a\r"\n0.1,0,b\n',
    "csv-parser#41: escaped quotes at the end": b'0.9,1,""""""\n0.1,0,"test"\n',
    "opengym#7: an inch mark": b'0.9,1,Box Jump 24"\n0.1,0,b\n',
    "binary-csv#7: an inch mark, then a quote": b'0.9,1,it is 16"\n0.1,0,"12"" wide"\n',
    "csvquote#10: lines are no rows": b'0.9,1,"r1c2\nhas a newline it it"\n0.1,0,x\n',
    "fast-csv#320: CR alone ends a row": b"0.9,1,a\r0.1,0,b\r",
    "JuliaData/CSV.jl#1184: quoted rows of the right width": b'0.9,1,"\n1,2,3\n4,5,6\n"\n',
    "text behind a closing quote": b'0.9,1,"a"b"c\n0.1,0,d\n',
    "a byte order mark inside": b'0.9,1,\xef\xbb\xbfx\n"0.1",0,y\n',
    "only quotes": b'"0.9","1",""\n"0.1","0",""""\n',
    "a NUL": b"0.9,1,a\x00b\n",
}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Texts that readers of CSV are known to cut wrongly, at every block's edge."""
    text = HEAD + PUBLIC[name]
    path = tmp_path / "public.csv"
    path.write_bytes(text)
    for block in range(24, len(text) + 2):
        monkeypatch.setattr(_csv, "BLOCK_BYTES", 4 * block)
        assert read(path) == oracle(text)


OPEN_QUOTES = {
    "smarter_csv#283": b'0.9,1,"4\n0.1,0,x\n',
    "gdal#11863": b'0.9,1,"foo""\n0.1,0,bar\n',
    "FastCSV#173": b'"0.9,1,x\n0.1,0,y\n',
    "Sep#281, beyond a block": b'0.9,1,"x\n' + b"0.1,0,y\n" * (1 << 20),
}


@pytest.mark.parametrize("name", OPEN_QUOTES)
@pytest.mark.parametrize("skip", [False, True])
def test_an_open_quote_swallows_no_row(tmp_path: Path, name: str, skip: bool) -> None:
    """The rest of the file is not taken for one value: the row is named."""
    path = tmp_path / "open.csv"
    path.write_bytes(HEAD + b"0.5,1,good\n" + OPEN_QUOTES[name])
    with pytest.raises(FileError, match=r"row 2.*a quote (is )?left open"):
        read(path, skip=skip)


def test_utf16_is_named(tmp_path: Path) -> None:
    """What Excel calls Unicode text is refused by its name."""
    path = tmp_path / "excel.csv"
    path.write_bytes("score,label\n0.9,1\n".encode("utf-16"))
    assert "it is UTF-16: write it as UTF-8" in refusal(run("evaluate", path))
