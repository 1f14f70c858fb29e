"""Files that are read whole: what they hold, and what is no file."""

from __future__ import annotations

import codecs
import os
import sys
from pathlib import Path

import pytest

from streameval._common.text_file import MAX_BYTES
from streameval.checks import read_file, read_text, read_toml

TEXT = "ü 東京\r\n"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (TEXT.encode(), TEXT),
        (codecs.BOM_UTF8 + TEXT.encode(), TEXT),
        (codecs.BOM_UTF8, ""),
        (codecs.BOM_UTF8 * 2 + b"x", "\ufeffx"),
    ],
)
def test_a_byte_order_mark_is_no_content(tmp_path: Path, data: bytes, text: str) -> None:
    """One at the beginning; a second one is a character.

    Met in hukkin/tomli#304, Nayjest/lm-proxy#79, python-poetry/tomlkit#108, cpptoml#94,
    toml-lang/toml-test#199 (two of them).
    """
    path = tmp_path / "file"
    path.write_bytes(data)
    assert read_text(path) == text


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (TEXT.encode("utf-16"), "it is UTF-16, not UTF-8: save it as UTF-8"),
        (codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), "it is UTF-16, not UTF-8"),
        (TEXT.encode("utf-32"), "it is UTF-16, not UTF-8"),
        ("a\nb ü".encode("latin-1"), "it is not UTF-8 (byte 0xfc in line 2): save it as UTF-8"),
        (b"\xed\xb3\xbf", "it is not UTF-8 (byte 0xed in line 1)"),
        (b"ab\xe6\x9d", "it is not UTF-8 (byte 0xe6 in line 1)"),
    ],
)
def test_other_encodings_are_named(tmp_path: Path, data: bytes, problem: str) -> None:
    """With what to do, and not in the words of a codec (BurntSushi/toml#233: UTF-16)."""
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="it is") as caught:
        read_text(path)
    assert str(caught.value).startswith(problem)


def test_toml_begins_behind_the_mark(tmp_path: Path) -> None:
    """Lines are counted as without it."""
    path = tmp_path / "file"
    path.write_bytes(codecs.BOM_UTF8 + b"a = 1\n")
    assert read_toml(path) == {"a": 1}
    path.write_bytes(codecs.BOM_UTF8 + b"a = 1\nb\n")
    with pytest.raises(ValueError, match="line 2"):
        read_toml(path)


@pytest.mark.skipif(sys.platform == "win32", reason="makes a FIFO")
def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    """A FIFO without a writer, a device, a directory, gigabytes; a link to a file is that file."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", MAX_BYTES + 1)
    assert read_file(tmp_path / "link") == b"x"
    for path, problem in (
        (tmp_path / "fifo", "it is a FIFO or a pipe, not a regular file"),
        (Path("/dev/zero"), "it is a device, not a regular file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "huge", "it has 67,108,865 bytes, and at most 67,108,864 are read"),
        (tmp_path / "none", "No such file"),
    ):
        with pytest.raises(OSError, match=problem) as caught:
            read_file(path)
        assert caught.value.filename == path or caught.value.filename == str(path)
