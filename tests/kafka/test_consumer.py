"""Topics into a server: each message once, whatever stops."""

from __future__ import annotations

import gzip
import json
import logging
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from streameval import StreamEvalError
from streameval.client import Client, FencedError
from streameval.client._delivery.numbered_upload import NumberedUpload
from streameval.client._wire.transport import Transport
from streameval.kafka._delivery import producer_name
from streameval.kafka._piece_range import PieceRange
from streameval_server import Limits, Settings
from streameval_server.testing import running_server

from .conftest import DEAD_LETTERS, INGEST, LABELS, PREDICTIONS, consuming, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Cluster

STREAM = "fraud/v3"
LONG = b"x" * 999_850
"""A message that is too long with the headers of a dead letter."""


def send_rows(cluster: Cluster, first: int, count: int) -> None:
    """Send predictions and labels over two partitions; every third is positive."""
    for number in range(first, first + count):
        score = (number % 97) / 97
        row = {"id": f"r{number}", "score": score}
        cluster.send(PREDICTIONS, row, partition=number % 2)
        label = {"id": f"r{number}", "label": number % 3 == 0}
        cluster.send(LABELS, label, partition=number % 2)
    cluster.flush()


def expected(count: int) -> tuple[int, int]:
    positive = sum(number % 3 == 0 for number in range(count))
    return positive, count - positive


def counted(address: str, stream: str = STREAM) -> tuple[int, int]:
    """Return positives and negatives with a score, (0, 0) without a stream."""
    with Client(address) as client:
        if stream not in [each.name for each in client.list_streams()]:
            return 0, 0
        snapshot = client.stream(stream).snapshot()
        counters = client.get_stream(stream).counters
        # Rows go by id, so one that came twice would not show otherwise.
        assert counters is not None
        assert counters.duplicate_predictions == counters.duplicate_labels == 0
        return snapshot.num_positive_ref, snapshot.num_negative_ref


def wait_counted(address: str, count: int) -> None:
    wait_for(lambda: counted(address) == expected(count), f"{expected(count)}")


def test_predictions_and_labels(cluster: Cluster) -> None:
    send_rows(cluster, 0, 300)
    with running_server() as address, consuming(cluster, address) as running:
        wait_counted(address, 300)
        wait_for(lambda: running.rows() == 600, "600 rows")
        wait_for(lambda: running.value("assigned_partitions") == 8, "lag")
        send_rows(cluster, 300, 50)
        wait_counted(address, 350)
        wait_for(lambda: running.value("lag_messages", topic=LABELS, partition="1") == 0, "no lag")


def test_a_restart_goes_on(cluster: Cluster) -> None:
    """A second process begins where the first one ended."""
    send_rows(cluster, 0, 100)
    with running_server() as address:
        with consuming(cluster, address):
            wait_counted(address, 100)
        send_rows(cluster, 100, 60)
        with consuming(cluster, address) as running:
            wait_counted(address, 160)
            wait_for(lambda: running.rows() == 120, "the new rows only")
            assert running.value("troubles_total", cause="broker") == 0


def test_two_servers_are_replicas_and_a_lost_disk_is_refilled(
    cluster: Cluster, tmp_path: Path, free_address: str
) -> None:
    """Each has a group of its own; one that begins with an empty disk gets all messages again."""
    send_rows(cluster, 0, 90)

    def settings(disk: str) -> Settings:
        return Settings(listen=free_address, data=tmp_path / disk)

    with (
        running_server() as other,
        consuming(cluster, other, group="other"),
        running_server(settings("first")),
        consuming(cluster, free_address, group="one"),
    ):
        wait_counted(other, 90)
        wait_counted(free_address, 90)
        with Client(other) as a, Client(free_address) as b:
            states = [each.stream(STREAM).evaluator().to_bytes() for each in (a, b)]
        assert states[0] == states[1]
    send_rows(cluster, 90, 30)
    with running_server(settings("second")), consuming(cluster, free_address, group="one"):
        wait_counted(free_address, 120)
    # The same disk again: nothing is counted twice.
    with running_server(settings("second")), consuming(cluster, free_address, group="one"):
        send_rows(cluster, 120, 30)
        wait_counted(free_address, 150)


