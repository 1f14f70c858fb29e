"""Hostile files as input of commands: one clear line and exit code 2, in bounded memory."""

from __future__ import annotations

import gzip
import io
import itertools
import struct
import subprocess
import sys
import textwrap
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs the extra cli")
import pyarrow as pa
import pyarrow.parquet as pq

from streameval.cli import _auc
from streameval.cli._errors import one_line
from streameval.cli._files import FileError
from streameval.cli._rows import FileColumns, read_rows

from ..commands import CommandRunner, app

SCORES, LABELS = np.array([0.9, 0.2, 0.7]), np.array([1, 0, 1])
NDJSON = (
    b'{"score": 0.9, "label": 1, "other": ["a"]}\n'
    b'{"label": "FALSE", "score": "0.2"}\n'
    b'{"score": 7e-1, "label": true, "label": 1.0}\n'
)
CSV = b"score,label,other\n0.9,1,a\n0.2,0,b\n0.7,1,\n"


def npz(score: bytes | None = None, label: bytes | None = None, packed: bool = True) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as file:
        file.writestr("score.npy", saved(SCORES) if score is None else score)
        file.writestr("label.npy", saved(LABELS) if label is None else label)
    return out.getvalue()


def saved(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npy(descr: str, shape: str, data: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode("latin1")
    return raw_npy(header, data, version)


def raw_npy(header: bytes, data: bytes = b"", version: tuple[int, int] = (2, 0)) -> bytes:
    length = struct.pack("<H" if version == (1, 0) else "<I", len(header))
    return b"\x93NUMPY" + bytes(version) + length + header + data


def parquet(**columns: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"score": SCORES, "label": LABELS, **columns}), out)
    return out.getvalue()


def central(data: bytes, offset: int, value: bytes) -> bytes:
    """Change the first entry of a zip file's directory."""
    at = data.find(b"PK\x01\x02") + offset
    return data[:at] + value + data[at + len(value) :]


def repeated(descr: str, shape: str) -> bytes:
    return npz(npy(descr, shape), npy(descr, shape))


