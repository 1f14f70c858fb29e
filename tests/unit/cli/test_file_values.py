"""Values of files: blanks, signs, units and dictionaries, with their right values."""

from __future__ import annotations

import bz2
import json
import lzma
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

pytest.importorskip("pyarrow")
import pyarrow as pa
import pyarrow.parquet

from streameval._common.times import read_time_us
from streameval.cli._file_values import FileError
from streameval.cli._files import read_columns
from streameval.cli._rows import FileColumns, read_rows

from ...commands import refusal, run

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path, **options: Any) -> tuple[list[float], list[bool]]:
    """Return the scores and labels of a file."""
    chunks = list(read_rows(path, FileColumns(**{"score": "score", "label": "label", **options})))
    return (
        [float(score) for chunk in chunks for score in chunk.scores],
        [bool(label) for chunk in chunks for label in chunk.labels],
    )


# --- Labels and scores as text ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options"),
    [
        # numpy.savetxt
        (
            "score,label\n5.12e-01,1.000000000000000000e+00\n1.0e-01,0.000000000000000000e+00\n",
            {},
        ),
        ("score,label\n 5.12E-1 ,1.000e+00\n\t0.1, 0e0\n", {}),
        ("score;label\n0,512;1\n0,1;0\n", {"delimiter": ";", "decimal": ","}),
        ("score;label\n 5,12e-1 ;1,0\n,1;0,000e+00\n", {"delimiter": ";", "decimal": ","}),
        ('score,label\n"0,512","1,0"\n"0,1","0"\n', {"decimal": ","}),
        ("score\tlabel\n0.512\t1\n+.1\t0\n", {"delimiter": "\t"}),
        ("label|score\ntrue|0.512\nFALSE|1e-1\n", {"delimiter": "|"}),
        ("label , score\n1 , 0.512\n 0, 0.1\n", {}),
        ("PK,score,label\nx,0.512,1\ny,0.1,0\n", {}),
        (" score,score , label\n0.512,9,1\n0.1,9,0\n", {"score": " score"}),
    ],
)
def test_text_of_other_writers(tmp_path: Path, text: str, options: dict[str, str]) -> None:
    """A number is what it says, however it is written, with blanks around it."""
    path = tmp_path / "a.csv"
    path.write_text(text)
    assert read(path, **options) == ([0.512, 0.1], [True, False])


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("codec", [None, "gzip", "zstd"])
@pytest.mark.parametrize("kind", [".csv", ".ndjson"])
def test_content_is_unpacked_whatever_its_name(
    tmp_path: Path, kind: str, codec: str | None, suffix: str
) -> None:
    """Browsers unpack what they download; a file that was packed may have lost its suffix."""
    path = tmp_path / f"a{kind}{suffix}"
    text = b"score,label\n0.512,1\n0.1,0\n"
    if kind == ".ndjson":
        text = b'{"score": 0.512, "label": 1}\n{"score": 0.1, "label": 0}\n'
    path.write_bytes(text if codec is None else pa.compress(text, codec, asbytes=True))
    assert read(path) == ([0.512, 0.1], [True, False])


@pytest.mark.parametrize("kind", [".csv", ".ndjson", ".csv.gz"])
@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"PK\x03\x04" + bytes(99), "a ZIP archive, or an Excel workbook: save the rows as CSV"),
        (b"\xd0\xcf\x11\xe0" + bytes(99), "an Excel workbook: save the rows as CSV"),
        (b"PAR1\x15" + bytes(99), "a Parquet file: name it .parquet"),
        (bz2.compress(b"score,label\n1,1\n"), "packed by bzip2: unpack it"),
        (lzma.compress(b"score,label\n1,1\n"), "packed by xz: unpack it"),
        ('{"score": 1}'.encode("utf-16"), "UTF-16: write it as UTF-8"),
    ],
)
def test_content_that_is_no_text_is_named(
    tmp_path: Path, kind: str, data: bytes, told: str
) -> None:
    """Not as a wrong delimiter, or in the words of a decoder."""
    path = tmp_path / f"a{kind}"
    path.write_bytes(data)
    assert f"it is {told}" in refusal(run("evaluate", path))


