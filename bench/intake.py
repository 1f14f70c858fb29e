"""CloudEvents over HTTP, and messages of Kafka, beside bare parsing of the same messages.

    python bench/intake.py [--quick]
    python bench/intake.py --minutes 10
    python bench/intake.py --minutes 10 --kafka

The server is a process of its own with a log on disk; an answer means that the rows are
durable. Clients are this process: connections that are kept open, each with one request under
way. Rates are rows a second of the clock, and a second of the server's processor time, which is
what one core takes. A consumer of Kafka is a process too, which reads a topic of librdkafka's mock
cluster in this process into the same server, and its rate of a core is of its own processor time;
it is measured from its first rows on, without its start. Bare parsing is `json.loads` of the same
bodies in this process, in the same rounds, by its own processor time; the table shows medians.

With `--minutes` it sends 1,200 rows a second, and 10,000 more every fifth, each with its label,
one row a request and in batches, and prints the server's resident memory every minute. Ids are
kept for ten seconds after their labels, so that what is kept does not grow. With `--kafka` it is a
consumer's memory, of 4,000 messages a second: predictions and labels in four partitions each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import psutil
from confluent_kafka import Producer
from load import Process, scratch, serve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

HEAD = {"specversion": "1.0", "type": "t", "source": "bench"}
CONFIGURATION = '[[ingest]]\npreset = "kserve-v2"\nstream = "fraud/v3"\ntypes = []\n'
LABELLED = 'label = "body.parameters.label"\n'


@dataclass(frozen=True)
class Load:
    """Requests of one size.

    Attributes
    ----------
    label : str
    events, rows : int
        Events of a request, and rows of an event.
    connections, requests : int
        Of a round.
    floor : int
        Rows a second that are wanted.
    """

    label: str
    events: int
    rows: int
    connections: int
    requests: int
    floor: int


LOADS = (
    Load("one row a request", 1, 1, 64, 6_000, 3_000),
    Load("1,000 events a request, a row each", 1_000, 1, 4, 40, 100_000),
    Load("10 events a request, 1,000 rows each", 10, 1_000, 4, 16, 100_000),
)


class Topic(NamedTuple):
    """Messages of one size, in four partitions of a topic.

    The mock cluster keeps 5 MB of a partition.
    """

    label: str
    rows: int
    messages: int
    mapping: str
    floor: int


V2 = 'preset = "kserve-v2"\ntypes = []'
TOPICS = (
    Topic("Kafka, a row a message", 1, 120_000, 'preset = "ndjson"', 300_000),
    Topic("Kafka, 1,000 rows a message", 1_000, 1_000, V2, 300_000),
)


class Rates(NamedTuple):
    """Rows a second of the clock, of the process's processor time, and of that of bare parsing."""

    clock: float
    core: float
    parsed: float


def body_of(load: Load, number: int) -> bytes:
    """Return the body of a request; ids differ in every one."""
    scores = [(number + row) % 1_000 / 1_000 for row in range(load.rows)]
    outputs = [{"name": "p", "shape": [load.rows], "datatype": "FP64", "data": scores}]
    data = {"model_name": "v3", "parameters": {"label": number % 2}, "outputs": outputs}
    events = [{**HEAD, "id": f"{number}-{event}", "data": data} for event in range(load.events)]
    return json.dumps(events if load.events > 1 else events[0]).encode()


def requests_of(load: Load, first: int, count: int) -> list[bytes]:
    """Return HTTP requests as they are sent."""
    kind = f"application/cloudevents{'-batch' if load.events > 1 else ''}+json"
    head = f"POST /v1/cloudevents HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\n"
    bodies = [body_of(load, number) for number in range(first, first + count)]
    return [f"{head}content-length: {len(body)}\r\n\r\n".encode() + body for body in bodies]


