"""Predictions and labels from Kafka topics into a server, exactly once by offset.

`KafkaConsumer` is what ``streameval consume kafka`` runs. Each partition of a topic is a
producer of the server; a piece of a partition, some of its successive offsets, is an epoch of
that producer, and its batches are the sequences of the epoch. So the server knows which offsets
are durable, and a process that was killed goes on from there. Needs the extra ``kafka``.
"""

from streameval._common.extras import needs_extra

with needs_extra("kafka"):
    from streameval.kafka._configuration import KafkaConfiguration
    from streameval.kafka._consumer import KafkaConsumer

__all__ = ["KafkaConfiguration", "KafkaConsumer"]