def test_streams_are_spread_over_servers(cluster: Cluster) -> None:
    """Each server's consumer leaves the others' rows to them; together they have each row once."""
    ingest = [{"preset": "ndjson", "stream": "{key}"}]
    streams = [f"{part}/m{number}" for part in ("eu", "us") for number in range(3)]
    for number in range(120):
        stream = streams[number % 6]
        row = {"id": f"r{number}", "score": (number % 97) / 97, "label": number % 5 == 0}
        cluster.send(PREDICTIONS, row, partition=number % 4, key=stream.encode())
    cluster.send(PREDICTIONS, {"id": "bad", "score": "high"}, key=b"eu/m0")
    cluster.flush()
    with (
        running_server() as eu,
        running_server() as us,
        consuming(cluster, eu, group="eu", streams=["eu"], ingest=ingest) as first,
        consuming(cluster, us, group="us", streams=["us/m0", "us/m1", "us/m2"], ingest=ingest),
    ):
        for address, part in ((eu, "eu"), (us, "us")):
            for stream in (each for each in streams if each.startswith(part)):
                mine = [n for n in range(120) if streams[n % 6] == stream]
                positive = sum(n % 5 == 0 for n in mine)
                wanted = (positive, len(mine) - positive)
                wait_for(lambda: counted(address, stream) == wanted, stream)  # noqa: B023
            with Client(address) as client:
                assert all(each.name.startswith(f"{part}/") for each in client.list_streams())
        wait_for(lambda: first.rows("elsewhere", "{key}") == 120, "those of the other server")
        assert first.rows("counted", "{key}") == 120
        assert first.rows("score", "{key}") == 1


