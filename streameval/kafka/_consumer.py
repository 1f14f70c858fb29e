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
from itertools import groupby
from typing import TYPE_CHECKING

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from streameval._common.errors import StreamEvalError
from streameval.kafka._dead_letters import DeadLetters
from streameval.kafka._delivery import PartitionDelivery, producer_name
from streameval.kafka._metrics import BROKER, DEAD_LETTERS, NO_TOPIC, SERVER, ConsumerMetrics
from streameval.kafka._partition import Partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from confluent_kafka import Message

    from streameval.client import ClientError
    from streameval.client._wire.transport import Transport
    from streameval.kafka._configuration import KafkaConfiguration
    from streameval.kafka._delivery import Found
    from streameval.kafka._piece_range import PieceRange

_log = logging.getLogger(__name__)

_POLL_S = 0.05
_POLL_MESSAGES = 5_000
_TIMEOUT_S = 10.0
_STOP_S = 10.0
_LAG_EVERY_S = 1.0
_MAX_WORKERS = 64

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
            # Workers ask through a client of their own: that of the group belongs to one thread.
            self._asker = Consumer(
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
            self._look_up()
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

    def _look_up(self) -> None:
        """Ask the brokers for the cluster's name, and say which topics do not exist."""
        metadata = None
        while metadata is None and not self._stopping.is_set():
            try:
                metadata = self._asker.list_topics(timeout=1.0)
            except KafkaException as error:
                self.metrics.count_trouble(BROKER, f"no broker answers: {error.args[0].str()}")
        if metadata is None:
            return
        self.metrics.forget_trouble(BROKER)
        self._cluster = metadata.cluster_id or ""
        for topic in self._configuration.topics:
            # A pattern begins with ^.
            if topic not in metadata.topics and not topic.startswith("^"):
                self.metrics.count_trouble(NO_TOPIC, f"topic {topic} does not exist")
        letters = self._configuration.dead_letters
        if letters and letters not in metadata.topics:
            self.metrics.count_trouble(NO_TOPIC, f"dead_letters: topic {letters} does not exist")

    # --- The consumer's thread ------------------------------------------------------------------

    def _poll(self) -> None:
        lags_at_s = 0.0
        while not self._stopping.is_set():
            self._take(self._consumer.consume(_POLL_MESSAGES, _POLL_S))
            for partition in list(self._partitions.values()):
                partition.step()
                if partition.error is not None:
                    raise partition.error
                self._steer(partition)
            if time.monotonic() >= lags_at_s:
                self._set_lags()
                lags_at_s = time.monotonic() + _LAG_EVERY_S

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
            if partition.next_offset is None:
                continue
            _, high = self._consumer.get_watermark_offsets(TopicPartition(*key), cached=True)
            lags[key] = max(0, high - partition.next_offset)
        self.metrics.set_lag(lags)

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
                locate=self._locator(*key),
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
        self._asker.close()

    # --- Called by several threads --------------------------------------------------------------

    def _locator(self, topic: str, number: int) -> Callable[[Found], tuple[int, PieceRange | None]]:
        """Return the function that finds where a partition is read from."""

        def locate(found: Found) -> tuple[int, PieceRange | None]:
            while True:
                try:
                    return self._begin_at(TopicPartition(topic, number), found)
                except KafkaException as error:
                    self._on_error(error.args[0])
                    if self._stopping.wait(_LAG_EVERY_S):
                        raise StreamEvalError("stopped") from None

        return locate

    def _begin_at(self, place: TopicPartition, found: Found) -> tuple[int, PieceRange | None]:
        """Return the first offset to read, and the piece that it begins if that was begun."""
        name = f"{place.topic}[{place.partition}]"
        low, high = self._asker.get_watermark_offsets(place, timeout=_TIMEOUT_S)
        (committed,) = self._asker.committed([place], timeout=_TIMEOUT_S)
        known = None
        if committed.offset != OFFSET_INVALID and committed.metadata == f"{found.history:x}":
            known = committed.offset
        piece = found.piece
        end = max(known or 0, 0 if piece is None else piece.end)
        if end > high:
            raise StreamEvalError(
                f"{name} ends at offset {high}, and offset {end} was consumed: the topic was made "
                "again, or its brokers have lost messages; give another group to consume it anew"
            )
        if piece is not None and (known is None or known < piece.end):
            if piece.base >= low:
                return piece.base, piece
            _log.warning(
                "%s: offsets %d to %d are gone, and were not known to be durable: the topic keeps "
                "its messages too briefly", name, piece.base, low - 1)  # fmt: skip
            return low, None
        if known is None:
            known = low if self._configuration.start == "earliest" else high
        if known < low:
            _log.warning(
                "%s: offsets %d to %d are gone before they were consumed: the topic keeps its "
                "messages too briefly", name, known, low - 1)  # fmt: skip
        return max(known, low), None

    def _on_error(self, error: KafkaError) -> None:
        self.metrics.count_trouble(BROKER, f"kafka: {error.str()}")

    def _on_dead_letter_error(self, error: KafkaError) -> None:
        self.metrics.count_trouble(DEAD_LETTERS, f"dead letters: {error.str()}")

    def _on_server_error(self, error: ClientError) -> None:
        self.metrics.count_trouble(SERVER, f"server {self._configuration.server}: {error}")


def _kind_of(message: Message) -> tuple[str, int, bool]:
    """Return the topic and the partition of a message, and whether it is an error instead."""
    return message.topic(), message.partition(), message.error() is not None
