"""The client against a real server: what breaks between them is not lost and not counted twice."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
import textwrap
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streameval import InvalidInputError
from streameval.client import (
    AlreadyExistsError,
    Client,
    ClosedError,
    DeadlineError,
    FencedError,
    InvalidRequestError,
    NotFoundError,
    RowsLostError,
    UnavailableError,
)
from streameval_server._core.limits import Limits
from streameval_server._process.settings import Settings
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Return the address of a server in memory."""
    with running_server() as address:
        yield address


@pytest.fixture
def free_address() -> str:
    """Return an address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def durable(address: str, data: Path) -> contextlib.AbstractContextManager[str]:
    """Start a server at an address that keeps its log."""
    return running_server(Settings(listen=address, data=data))


def test_reads_its_own_writes(address: str) -> None:
    """Each snapshot after a flush includes everything before it."""
    with Client(address) as client:
        stream = client.stream("own/writes")
        for expected in range(1, 40):
            stream.add_case(expected % 2 == 0, float(expected))
            revision = stream.flush()
            snapshot = stream.snapshot()
            assert snapshot.num_cases == expected
            assert snapshot.revision >= revision


def test_waits_for_a_server(free_address: str) -> None:
    """Rows wait for a server that is not there yet; a flush says why it failed."""
    with Client(free_address) as client:
        stream = client.stream("late/server")
        stream.add_cases(labels=[1, 0, 1], scores=[0.1, 0.2, 0.3])
        with pytest.raises(DeadlineError, match=r"^3 rows not durable after 0.1 s"):
            client.flush(timeout=0.1)
        with pytest.raises(UnavailableError):
            stream.snapshot()
        with running_server(Settings(listen=free_address, memory=True)):
            client.flush()
            assert stream.snapshot().num_cases == 3
            assert client.statistics().last_error is None


def test_resumes_after_a_restart(free_address: str, tmp_path: Path) -> None:
    """A restarted server gets what it does not have, and nothing twice."""
    with Client(free_address) as client:
        stream = client.stream("re/started")
        for round_ in range(3):
            with durable(free_address, tmp_path):
                stream.add_cases(labels=[1, 0] * 500, scores=np.arange(1000.0))
                stream.flush()
                assert stream.snapshot().num_cases == 2000 * round_ + 1000
                # On its way when the server stops, or in the buffer: nobody can tell.
                stream.add_cases(labels=[1, 0] * 500, scores=np.arange(1000.0))
        with durable(free_address, tmp_path):
            stream.flush()
            assert stream.snapshot().num_cases == 6000
        statistics = client.statistics()
        assert statistics.acked == statistics.added == 6000
        assert statistics.connections >= 4


def test_goes_on_with_a_server_that_has_forgotten(free_address: str) -> None:
    """A server that lost its memory gets what comes next, under a new epoch."""
    with Client(free_address) as client:
        stream = client.stream("for/gotten")
        for _ in range(2):
            with running_server(Settings(listen=free_address, memory=True)):
                for score in range(5):
                    stream.add_case(True, float(score))
                    stream.flush()
                assert stream.snapshot().num_cases == 5


def test_keeps_to_the_servers_limits() -> None:
    """Columns are cut into batches that the server takes."""
    limits = Limits(max_batch_rows=7, max_batch_bytes=600, max_inflight_bytes=2000)
    settings = Settings(listen="127.0.0.1:0", memory=True, limits=limits)
    with running_server(settings) as address, Client(address) as client:
        stream = client.stream("small/batches")
        stream.add_cases(labels=np.ones(500), scores=np.arange(500.0), counts=np.full(500, 3))
        stream.add_cases(labels=np.zeros(500), scores=np.arange(500.0))
        stream.flush()
        snapshot = stream.snapshot()
        assert snapshot.num_positive_ref == 1500
        assert snapshot.num_negative_ref == 500


def test_a_refused_batch_is_reported_once(address: str) -> None:
    """Flush lists what was refused, once; the rest counts; nothing is sent again."""
    with Client(address) as client:
        good = client.stream("good/stream")
        good.add_case(True, 1.0)
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        client.stream("refused/stream").add_cases(labels=[1, 0], scores=[1.0, 2.0], at=tomorrow)
        with pytest.raises(RowsLostError, match="2 rows in 1 batch refused") as caught:
            client.flush()
        assert caught.value.refused_rows == 2
        (refusal,) = caught.value.refusals
        assert (refusal.stream, refusal.rows, refusal.code) == (
            "refused/stream",
            2,
            "INVALID_ARGUMENT",
        )
        assert refusal.violations[0].field == "cases.event_times_us[0]"
        client.flush()
        assert good.snapshot().num_cases == 1
        statistics = client.statistics()
        assert (statistics.acked, statistics.refused, statistics.retried) == (1, 2, 0)
        assert statistics.refusals == (refusal,)
        assert statistics.pending == 0


def test_a_newer_producer_fences(address: str) -> None:
    """Who uses a producer's name again takes it over; the older one stops and says so."""
    with Client(address, producer="fenced") as newer:
        with Client(address, producer="fenced") as newest:
            newest.stream("fen/ced").add_case(True, 1.0)
            newest.flush()
        stream = newer.stream("fen/ced")
        stream.add_case(True, 2.0)
        with pytest.raises(FencedError):
            newer.flush()
        stream.add_case(True, 3.0)
        deadline = time.monotonic() + 10
        while newer.statistics().dropped < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        statistics = newer.statistics()
        assert (statistics.dropped, statistics.acked) == (2, 0)
        assert stream.snapshot().num_cases == 1
        with pytest.raises(FencedError):
            newer.close()


