"""librdkafka's mock cluster, and consumers in threads."""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import Consumer, Producer, TopicPartition

from streameval.client._wire.transport import Transport
from streameval.kafka import KafkaConfiguration, KafkaConsumer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka import Message

PREDICTIONS, LABELS, DEAD_LETTERS = "scores", "labels", "dead"
INGEST = [
    {"preset": "ndjson", "stream": "fraud/v3"},
]


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 40.0) -> Any:
    """Return the condition's value once it is true."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline_s, f"waited in vain for {what}"
        threading.Event().wait(0.02)


class Cluster:
    """Brokers, and a producer to them."""

    def __init__(self, producer: Producer) -> None:
        metadata = producer.list_topics(timeout=10)
        self.brokers = ",".join(f"{each.host}:{each.port}" for each in metadata.brokers.values())
        self.id = metadata.cluster_id
        self.producer = producer

    def send(self, topic: str, value: Any, *, partition: int = 0, **options: Any) -> None:
        """Send a message; anything but bytes as JSON."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.producer.produce(topic, value=body, partition=partition, **options)
        self.producer.poll(0)

    def flush(self) -> None:
        assert self.producer.flush(20) == 0

    def read(self, topic: str, number: int) -> list[Message]:
        """Return the first messages of a topic."""
        reader = Consumer({"bootstrap.servers": self.brokers, "group.id": "test"})
        with closing(reader):
            partitions = reader.list_topics(topic, timeout=10).topics[topic].partitions
            reader.assign([TopicPartition(topic, each, 0) for each in partitions])
            found: list[Message] = []
            while len(found) < number:
                (message,) = reader.consume(1, 20) or [None]
                assert message is not None, f"{len(found)} of {number} messages"
                assert message.error() is None
                found.append(message)
            return found


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Return a mock cluster of one broker; it lives as long as its first client."""
    producer = Producer({"test.mock.num.brokers": 1, "linger.ms": 5, "log_level": 0})
    yield Cluster(producer)
    producer.purge()


class Consuming:
    """A consumer that runs in a thread."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = consumer
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.consumer.run()
        except BaseException as error:  # noqa: BLE001 - `join` raises it
            self.error = error

    def value(self, name: str, **labels: str) -> float:
        """Return a metric's value; 0 without one."""
        sample = f"streameval_kafka_{name}"
        return self.consumer.metrics.registry.get_sample_value(sample, labels) or 0.0

    def rows(self, outcome: str = "counted", mapping: str = "fraud/v3") -> float:
        return self.value("rows_total", mapping=mapping, outcome=outcome)

    def join(self) -> None:
        self.consumer.stop()
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error


@contextmanager
def consuming(cluster: Cluster, server: str, **keys: Any) -> Iterator[Consuming]:
    """Run a consumer of the topics while the block runs."""
    ingest = keys.pop("ingest", INGEST)
    table = {
        "brokers": cluster.brokers,
        "topics": [PREDICTIONS, LABELS],
        "server": server,
        "client": {"topic.metadata.refresh.interval.ms": 200, "session.timeout.ms": 6000},
        **keys,
    }
    configuration = KafkaConfiguration.of({"kafka": table, "ingest": ingest})
    with closing(Transport(server)) as transport:
        running = Consuming(KafkaConsumer(configuration, transport))
        try:
            yield running
        finally:
            running.join()
