"""A file of rows that a client could not send: what it would have sent on its Ingest stream.

The file begins with `MAGIC`. Then come encoded IngestRequests, each after its length in four
bytes, little-endian: an opening, and the batches of its producer and epoch, numbered. So
`streameval push` counts each row once, also a batch that had arrived without an answer. A client
that finds the file appends to it, after others that do the same; what a process that was killed
has written of a request is replaced. Another file is never written to.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import TYPE_CHECKING, BinaryIO

from google.protobuf.message import DecodeError

from streameval._common.errors import InvalidInputError, StreamEvalError
from streameval.v1 import ingest_pb2

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

MAGIC = b"streameval spool 1\n"

_LENGTH_BYTES = 4
_OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Opens a FIFO without a reader at once."""


def is_spool(path: Path) -> bool:
    """Return whether a file is one of rows that were not sent."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def checked_spool(path: Path) -> Path:
    """Return the path of a file for rows, or refuse it. Raises InvalidInputError."""
    is_new = not path.exists() or (path.is_file() and not path.stat().st_size)
    if path.parent.is_dir() and (is_new or is_spool(path)):
        return path
    raise InvalidInputError(
        "spool must be the path of a new file, in a directory that exists, or of rows that were "
        f"spooled before, got {str(path)!r}",
        field="spool",
    )


def write_spool(path: Path, requests: Iterable[ingest_pb2.IngestRequest]) -> None:
    """Append requests to a file, durably, or leave it as it was. Raises OSError."""
    descriptor = os.open(path, _OPEN, 0o600)
    try:
        end = _locked_end(descriptor)
        os.ftruncate(descriptor, end)
        try:
            with os.fdopen(descriptor, "ab", closefd=False) as file:
                if not end:
                    file.write(MAGIC)
                for request in requests:
                    encoded = request.SerializeToString()
                    file.write(len(encoded).to_bytes(_LENGTH_BYTES, "little") + encoded)
                file.flush()
                os.fsync(descriptor)
        except BaseException:
            os.ftruncate(descriptor, end)
            raise
    finally:
        os.close(descriptor)  # and so ends the lock


def _locked_end(descriptor: int) -> int:
    """Return where a file's next request begins, and let no other process write it meanwhile."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    if sys.platform != "win32":
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        head = file.read(len(MAGIC))
        if not MAGIC.startswith(head):
            raise OSError(errno.EEXIST, "it is another file, which is left as it is")
        return whole_bytes(file) if head == MAGIC else 0


def whole_bytes(file: BinaryIO) -> int:
    """Return where the last whole request of a file of rows ends. O(requests)."""
    size, end = os.fstat(file.fileno()).st_size, len(MAGIC)
    while True:
        file.seek(end)
        head = file.read(_LENGTH_BYTES)
        after = end + _LENGTH_BYTES + int.from_bytes(head, "little")
        if len(head) < _LENGTH_BYTES or after > size:
            return end
        end = after


def read_spool(path: Path) -> Iterator[ingest_pb2.IngestRequest]:
    """Yield the whole requests of a file.

    Raises
    ------
    StreamEvalError
        When it holds anything else.
    """
    with path.open("rb") as file:
        end = whole_bytes(file)
        file.seek(len(MAGIC))
        while file.tell() < end:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            try:
                yield ingest_pb2.IngestRequest.FromString(file.read(length))
            except DecodeError:
                raise StreamEvalError(f"{path} is damaged, so none of its rows is sent") from None
