"""A file of rows that a client could not send: what it would have sent on its Ingest stream.

The file begins with `MAGIC`. Then come encoded IngestRequests, each after its length in four
bytes, little-endian: an opening, and the batches of its producer and epoch, numbered. So
`streameval push` counts each row once, also a batch that had arrived without an answer. A client
that finds the file appends to it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from streameval._common.errors import StreamEvalError
from streameval.v1 import ingest_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

MAGIC = b"streameval spool 1\n"

_LENGTH_BYTES = 4


def is_spool(path: Path) -> bool:
    """Return whether a file is one of rows that were not sent."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def write_spool(path: Path, requests: Iterable[ingest_pb2.IngestRequest]) -> None:
    """Append requests to a file, durably. Raises OSError."""
    with path.open("ab") as file:
        if not file.tell():
            file.write(MAGIC)
        for request in requests:
            encoded = request.SerializeToString()
            file.write(len(encoded).to_bytes(_LENGTH_BYTES, "little") + encoded)
        file.flush()
        os.fsync(file.fileno())


def read_spool(path: Path) -> Iterator[ingest_pb2.IngestRequest]:
    """Yield the requests of a file.

    Raises
    ------
    StreamEvalError
        When it ends within a request, or holds anything else.
    """
    with path.open("rb") as file:
        file.seek(len(MAGIC))
        while head := file.read(_LENGTH_BYTES):
            length = int.from_bytes(head, "little")
            encoded = file.read(length)
            if len(head) < _LENGTH_BYTES or len(encoded) < length:
                raise StreamEvalError(f"{path} ends within a row: it is not whole, so none is sent")
            try:
                yield ingest_pb2.IngestRequest.FromString(encoded)
            except DecodeError:
                raise StreamEvalError(f"{path} is damaged, so none of its rows is sent") from None
