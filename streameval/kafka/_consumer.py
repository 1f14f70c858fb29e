"""The consumer: polls, hands messages to their partitions, and lets each of them go on.

Kafka's group spreads partitions over processes. Where a partition is read from is not the
group's committed offset but what the server has; the committed offset only spares reading a
piece again, and is trusted while the server's log is the one that it was committed under.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from streameval._common.errors import StreamEvalError
from streameval.kafka._brokers import Brokers
from streameval.kafka._dead_letters import DeadLetters
from streameval.kafka._delivery import PartitionDelivery, producer_name
from streameval.kafka._metrics import BROKER, DEAD_LETTERS, NO_TOPIC, SERVER, ConsumerMetrics
from streameval.kafka._partition import Partition

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future

    from confluent_kafka import Message

    from streameval.client import ClientError
    from streameval.client._wire.transport import Transport
    from streameval.kafka._configuration import KafkaConfiguration

_log = logging.getLogger(__name__)

_POLL_S, _BUSY_POLL_S = 0.05, 0.005
"""How long one poll waits for messages; shorter while messages that are here wait for others."""

_POLL_MESSAGES = 5_000
_STOP_S = 10.0
_LAG_EVERY_S = 1.0
_MAX_WORKERS = 64

_NO_ROOM = "PENDING_FULL"
"""The reason of a server that waits for labels: others are to go further."""

_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001 - its name
_END = KafkaError._PARTITION_EOF  # noqa: SLF001 - its name


class KafkaConsumer:
    """Consumes topics until it is stopped.

    Parameters
    ----------
    configuration : KafkaConfiguration
    transport : Transport
        To the configuration's server; the caller closes it.

    Attributes
    ----------
    metrics : ConsumerMetrics
    """

    def __init__(self, configuration: KafkaConfiguration, transport: Transport) -> None:
        self.metrics = ConsumerMetrics()
        self._configuration = configuration
        self._transport = transport
        self._stopping = threading.Event()
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._paused: set[tuple[str, int]] = set()
        self._cluster = ""
        self._was_server_away = False
        self._asking: Future[None] | None = None
        quiet = logging.getLogger("streameval.kafka.librdkafka")
        quiet.setLevel(logging.CRITICAL)  # its errors reach `_on_error`, which tells them once
        client = {
            **configuration.client,
            "bootstrap.servers": configuration.brokers,
            "error_cb": self._on_error,
        }
        try:
            self._consumer = Consumer(
                {
                    "topic.metadata.refresh.interval.ms": 30_000,
                    "fetch.wait.max.ms": 100,
                    **client,
                    "group.id": configuration.group,
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "earliest",
                    "enable.partition.eof": True,
                    "partition.assignment.strategy": "cooperative-sticky",
                },
                logger=quiet,
            )
            # Workers ask through another client: only one thread may use the group's.
            asker = Consumer(
                {**client, "group.id": configuration.group, "enable.auto.commit": False},
                logger=quiet,
            )
            self._dead_letters = DeadLetters(
                configuration.dead_letters, {**client, "logger": quiet}, self._on_dead_letter_error
            )
        except KafkaException as error:
            raise StreamEvalError(f"kafka: {error.args[0].str()}") from None
        except (ValueError, TypeError) as error:
            raise StreamEvalError(f"kafka: {error}") from None
        self._brokers = Brokers(asker, configuration, self.metrics, self._stopping)
        self._executor = ThreadPoolExecutor(_MAX_WORKERS, thread_name_prefix="streameval-kafka")

    def stop(self) -> None:
        """Let `run` return; safe in a signal handler."""
        self._stopping.set()

    def run(self) -> None:
        """Consume until `stop`.

        Raises
        ------
        StreamEvalError
            When going on cannot help: the server refuses the token, a topic was made again.
        """
        try:
            self._cluster = self._brokers.cluster()
            if not self._stopping.is_set():
                self._consumer.subscribe(
                    list(self._configuration.topics),
                    on_assign=self._on_assign,
                    on_revoke=self._on_revoke,
                    on_lost=self._on_lost,
                )
                self._poll()
        finally:
            self._close()

    # --- The consumer's thread ------------------------------------------------------------------

    def _poll(self) -> None:
        lags_at_s = 0.0
        while not self._stopping.is_set():
            is_busy = any(each.is_held for each in self._partitions.values())
            poll_s = _BUSY_POLL_S if is_busy else _POLL_S
            self._take(self._consumer.consume(_POLL_MESSAGES, poll_s))
            self._pace()
            for partition in list(self._partitions.values()):
                partition.step()
                if partition.error is not None:
                    raise partition.error
                self._steer(partition)
            if time.monotonic() >= lags_at_s:
                self._set_lags()
                self._ask()
                lags_at_s = time.monotonic() + _LAG_EVERY_S

    def _pace(self) -> None:
        """Let the slowest partition bound the others: `max_skew` behind it they wait.

        The slowest is bounded by the second slowest only, which is not before it. So one of
        them always goes on.
        """
        if self._was_server_away:
            # All wait for it alike: that is no reason for one to go further than others.
            self._was_server_away = False
            for each in self._partitions.values():
                each.touch()
        found = {key: each.low_us for key, each in self._partitions.items()}
        lows = sorted((low_us, key) for key, low_us in found.items() if low_us is not None)
        for key, partition in self._partitions.items():
            others = [low_us for low_us, other in lows[:2] if other != key]
            partition.bound_us = others[0] + self._configuration.max_skew_us if others else None

    def _ask(self) -> None:
        """Let a worker ask the brokers what the partitions want to know."""
        for key, partition in self._partitions.items():
            self._brokers.add_gaps(TopicPartition(*key), partition.take_gaps())
        if self._brokers.is_to_be_asked and (self._asking is None or self._asking.done()):
            places = [TopicPartition(*key) for key in self._partitions]
            self._asking = self._executor.submit(self._brokers.ask, places)

    def _take(self, messages: Iterable[Message]) -> None:
        """Hand messages to their partitions."""
        has_passed = False
        for (topic, number, is_error), run in groupby(messages, _kind_of):
            key = (topic, number)
            if is_error:
                for each in run:
                    self._take_error(key, each.error(), each.offset())
            elif key in self._partitions:
                self._partitions[key].add(list(run))
                has_passed = True
        if has_passed:
            self.metrics.forget_trouble(BROKER)

    def _take_error(self, key: tuple[str, int], error: KafkaError, offset: int) -> None:
        if error.code() == _END:
            if key in self._partitions:
                self._partitions[key].end(offset)
        elif error.code() in _MISSING:
            self.metrics.count_trouble(NO_TOPIC, f"topic {key[0]} does not exist")
        else:
            self._on_error(error)

    def _steer(self, partition: Partition) -> None:
        """Seek, commit, pause and resume as a partition wants it."""
        key = (partition.topic, partition.number)
        try:
            if partition.seek_to is not None:
                self._consumer.seek(TopicPartition(*key, partition.seek_to))
                partition.seek_to = None
            if partition.to_commit is not None:
                offset, history = partition.to_commit
                place = TopicPartition(*key, offset, f"{history:x}")
                self._consumer.commit(offsets=[place], asynchronous=True)
                partition.to_commit = None
            if partition.is_full != (key in self._paused):
                if partition.is_full:
                    self._consumer.pause([TopicPartition(*key)])
                    self._paused.add(key)
                else:
                    self._consumer.resume([TopicPartition(*key)])
                    self._paused.discard(key)
        except KafkaException as error:
            # Not yet: the assignment is under way. The next step tries it again.
            _log.debug("%s[%d]: %s", *key, error)

    def _set_lags(self) -> None:
        lags = {}
        for key, partition in self._partitions.items():
            _, high = self._consumer.get_watermark_offsets(TopicPartition(*key), cached=True)
            lag = partition.lag(high)
            if lag is not None:
                lags[key] = lag
        held = sum(each.is_held for each in self._partitions.values())
        self.metrics.set_lag(lags, held)

    def _on_assign(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        consumer.incremental_assign(assigned)
        consumer.pause(assigned)
        for each in assigned:
            key = (each.topic, each.partition)
            name = producer_name(self._configuration.group, self._cluster, *key)
            self._paused.add(key)
            self._partitions[key] = Partition(
                *key,
                delivery=PartitionDelivery(self._transport, name, self._on_server_error),
                dead_letters=self._dead_letters,
                metrics=self.metrics,
                mappings=list(self._configuration.mappings),
                streams=tuple(self._configuration.streams),
                executor=self._executor,
                locate=partial(self._brokers.begin, TopicPartition(*key)),
                max_skew_us=self._configuration.max_skew_us,
            )

    def _on_revoke(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        self._drop(revoked, drain=True)
        consumer.incremental_unassign(revoked)

    def _on_lost(self, consumer: Consumer, lost: list[TopicPartition]) -> None:
        self._drop(lost, drain=False)
        consumer.incremental_unassign(lost)

    def _drop(self, dropped: Iterable[TopicPartition], *, drain: bool) -> None:
        """Give partitions up; what of them is not durable is read by their next owner."""
        for each in dropped:
            key = (each.topic, each.partition)
            partition = self._partitions.pop(key, None)
            self._paused.discard(key)
            if partition is None:
                continue
            if drain:
                partition.drain(1.0)
                self._steer(partition)
            partition.close(_STOP_S)

    def _close(self) -> None:
        deadline_s = time.monotonic() + _STOP_S
        for partition in self._partitions.values():
            partition.drain(max(0.0, deadline_s - time.monotonic()))
            self._steer(partition)
        for partition in self._partitions.values():
            partition.close(_STOP_S)
        self._partitions.clear()
        self._executor.shutdown()
        self._consumer.close()
        self._brokers.close()

    # --- Called by several threads --------------------------------------------------------------

    def _on_error(self, error: KafkaError) -> None:
        self.metrics.count_trouble(BROKER, f"kafka: {error.str()}")

    def _on_dead_letter_error(self, error: KafkaError) -> None:
        self.metrics.count_trouble(DEAD_LETTERS, f"dead letters: {error.str()}")

    def _on_server_error(self, error: ClientError) -> None:
        if error.reason != _NO_ROOM:
            self._was_server_away = True
        self.metrics.count_trouble(SERVER, f"server {self._configuration.server}: {error}")


def _kind_of(message: Message) -> tuple[str, int, bool]:
    """Return the topic and the partition of a message, and whether it is an error instead."""
    return message.topic(), message.partition(), message.error() is not None