def test_drops_the_newest_when_full(free_address: str) -> None:
    """A full buffer drops what comes, counts it, and the next flush says so."""
    with Client(free_address, max_buffered_rows=10) as client:
        stream = client.stream("f/ull")
        for score in range(8):
            stream.add_case(True, float(score))
        stream.add_cases(labels=[0] * 5, scores=range(5))
        stream.add_misses(1)
        assert client.statistics().added == 10
        assert client.statistics().dropped == 4
        with running_server(Settings(listen=free_address, memory=True)):
            with pytest.raises(RowsLostError, match=r"^4 rows dropped because") as caught:
                client.flush()
            assert (caught.value.dropped_rows, caught.value.refused_rows) == (4, 0)
            client.flush()
            snapshot = stream.snapshot()
            assert (snapshot.num_positive_ref, snapshot.num_negative_ref) == (8, 2)


def test_blocks_when_full_if_asked(free_address: str) -> None:
    """A caller that asked for it waits for room, in rows and in columns."""
    with Client(free_address, max_buffered_rows=10, when_full="block") as client:
        stream = client.stream("bl/ock")

        def add() -> None:
            for score in range(25):
                stream.add_case(True, float(score))
            stream.add_cases(labels=[0] * 45, scores=range(45))

        adder = threading.Thread(target=add)
        adder.start()
        adder.join(0.1)
        assert adder.is_alive()
        assert client.statistics().added == 10
        with running_server(Settings(listen=free_address, memory=True)):
            adder.join(20)
            assert not adder.is_alive()
            client.flush()
            assert stream.snapshot().num_cases == 70
        assert client.statistics().dropped == 0


def test_closing_frees_who_waits(free_address: str) -> None:
    """Who waits for room in a client that is closed gets an error, not silence."""
    client = Client(free_address, max_buffered_rows=1, when_full="block")
    stream = client.stream("bl/ock")
    stream.add_case(True, 1.0)
    caught: list[BaseException] = []

    def add() -> None:
        try:
            stream.add_case(True, 2.0)
        except ClosedError as error:
            caught.append(error)

    adder = threading.Thread(target=add)
    adder.start()
    adder.join(0.05)
    with pytest.raises(DeadlineError):
        client.close(timeout=0.05)
    adder.join(10)
    assert [str(error) for error in caught] == ["the client is closed"]


def test_a_closed_client_says_so(address: str) -> None:
    """Nothing can be added or asked after closing; closing again does nothing."""
    client = Client(address)
    stream = client.stream("cl/osed")
    stream.add_case(True, 1.0)
    client.close()
    client.close()
    for call in (
        lambda: stream.add_case(True, 1.0),
        lambda: stream.add_cases(labels=[1], scores=[1.0]),
        lambda: stream.add_misses(1),
        stream.snapshot,
        client.list_streams,
    ):
        with pytest.raises(ClosedError, match=r"^the client is closed$"):
            call()
    assert client.statistics().acked == 1


