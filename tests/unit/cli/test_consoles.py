"""Bytes of small files, and consoles: no traceback, whatever the encoding and the home."""

from __future__ import annotations

import codecs
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("typer", reason="needs the extra cli")

from streameval.cli import _output
from streameval.client import Client
from streameval_server.testing import running_server

from ...commands import refusal, run

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = {
    "steamctl#67": "∞Endless Beta∞",
    "allosaurus#73": "\u02d0",
    "fake-bpy-module#7": "←",
    "mimic#47": "\u2c9f",
    "whatsapp-backup-chat-viewer#36": "😉",
    "schlabber#5": "❤",
    "code42cli#338": "ę",
    "click#3778": "‣",
    "mr.bob#86": "č",
    "oletools#426": "\ufffd",
    "the case": "東京",
    "in most of them": "São Paulo",
}


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "latin-1", "cp437", "utf-8"])
@pytest.mark.slow
def test_consoles_of_every_encoding(tmp_path: Path, encoding: str) -> None:
    """What an encoding lacks is escaped: in tables, in errors, and in a name that is no column."""
    path = tmp_path / "g.csv"
    rows = "".join(f"0.9,1,{name}\n0.2,0,{name}\n" for name in NAMES.values())
    path.write_text("score,label,g\n" + rows, "utf-8")

    def output(*arguments: object) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "streameval", *map(str, arguments)],
            capture_output=True,
            check=False,
            env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "PATH": ""},
        )
        return done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding)

    code, out, error = output("evaluate", path, "--by", "g")
    assert (code, error) == (0, "")
    for name in NAMES.values():
        assert name.encode(encoding, "backslashreplace").decode(encoding) in out
    code, out, error = output("evaluate", path, "--score", "東京")
    assert (code, out) == (2, "")
    assert "no column '" in error
    assert "Traceback" not in error


def test_names_do_not_command_a_terminal(tmp_path: Path) -> None:
    """Control characters of groups and ids are escaped, and what they have in brackets is kept."""
    path = tmp_path / "g.csv"
    path.write_text('score,label,g\n0.9,1,"a\x1b[2Jb\nc"\n0.2,0,[/red]\n')
    out = run("evaluate", path, "--by", "g").stdout
    assert "a\\x1b[2Jb\\nc" in out
    assert "[/red]" in out
    (tmp_path / "m.toml").write_text('[[ingest]]\npreset = "ndjson"\nstream = "s"\n')
    (tmp_path / "s.json").write_text(json.dumps({"id": "[/red]\x1b[2J", "score": 0.5}))
    out = run("mapping", "try", tmp_path / "m.toml", "--sample", tmp_path / "s.json").stdout
    assert "[/red]\\x1b[2J" in out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("options", ["--json", "--by g", ""])
@pytest.mark.slow
def test_output_that_cannot_be_written(tmp_path: Path, options: str) -> None:
    """One line says so, however late it is known; without any output there is no error."""
    path = tmp_path / "g.csv"
    path.write_text("score,label,g\n0.9,1,a\n0.2,0,b\n")
    command = f"{sys.executable} -m streameval evaluate {path} {options}"
    for target, right in (
        ("> /dev/full", (1, "streameval: No space left on device: the output is incomplete\n")),
        (">&-", (0, "")),
    ):
        done = subprocess.run(
            ["sh", "-c", f"exec {command} {target}"], capture_output=True, check=False, text=True
        )
        assert (done.returncode, done.stderr) == right


def test_names_are_whole_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """No terminal, no width: lists print every name as it is."""
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist sets it
    monkeypatch.setattr(_output, "out", _output.console())
    name = "a-very-long-model-name/with/many/parts/that-do-not-fit-into-eighty-columns/v12345"
    with running_server() as address:
        with Client(address) as client:
            client.create_stream(name)
        for command in (
            ("streams", "list", "--server", address),
            ("top", "--server", address, "--once"),
        ):
            assert name in run(*command).stdout.split()


MAPPING = '[[ingest]]\npreset = "ndjson"\nstream = "s"\n'


@pytest.mark.parametrize(
    ("start", "encoding", "told"),
    [
        (b"", "utf-8", ""),
        (codecs.BOM_UTF8, "utf-8", ""),
        # what PowerShell 5 writes behind >
        (codecs.BOM_UTF16_LE, "utf-16-le", "it is UTF-16, not UTF-8: save it as UTF-8"),
        (codecs.BOM_UTF16_BE, "utf-16-be", "it is UTF-16, not UTF-8: save it as UTF-8"),
        (b"# \xe9\n", "utf-8", "it is not UTF-8 (byte 0xe9 in line 1): save it as UTF-8"),
    ],
)
def test_the_first_bytes_of_a_file(
    tmp_path: Path, require: Callable[[str], object], start: bytes, encoding: str, told: str
) -> None:
    """A byte order mark is no content of a mapping, a consumer's file or a token's."""
    require("confluent_kafka")
    sample = tmp_path / "s.json"
    sample.write_text('{"id": "a", "score": 0.9, "label": true}')
    mapping = tmp_path / "m.toml"
    mapping.write_bytes(start + MAPPING.encode(encoding))
    token = tmp_path / "token"
    token.write_bytes(start + "secret\r\n".encode(encoding))
    tried = run("mapping", "try", mapping, "--sample", sample, "--json")
    # The file is read; what it lacks is said after that.
    consumed = refusal(run("consume", "kafka", "--config", mapping))
    with running_server() as address:
        named = run("streams", "list", "--server", address, "--token-file", token)
    if told:
        assert told in refusal(tried)
        assert told in consumed
        assert f"--token-file: cannot read {token}: {told}" in refusal(named)
    else:
        (found,) = json.loads(tried.stdout)
        assert found["rows"][0]["label"] is True
        assert "TOML" not in consumed
        assert named.exit_code == 0, named.output