BAD = {
    "empty.csv": b"",
    "lines.csv": b"\n" * 100,
    "semicolons.csv": b"score;label\n0.9;1\n",
    "nul.csv": CSV.replace(b"0.2", b"0.\x002"),
    "nul-header.csv": CSV.replace(b"score", b"sc\0ore"),
    "escape-header.csv": CSV.replace(b"score", b"\x1b[2J"),
    "utf16.csv": CSV.decode().encode("utf-16"),
    "latin1-label.csv": CSV.replace(b"1,a", b"\xe9,a"),
    "quote-left-open.csv": b'score,label\n"0.9,1\n' + b"0.2,0\n" * 10**6,
    "quotes.csv": b'score,label\n"' + b'""' * 500_000 + b'",1\n',
    "long-score.csv": b"score,label\n" + b"9" * (5 << 20) + b",1\n",
    "long-name.csv": b"score,label," + b"x" * (5 << 20) + b"\n",
    "no-line.csv": b"a" * (5 << 20),
    "ragged.csv": b"score,label\n0.9\n",
    "twins.csv": b"score,label,score\n0.9,1,0.8\n",
    "ctrl-z.csv": CSV + b"\x1a",
    "infinite.csv": b"score,label\n1e309,1\n",
    "hexadecimal.csv": b"score,label\n0x1p3,1\n",
    "digits.csv": "score,label\n\N{ARABIC-INDIC DIGIT ONE},1\n".encode(),
    "right-to-left.csv": "score,label\n\N{RIGHT-TO-LEFT OVERRIDE}0.9,1\n".encode(),
    "cut.csv.gz": gzip.compress(CSV * 1000)[:50],
    "trailing.csv.gz": gzip.compress(CSV) + b"junk",
    "array.ndjson": b'[{"score": 0.9, "label": 1}]\n',
    "pretty.ndjson": b'{\n  "score": 0.9,\n  "label": 1\n}\n',
    "deep.ndjson": b'{"score": ' + b"[" * 200_000 + b"\n",
    "nul.ndjson": b'{"score": "0.\0", "label": 1}\n',
    "escape.ndjson": b'{"\\u001b[2J": 0.9, "label": 1}\n',
    "surrogate.ndjson": b'{"score": "\\ud800", "label": 1}\n',
    "utf16.ndjson": NDJSON.decode().encode("utf-16"),
    "bytes.ndjson": b'{"score": 0.9, "label": "\xff"}\n',
    "long.ndjson": b'{"score": 0.9, "label": "' + b"1" * (9 << 20),
    "huge.ndjson": b'{"score": 1' + b"0" * 400 + b', "label": 1}\n',
    "object-label.ndjson": b'{"score": 0.9, "label": {"a": "\\u202e"}}\n',
    "cut.ndjson.gz": gzip.compress(NDJSON * 1000)[:50],
    "empty.parquet": b"",
    "magic.parquet": b"PAR1" * 3,
    "cut.parquet": parquet()[:100],
    "footer.parquet": parquet()[:-8] + struct.pack("<I", 2**32 - 1) + b"PAR1",
    "list.parquet": parquet(score=[[0.9], [0.2], []]),
    "list-label.parquet": parquet(label=[[1], [0], [1]]),
    "map-label.parquet": parquet(
        label=pa.array([[("a", 1)], [], []], pa.map_(pa.string(), pa.int64()))
    ),
    "struct.parquet": parquet(score=[{"a": 1}, {"a": 2}, {"a": 3}]),
    "time.parquet": parquet(score=pa.array([1, 2, 3], pa.timestamp("us"))),
    "nulls.parquet": parquet(score=pa.nulls(3)),
    "bytes.parquet": parquet(score=[b"\xff", b"1", b"2"]),
    "bytes-label.parquet": parquet(label=[b"\xff", b"\0", b"1"]),
    "empty.npz": b"",
    "nothing.npz": b"PK\x05\x06" + bytes(18),
    "cut.npz": npz()[:200],
    "encrypted.npz": central(npz(), 8, b"\1\0"),
    "method.npz": central(npz(), 10, b"\x63\0"),
    "lzma.npz": central(npz(), 10, b"\x0e\0"),
    "deflated.npz": central(npz(packed=False), 10, b"\x08\0"),
    "offset.npz": central(npz(), 42, b"\xff\xff\xff\x7f"),
    "objects.npz": npz(saved(np.array([0.9, None, 0.1], dtype=object))),
    "two-d.npz": npz(saved(SCORES.reshape(3, 1))),
    "no-d.npz": npz(saved(np.array(0.5))),
    "complex.npz": npz(saved(SCORES + 1j)),
    "wide.npz": npz(saved(SCORES.astype(np.longdouble))),
    "duration.npz": npz(saved(LABELS.astype("m8[s]"))),
    "signalling.npz": npz(saved(np.full(3, 0x7FA00000, np.uint32).view(np.float32))),
    "shorter.npz": npz(label=saved(LABELS[:1])),
    "rows.npz": repeated("'<f8'", "(1000000000000,)"),
    "more-rows.npz": repeated("'<f8'", f"({10**400},)"),
    "negative-rows.npz": repeated("'<f8'", "(-5,)"),
    "no-width.npz": repeated("'S0'", "(1000000000000,)"),
    "width.npz": repeated("'<U500000000'", "(3,)"),
    "void.npz": repeated("'V2147483647'", "(2,)"),
    "call.npz": npz(raw_npy(b"__import__('os').abort()\n")),
    "list.npz": npz(raw_npy(b"[1, 2]\n")),
    "deep.npz": npz(raw_npy(b"(" * 5000 + b")" * 5000)),
    "brackets.npz": npz(raw_npy(b"[" * 60_000)),
    "long-header.npz": npz(raw_npy(b" " * (20 << 20))),
    "text-header.npz": npz(raw_npy(b"{'descr': '\xff\xfe'}\n")),
    "version.npz": npz(npy("'<f8'", "(3,)", SCORES.tobytes(), version=(9, 0))),
    "fields.npz": npz(npy("[('a',)]", "(3,)")),
    "no-type.npz": npz(npy("'zzz'", "(3,)")),
    "no-array.npz": npz(b"\x93NUMP"),
    "no-bytes.npz": npz(b""),
    "unknown.txt": b"0.9 1\n",
}
"""Files that `evaluate` refuses."""