@pytest.mark.parametrize(
    ("text", "arguments", "told"),
    [
        ("score;label\n0,9;1\n", [], "its columns are separated by ';': give --delimiter ';'"),
        ("score\tlabel\n0.9\t1\n", [], "separated by '\\t': give --delimiter '\\t'"),
        ("score,label\n0.9,1\n", ["--delimiter", ";"], "give --delimiter ','"),
        ('score,label\n"0,9",1\n', [], "row 1: score '0,9' is not a number: if commas stand"),
        # 1.234 is a thousand and more where commas stand before decimals
        ("score;label\n1.234;1\n", ["--delimiter", ";", "--decimal", ","], "score '1.234' is not"),
        ("score;label\n1.234,5;1\n", ["--delimiter", ";", "--decimal", ","], "score '1.234,5' is"),
        ("score,label\n0.9,1\n", ["--delimiter", "ab"], "--delimiter must be one character"),
        ("score,label\n0.9,1\n", ["--delimiter", '"'], "--delimiter must be one character"),
        ("score,label\n0 .9,1\n", [], "row 1: score '0 .9' is not a number"),
    ],
)
def test_other_signs_are_named(tmp_path: Path, text: str, arguments: list[str], told: str) -> None:
    """With the option that reads them."""
    path = tmp_path / "a.csv"
    path.write_text(text)
    assert told in refusal(run("evaluate", path, *arguments))


def test_options_of_the_command_line(tmp_path: Path) -> None:
    """As a spreadsheet of many countries writes it, with a tab named by its escape, too."""
    path = tmp_path / "a.csv"
    path.write_text("score;label\n0,9;1,0\n0,1;0,0\n")
    arguments = ("--decimal", ",", "--json")
    figures = json.loads(run("evaluate", path, "--delimiter", ";", *arguments).stdout)
    assert (figures["num_positive_ref"], figures["num_negative_ref"]) == (1, 1)
    path.write_text(path.read_text().replace(";", "\t"))
    assert json.loads(run("evaluate", path, "--delimiter", "\\t", *arguments).stdout) == figures


def test_decimals_of_a_database(tmp_path: Path) -> None:
    """Decimal columns of Parquet are numbers: labels and scores."""
    path = tmp_path / "dec.parquet"
    labels = pa.array([Decimal("1.0"), Decimal("0.0")], pa.decimal128(2, 1))
    scores = pa.array([Decimal("0.9"), Decimal("0.1")], pa.decimal128(5, 4))
    pyarrow.parquet.write_table(pa.table({"score": scores, "label": labels}), path)
    assert read(path) == ([0.9, 0.1], [True, False])
    assert read(path, positive="1") == ([0.9, 0.1], [True, False])


def test_numbers_as_ids_of_ndjson(tmp_path: Path) -> None:
    """17.0 is 17, also beside texts, which stay as they are."""
    path = tmp_path / "a.ndjson"
    ids = ["10000001.0", "17", '"x"', '"17.50"', "10000000000000001"]
    path.write_text("".join(f'{{"id": {each}, "score": 1}}\n' for each in ids))
    (chunk,) = read_rows(path, FileColumns(score="score", id="id"))
    assert chunk.ids == ["10000001", "17", "x", "17.50", "10000000000000001"]


@pytest.mark.parametrize("before", ["17", '"x"', "1.0"])
@pytest.mark.parametrize(
    "value", ["17.5", "true", "[1]", '{"$oid": "a"}', "NaN", "10000000000000001.0", "-Infinity"]
)
def test_what_is_no_id_of_ndjson(tmp_path: Path, before: str, value: str) -> None:
    """It is refused whatever the rows around it have."""
    path = tmp_path / "a.ndjson"
    ids = [before, value]
    path.write_text("".join(f'{{"id": {each}, "score": 1}}\n' for each in ids))
    with pytest.raises(FileError, match="row 2: id must be a text or an integer"):
        list(read_rows(path, FileColumns(score="score", id="id")))