def test_an_error_inside_with_is_not_masked(free_address: str) -> None:
    """What goes wrong inside a with statement comes out, though rows could not be sent."""

    def use() -> None:
        with Client(free_address, exit_timeout_s=0.05) as client:
            client.stream("in/side").add_case(True, 1.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use()


def test_many_threads_share_a_client(address: str) -> None:
    """Rows added by many threads at once are all counted, labels beside their scores."""
    with Client(address) as client:

        def add(which: int) -> None:
            stream = client.stream("thr/eads")
            for i in range(2000):
                stream.add_case(which % 2 == 0, float(which))
                if i % 100 == 0:
                    stream.add_cases(labels=[which % 2 == 0] * 10, scores=[float(which)] * 10)

        threads = [threading.Thread(target=add, args=(which,)) for which in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.flush()
        points = client.stream("thr/eads").operating_points()
        assert points.thresholds.tolist() == [np.inf, 3.0, 2.0, 1.0, 0.0]
        assert points.tp.tolist() == [0, 0, 2200, 2200, 4400]
        assert points.fp.tolist() == [0, 2200, 2200, 4400, 4400]


def test_manages_streams(address: str) -> None:
    """Streams are made, described, listed and deleted, with errors by name."""
    with Client(address) as client:
        made = client.create_stream("man/aged")
        assert made.name == "man/aged"
        described = client.get_stream("man/aged")
        assert described.settings == made.settings
        assert (described.create_time, described.create_revision) == (
            made.create_time,
            made.create_revision,
        )
        assert described.counters.panes == 0
        client.create_stream("man/y")
        assert [info.name for info in client.list_streams("man/")] == ["man/aged", "man/y"]
        with pytest.raises(AlreadyExistsError):
            client.create_stream("man/aged")
        with pytest.raises(InvalidRequestError, match="stream name must be") as caught:
            client.create_stream("man//aged")
        assert caught.value.violations
        assert client.stream("man/aged").snapshot().num_cases == 0
        client.delete_stream("man/aged")
        for call in (
            lambda: client.get_stream("man/aged"),
            lambda: client.delete_stream("man/aged"),
            client.stream("man/aged").snapshot,
            client.stream("man/aged").evaluator,
            client.stream("man/aged").roc_hull,
        ):
            with pytest.raises(NotFoundError, match="man/aged"):
                call()


def test_bad_rows_are_refused_at_the_call(address: str) -> None:
    """Bad columns raise the library's own errors, and nothing of them is added."""
    with Client(address) as client:
        stream = client.stream("bad/rows")
        with pytest.raises(InvalidInputError, match=r"^score must be finite, got nan$"):
            stream.add_case(True, float("nan"))
        with pytest.raises(InvalidInputError, match=r"^label must be .*, got 2 at index 1$"):
            stream.add_cases(labels=[1, 2], scores=[0.1, 0.2])
        with pytest.raises(InvalidInputError, match="count must be a non-negative integer"):
            stream.add_misses(-1)
        with pytest.raises(InvalidInputError, match="max_points"):
            stream.operating_points(max_points=0)
        stream.add_cases(labels=[], scores=[])
        stream.add_cases(labels=[1], scores=[1.0], counts=[0])
        stream.add_misses(0)
        assert client.statistics().added == 0
        with pytest.raises(
            InvalidInputError, match=r"^stream name must be .*, got 'not//a stream'"
        ):
            client.stream("not//a stream")
        for settings in ({"when_full": "wait"}, {"producer": ""}, {"max_buffered_rows": 0}):
            with pytest.raises(InvalidInputError):
                Client(address, **settings)


def test_the_callers_columns_are_copied(free_address: str) -> None:
    """A caller may reuse its arrays at once."""
    scores, labels = np.arange(4.0), np.array([True, False, True, False])
    with Client(free_address) as client:
        stream = client.stream("co/pied")
        stream.add_cases(labels=labels, scores=scores)
        scores[:], labels[:] = np.nan, True
        with running_server(Settings(listen=free_address, memory=True)):
            client.flush()
            assert stream.operating_points().tp.tolist() == [0, 0, 1, 1, 2]


class Cutter:
    """A TCP proxy that cuts each connection after some bytes; while `deaf` it loses answers."""

    def __init__(self, target: str, next_cut: Callable[[], int]) -> None:
        self.deaf = False
        self._near: list[socket.socket] = []
        host, port = target.split(":")
        self._target = host, int(port)
        self._next_cut = next_cut
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._near.append(near)
                self._start(self._relay, near)

    def _relay(self, near: socket.socket) -> None:
        budget = [self._next_cut()]
        with near, socket.create_connection(self._target) as far:
            back = threading.Thread(target=self._copy, args=(far, near, budget), daemon=True)
            back.start()
            self._copy(near, far, budget)
            back.join()

    def _copy(self, source: socket.socket, target: socket.socket, budget: list[int]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(4096):
                if self.deaf and target in self._near:
                    continue
                budget[0] -= len(data)
                if budget[0] < 0:
                    self.cuts += 1
                    break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Cut all connections there are."""
        for near in self._near:
            with contextlib.suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Accept nothing more, and wait for what there is to end."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        self._listener.close()


def test_connections_that_are_cut_lose_nothing() -> None:
    """Whatever byte a connection breaks at, each row counts once."""
    # Small batches: each connection gets some of them through, however busy the machine is.
    settings = Settings(listen="127.0.0.1:0", memory=True, limits=Limits(max_batch_rows=500))
    with running_server(settings) as address:
        _cut_again_and_again(address)


def test_a_refusal_that_was_lost_with_its_connection_is_reported(address: str) -> None:
    """What was refused is no less so when the connection broke before the answer."""
    cutter = Cutter(address, lambda: 1 << 40)
    with Client(cutter.address) as client, Client(address) as direct:
        client.stream("lost/answer").add_case(True, 1.0)
        client.flush()
        cutter.deaf = True
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        client.stream("lost/refusal").add_cases(labels=[1, 0], scores=[1.0, 2.0], at=tomorrow)
        for score in range(4):
            client.stream("lost/answer").add_case(True, float(score))
        deadline = time.monotonic() + 10
        while direct.stream("lost/answer").snapshot().num_cases < 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert client.statistics().pending == 6
        cutter.deaf = False
        cutter.cut()
        with pytest.raises(RowsLostError, match="2 rows in 1 batch refused") as caught:
            client.flush()
        (refusal,) = caught.value.refusals
        assert (refusal.stream, refusal.rows) == ("lost/refusal", 2)
        assert refusal.violations[0].field == "cases.event_times_us[0]"
        statistics = client.statistics()
        assert (statistics.acked, statistics.refused, statistics.retried) == (5, 2, 0)
        assert direct.stream("lost/answer").snapshot().num_cases == 5
    cutter.close()


def _cut_again_and_again(address: str) -> None:
    seeded = random.Random(7)
    cutter = Cutter(address, lambda: seeded.randrange(500, 250_000))
    with Client(cutter.address) as client:
        stream = client.stream("cut/off")
        for part in range(40):
            stream.add_cases(labels=np.ones(2000, bool), scores=np.arange(2000.0) + 2000 * part)
            time.sleep(0.01)
        client.flush(timeout=60)
        statistics = client.statistics()
    cutter.close()
    assert cutter.cuts > 5
    assert statistics.acked == 80_000
    with Client(address) as client:
        points = client.stream("cut/off").operating_points()
        assert points.tp.tolist() == list(range(80_001))
        few = client.stream("cut/off").operating_points(max_points=500)
        assert len(few) == 500
        assert (few.tp[0], few.tp[-1]) == (0, 80_000)


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
    """A process that ends without closing its client sends what it had."""
    code = """
    stream = Client(address).stream("at/exit")
    for i in range(2500):
        stream.add_case(True, float(i))
    """
    done = run_script(address, code)
    assert (done.returncode, done.stderr) == (0, "")
    assert counted(address, "at/exit") == 2500


def test_exit_needs_no_new_threads(address: str) -> None:
    """Rows are sent at exit where gRPC cannot start its threads, as in Python 3.12."""
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
    """Without a server the end of a process is held up for a moment only, and says so."""
    code = """
    Client(address, exit_timeout_s=0.2).stream("at/exit").add_case(True, 1.0)
    """
    began = time.monotonic()
    done = run_script(free_address, code)
    assert done.returncode == 0
    assert "1 row not durable after 0.2 s" in done.stderr
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("arguments", "field", "text"),
    [
        ({"address": 5}, "address", "address must be text like 'localhost:50051', got 5"),
        (
            {"address": ""},
            "address",
            "address must not be empty: give it like 'localhost:50051'",
        ),
        ({"timeout_s": "x"}, "timeout_s", "timeout_s must be a number, got 'x'"),
        ({"timeout_s": None}, "timeout_s", "timeout_s must be a number, got None"),
        (
            {"linger_s": -1},
            "linger_s",
            "linger_s must be finite seconds and not negative, got -1.0",
        ),
        (
            {"exit_timeout_s": float("nan")},
            "exit_timeout_s",
            "exit_timeout_s must be finite seconds and not negative, got nan",
        ),
        ({"batch_rows": 1.5}, "batch_rows", "batch_rows must be a whole number, got 1.5"),
        ({"batch_rows": 0}, "batch_rows", "batch_rows must be at least 1, got 0"),
        (
            {"max_buffered_rows": "9"},
            "max_buffered_rows",
            "max_buffered_rows must be a whole number, got '9'",
        ),
        ({"producer": 5}, "producer", "producer must be text, got 5"),
        ({"when_full": "wait"}, "when_full", "when_full must be 'drop' or 'block', got 'wait'"),
    ],
)
def test_settings_are_checked_when_a_client_is_made(
    arguments: dict[str, Any], field: str, text: str
) -> None:
    """A slip says its name at once, not from a thread later."""
    with pytest.raises(InvalidInputError) as caught:
        Client(**{"address": "localhost:1", **arguments})
    assert (str(caught.value), caught.value.field) == (text, field)
