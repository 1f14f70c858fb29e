"""What is asked of the brokers: which topics there are, where a partition begins, what is gone.

Workers ask, through a client of their own: the consumer's belongs to the thread that polls.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_INVALID, KafkaException

from streameval._common.errors import StreamEvalError
from streameval.kafka._metrics import BROKER, NO_TOPIC

if TYPE_CHECKING:
    import threading

    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import ClusterMetadata

    from streameval.kafka._configuration import KafkaConfiguration
    from streameval.kafka._delivery import Found
    from streameval.kafka._metrics import ConsumerMetrics
    from streameval.kafka._piece_range import PieceRange

_log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
_PAUSE_S = 1.0


def made_again(topic: str, partition: int, offset: int, consumed: int) -> str:
    """Return what to say when a partition goes on below an offset that was consumed."""
    return (
        f"{topic}[{partition}] goes on at offset {offset}, and offset {consumed} was consumed: the "
        "topic was made again, or its brokers have lost messages; give another group to consume "
        "it from its beginning"
    )


class Brokers:
    """Asks the brokers.

    Parameters
    ----------
    client : Consumer
        Used for questions only, and closed by `close`.
    configuration, metrics
        The consumer's.
    stopping
        Set when no question is worth waiting for any more.
    """

    def __init__(
        self,
        client: Consumer,
        configuration: KafkaConfiguration,
        metrics: ConsumerMetrics,
        stopping: threading.Event,
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._metrics = metrics
        self._stopping = stopping
        self._gaps: list[tuple[TopicPartition, tuple[int, int]]] = []

    def close(self) -> None:
        """End the client."""
        self._client.close()

    def cluster(self) -> str:
        """Return the cluster's name, and say which topics do not exist; wait for an answer."""
        while not self._stopping.is_set():
            try:
                metadata = self._client.list_topics(timeout=_PAUSE_S)
            except KafkaException as error:
                text = f"no broker answers: {error.args[0].str()}"
                self._metrics.count_trouble(BROKER, text)
                continue
            self._metrics.forget_trouble(BROKER)
            for problem in self._missing(metadata):
                self._metrics.count_trouble(NO_TOPIC, problem)
            return metadata.cluster_id or ""
        return ""

    def _missing(self, metadata: ClusterMetadata) -> list[str]:
        """Return what to say of each topic that does not exist."""
        # A pattern begins with ^.
        topics = [each for each in self._configuration.topics if not each.startswith("^")]
        found = [f"topic {each} does not exist" for each in topics if each not in metadata.topics]
        letters = self._configuration.dead_letters
        if letters and letters not in metadata.topics:
            found.append(f"dead_letters: topic {letters} does not exist")
        return found

    def begin(self, place: TopicPartition, found: Found) -> tuple[int, PieceRange | None]:
        """Return the first offset to read, and the piece that it begins if that was begun.

        Waits for an answer.
        """
        while True:
            try:
                return self._begin(place, found)
            except KafkaException as error:
                self._metrics.count_trouble(BROKER, f"kafka: {error.args[0].str()}")
                if self._stopping.wait(_PAUSE_S):
                    raise StreamEvalError("stopped") from None

    def _begin(self, place: TopicPartition, found: Found) -> tuple[int, PieceRange | None]:
        low, high = self._client.get_watermark_offsets(place, timeout=_TIMEOUT_S)
        (committed,) = self._client.committed([place], timeout=_TIMEOUT_S)
        known = None
        if committed.offset != OFFSET_INVALID and committed.metadata == f"{found.history:x}":
            known = committed.offset
        piece = found.piece
        end = max(known or 0, 0 if piece is None else piece.end)
        if end > high:
            raise StreamEvalError(made_again(place.topic, place.partition, high, end))
        if piece is not None and (known is None or known < piece.end):
            if piece.base >= low:
                return piece.base, piece
            self._metrics.count_lost(
                place.topic,
                place.partition,
                (piece.base, low),
                ", or before they were known to be durable",
            )
            return low, None
        if known is None:
            known = low if self._configuration.start == "earliest" else high
        if known < low:
            self._metrics.count_lost(place.topic, place.partition, (known, low))
        return max(known, low), None

    def add_gaps(self, place: TopicPartition, gaps: list[tuple[int, int]]) -> None:
        """Take note of offsets in [start, end) that did not come, for the next `ask`."""
        self._gaps += [(place, gap) for gap in gaps]

    @property
    def is_to_be_asked(self) -> bool:
        """Whether offsets are missing, or trouble was told that may have passed."""
        return bool(self._gaps) or self._is_troubled

    @property
    def _is_troubled(self) -> bool:
        return self._metrics.is_told(BROKER) or self._metrics.is_told(NO_TOPIC)

    def ask(self, places: list[TopicPartition]) -> None:
        """Find out why offsets did not come, and whether trouble has passed.

        Parameters
        ----------
        places
            The partitions of this process: trouble has passed when the leader of each answers.
        """
        try:
            self._explain_gaps()
            if self._is_troubled:
                metadata = self._client.list_topics(timeout=_PAUSE_S)
                for place in places:
                    self._client.get_watermark_offsets(place, timeout=_PAUSE_S)
                self._metrics.forget_trouble(BROKER)
                if not self._missing(metadata):
                    self._metrics.forget_trouble(NO_TOPIC)
        except KafkaException as error:
            _log.debug("brokers: %s", error)

    def _explain_gaps(self) -> None:
        """Count what retention removed.

        It removes the beginning of a partition, so what it removed is below the first offset
        there is. Offsets that are missing above it were compacted, belong to an aborted
        transaction, or end one: nothing is lost.
        """
        lows: dict[tuple[str, int], int] = {}
        while self._gaps:
            place, (start, end) = self._gaps[0]
            key = (place.topic, place.partition)
            if key not in lows:
                lows[key] = self._client.get_watermark_offsets(place, timeout=_TIMEOUT_S)[0]
            if start < lows[key]:
                self._metrics.count_lost(*key, (start, min(end, lows[key])))
            del self._gaps[0]
