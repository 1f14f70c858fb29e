"""The client against a real server: failures lose no row and count none twice."""

from __future__ import annotations

import contextlib
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
from streameval_server import Limits, Settings
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from pathlib import Path


def durable(address: str, data: Path) -> contextlib.AbstractContextManager[str]:
    """Start a server with a durable log at an address."""
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
    """Rows wait for a server that does not run yet; a failed flush names the cause."""
    with Client(free_address) as client:
        stream = client.stream("late/server")
        stream.add_cases(labels=[1, 0, 1], scores=[0.1, 0.2, 0.3])
        with pytest.raises(DeadlineError, match=r"^3 rows not durable after 0.1 s"):
            client.flush(timeout_s=0.1)
        with pytest.raises(UnavailableError):
            stream.snapshot()
        with running_server(Settings(listen=free_address, memory=True)):
            client.flush()
            assert stream.snapshot().num_cases == 3
            assert client.statistics().last_error is None


def test_resumes_after_a_restart(free_address: str, tmp_path: Path) -> None:
    """A restarted server gets the rows that it lacks, and none twice."""
    with Client(free_address) as client:
        stream = client.stream("re/started")
        for round_ in range(3):
            with durable(free_address, tmp_path):
                stream.add_cases(labels=[1, 0] * 500, scores=np.arange(1000.0))
                stream.flush()
                assert stream.snapshot().num_cases == 2000 * round_ + 1000
                # In flight when the server stops, or still in the buffer: both can happen.
                stream.add_cases(labels=[1, 0] * 500, scores=np.arange(1000.0))
        with durable(free_address, tmp_path):
            # The last batch may have been acked in time: then only this one needs a connection.
            stream.add_case(True, 0.5)
            stream.flush()
            assert stream.snapshot().num_cases == 6001
        statistics = client.statistics()
        assert statistics.acked == statistics.added == 6001
        assert statistics.connections >= 4


def test_goes_on_with_a_server_that_has_forgotten(free_address: str) -> None:
    """A server that lost its state gets the later rows, under a new epoch; the loss is an error."""
    with Client(free_address) as client:
        stream = client.stream("for/gotten")
        for life in range(2):
            with running_server(Settings(listen=free_address, memory=True)):
                for score in range(5):
                    stream.add_case(True, float(score))
                    if life and not score:
                        with pytest.raises(RowsLostError, match="has lost 5 rows that it had ack"):
                            stream.flush()
                    else:
                        stream.flush()
                assert stream.snapshot().num_cases == 5
        statistics = client.statistics()
        assert (statistics.added, statistics.acked, statistics.lost) == (10, 5, 5)


def test_keeps_to_the_servers_limits() -> None:
    """Columns are cut into batches within the server's limits."""
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
    """Flush lists a refused batch once; the others count; it is not sent again."""
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
    """A second user of a producer's name takes it over; the first stops with an error."""
    with Client(address, producer="fenced") as newer:
        with Client(address, producer="fenced") as newest:
            newest.stream("fen/ced").add_case(True, 1.0)
            newest.flush()
            newest.stream("fen/ced").snapshot()  # visible to other clients from here on
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
    """A full buffer drops and counts new rows, and the next flush reports them."""
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
    """With when_full='block' a caller waits for room, with rows and with columns."""
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
    """A caller that waits for room gets an error when the client is closed."""
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
        client.close(timeout_s=0.05)
    adder.join(10)
    assert [str(error) for error in caught] == ["the client is closed"]


def test_a_closed_client_says_so(address: str) -> None:
    """Every verb raises ClosedError after close; closing again does nothing."""
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
    """An error inside a with statement is raised, although rows could not be sent."""

    def use() -> None:
        with Client(free_address, close_timeout_s=0.05) as client:
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
    """Streams are created, described, listed and deleted, each with its own errors."""
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
    """Bad columns raise the library's own errors, and no row of them is added."""
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
    """A caller may reuse its arrays after the call."""
    scores, labels = np.arange(4.0), np.array([True, False, True, False])
    with Client(free_address) as client:
        stream = client.stream("co/pied")
        stream.add_cases(labels=labels, scores=scores)
        scores[:], labels[:] = np.nan, True
        with running_server(Settings(listen=free_address, memory=True)):
            client.flush()
            assert stream.operating_points().tp.tolist() == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "field", "text"),
    [
        ({"address": 5}, "address", "address must be text like 'localhost:50051', got 5"),
        (
            {"address": ""},
            "address",
            "address must be HOST:PORT, got '': for instance 127.0.0.1:50051",
        ),
        ({"timeout_s": "x"}, "timeout_s", "timeout_s must be a number, got 'x'"),
        ({"timeout_s": None}, "timeout_s", "timeout_s must be a number, got None"),
        (
            {"linger_s": -1},
            "linger_s",
            "linger_s must be finite seconds and not negative, got -1.0",
        ),
        (
            {"close_timeout_s": float("nan")},
            "close_timeout_s",
            "close_timeout_s must be finite seconds and not negative, got nan",
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
    """A bad setting is refused by the constructor, with its name."""
    with pytest.raises(InvalidInputError) as caught:
        Client(**{"address": "localhost:1", **arguments})
    assert (str(caught.value), caught.value.field) == (text, field)
