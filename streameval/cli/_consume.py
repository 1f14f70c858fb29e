"""``streameval consume``: rows of other systems into a server, for as long as it runs."""

from __future__ import annotations

import logging
import signal
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streameval._common.errors import StreamEvalError
from streameval._common.text_file import read_toml
from streameval.cli._commands import Commands
from streameval.cli._connection import connection, transport
from streameval.cli._connection_options import connects

if TYPE_CHECKING:
    from streameval.cli._connection import Connection
    from streameval.kafka import KafkaConfiguration

consume = Commands("Consume rows of other systems.")


@consume.callback()
def _group() -> None:
    """Consume rows of other systems."""


@consume.command()
@connects
def kafka(
    *,
    config: Annotated[
        Path,
        typer.Option(exists=True, help="A TOML file with a [kafka] table and [[ingest]] tables."),
    ],
) -> None:
    """Evaluate the predictions and labels of Kafka topics, each message exactly once.

    Runs until it is stopped, and goes on from there when it is started again.
    """
    from streameval.kafka import KafkaConsumer  # noqa: PLC0415 - slow to import

    current, configuration = _configuration(config)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    with closing(transport(current)) as connection:
        consumer = KafkaConsumer(configuration, connection)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: consumer.stop())
        if configuration.metrics:
            address = consumer.metrics.serve(configuration.metrics)
            print(f"http://{address}/metrics", flush=True)
        consumer.run()


def _configuration(file: Path) -> tuple[Connection, KafkaConfiguration]:
    """Return the connection, and the file's content; its server yields to options and variables."""
    from streameval.kafka import KafkaConfiguration  # noqa: PLC0415 - slow to import

    try:
        configuration = KafkaConfiguration.of(read_toml(file))
    except ValueError as error:
        raise StreamEvalError(f"{file}: {error}") from None
    current = connection(configuration.server)
    return current, replace(configuration, server=current.address)