async def _connection(port: int, requests: list[bytes]) -> None:
    """Send requests one after the other; every answer has to be 200."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while requests:
        writer.write(requests.pop())
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"refused: {head.decode()}")
        lines = head.lower().split(b"\r\n")
        (size,) = (int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        await reader.readexactly(size)
    writer.close()


async def _send(port: int, load: Load, requests: list[bytes]) -> None:
    await asyncio.gather(*(_connection(port, requests) for _ in range(load.connections)))


@contextmanager
def _served(directory: Path, mapping: str) -> Iterator[tuple[psutil.Process, int]]:
    """Run our server; yield its process and its HTTP port."""
    configuration = directory / "server.toml"
    configuration.write_text(mapping)
    options = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--config", str(configuration))
    server = Process("-m", "streameval_server", *options, "--data", str(directory / "data"))
    try:
        assert server.popen.stdout is not None
        page = server.popen.stdout.readline()
        yield psutil.Process(server.pid), int(page.strip().rstrip("/").rpartition(":")[2])
    finally:
        server.stop()


def _parsing_s(bodies: Iterable[bytes]) -> float:
    """Return the processor time that bare parsing of bodies takes."""
    start_s = time.thread_time()
    for body in bodies:
        json.loads(body)
    return time.thread_time() - start_s


def _round(server: psutil.Process, port: int, load: Load, first: int, count: int) -> Rates:
    """Send requests, and parse their bodies here."""
    requests = requests_of(load, first, count)
    bodies = [request.partition(b"\r\n\r\n")[2] for request in requests]
    rows = count * load.events * load.rows
    before = server.cpu_times()
    start = time.perf_counter()
    asyncio.run(_send(port, load, requests))
    elapsed_s = time.perf_counter() - start
    after = server.cpu_times()
    parsing_s = _parsing_s(bodies)
    core_s = after.user + after.system - before.user - before.system
    return Rates(rows / elapsed_s, rows / core_s, rows / parsing_s)


def message_of(topic: Topic, number: int) -> bytes:
    """Return a message; ids differ in every one."""
    if topic.rows == 1:
        return b'{"id": "r%d", "score": %a}' % (number, number % 1_000 / 1_000)
    load = Load(topic.label, 1, topic.rows, 1, 1, 0)
    return json.dumps({"id": f"q{number}", **json.loads(body_of(load, number))["data"]}).encode()


def _consumed(address: str) -> float:
    """Return the rows that a consumer has counted, from its page of metrics; 0 at first."""
    try:
        with urllib.request.urlopen(address, timeout=5) as response:  # noqa: S310 - of loopback, made here
            lines = response.read().decode().splitlines()
    except OSError:
        return 0.0
    found = [each for each in lines if each.startswith("streameval_kafka_rows_total{")]
    return sum(float(each.rpartition(" ")[2]) for each in found if 'outcome="counted"' in each)


def _configuration(
    directory: Path, server: str, producer: Producer, topics: list[str], mapping: str
) -> Path:
    """Write the file of a consumer."""
    brokers = producer.list_topics(timeout=10).brokers.values()
    addresses = ",".join(f"{each.host}:{each.port}" for each in brokers)
    file = directory / "consumer.toml"
    file.write_text(
        f'[kafka]\nbrokers = "{addresses}"\ntopics = {topics}\nserver = "{server}"\n'
        f'metrics = "127.0.0.1:0"\n[[ingest]]\n{mapping}\nstream = "kafka/{topics[0]}"\n'
    )
    return file


def _consume(directory: Path, server: str, topic: Topic, name: str) -> Rates:
    """Fill a topic, and let a consumer read it."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0, "linger.ms": 50})
    messages = [message_of(topic, number) for number in range(topic.messages)]
    for number, message in enumerate(messages):
        producer.produce(name, message, partition=number % 4)
        if number % 1_000 == 0:
            producer.poll(0)
    producer.flush()
    configuration = _configuration(directory, server, producer, [name], topic.mapping)
    consumer = Process("-m", "streameval", "consume", "kafka", "--config", str(configuration))
    try:
        metrics = consumer.address
        process = psutil.Process(consumer.pid)
        rows = topic.messages * topic.rows
        while not (first := _consumed(metrics)):
            time.sleep(0.005)
        start, before = time.perf_counter(), process.cpu_times()
        while _consumed(metrics) < rows:
            time.sleep(0.02)
        elapsed_s, after = time.perf_counter() - start, process.cpu_times()
    finally:
        consumer.stop()
    parsing_s = _parsing_s(messages)
    core_s = after.user + after.system - before.user - before.system
    return Rates((rows - first) / elapsed_s, (rows - first) / core_s, rows / parsing_s)


def _kafka_table(directory: Path, server: str, rounds: int) -> None:
    for topic in TOPICS:
        found = [
            _consume(directory, server, topic, f"r{topic.rows}-{number}")
            for number in range(rounds)
        ]
        _print_row(topic.label, found, topic.floor)