def test_a_server_that_is_away_or_loses_its_disk(
    cluster: Cluster, tmp_path: Path, free_address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """While the consumer runs: it waits, and tells of it once; then it finds where to go on."""
    send_rows(cluster, 0, 40)
    with consuming(cluster, free_address) as running:
        wait_for(lambda: running.value("troubles_total", cause="server") > 16, "attempts")
        with running_server(Settings(listen=free_address, data=tmp_path / "first")):
            wait_counted(free_address, 40)
        told = [each.getMessage() for each in caplog.records if "server" in each.getMessage()]
        assert "no answer" in told[0]
        assert told[1] == "server: it has passed"
        send_rows(cluster, 40, 20)
        with running_server(Settings(listen=free_address, data=tmp_path / "first")):
            wait_counted(free_address, 60)
        send_rows(cluster, 60, 20)
        with running_server(Settings(listen=free_address, data=tmp_path / "second")):
            send_rows(cluster, 80, 20)
            wait_counted(free_address, 100)


def test_bad_rows_are_dead_letters(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Each is counted by its reason and told once; nothing else is lost."""
    cluster.send(DEAD_LETTERS, b"begins the topic")
    bad = {
        "unreadable": [b"not json", b"\xff\xfe", b"[1]", b'{"id": "a"', LONG],
        "score": [b'{"id": "x", "score": "0.5"}', b'{"id": "x", "score": NaN}'],
        "id": [{"id": "i" * 10_000, "score": 0.5}, {"score": 0.5}],
        "label": [{"id": "x", "label": "perhaps"}],
        "nothing_selected": [{"id": "x"}],
        "several_scores": [{"id": "x", "score": [[0.1, 0.9]]}],
        "store": [{"id": "x", "score": 0.5, "time": "2009-01-01T00:00:00Z"}],
    }
    send_rows(cluster, 0, 20)
    for values in bad.values():
        for value in values:
            cluster.send(PREDICTIONS, value, partition=1, key=b"k", headers=[("trace", b"7")])
    bomb = gzip.compress(bytes(33 << 20))
    headers = [("trace", b"7"), ("content-encoding", b"gzip")]
    cluster.send(PREDICTIONS, bomb, partition=1, key=b"k", headers=headers)
    event = {"specversion": "1.0", "source": "s", "type": "t", "id": "e"}
    good = {"id": "r40", "score": 40 / 97, "label": False}
    batch = [{**event, "data": "no JSON"}, {**event, "data": good}]
    headers = [("content-type", b"application/cloudevents-batch+json")]
    cluster.send(PREDICTIONS, batch, partition=1, key=b"k", headers=headers)
    send_rows(cluster, 20, 20)
    total = sum(map(len, bad.values())) + 2
    with (
        running_server() as address,
        consuming(cluster, address, dead_letters=DEAD_LETTERS) as running,
    ):
        wait_counted(address, 41)
        wait_for(lambda: running.value("dead_letters_total") == total, "dead letters")
        # [1] is JSON, in which the mapping finds nothing; one event of the batch is none.
        assert running.rows("unreadable", "") == 5
        assert running.rows("length", "") == 1
        assert running.rows("nothing_selected") == 2
        for reason in ("score", "id", "label", "several_scores", "store"):
            assert running.rows(reason) == len(bad[reason]), reason
        assert running.rows() == 82
    # The partitions of the topic are read in any order.
    letters = [each for each in cluster.read(DEAD_LETTERS, 1 + total) if each.headers()]
    assert len(letters) == total
    found = {each.value(): dict(each.headers()) for each in letters}
    assert LONG not in found
    assert found[None]["streameval_reason"] == b"unreadable"
    late = found[json.dumps(bad["store"][0]).encode()]
    assert late["streameval_reason"] == b"store"
    assert late["streameval_topic"] == PREDICTIONS.encode()
    assert late["streameval_partition"] == b"1"
    assert late["trace"] == b"7"
    assert b"must not be older than retention" in late["streameval_message"]
    assert found[b"not json"]["streameval_reason"] == b"unreadable"
    assert {each.key() for each in letters} == {b"k"}
    told = [each.getMessage() for each in caplog.records if "are refused" in each.getMessage()]
    assert len(told) == len(set(told)) == len(bad) + 1  # and `length`


def test_an_unknown_type(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Counted and told once, as a message without a value is; the others count."""
    caplog.set_level(logging.INFO)
    ingest = [{**INGEST[0], "types": ["scored"]}]
    row = {"id": "r0", "score": 0.5, "label": True}
    for kind in (b"unheard-of", b"scored", b"unheard-of"):
        cluster.send(PREDICTIONS, row, headers=[("type", kind)])
    cluster.producer.produce(PREDICTIONS, value=None, key=b"k", partition=0)
    cluster.flush()
    with running_server() as address, consuming(cluster, address, ingest=ingest) as running:
        wait_for(lambda: running.rows("ignored", "") == 3, "ignored messages")
        wait_for(lambda: running.rows() == 2, "the row")
    told = [each for each in caplog.records if "no mapping takes" in each.getMessage()]
    assert len(told) == 1


def test_a_topic_that_comes_later(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """It is told once, and consumed from its beginning when it is there."""
    cluster.send(LABELS, {"id": "r0", "label": True})
    cluster.flush()
    with running_server() as address, consuming(cluster, address) as running:
        wait_for(lambda: running.rows() == 1, "the label")
        assert running.value("troubles_total", cause="no_topic") >= 1
        cluster.send(PREDICTIONS, {"id": "r0", "score": 0.5})
        cluster.flush()
        wait_for(lambda: counted(address) == (1, 0), "the prediction")
    told = [each for each in caplog.records if "does not exist" in each.getMessage()]
    assert [each.getMessage() for each in told] == [
        "topic scores does not exist; it is tried again until it passes"
    ]


def test_a_stream_with_segments_and_clusters(cluster: Cluster) -> None:
    ingest = [
        {
            "preset": "ndjson",
            "stream": "{topic}",
            "segments": {"country": "body.country"},
            "cluster": "body.user",
        }
    ]
    for number in range(20):
        body = {"id": f"a{number}", "score": number / 20, "country": "NL", "user": number % 4}
        cluster.send(PREDICTIONS, {**body, "label": number % 2})
    cluster.flush()
    with running_server() as address, consuming(cluster, address, ingest=ingest):
        wait_for(lambda: counted(address, PREDICTIONS) == (10, 10), "rows")
        with Client(address) as client:
            (info,) = client.list_streams()
            assert tuple(info.settings.segment_keys) == ("country",)
            assert info.settings.cluster_groups
            part = client.stream(PREDICTIONS).snapshot(segment=("country", "NL"))
            assert part.num_positive_ref == 10


def test_a_topic_that_was_made_again(cluster: Cluster) -> None:
    """Offsets that were consumed are above its end: nothing is skipped in silence."""
    send_rows(cluster, 0, 10)
    with running_server() as address:
        with closing(Transport(address)) as transport:
            name = producer_name("streameval", cluster.id, PREDICTIONS, 0)
            with closing(NumberedUpload(transport, name, PieceRange(500, 600).epoch)) as upload:
                upload.begin()
        with (
            pytest.raises(StreamEvalError, match="the topic was made again"),
            consuming(cluster, address) as running,
        ):
            wait_for(lambda: running.error is not None, "the error")


def test_a_producer_that_the_server_has_forgotten(cluster: Cluster) -> None:
    """After a silence the committed offset says where to go on, as the log is the same."""
    limits = replace(Limits(), marks_ttl_us=1_000_000)
    send_rows(cluster, 0, 30)
    with (
        running_server(Settings(memory=True, listen="127.0.0.1:0", limits=limits)) as address,
        consuming(cluster, address),
    ):
        wait_counted(address, 30)
        name = producer_name("streameval", cluster.id, PREDICTIONS, 0)
        with closing(Transport(address)) as transport, Client(address) as client:

            def is_forgotten() -> bool:
                # Each row lets the server forget those that were silent.
                other = client.stream("other")
                other.add_case(True, 0.5)
                other.flush()
                with closing(NumberedUpload(transport, name, 1)) as upload:
                    try:
                        return upload.begin() == 0
                    except FencedError:
                        return False

            wait_for(is_forgotten, "silence")
        send_rows(cluster, 30, 30)
        wait_counted(address, 60)
