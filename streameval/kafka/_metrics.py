"""The consumer's own metrics, in Prometheus' text format at ``/metrics``."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from streameval._common.errors import StreamEvalError

if TYPE_CHECKING:
    from collections.abc import Mapping

_log = logging.getLogger(__name__)

COUNTED, IGNORED, ELSEWHERE = "counted", "ignored", "elsewhere"
"""Outcomes of rows that are no refusals; `ELSEWHERE`: the row's stream is on another server."""

BROKER, SERVER, DEAD_LETTERS, NO_TOPIC = "broker", "server", "dead_letters", "no_topic"
"""Causes of failures that are tried again."""


class ConsumerMetrics:
    """What a consumer counts; safe in any thread.

    Examples
    --------
    >>> metrics = ConsumerMetrics()
    >>> metrics.count_rows("fraud/v3", COUNTED, 5)
    >>> metrics.registry.get_sample_value(
    ...     "streameval_kafka_rows_total", {"mapping": "fraud/v3", "outcome": "counted"})
    5.0
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        partition = ("topic", "partition")
        self._messages = self._counter(
            "messages", "Messages that are consumed: their rows are durable or refused.", partition
        )
        self._rows = self._counter(
            "rows",
            "Predictions and labels by their mapping: counted, or why not; messages that no "
            "mapping takes are ignored, rows of other servers' streams are elsewhere.",
            ("mapping", "outcome"),
        )
        self._dead_letters = self._counter("dead_letters", "Messages in the dead-letter topic.", ())
        self._troubles = self._counter(
            "troubles", "Failures that are tried again, by their cause.", ("cause",)
        )
        self._lag = self._gauge(
            "lag_messages", "Messages of a partition that are not consumed yet.", partition
        )
        self._assigned = self._gauge("assigned_partitions", "Partitions of this process.", ())
        self._held = self._gauge(
            "held_partitions", "Partitions whose messages wait for slower ones.", ()
        )
        self._lost = self._counter(
            "lost_messages",
            "Offsets that the topic no longer had when they were to be read.",
            partition,
        )
        self._told: set[tuple[str, str]] = set()
        self._lock = threading.Lock()  # of what was told: several workers have the same trouble
        self._dead_letters.inc(0)

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(f"streameval_kafka_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge:
        return Gauge(f"streameval_kafka_{name}", text, labels, registry=self.registry)

    def serve(self, address: str) -> str:
        """Answer ``/metrics`` at HOST:PORT from a thread of its own; return the bound address.

        Raises
        ------
        StreamEvalError
            When the address cannot be bound.
        """
        host, _, port = address.rpartition(":")
        try:
            server, _ = start_http_server(int(port), host.strip("[]"), registry=self.registry)
        except OSError as error:
            raise StreamEvalError(f"metrics: cannot listen at {address}: {error}") from None
        return f"{host}:{server.server_port}"

    def count_messages(self, topic: str, partition: int, number: int) -> None:
        """Count messages that are consumed."""
        self._messages.labels(topic, partition).inc(number)

    def count_rows(self, mapping: str, outcome: str, number: int = 1) -> None:
        """Count rows; a reason of a mapping is told once in the log, without values."""
        self._rows.labels(mapping, outcome).inc(number)
        if outcome == IGNORED:
            self._tell(
                (mapping, outcome),
                "no mapping takes a message, by its type or `when`, or it has no value; more are "
                "counted in streameval_kafka_rows_total",
                level=logging.INFO,
            )
        elif outcome not in (COUNTED, ELSEWHERE):
            self._tell(
                (mapping, outcome),
                "rows of %s are refused (%s); more are counted in streameval_kafka_rows_total",
                mapping or "no mapping",
                outcome,
            )

    def count_dead_letters(self, number: int) -> None:
        """Count messages in the dead-letter topic."""
        self._dead_letters.inc(number)

    def count_trouble(self, cause: str, text: str) -> None:
        """Count a failure that is tried again; it is told once until `forget_trouble`."""
        self._troubles.labels(cause).inc()
        self._tell(("", cause), "%s; it is tried again until it passes", text)

    def count_lost(
        self, topic: str, partition: int, offsets: tuple[int, int], or_: str = ""
    ) -> None:
        """Count offsets in [start, end) that were removed before they were read; say which."""
        start, end = offsets
        self._lost.labels(topic, partition).inc(end - start)
        _log.error(
            "%s[%d]: offsets %d to %d are lost: the topic removed them before they were read%s. "
            "Let it keep messages for longer (retention.ms, retention.bytes)",
            topic, partition, start, end - 1, or_)  # fmt: skip

    def is_told(self, cause: str) -> bool:
        """Whether a failure of a cause was told that has not passed yet."""
        return ("", cause) in self._told

    def forget_trouble(self, cause: str) -> None:
        """Tell of the next failure of a cause again: this one has passed."""
        if not self.is_told(cause):  # as a rule, and without the lock
            return
        with self._lock:
            was_told = ("", cause) in self._told
            self._told.discard(("", cause))
        if was_told:
            _log.warning("%s: it has passed", cause)

    def set_lag(self, lags: Mapping[tuple[str, int], int], held: int) -> None:
        """Replace the lags of all partitions, and how many of them are held back."""
        self._held.set(held)
        self._lag.clear()
        for (topic, partition), lag in lags.items():
            self._lag.labels(topic, partition).set(lag)
        self._assigned.set(len(lags))

    def _tell(
        self, key: tuple[str, str], text: str, *values: str, level: int = logging.WARNING
    ) -> None:
        with self._lock:
            is_new = key not in self._told
            self._told.add(key)
        if is_new:
            _log.log(level, text, *values)