@pytest.mark.parametrize("value", [0.5, 2.0**60, float("nan"), True])
def test_numbers_as_ids_of_parquet(tmp_path: Path, value: object) -> None:
    """A float is an id where it is exactly an integer."""
    path = tmp_path / "a.parquet"
    kind = pa.bool_() if value is True else pa.float64()
    good = pa.array([True if value is True else 17.0, value], kind)
    pyarrow.parquet.write_table(pa.table({"score": [0.5, 0.5], "id": good}), path)
    row = 1 if value is True else 2
    with pytest.raises(FileError, match=f"row {row}: id must be a text or an integer"):
        list(read_rows(path, FileColumns(score="score", id="id")))


@pytest.mark.parametrize(
    ("column", "told"),
    [
        # As `id_of` reads each of them: a float keeps the integers of its width.
        # numpy 1 shows 16777216.0, later ones 1.6777216e+07.
        (pa.array([np.float32(2**24)]), "got 1[.]?6777216.+: a float keeps whole numbers below"),
        (pa.array([np.float16(2**11)]), "below 2[*][*]11 only, so write ids as text"),
        (pa.array([np.float32(2**24)]).dictionary_encode(), "below 2[*][*]24 only"),
        (pa.array([b"\x80"]), "text in UTF-8, got b'.+x80': write it as text"),
    ],
)
def test_ids_that_may_stand_for_several(tmp_path: Path, column: pa.Array, told: str) -> None:
    """Refused with the row, the value and the remedy."""
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pa.table({"score": [0.5], "id": column}), path)
    with pytest.raises(FileError, match=f"row 1: id must be .*{told}"):
        list(read_rows(path, FileColumns(score="score", id="id")))


def test_half_a_surrogate_pair_costs_its_row(tmp_path: Path) -> None:
    """JSON can hold it, and UTF-8 cannot: the row is named, or rejected."""
    path = tmp_path / "a.ndjson"
    path.write_text('{"score": 1, "id": "\\ud83d\\ude00"}\n{"score": 1, "id": "\\ud800"}\n')
    with pytest.raises(FileError, match=r"row 2: it is not Unicode: '.ud800' is half"):
        list(read_rows(path, FileColumns(score="score", id="id")))
    (chunk,) = read_columns(path, ["id"], skip=True)
    assert chunk.columns["id"].to_pylist() == ["\U0001f600"]
    assert [each.number for each in chunk.unreadable] == [2]


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet"])
@pytest.mark.parametrize("value", [2**53 + 1, -(2**60) - 1, 10**18])
def test_integers_that_would_tie_are_refused(tmp_path: Path, suffix: str, value: int) -> None:
    """A float keeps no integer above 2**53 from its neighbours."""
    path = tmp_path / f"a.{suffix}"
    frame = pd.DataFrame({"score": [2**53, value], "label": [1, 0]})
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "ndjson":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False)
    told = refusal(run("evaluate", path))
    assert f"row 2: score must be at most 2**53 where it is an integer, got {value};" in told


# --- Dictionaries -------------------------------------------------------------------------------

CLASSES = ["fraud", "legit", "legit"]


def polars_frame(kind: Any) -> pa.Table:
    return (
        pl.DataFrame({"score": [0.9, 0.2, 0.1], "label": CLASSES}).cast({"label": kind}).to_arrow()
    )


def arrow_frame(values: Any, codes: list[Any], index: pa.DataType) -> pa.Table:
    labels = pa.DictionaryArray.from_arrays(pa.array(codes, index), values)
    return pa.table({"score": [0.9, 0.2, 0.1], "label": labels})


def pandas_frame(values: list[Any], categories: list[Any], *, ordered: bool = False) -> pa.Table:
    labels = pd.Categorical(values, categories=categories, ordered=ordered)
    return pa.Table.from_pandas(pd.DataFrame({"score": [0.9, 0.2, 0.1], "label": labels}))


