"""Files that a user or an operator names, read whole.

What is not a regular file is refused before it is read: a FIFO would hold its reader until
something writes to it, and a device may never end. So is a file that is no such file by its size.
A byte order mark is no content.
"""

from __future__ import annotations

import codecs
import errno
import os
import stat
import tomllib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Opens a FIFO without a writer at once."""

_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How UTF-16 begins, and UTF-32 in the usual order."""


MAX_BYTES = 64 << 20
"""The largest file that is read."""


def read_file(path: Path) -> bytes:
    """Return a regular file's bytes.

    Raises
    ------
    OSError
        When it cannot be read, is not a regular file, or has more than `MAX_BYTES`.
    """
    descriptor = os.open(path, _OPEN)
    try:
        status = os.fstat(descriptor)
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            kind = "a FIFO or a pipe" if stat.S_ISFIFO(mode) else "a device"
            message = f"it is {kind}, not a regular file: write its content to a file"
            raise OSError(errno.EINVAL, message, str(path))
        if status.st_size > MAX_BYTES:
            message = f"it has {status.st_size:,} bytes, and at most {MAX_BYTES:,} are read"
            raise OSError(errno.EFBIG, message, str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def read_text(path: Path) -> str:
    """Return a UTF-8 file's text, without its byte order mark.

    Raises
    ------
    OSError
        As `read_file`.
    ValueError
        When it is not UTF-8.
    """
    data = read_file(path)
    if data.startswith(_WIDE_MARKS):
        raise ValueError("it is UTF-16, not UTF-8: save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise ValueError(
            f"it is not UTF-8 (byte 0x{byte:02x} in line {line}): save it as UTF-8"
        ) from None


def read_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file's content.

    Raises
    ------
    OSError
        As `read_file`.
    ValueError
        When it is not UTF-8 or not TOML.
    """
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"it is not TOML: {error}") from None
