"""Partitions advance together: the slowest bounds the others by `max_skew` in message time."""

from __future__ import annotations

import time
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip("confluent_kafka")

from streameval.client import Client, ClientError
from streameval.client._wire.transport import Transport
from streameval.kafka import KafkaConfiguration, KafkaConsumer, _partition
from streameval.kafka._partition import IDLE_S, STALLED_S, Partition
from streameval_server.testing import running_server

from .conftest import INGEST, LABELS, PREDICTIONS, consuming, wait_for
from .test_waiting_messages import dated

if TYPE_CHECKING:
    from .conftest import Cluster

STREAM = "fraud/v3"
MINUTE_US = 60_000_000


def reading() -> Partition:
    """Return a partition that reads from offset 0; what it would send to is not there."""
    names = ("delivery", "dead_letters", "metrics", "executor", "locate")
    absent: dict[str, Any] = dict.fromkeys(names)
    partition = Partition("t", 0, mappings=[], streams=(), max_skew_us=10 * MINUTE_US, **absent)
    partition._is_reading = True
    return partition


def test_what_a_partition_holds_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for its earliest message, less and less long; at its end or idle for none."""
    now_s = [1_000.0]
    monkeypatch.setattr(_partition.time, "monotonic", lambda: now_s[0])
    partition = reading()
    assert partition.low_us == 0  # its first message is yet to come
    now_s[0] += IDLE_S
    assert partition.low_us is None
    partition.add(dated(5_000, 3_000))
    assert partition.low_us == 3_000
    now_s[0] += STALLED_S
    assert partition.low_us == 3_000 + 10 * MINUTE_US
    now_s[0] += 11 * STALLED_S
    assert partition.low_us == 3_000 + 4_095 * 10 * MINUTE_US  # a month in a minute
    partition.touch()  # the server was away
    assert partition.low_us == 3_000
    now_s[0] += STALLED_S
    partition.add(dated(9_000, first=2))
    assert partition.low_us == 3_000
    partition._waiting.cut(3)
    assert partition.low_us == 9_000  # as the next one, until the end is known
    partition.end(3)
    assert partition.low_us is None
    partition.add(dated(20_000, first=3))
    assert partition.low_us == 20_000


def test_a_partition_that_ends_with_a_transaction_has_no_lag() -> None:
    """Its marker, and the messages of an aborted one, have offsets but never come."""
    partition = reading()
    assert partition.lag(5) is None
    partition.next_offset = 0
    partition.add(dated(1, 2, 3))
    partition.end(5)
    assert partition.lag(5) == 5
    partition._waiting.cut(3)
    partition.next_offset = 3
    assert partition.lag(5) == 0
    assert partition.lag(9) == 4


@pytest.mark.parametrize("again", [0, 2], ids=["made again", "messages lost"])
@pytest.mark.parametrize("is_end", [False, True])
def test_a_partition_that_goes_back_is_no_silence(again: int, is_end: bool) -> None:
    """Its messages are others than those that were read: the consumer ends and says so."""
    partition = reading()
    partition.seek_to = 0
    partition.add(dated(1, 2, 3))
    partition.add(dated(1, 2, 3))  # before the consumer has gone there
    partition.seek_to = None
    assert partition.error is None
    if is_end:
        partition.end(again)
    else:
        partition.add(dated(7, first=again))
    assert str(partition.error).startswith(
        f"t[0] goes on at offset {again}, and offset 3 was consumed: the topic was made again, or"
    )


def test_a_partition_without_times_takes_no_part() -> None:
    partition = reading()
    partition.add(dated(None, None))
    assert partition.low_us is None
    partition.bound_us = 0
    assert not partition.is_held
    partition._waiting.cut(2)
    assert partition.low_us is None


@pytest.mark.parametrize(
    ("lows", "bounds"),
    [
        ([7], [None]),
        ([None, None], [None, None]),
        ([5, None], [None, 5]),
        ([5, 9, 30], [9, 5, 5]),
        ([5, 5, None], [5, 5, 5]),
    ],
)
def test_the_slowest_bounds_the_others(lows: list[int | None], bounds: list[int | None]) -> None:
    """The slowest itself by the second slowest, so that it can go on."""
    consumer = SimpleNamespace(
        _partitions={("t", number): SimpleNamespace(low_us=low) for number, low in enumerate(lows)},
        _configuration=SimpleNamespace(max_skew_us=100),
        _was_server_away=False,
    )
    KafkaConsumer._pace(cast("KafkaConsumer", consumer))
    found = [each.bound_us for each in consumer._partitions.values()]
    assert found == [None if each is None else each + 100 for each in bounds]


@pytest.mark.parametrize(("reason", "number"), [("PENDING_FULL", 0), ("", 1)])
def test_only_a_server_without_room_lets_others_go_further(
    cluster: Cluster, reason: str, number: int
) -> None:
    """While it is away all partitions wait alike."""
    configuration = KafkaConfiguration.of(
        {"kafka": {"brokers": cluster.brokers, "topics": [LABELS]}, "ingest": INGEST}
    )
    touched: list[str] = []
    with closing(Transport("127.0.0.1:1")) as transport:
        consumer = KafkaConsumer(configuration, transport)
        partition = SimpleNamespace(low_us=None, touch=lambda: touched.append("t"))
        consumer._partitions[LABELS, 0] = cast("Partition", partition)
        consumer._on_server_error(ClientError("it waits", reason=reason))
        consumer._pace()
        consumer._pace()
        consumer._partitions.clear()
        consumer._close()
    assert len(touched) == number


def test_a_backlog_with_labels_in_one_partition(cluster: Cluster) -> None:
    """As many ids wait as `max_skew` allows, not as many as there are."""
    number, step_ms = 9_000, 1_200
    begin_ms = round(time.time() * 1_000) - number * step_ms
    for row in range(number):
        made_ms = begin_ms + row * step_ms
        prediction = {"id": f"r{row}", "score": (row % 97) / 97}
        cluster.send(PREDICTIONS, prediction, partition=row % 3, timestamp=made_ms)
        # In another topic, and begun by messages that are all dead letters.
        label: Any = {"id": f"r{row}", "label": row % 3 == 0} if row >= 50 else b"no JSON"
        cluster.send(LABELS, label, partition=3, timestamp=made_ms + 2_000)
    cluster.flush()
    with running_server() as address:
        with Client(address) as client:
            client.create_stream(STREAM, max_pending=1_000)
        with consuming(cluster, address, max_skew="4m") as running:
            wait_for(lambda: running.rows() == 2 * number - 50, "all rows")
            wait_for(lambda: running.value("held_partitions") == 0, "none is held")
        with Client(address) as client:
            coverage = client.stream(STREAM).snapshot().coverage
            counters = client.get_stream(STREAM).counters
    assert coverage is not None
    assert counters is not None
    assert (counters.expired_early, coverage.labelled) == (0, number - 50)


def test_a_first_read_of_28_days(cluster: Cluster) -> None:
    """What is older than `label_ttl` counts, and a label is as late as it was then."""
    number, hour_ms = 28 * 6, 3_600_000
    begin_ms = round(time.time() * 1_000) - number * 4 * hour_ms
    for row in range(number):
        made_ms = begin_ms + row * 4 * hour_ms
        prediction = {"id": f"r{row}", "score": (row % 97) / 97}
        cluster.send(PREDICTIONS, prediction, partition=row % 2, timestamp=made_ms)
        label = {"id": f"r{row}", "label": row % 3 == 0}
        cluster.send(LABELS, label, partition=3, timestamp=made_ms + hour_ms)
    cluster.flush()
    with running_server() as address, consuming(cluster, address) as running:
        wait_for(lambda: running.rows() == 2 * number, "all rows")
        with Client(address) as client:
            coverage = client.stream(STREAM).snapshot().coverage
    assert coverage is not None
    assert coverage.labelled == number
    delays_s = [each.total_seconds() for each in coverage.delays.values()]
    assert delays_s == pytest.approx([3_600] * len(delays_s), rel=0.01)
