"""The configuration of a consumer: a TOML file with ``[kafka]`` and ``[[ingest]]``."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from streameval._common.errors import InvalidInputError, StreamEvalError
from streameval._common.names import stream_name_problem
from streameval._common.spans import parse_span
from streameval._common.values import quoted, shown
from streameval.payloads import mappings_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streameval.payloads import PayloadMapping

STARTS = ("earliest", "latest")

_OURS = (
    "bootstrap.servers",
    "group.id",
    "auto.offset.reset",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "partition.assignment.strategy",
)
"""Properties of librdkafka that delivery exactly once depends on, or that have keys here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConfiguration:
    """What is consumed, and where it goes.

    Parameters
    ----------
    brokers : str
        Addresses, with commas between them.
    topics : sequence of str
    mappings : sequence of PayloadMapping
        In the order in which they are tried.
    server : str
        The address of the server that evaluates.
    group : str
        The consumer group, whose members share the partitions. Each server has its own: the
        group is part of the names under which the server remembers offsets.
    dead_letters : str
        Topic of messages with rows that cannot be counted; empty for none.
    metrics : str
        HOST:PORT of ``/metrics``; empty for none.
    streams : sequence of str
        The server's streams, and all below them; rows of others are left to the consumers of
        other servers. Empty for all.
    start : {"earliest", "latest"}
        Where a partition begins that the server does not know.
    max_skew : str
        How far one partition may be read before another in the time of their messages, such as
        ``10m``: much less than a label may be late, and than the server keeps ids for.
    client : dict of str to str
        Properties of librdkafka, for instance ``security.protocol``.

    Raises
    ------
    InvalidInputError
        With the key at fault as its ``field``.
    """

    brokers: str
    topics: Sequence[str]
    mappings: Sequence[PayloadMapping]
    server: str = "127.0.0.1:50051"
    group: str = "streameval"
    dead_letters: str = ""
    streams: Sequence[str] = ()
    metrics: str = "127.0.0.1:9464"
    start: str = "earliest"
    max_skew: str = "10m"
    client: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("brokers", "server", "group", "dead_letters", "metrics", "start", "max_skew"):
            if not isinstance(getattr(self, name), str):
                message = f"{name} must be a text, got {shown(getattr(self, name))}"
                raise InvalidInputError(message, field=name)
        for name in ("brokers", "server", "group"):
            if not getattr(self, name):
                raise InvalidInputError(f"{name} is needed", field=name)
        topics = self.topics
        if not isinstance(topics, list | tuple) or not topics:
            raise InvalidInputError(f"topics must be names, got {shown(topics)}", field="topics")
        if not all(isinstance(each, str) and each for each in topics):
            raise InvalidInputError(f"topics must be names, got {shown(topics)}", field="topics")
        self._check_streams()
        if self.dead_letters in topics:
            message = f"dead_letters must be no topic that is consumed, got {self.dead_letters}"
            raise InvalidInputError(message, field="dead_letters")
        if self.start not in STARTS:
            message = f"start must be one of {', '.join(STARTS)}, got {shown(self.start)}"
            raise InvalidInputError(message, field="start")
        try:
            parse_span(self.max_skew, "max_skew")
        except StreamEvalError as error:
            raise InvalidInputError(str(error), field="max_skew") from None
        self._check_client()
        _check_address(self.metrics)

    @property
    def max_skew_us(self) -> int:
        """`max_skew` in microseconds."""
        return parse_span(self.max_skew) // timedelta(microseconds=1)

    def _check_streams(self) -> None:
        if not isinstance(self.streams, list | tuple):
            message = f"streams must be names, got {shown(self.streams)}"
            raise InvalidInputError(message, field="streams")
        for name in self.streams:
            problem = f"streams must be names, got {shown(name)}"
            if isinstance(name, str):
                found = stream_name_problem(name)
                if found is None:
                    continue
                problem = f"streams: {found}"
            raise InvalidInputError(problem, field="streams")

    def _check_client(self) -> None:
        if not isinstance(self.client, dict):
            message = f"client must be a table, got {shown(self.client)}"
            raise InvalidInputError(message, field="client")
        for name, value in self.client.items():
            if name in _OURS:
                message = f"client: {name} is set by the consumer: leave it out"
                raise InvalidInputError(message, field="client")
            if not isinstance(value, str | int | float | bool):
                message = f"client: {quoted(name)} must be one value, got {shown(value)}"
                raise InvalidInputError(message, field="client")

    @classmethod
    def of(cls, tables: Mapping[str, Any]) -> KafkaConfiguration:
        """Return the configuration of a file's tables: ``kafka`` and ``ingest``.

        Raises
        ------
        InvalidInputError
            Also for a key that does not exist.

        Examples
        --------
        >>> mapping = {"preset": "ndjson", "stream": "fraud/v3"}
        >>> tables = {"kafka": {"brokers": "a:9092", "topics": ["scores"]}, "ingest": [mapping]}
        >>> KafkaConfiguration.of(tables).group
        'streameval'
        """
        table = tables.get("kafka")
        if not isinstance(table, dict):
            raise InvalidInputError("it has no [kafka] table", field="kafka")
        if "ingest" not in tables:
            raise InvalidInputError(
                "it has no [[ingest]] table, which is a mapping", field="ingest"
            )
        known = [each.name for each in fields(cls) if each.name != "mappings"]
        for name in table:
            if name not in known:
                message = f"kafka has no {quoted(name)}: one of {', '.join(known)}"
                raise InvalidInputError(message, field=name)
        for name in ("brokers", "topics"):
            if name not in table:
                raise InvalidInputError(f"kafka: {name} is needed", field=name)
        return cls(mappings=mappings_of(tables["ingest"]), **table)


def _check_address(address: str) -> None:
    host, colon, port = address.rpartition(":")
    if address and not (colon and host and port.isdecimal() and int(port) < 1 << 16):
        message = f"metrics must be HOST:PORT or empty, got {quoted(address)}"
        raise InvalidInputError(message, field="metrics")