DICTIONARIES: dict[str, tuple[pa.Table, str | None]] = {
    "pandas: one more": (pandas_frame(CLASSES, ["disputed", "fraud", "legit"]), "fraud"),
    "pandas: before the others": (pandas_frame(CLASSES, ["a", "b", "fraud", "legit"]), "fraud"),
    "pandas: ordered": (pandas_frame(CLASSES, ["legit", "fraud", "z"], ordered=True), "fraud"),
    "pandas: 0 and 1": (pandas_frame(["1", "0", "0"], ["0", "1", "unknown"]), None),
    "pandas: numbers": (pandas_frame([1, 0, 0], [-1, 0, 1]), None),
    "pandas: booleans": (pandas_frame([True, False, False], [True, False]), None),
    "polars#24371: categories of another column": (polars_frame(pl.Categorical), "fraud"),
    "polars: an enum": (polars_frame(pl.Enum(["x", "fraud", "y", "legit"])), "fraud"),
    "arrow: unused": (arrow_frame(["x", "fraud", "legit"], [1, 2, 2], pa.int8()), "fraud"),
    "arrow: the same value twice": (arrow_frame(["1", "0", "1.0"], [2, 1, 1], pa.int32()), None),
    "arrow: floats": (arrow_frame([0.0, 1.0, 7.5], [1, 0, 0], pa.uint16()), None),
    "fastparquet#949: long texts": (
        arrow_frame(pa.array(["x", "1", "0"], pa.large_string()), [1, 2, 2], pa.int16()),
        None,
    ),
}


@pytest.mark.parametrize("name", DICTIONARIES)
def test_only_values_that_occur_are_labels(tmp_path: Path, name: str) -> None:
    """A category that no row has is no class, neither for evaluate nor for --rejects."""
    table, positive = DICTIONARIES[name]
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(table, path)
    assert read(path, positive=positive) == ([0.9, 0.2, 0.1], [True, False, False])
    by = run("evaluate", path, "--by", "label", *(("--positive", positive) if positive else ()))
    assert by.exit_code == 0, by.output
    assert not {"disputed", "unknown", "x", "y", "z"} & set(by.stdout.split())


def test_categories_as_ids_segments_and_times(tmp_path: Path) -> None:
    """Other columns may be dictionaries as well."""
    path = tmp_path / "a.parquet"
    frame = pd.DataFrame({"score": [0.9, 0.1], "id": ["a", "b"], "country": ["DE", "US"]})
    frame["t"] = ["2026-11-26T19:46:00Z", "2026-11-26 19:46:01"]
    frame.astype(dict.fromkeys(["id", "country", "t"], "category")).to_parquet(path)
    layout = FileColumns(score="score", id="id", segments=("country",), time="t")
    (chunk,) = read_rows(path, layout)
    assert (chunk.ids, chunk.segments) == (["a", "b"], {"country": ["DE", "US"]})
    assert [str(time)[:19] for time in chunk.times] == [
        "2026-11-26T19:46:00",
        "2026-11-26T19:46:01",
    ]


# --- Times --------------------------------------------------------------------------------------

TIMES: list[tuple[Any, str]] = [
    *((f"2026-11-26T19:46:0{i}.{'123456789'[:i]}Z", "") for i in range(1, 10)),
    ("2026-11-26 19:46:00 UTC", ""),
    ("20261126T194600Z", ""),
    ("2026-11-26T19:46:00,5+0100", ""),
    ("2026-11-26T19:46:00+01", ""),
    ("2026-11-26", ""),
    (1795722360, ""),
    (1795722360.25, ""),
    (1795722360123, "ms"),
    (1795722360123456, "us"),
    (1795722360123456789, "ns"),
    (20261126, "s"),
]


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet"])
@pytest.mark.parametrize("others", [False, True])
def test_files_read_times_as_mappings_do(tmp_path: Path, suffix: str, others: bool) -> None:
    """One by one, and with a value in another form in the same column."""
    path = tmp_path / f"a.{suffix}"
    for value, unit in TIMES:
        column = [value, "2026-11-26T19:46:00 GMT"] if others else [value]
        if suffix == "parquet":
            column = [str(each) for each in column] if others else column
            pa.parquet.write_table(pa.table({"score": [0.5] * len(column), "t": column}), path)
        elif suffix == "ndjson":
            path.write_text(
                "".join(f"{json.dumps({'score': 0.5, 't': each})}\n" for each in column)
            )
        else:
            path.write_text("score,t\n" + "".join(f'0.5,"{each}"\n' for each in column))
        (chunk,) = read_rows(path, FileColumns(score="score", time="t", time_unit=unit))
        right = read_time_us(value, unit, "t", option="{}")
        assert chunk.times[0] == np.datetime64(right, "us"), value