GOOD = {
    "plain.csv": CSV,
    "mark.csv": b"\xef\xbb\xbf" + CSV,
    "crlf.csv": CSV.replace(b"\n", b"\r\n"),
    "cr.csv": CSV.replace(b"\n", b"\r"),
    "no-end.csv": CSV[:-1],
    "latin1.csv": CSV.replace(b"a\n", b"\xe9\n"),
    "latin1-header.csv": CSV.replace(b"other", b"\xe9"),
    "names.csv": CSV.replace(b"other", b",".join(b"c%d" % i for i in range(3)), 1)
    .replace(b",a", b",,,")
    .replace(b",b", b",,,")
    .replace(b"1,\n", b"1,,,\n"),
    "packed.csv.gz": gzip.compress(CSV),
    "spaces.csv": CSV.replace(b"score", b" score ").replace(b"label", b"label "),
    "plain.csv.gz": CSV,
    "plain.jsonl.gz": NDJSON,
    "plain.ndjson": NDJSON,
    "mark.ndjson": b"\xef\xbb\xbf" + NDJSON,
    "crlf.jsonl": NDJSON.replace(b"\n", b"\r\n\r\n"),
    "no-end.jsonl": NDJSON[:-1],
    "packed.jsonl.gz": gzip.compress(NDJSON),
    "plain.parquet": parquet(),
    "half.parquet": parquet(score=SCORES.astype(np.float16)),
    "decimal.parquet": parquet(score=[Decimal(each) for each in ("0.9", "0.2", "0.7")]),
    "dictionary.parquet": parquet(score=pa.array(["0.9", "0.2", "0.7"]).dictionary_encode()),
    "plain.npz": npz(),
    "big-endian.npz": npz(saved(SCORES.astype(">f8")), saved(LABELS.astype(">i2"))),
    "text.npz": npz(saved(SCORES.astype(str)), saved(LABELS.astype(str))),
    "newer.npz": npz(npy("'<f8'", "(3,)", SCORES.tobytes(), version=(3, 0))),
}
"""Unusual files that are read without an error."""


def refused(arguments: list[str]) -> str:
    """Run a command that must refuse its input; return its line of output."""
    result = CommandRunner().invoke(app, arguments)
    assert result.exit_code == 2, (arguments, result.exception)
    lines = result.stderr.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].isprintable()
    assert 20 < len(lines[0]) < 600
    return lines[0]


@pytest.mark.parametrize("name", BAD)
def test_evaluate_refuses_in_one_line(tmp_path, name):
    """A file is refused in one line, which is safe to print to a terminal."""
    path = tmp_path / name
    path.write_bytes(BAD[name])
    assert name in refused(["evaluate", str(path)])


@pytest.mark.parametrize("name", GOOD)
def test_odd_files_read_like_any_other(tmp_path, name):
    """Byte order marks, line ends, other columns' encodings and float widths do not matter."""
    path = tmp_path / name
    path.write_bytes(GOOD[name])
    rows = list(read_rows(path, FileColumns(score="score", label="label")))
    scores = np.concatenate([each.scores for each in rows])
    assert scores == pytest.approx(SCORES, abs=1e-3)
    assert [bool(label) for each in rows for label in each.labels] == [True, False, True]


