"""What brokers are asked: why offsets did not come, and whether trouble has passed."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from streameval.kafka import KafkaConfiguration
from streameval.kafka._brokers import Brokers
from streameval.kafka._delivery import Found
from streameval.kafka._metrics import BROKER, NO_TOPIC, ConsumerMetrics
from streameval.kafka._piece_range import PieceRange

from .conftest import INGEST

TABLES = {"kafka": {"brokers": "a:9092", "topics": ["scores"]}, "ingest": INGEST}


class StubClient:
    """Brokers that answer what is set here, or raise while `is_away`."""

    def __init__(self, *, low: int = 0, high: int = 100, topics: tuple[str, ...] = ()) -> None:
        self.low, self.high, self.topics = low, high, topics
        self.is_away = False
        self.committed_to: TopicPartition | None = None

    def _check(self) -> None:
        if self.is_away:
            raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))

    def list_topics(self, **_: float) -> Any:
        self._check()
        return SimpleNamespace(cluster_id="c", topics=dict.fromkeys(self.topics))

    def get_watermark_offsets(self, _: TopicPartition, **_keys: float) -> tuple[int, int]:
        self._check()
        return self.low, self.high

    def committed(self, *_: object, **_keys: float) -> list[TopicPartition]:
        self._check()
        return [self.committed_to or TopicPartition("scores", 3, OFFSET_INVALID)]


def brokers(client: StubClient) -> tuple[Brokers, ConsumerMetrics]:
    metrics = ConsumerMetrics()
    configuration = KafkaConfiguration.of(TABLES)
    return Brokers(cast("Any", client), configuration, metrics, threading.Event()), metrics


def lost(metrics: ConsumerMetrics) -> float:
    labels = {"topic": "scores", "partition": "3"}
    name = "streameval_kafka_lost_messages_total"
    return metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.mark.parametrize(
    ("low", "gaps", "number", "told"),
    [
        pytest.param(50, [(20, 50)], 30, "20 to 49", id="retention"),
        pytest.param(50, [(20, 60)], 30, "20 to 49", id="and a gap behind it"),
        pytest.param(20, [(20, 21), (30, 34)], 0, None, id="compacted, or of a transaction"),
        pytest.param(50, [(20, 50), (70, 71)], 30, "20 to 49", id="both"),
    ],
)
def test_only_what_retention_removed_is_lost(
    low: int,
    gaps: list[tuple[int, int]],
    number: int,
    told: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked, metrics = brokers(StubClient(low=low))
    place = TopicPartition("scores", 3)
    asked.add_gaps(place, gaps)
    assert asked.is_to_be_asked
    asked.ask([place])
    assert not asked.is_to_be_asked
    assert lost(metrics) == number
    errors = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    begin = f"scores[3]: offsets {told} are lost: the topic removed them before they were read. "
    assert [each[: len(begin)] for each in errors] == ([begin] if told else [])


def test_gaps_are_kept_until_a_broker_answers() -> None:
    client = StubClient(low=50)
    asked, metrics = brokers(client)
    asked.add_gaps(TopicPartition("scores", 3), [(20, 50)])
    client.is_away = True
    asked.ask([])
    assert lost(metrics) == 0
    client.is_away = False
    asked.ask([])
    assert lost(metrics) == 30


@pytest.mark.parametrize(
    ("piece", "committed", "begin", "number"),
    [
        pytest.param(None, None, 50, 0, id="the first read"),
        pytest.param(None, 30, 50, 20, id="committed before what is left"),
        pytest.param(None, 60, 60, 0, id="committed after it"),
        pytest.param(PieceRange(20, 30), None, 50, 30, id="a piece, perhaps durable"),
        pytest.param(PieceRange(20, 60), None, 50, 30, id="a piece of which some is left"),
    ],
)
def test_what_is_gone_at_the_start_is_lost(
    piece: PieceRange | None, committed: int | None, begin: int, number: int
) -> None:
    client = StubClient(low=50)
    if committed is not None:
        client.committed_to = TopicPartition("scores", 3, committed, "7")
    asked, metrics = brokers(client)
    assert asked.begin(TopicPartition("scores", 3), Found(piece, 0, 7)) == (begin, None)
    assert lost(metrics) == number


def test_trouble_passes_without_a_message(caplog: pytest.LogCaptureFixture) -> None:
    """When the leader of each partition answers again; a topic, when it exists."""
    client = StubClient()
    asked, metrics = brokers(client)
    metrics.count_trouble(BROKER, "kafka: it is down")
    metrics.count_trouble(NO_TOPIC, "topic scores does not exist")
    client.is_away = True
    asked.ask([TopicPartition("scores", 3)])
    assert metrics.is_told(BROKER)
    client.is_away = False
    asked.ask([TopicPartition("scores", 3)])
    assert caplog.messages[-1] == "broker: it has passed"
    client.topics = ("scores",)
    asked.ask([TopicPartition("scores", 3)])
    assert caplog.messages[-1] == "no_topic: it has passed"
    assert not asked.is_to_be_asked