@pytest.mark.parametrize(
    ("column", "right"),
    [
        (pa.array([1795722360123456789], pa.timestamp("ns")), "2026-11-26T19:46:00.123456"),
        (pa.array([1795722360123456789], pa.timestamp("ns", "UTC")), "2026-11-26T19:46:00.123456"),
        (pa.array([1795722360], pa.timestamp("s", "Europe/Paris")), "2026-11-26T19:46:00.000000"),
        (pa.array([1795722360123], pa.timestamp("ms")), "2026-11-26T19:46:00.123000"),
        (pa.array([20783], pa.date32()), "2026-11-26T00:00:00.000000"),
        (pa.array([1795651200000], pa.date64()), "2026-11-26T00:00:00.000000"),
        (pa.array([1795722360], pa.uint32()), "2026-11-26T19:46:00.000000"),
        (pa.array([Decimal("1795722360.5")]), "2026-11-26T19:46:00.500000"),
        (pa.array([1795722360.5], pa.float64()), "2026-11-26T19:46:00.500000"),
    ],
)
def test_types_of_times(tmp_path: Path, column: pa.Array, right: str) -> None:
    """Timestamps of every unit and zone, dates and numbers."""
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pa.table({"score": [0.5], "t": column}), path)
    (chunk,) = read_rows(path, FileColumns(score="score", time="t"))
    assert str(chunk.times[0]) == right


@pytest.mark.parametrize("time", [1795722360123456000, 1795722360123457000, 1795722360123456999])
def test_decimals_keep_nanoseconds(tmp_path: Path, time: int) -> None:
    """As integers do: of a float, the microseconds would be others."""
    path = tmp_path / "a.parquet"
    column = pa.array([Decimal(time)], pa.decimal128(38, 0))
    pyarrow.parquet.write_table(pa.table({"score": [0.5], "t": column}), path)
    (chunk,) = read_rows(path, FileColumns(score="score", time="t", time_unit="ns"))
    assert chunk.times.astype("int64").tolist() == [time // 1000]


@pytest.mark.parametrize("unit", ["", "s"])
@pytest.mark.parametrize("kind", [pa.duration("s"), pa.time32("s")])
def test_spans_are_no_times(tmp_path: Path, kind: pa.DataType, unit: str) -> None:
    """Whatever unit is declared."""
    path = tmp_path / "a.parquet"
    column = pa.array([43_200 if pa.types.is_time(kind) else 1795722360], kind)
    pyarrow.parquet.write_table(pa.table({"score": [0.5], "t": column}), path)
    with pytest.raises(FileError, match=r"row 1: t is a (time32|duration)\[m?s\], not a date"):
        list(read_rows(path, FileColumns(score="score", time="t", time_unit=unit)))


@pytest.mark.parametrize(
    ("value", "arguments", "told"),
    [
        ("20261126", [], "row 1: seen must be unambiguous, got '20261126': write 2026-11-26, or"),
        ("1795722360123", [], "got '1795722360123': give --time-unit ms"),
        ("1795722360123", ["--time-unit", "us"], "got '1795722360123': give --time-unit ms"),
        ("noon", [], "row 1: seen must be a time, got 'noon': write ISO 8601"),
        ("", [], "row 1: seen must be a time, got ''"),
    ],
)
def test_a_time_is_refused_by_its_column(
    tmp_path: Path, value: str, arguments: list[str], told: str
) -> None:
    """With the value and the option, before anything is sent."""
    path = tmp_path / "a.csv"
    path.write_text(f"score,label,seen\n0.5,1,{value}\n")
    push = ("push", "s", path, "--server", "127.0.0.1:1", "--time", "seen")
    assert told in refusal(run(*push, *arguments))
