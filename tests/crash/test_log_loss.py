"""A damaged log that lacks acknowledged rows says so: to its operator and to its producers.

A server is killed and a bit of its write-ahead log is flipped. SQLite reads the transactions
before the flipped bit and forgets the others silently, so each of these tests would pass a
server that counts less than it has acknowledged, unless it notices.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

import grpc
import pytest

from streameval.client import Client, ClientError, RowsLostError
from streameval.v1 import admin_pb2, admin_pb2_grpc
from streameval_server.maintenance import LOG_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .conftest import Process

ROWS = 110
LAST = ROWS + 1
"""The last revision: the first one is the start of the producer."""
SERVER = "-m", "streameval_server", "--http", "off"


def serve(
    start: Callable[..., Process], disk: Path, *flags: str, listen: str = "127.0.0.1:0"
) -> Process:
    """Start a server on a directory."""
    return start(*SERVER, "--data", str(disk), "--listen", listen, *flags)


def flip_in_the_middle(disk: Path) -> None:
    """Flip a bit in the middle of the write-ahead log."""
    path = disk / f"{LOG_NAME}-wal"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def files(disk: Path) -> dict[str, bytes]:
    """Return what is in a log's files, but for SQLite's index of its write-ahead log."""
    paths = disk.glob(f"{LOG_NAME}*")
    return {path.name: path.read_bytes() for path in paths if not path.name.endswith("-shm")}


def add_rows(client: Client, count: int) -> None:
    """Add rows, each in a commit of its own."""
    for row in range(count):
        client.stream("s").add_case(row % 3 == 0, row / count)
        client.flush()


@pytest.fixture
def client(start, disk, free_address) -> Iterator[Client]:
    """Return a client with 110 acknowledged rows on the damaged log of a killed server.

    Its server listened on `free_address`.
    """
    server = serve(start, disk, listen=free_address)
    client = Client(server.address)
    add_rows(client, ROWS)
    assert client.statistics().acked == ROWS
    server.kill()
    flip_in_the_middle(disk)
    yield client
    with suppress(ClientError):  # its server may be down
        client.close(timeout_s=0.1)


def status_of(address: str) -> admin_pb2.GetServerStatusResponse:
    """Return a server's status."""
    with grpc.insecure_channel(address) as channel:
        service = admin_pb2_grpc.AdminServiceStub(channel)
        return service.GetServerStatus(admin_pb2.GetServerStatusRequest())


@pytest.mark.usefixtures("client")
def test_a_flipped_bit_is_not_served(start, disk):
    """Each start is refused in one line that says what is lost; nothing is changed."""
    before = files(disk)
    for _ in range(2):
        code, errors = serve(start, disk).ended()
        assert code == 1
        (line,) = errors.splitlines()
        assert f"to {LAST} were acknowledged and are lost" in line
        assert re.search(r"because frame \d+ of \d+ of its write-ahead log is damaged", line)
        assert "--accept-loss" in line
    assert files(disk) == before


def test_an_accepted_loss_is_said_to_everybody(start, disk, client, free_address):
    """In the server's log and status; to the producer, as an error and in its statistics."""
    server = serve(start, disk, "--accept-loss", listen=free_address)
    status = status_of(free_address)
    (loss,) = status.losses
    kept = status.durable_revision
    assert 1 < kept < LAST
    assert (loss.kept_revision, loss.acked_revision) == (kept, LAST)
    assert any(
        f"revisions {kept + 1} to {LAST} were acknowledged" in each for each in status.warnings
    )
    client.stream("s").add_case(True, 0.5)
    with pytest.raises(RowsLostError, match="the server has lost") as caught:
        client.flush()
    assert caught.value.lost_rows == LAST - kept
    statistics = client.statistics()
    assert (statistics.lost, statistics.acked) == (LAST - kept, kept)
    assert client.stream("s").snapshot().num_cases == kept
    client.flush()  # it is an error once
    code, errors = server.terminate()
    assert code == 0
    assert f"revisions {kept + 1} to {LAST} were acknowledged and are lost" in errors
    # Accepted once: the next start needs no flag, and still says it.
    server = serve(start, disk, listen=free_address)
    assert list(status_of(free_address).losses) == [loss]
    # A second loss is refused again.
    add_rows(client, ROWS)
    server.kill()
    flip_in_the_middle(disk)
    code, errors = serve(start, disk).ended()
    assert code == 1
    assert "are lost" in errors


def test_a_log_that_was_replaced_is_not_served(start, disk, client):
    """By an older copy of itself, or by none at all; with the flag a server starts."""
    del client
    (disk / f"{LOG_NAME}-wal").unlink()
    code, errors = serve(start, disk).ended()
    assert code == 1
    assert "and are lost: the log ends at revision 0" in errors
    for path in disk.glob(f"{LOG_NAME}*"):
        if not path.name.endswith("-acked"):
            path.unlink()
    code, errors = serve(start, disk).ended()
    assert code == 1
    assert "the log ends at revision 0" in errors
    server = serve(start, disk, "--accept-loss")
    assert status_of(server.address).serving