def _steady_kafka(directory: Path, server: str, minutes: int) -> None:
    """Send messages at a steady rate; print the memory of their consumer every half minute."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0, "linger.ms": 20})
    consumer = Process(
        *("-m", "streameval", "consume", "kafka", "--config"),
        str(_configuration(directory, server, producer, ["scores", "labels"], TOPICS[0].mapping)),
    )
    number, process = 0, psutil.Process(consumer.pid)
    start_s = time.monotonic()
    print(f"{'minutes':>8}{'rows sent':>12}{'counted':>12}{'resident, MiB':>16}")
    try:
        for half in range(2 * minutes + 1):
            counted, memory = _consumed(consumer.address), process.memory_info().rss / 2**20
            print(f"{half / 2:8}{2 * number:12,}{counted:12,.0f}{memory:16.1f}", flush=True)
            while time.monotonic() < start_s + 30 * (half + 1):
                for each in range(number, number + 500):
                    label = b'{"id": "r%d", "label": %d}' % (each, each % 3 == 0)
                    producer.produce("scores", message_of(TOPICS[0], each), partition=each % 4)
                    producer.produce("labels", label, partition=each % 4)
                number += 500
                producer.poll(0)
                time.sleep(0.25)
    finally:
        consumer.stop()


def _print_row(label: str, found: list[Rates], floor: int) -> None:
    clock, core, parsed = (statistics.median(each) for each in zip(*found, strict=True))
    print(f"{label:38}{clock:10,.0f}{core:10,.0f}{parsed:12,.0f}{floor:10,}", flush=True)


def _table(server: psutil.Process, port: int, rounds: int, share: float) -> None:
    seen: dict[Load, list[Rates]] = {load: [] for load in LOADS}
    first = 0
    for _ in range(rounds):
        for load, found in seen.items():
            count = max(load.connections, int(load.requests * share))
            found.append(_round(server, port, load, first, count))
            first += count
    title = f"rows/s (median of {rounds} rounds)"
    print(f"{title:38}{'clock':>10}{'a core':>10}{'parsed':>12}{'wanted':>10}")
    for load, found in seen.items():
        _print_row(load.label, found, load.floor)


def _create(port: int) -> None:
    """Create the stream with a short memory for ids."""
    settings = {"relabelTtl": "10s"}
    body = json.dumps({"stream": {"name": "fraud/v3", "settings": settings}}).encode()
    head = {"content-type": "application/json"}
    url = f"http://127.0.0.1:{port}/v1/streams"
    with urllib.request.urlopen(urllib.request.Request(url, body, head), timeout=30):
        pass


async def _steady(server: psutil.Process, port: int, minutes: int) -> None:
    """Send the three loads at a steady rate; print the memory every minute."""
    one, events, rows = LOADS
    number = sent = 0
    print(f"{'minute':>6}{'rows':>12}{'resident, MiB':>16}")
    for second in range(minutes * 60 + 1):
        next_s = time.perf_counter() + 1.0
        if second % 60 == 0:
            print(f"{second // 60:6}{sent:12,}{server.memory_info().rss / 2**20:16.1f}", flush=True)
        for load, count in ((one, 200), (events, 1), (rows, second % 5 == 0)):
            await _send(port, load, requests_of(load, number, int(count)))
            number += int(count)
            sent += int(count) * load.events * load.rows
        await asyncio.sleep(max(0.0, next_s - time.perf_counter()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds in total")
    parser.add_argument("--minutes", type=int, default=0, help="measure memory for so long")
    parser.add_argument("--kafka", action="store_true", help="with --minutes: of a consumer")
    options = parser.parse_args()
    quick, minutes = options.quick, options.minutes
    if minutes and options.kafka:
        with scratch() as directory:
            evaluator = serve(directory / "data")
            try:
                _steady_kafka(directory, evaluator.address, minutes)
            finally:
                evaluator.stop()
        return
    if minutes:
        with scratch() as directory, _served(directory, CONFIGURATION + LABELLED) as (server, port):
            _create(port)
            asyncio.run(_steady(server, port, minutes))
        return
    with scratch() as directory, _served(directory, CONFIGURATION) as (server, port):
        _table(server, port, *((2, 0.25) if quick else (5, 1.0)))
    with scratch() as directory:
        server = serve(directory / "data")
        try:
            _kafka_table(directory, server.address, 2 if quick else 5)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
