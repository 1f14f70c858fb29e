"""``streameval admin`` on a running server."""

from __future__ import annotations

import hashlib
from contextlib import closing, contextmanager
from datetime import UTC
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from streameval._common.atomic_file import write_atomically
from streameval._common.errors import StreamEvalError
from streameval.cli._connection import command, connection, transport
from streameval.cli._output import (
    err,
    out,
    print_backup,
    print_json,
    progress_bar,
    say,
    standard_output,
)
from streameval.cli._status import print_status, to_plain_values
from streameval.client._delivery.merge_upload import PIECE_BYTES
from streameval.client._wire.calls import Call
from streameval.v1 import admin_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from google.protobuf.message import Message

    from streameval.client._wire.transport import Transport

M = TypeVar("M", bound="Message")

_TIMEOUT_S = 30.0


def status(*, as_json: bool) -> bool:
    """Print a server's status; return whether it commits."""
    with closing(transport()) as server:
        found: admin_pb2.GetServerStatusResponse = server.ask(
            Call(admin_pb2.GetServerStatusRequest()), _TIMEOUT_S
        )
    if as_json:
        print_json(to_plain_values(found))
    else:
        print_status(connection().address, found)
    return found.serving


def state_hash() -> None:
    """Print the hash of a server's state."""
    with closing(transport()) as server:
        found: admin_pb2.GetStateHashResponse = server.ask(
            Call(admin_pb2.GetStateHashRequest()), None
        )
    out.print(f"revision {found.revision}  {found.sha256}", soft_wrap=True)


def backup(file: Path | None) -> None:
    """Download a copy of a server's log to a file; None is standard output."""
    call: Call[Any] = Call(admin_pb2.BackupRequest())
    address = connection().address
    with closing(transport()) as server, _target(file) as target:
        _, last, digest = _download(server, call, target, title=f"backing up {address}")
        if last.sha256 != digest:
            raise StreamEvalError(
                f"the copy from {address} is damaged: its SHA-256 differs. Try again"
            )
    print_backup(file, last.revision, last.total_bytes, digest)


@contextmanager
def _target(file: Path | None) -> Iterator[BinaryIO]:
    if file is None:
        with standard_output() as stream:
            yield stream
    else:
        with write_atomically(file) as partial, partial.open("wb") as stream:
            yield stream


def export_stream(stream: str, file: Path) -> None:
    """Download an export of a stream to a file."""
    call: Call[Any] = Call(admin_pb2.ExportStreamRequest(name=stream))
    with closing(transport()) as server, _target(file) as target:
        first, last, _ = _download(server, call, target, title=f"exporting {stream}")
    for pair in first.pairs:
        err.print(
            f"warning: the pair {pair} is not in the file; its ids and counts are exported with: "
            f"{command('pairs', 'export', pair, 'FILE')}",
            soft_wrap=True,
            markup=False,
        )
    _print_exported(stream, last, file)


def export_pair(name: str, file: Path) -> None:
    """Download an export of a pair to a file."""
    call: Call[Any] = Call(admin_pb2.ExportPairRequest(name=name))
    with closing(transport()) as server, _target(file) as target:
        last, _, _ = _download(server, call, target, title=f"exporting {name}")
    _print_exported(f"the pair {name}", last, file)


def _print_exported(what: str, last: Any, file: Path) -> None:
    say(f"{what} at revision {last.revision} is in {file}: {last.total_bytes:,} bytes")


def import_stream(file: Path, stream: str | None) -> None:
    """Upload an export, which makes a stream."""
    data = file.read_bytes()
    with (
        closing(transport()) as server,
        progress_bar(f"importing {file.name}") as progress,
    ):
        header = admin_pb2.ImportStreamHeader(name=stream or "", total_bytes=len(data))
        requests = _import_requests(admin_pb2.ImportStreamRequest, header, data, progress)
        answer = server.upload(lambda stub: stub.ImportStream, requests)
    say(f"{answer.name} is durable at revision {answer.revision}")


def import_pair(file: Path, **names: str) -> None:
    """Upload an export, which makes a pair of two streams."""
    data = file.read_bytes()
    with (
        closing(transport()) as server,
        progress_bar(f"importing {file.name}") as progress,
    ):
        header = admin_pb2.ImportPairHeader(**names, total_bytes=len(data))
        requests = _import_requests(admin_pb2.ImportPairRequest, header, data, progress)
        answer = server.upload(lambda stub: stub.ImportPair, requests)
    say(f"the pair {answer.name} is durable at revision {answer.revision}")


def compact() -> None:
    """Make a server take a checkpoint and drop the log before it."""
    with closing(transport()) as server:
        done: admin_pb2.CompactLogResponse = server.ask(Call(admin_pb2.CompactLogRequest()), None)
    out.print(
        f"the log begins at revision {done.log_start_revision}, "
        f"{done.dropped_rows:,} rows were dropped; their space is reused",
        soft_wrap=True,
    )


def accept_clock() -> None:
    """Confirm a server's wall clock."""
    with closing(transport()) as server:
        done: admin_pb2.AcceptClockResponse = server.ask(
            Call(admin_pb2.AcceptClockRequest()), _TIMEOUT_S
        )
    accepted = done.time.ToDatetime(UTC).isoformat(" ", "seconds")
    out.print(f"the server believes its clock: {accepted}", soft_wrap=True, highlight=False)


def _download(
    server: Transport, call: Call[Any], target: BinaryIO, *, title: str
) -> tuple[Any, Any, str]:
    """Write the answer's pieces; return the first and the last, and the SHA-256 of all."""
    digest, size, first, piece = hashlib.sha256(), 0, None, None
    with progress_bar(title) as progress:
        for piece in server.watch(call):
            first = first or piece
            target.write(piece.data)
            digest.update(piece.data)
            size += len(piece.data)
            progress(size / max(piece.total_bytes, 1))
    if piece is None or size != piece.total_bytes:
        raise StreamEvalError(f"the server's answer ended after {size:,} bytes: try again")
    return first, piece, digest.hexdigest()


def _import_requests(
    kind: Callable[..., M], header: Message, data: bytes, progress: Callable[[float], None]
) -> Iterator[M]:
    """Yield the messages of an import, of one kind: its header, then the pieces of its data."""
    yield kind(header=header)
    for start in range(0, len(data), PIECE_BYTES):
        yield kind(data=data[start : start + PIECE_BYTES])
        progress(min(1.0, (start + PIECE_BYTES) / len(data)))
