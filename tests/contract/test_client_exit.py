"""The client when its process forks or ends: rows are sent and count once."""

from __future__ import annotations

import asyncio
import errno
import inspect
import logging
import os
import shlex
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from streameval import InvalidInputError
from streameval.client import AsyncClient, Client, DeadlineError
from streameval.client._delivery import delivery as delivery_module
from streameval.client._delivery.delivery import FlushWait
from streameval.client._delivery.spool import MAGIC, is_spool, read_spool, write_spool
from streameval.v1 import ingest_pb2
from streameval_server import Settings
from streameval_server.testing import running_server


def run_script(address: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    header = (
        "import datetime, os, sys\nfrom streameval.client import Client\naddress = sys.argv[1]\n"
    )
    return subprocess.run(
        [sys.executable, "-c", header + textwrap.dedent(code), address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def counted(address: str, stream: str) -> int:
    """Return how many cases a stream has."""
    with Client(address) as client:
        return client.stream(stream).snapshot().num_cases


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("used", [False, True])
def test_a_forked_child_is_a_producer_of_its_own(address: str, used: bool) -> None:
    """Parent and child both count, once, whether the parent had sent before or not."""
    stream = f"for/ked-{used}"
    code = f"""
    client = Client(address)
    stream = client.stream({stream!r})
    if {used}:
        stream.add_case(True, 0.0)
        stream.flush()
    stream.add_case(True, 1.0)
    child = os.fork()
    stream.add_case(False, 2.0)
    stream.flush()
    client.close()
    if child == 0:
        os._exit(0)
    sys.exit(os.waitpid(child, 0)[1])
    """
    done = run_script(address, code)
    assert done.returncode == 0, done.stderr
    assert counted(address, stream) == 3 + used


def test_what_is_left_is_sent_at_exit(address: str) -> None:
    """A process that ends without closing its client sends its pending rows."""
    code = """
    stream = Client(address).stream("at/exit")
    for i in range(2500):
        stream.add_case(True, float(i))
    """
    done = run_script(address, code)
    assert (done.returncode, done.stderr) == (0, "")
    assert counted(address, "at/exit") == 2500


def test_exit_needs_no_new_threads(address: str) -> None:
    """Rows are sent at exit although gRPC cannot start threads, as in Python 3.12."""
    code = """
    from grpc._cython import cygrpc

    class NoThread:
        def __init__(self, *args, **kwargs):
            pass

        def setDaemon(self, daemonic):
            pass

        def start(self):
            raise RuntimeError("can't start new thread at interpreter shutdown")

    cygrpc.ForkManagedThread = NoThread
    client = Client(address)
    stream = client.stream("no/threads")
    for i in range(2500):
        stream.add_case(True, float(i))
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    client.stream("refused/stream").add_case(True, 1.0, at=tomorrow)
    """
    done = run_script(address, code)
    assert done.returncode == 0
    assert "1 row in 1 batch refused" in done.stderr
    assert counted(address, "no/threads") == 2500


def test_exit_does_not_wait_for_ever(free_address: str) -> None:
    """Without a server the end of the process is delayed briefly, and a warning is logged."""
    code = """
    Client(address, close_timeout_s=0.2).stream("at/exit").add_case(True, 1.0)
    """
    began = time.monotonic()
    done = run_script(free_address, code)
    assert done.returncode == 0
    assert "1 row not durable after 0.2 s" in done.stderr
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_closing_says_how_many_rows_are_lost(
    free_address: str, caplog: pytest.LogCaptureFixture, kind: type[Client | AsyncClient]
) -> None:
    """Without a server `close` takes `close_timeout_s`, whatever its own time-out is."""
    caplog.set_level(logging.WARNING, "streameval.client")
    assert inspect.signature(kind).parameters["close_timeout_s"].default == 5.0

    async def close_async() -> None:
        client = AsyncClient(free_address, close_timeout_s=0.2)
        client.stream("a").add_cases(labels=[1, 0, 1], scores=[0.1, 0.2, 0.3])
        await client.close(timeout_s=None)

    def close() -> None:
        client = Client(free_address, close_timeout_s=0.2)
        client.stream("a").add_cases(labels=[1, 0, 1], scores=[0.1, 0.2, 0.3])
        client.close(timeout_s=None)

    with pytest.raises(DeadlineError, match=r"3 rows not durable after 0\.2 s"):
        close() if kind is Client else asyncio.run(close_async())
    messages = [record.message for record in caplog.records]
    assert messages[-1] == f"streameval client of {free_address}: 3 rows lost"
    assert sum("lost the server" in message for message in messages) == 1


def test_closing_waits_while_rows_become_durable() -> None:
    """Only a time in which none does counts towards `close_timeout_s`."""
    clock = [0.0]
    sender = SimpleNamespace(settled_rows=0, error=None)
    delivery = SimpleNamespace(
        sender=sender, flush_timeout=lambda limit_s, _: DeadlineError(f"after {limit_s}")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery_module.time, "monotonic", lambda: clock[0])
        wait = FlushWait(delivery, 100, 30.0, 5.0)
        for clock[0], sender.settled_rows in ((4.0, 10), (8.0, 20), (12.0, 30)):
            assert wait.left_s() == 5.0
        clock[0] = 16.0
        assert wait.left_s() == 1.0
        clock[0] = 17.0
        with pytest.raises(DeadlineError, match=r"after 5\.0"):
            wait.left_s()
        sender.settled_rows, clock[0] = 40, 29.0
        assert wait.left_s() == 1.0
        clock[0] = 30.0
        with pytest.raises(DeadlineError, match=r"after 30\.0"):
            wait.left_s()


def test_a_server_that_is_lost_and_comes_back_is_logged_once(
    free_address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One line when it is lost, however often the client tries, and one when it is back."""
    caplog.set_level(logging.WARNING, "streameval.client")

    def lines(text: str) -> int:
        return sum(text in record.message for record in caplog.records)

    with Client(free_address) as client:
        client.stream("a").add_case(True, 0.5)
        deadline = time.monotonic() + 30
        while client.statistics().connections < 4:
            assert time.monotonic() < deadline
        with running_server(Settings(listen=free_address, memory=True)):
            client.flush()
            assert (lines("lost the server"), lines("the server is back")) == (1, 1)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_unsent_rows_are_spooled_and_pushed_once(
    free_address: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: type
) -> None:
    """All kinds of rows of several streams, in their order; a second push changes nothing."""
    caplog.set_level(logging.WARNING, "streameval.client")
    spool = tmp_path / "unsent rows"

    def add(client: Client | AsyncClient) -> None:
        stream = client.stream("a")
        stream.add_cases(labels=[1, 0], scores=[0.9, 0.1], segments={"country": ["US", "DE"]})
        stream.log("x", 0.5)
        stream.label("x", True)
        client.stream("b").add_case(True, 0.5)

    async def close_async() -> None:
        client = AsyncClient(free_address, close_timeout_s=0.1, spool=spool)
        add(client)
        await client.close()

    def close() -> None:
        client = Client(free_address, close_timeout_s=0.1, spool=str(spool))
        add(client)
        client.close()

    for _ in range(2):
        with pytest.raises(DeadlineError, match="5 rows not durable"):
            close() if kind is Client else asyncio.run(close_async())
    command = f"streameval push --spool {shlex.quote(str(spool))} --server {free_address}"
    assert command in caplog.records[-1].message
    with running_server(Settings(listen=free_address, memory=True)):
        for text in ("10 rows of {} pushed, 0 were there", "0 rows of {} pushed, 10 were there"):
            done = subprocess.run(
                [sys.executable, "-m", "streameval", *shlex.split(command)[1:]],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert text.format(spool) in done.stdout.replace("\n", "")
        with Client(free_address) as client:
            snapshots = [client.stream(name).snapshot() for name in ("a", "b")]
            assert [each.num_cases for each in snapshots] == [5, 2]
            assert client.stream("a").snapshot(segment=("country", "US")).num_cases == 2


def requests(producer: str, number: int = 3) -> list[ingest_pb2.IngestRequest]:
    """Return an opening and batches of some kilobytes."""
    cases = ingest_pb2.Cases(scores=[0.5] * 500, positives=[True] * 500)
    return [
        ingest_pb2.IngestRequest(open=ingest_pb2.Open(producer=producer, epoch=1)),
        *(
            ingest_pb2.IngestRequest(
                batch=ingest_pb2.Batch(sequence=each + 1, stream="s", cases=cases)
            )
            for each in range(number)
        ),
    ]


def test_a_spool_that_is_cut_off_keeps_its_whole_rows(tmp_path: Path) -> None:
    """Wherever its writer was killed; the next one goes on behind them."""
    spool, whole = tmp_path / "unsent", tmp_path / "whole"
    write_spool(whole, requests("a"))
    before = whole.read_bytes()
    write_spool(whole, requests("b"))
    data = whole.read_bytes()
    for size in (0, 1, len(MAGIC), *range(len(before), len(data), 1_009), len(data) - 1):
        spool.write_bytes(data[:size])
        kept = list(read_spool(spool)) if is_spool(spool) else []
        assert kept == (requests("a") + requests("b"))[: len(kept)]
        assert (len(kept) >= 4) == (size >= len(before))
        write_spool(spool, requests("c"))
        assert list(read_spool(spool)) == kept + requests("c")


def test_a_spool_that_cannot_be_written_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file, a FIFO, a full disk."""
    spool, other = tmp_path / "unsent", tmp_path / "rows.csv"
    write_spool(spool, requests("a"))
    before = spool.read_bytes()
    other.write_text("id,score\n1,0.5\n")
    with pytest.raises(OSError, match="another file"):
        write_spool(other, requests("b"))
    assert other.read_text() == "id,score\n1,0.5\n"
    with pytest.raises(InvalidInputError, match="spool must be the path of a new file"):
        Client("127.0.0.1:1", spool=other)
    with pytest.raises(InvalidInputError, match="in a directory that exists"):
        Client("127.0.0.1:1", spool=tmp_path / "none" / "rows")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "fifo")
        with pytest.raises(OSError, match="no regular file"):
            write_spool(tmp_path / "fifo", requests("b"))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_spool(spool, requests("b"))
    assert spool.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="locks files of POSIX")
def test_several_processes_write_one_spool(tmp_path: Path) -> None:
    """The workers of a server end at the same time: no row of one is within rows of another."""
    spool = tmp_path / "unsent"
    names = [f"worker {number}" for number in range(8)]
    with ThreadPoolExecutor(len(names)) as threads:
        for done in [threads.submit(write_spool, spool, requests(name, 40)) for name in names]:
            done.result()
    found = list(read_spool(spool))
    starts = [place for place, each in enumerate(found) if each.HasField("open")]
    assert sorted(found[place].open.producer for place in starts) == names
    for place in starts:
        assert found[place : place + 41] == requests(found[place].open.producer, 40)
    assert len(found) == 8 * 41


def test_the_spool_of_a_named_producer_outlives_its_next_process(
    free_address: str, tmp_path: Path
) -> None:
    """Rows that were never sent are pushed; of others, and of a cut, it is said how many."""
    spool = tmp_path / "unsent"
    client = Client(free_address, producer="web-1", close_timeout_s=0.1, spool=spool)
    client.stream("a").add_cases(labels=[1, 0], scores=[0.9, 0.1])
    with pytest.raises(DeadlineError, match="2 rows not durable"):
        client.close()
    sent = requests("web-1")
    write_spool(spool, sent)
    with spool.open("ab") as file:
        file.write(b"\x09\0\0\0half")
    with running_server(Settings(listen=free_address, memory=True)):
        with Client(free_address, producer="web-1") as later:
            later.stream("a").add_case(True, 0.5)
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "streameval",
                "push",
                "--spool",
                str(spool),
                "--server",
                free_address,
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert counted(free_address, "a") == 3
    assert done.returncode == 1
    assert "1,500 rows that were sent without an answer: producer web-1 has epoch" in done.stderr
    assert "the last 8 bytes of" in done.stderr
    assert "2 rows of" in done.stdout