TEXTS = {
    "nul": b"0.9 1\n0.\x002 0\n",
    "bytes": b"\xff\xfe 1\n",
    "long": b"9" * (1 << 20),
    "many": b"0.9 1\n" + b"1 " * 500_000 + b"\n",
    "empty": b"",
    "one class": b"0.9 1\n",
    "nan": b"nan 1\n0.1 0\n",
    "infinite": b"1e400 1\n0.1 0\n",
    "underscore": b"1_0 1\n0.1 0\n",
    "digits": "\N{ARABIC-INDIC DIGIT ONE} 1\n0.1 0\n".encode(),
    "label": b"0.9 2\n",
    "escape": b"0.9 \x1b[2J\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_auc_refuses_in_one_line(tmp_path, name):
    """The plain lists of `auc` are refused in one line too."""
    path = tmp_path / "list.txt"
    path.write_bytes(TEXTS[name])
    assert "list.txt" in refused(["auc", str(path)])


@pytest.mark.parametrize("positives", ["0", "-1", str(2**53), str(10**400)])
def test_auc_refuses_totals(tmp_path, positives):
    """Totals that a float cannot represent exactly, or below 1, are refused."""
    path = tmp_path / "curve.txt"
    path.write_text("0.1 0.5\n")
    totals = ["--positives", positives, "--negatives", "5"]
    assert "at least 1" in refused(["auc", str(path), "--format", "roc", *totals])


def test_auc_of_very_many_positives(tmp_path, monkeypatch):
    """Its curve has fewer rows than there are positives."""
    monkeypatch.setattr(_auc, "_MAX_ROWS_BETWEEN_POINTS", 1000)
    path = tmp_path / "curve.txt"
    path.write_text("0 0.999999\n")
    totals = ["--positives", str(10**12), "--negatives", "5"]
    result = CommandRunner().invoke(app, ["auc", str(path), "--format", "roc", *totals])
    assert result.exit_code == 0, result.stderr
    rows = np.loadtxt(tmp_path / "curve.txt.pr.csv", delimiter=",", skiprows=1)
    assert len(rows) == 2001
    assert (np.diff(rows[:, 0]) > 0).all()
    assert rows[-1, :2].tolist() == [1.0, 10**12 / (10**12 + 5)]


def assault(tmp_path, hostile, name: str, data: bytes, times: int) -> int:
    """Read a file with some bytes changed; return how often it was refused."""
    path, refusals = tmp_path / name, 0
    layout = FileColumns(score="score", label="label")
    for _ in range(times):
        path.write_bytes(hostile.mutated(data))
        message = ""
        try:
            for rows in itertools.islice(read_rows(path, layout), 100):
                assert len(rows.scores) == len(rows.labels)
                assert np.isfinite(rows.scores).all()
        except FileError as error:
            message = str(error)
        except BaseException:
            print(name, path.read_bytes()[:2000])
            raise
        refusals += bool(message)
        assert not message or one_line(message).isprintable()
    return refusals


KINDS = ["plain.csv", "packed.csv.gz", "plain.parquet", "plain.npz", "text.npz"]


@pytest.mark.parametrize("name", KINDS)
def test_changed_files(tmp_path, hostile, name):
    """A changed file is refused in one line, or read."""
    assert assault(tmp_path, hostile, name, GOOD[name], 150) > 20


@pytest.mark.nightly
@pytest.mark.parametrize("name", KINDS)
def test_many_changed_files(tmp_path, hostile, name):
    """The same with many more files."""
    assault(tmp_path, hostile, name, GOOD[name], 5000)


READ_ALL = textwrap.dedent(
    """
    import pathlib, sys
    from streameval.cli._files import FileError
    from streameval.cli._rows import FileColumns, read_rows

    def peak():
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    before = peak()
    for path in map(pathlib.Path, sys.argv[1:]):
        try:
            for rows in read_rows(path, FileColumns(score="score", label="label")):
                pass
        except FileError:
            pass
    print((peak() - before) >> 10)
    """
)


def bombs() -> dict[str, bytes]:
    """Return small files that announce or unpack to a lot of data."""
    many = b"score,label," + b",".join(b"c%d" % column for column in range(100_000)) + b"\n"
    wide = npy("'<U16384'", "(1000,)", bytes(1000 * 65_536))
    labels = npy("'|i1'", "(1000,)", bytes(1000))
    long = f"({10 << 20},)"
    return {
        "names.csv": many,
        "lines.csv.gz": gzip.compress(b"score,label\n" + b"\n" * (60 << 20), 1),
        "digits.csv.gz": gzip.compress(b"score,label\n" + b"9" * (60 << 20), 1),
        "quoted.csv.gz": gzip.compress(b'score,label\n"' + b'""' * (20 << 20), 1),
        "zeros.npz": npz(npy("'<f4'", long, bytes(40 << 20)), npy("'|i1'", long, bytes(10 << 20))),
        "wide.npz": npz(wide, labels),
        "rows.npz": BAD["rows.npz"],
        "header.npz": npz(raw_npy(b" " * (60 << 20))),
    }


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_small_files_that_unpack_to_much_take_little_memory(tmp_path):
    """Memory stays bounded for any header and any compression ratio."""
    paths = []
    for name, data in bombs().items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, *map(str, paths)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 250, "MiB"


def test_a_refusal_in_a_large_file_is_not_an_abort(tmp_path):
    """A read-ahead thread must not abort the process at its exit, as it once did."""
    path = tmp_path / "large.csv"
    path.write_bytes(b"score,label\nnan,1\n" + b"0.25,0\n" * 3_000_000)
    command = [sys.executable, "-c", "from streameval.cli import main; main()", "evaluate"]
    done = subprocess.run([*command, str(path)], check=False, capture_output=True, text=True)
    assert done.returncode == 2, done
    assert done.stderr == (
        f"streameval: {path}: row 1: score must be finite, got nan: "
        "leave such rows out, or replace the value\n"
    )
