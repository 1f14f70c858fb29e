"""A backlog in Kafka: predictions in four partitions, their labels in one, read from the start.

    python bench/kafka_backlog.py BROKERS --rows 3600000 --hours 24 --kills 3

Prints how many predictions count, how many expired early, and how long it took. The topics are
made, and have names of their own each time. A label is an hour after its prediction.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streameval.client import Client
from streameval_server.testing import running_server

HOUR_MS = 3_600_000
PARTITIONS = 4


def fill(brokers: str, topics: tuple[str, str], rows: int, hours: float) -> None:
    """Send predictions and labels, each partition in the order of its times."""
    admin = AdminClient({"bootstrap.servers": brokers})
    new = [NewTopic(topics[0], PARTITIONS, 1), NewTopic(topics[1], 1, 1)]
    for made in admin.create_topics(new).values():
        made.result(20)
    producer = Producer(
        {"bootstrap.servers": brokers, "linger.ms": 50, "queue.buffering.max.messages": 2_000_000}
    )
    begin_ms = round(time.time() * 1_000 - (hours + 1) * HOUR_MS)
    times_ms = begin_ms + (np.arange(rows) * (hours * HOUR_MS / rows)).astype(np.int64)
    scores = np.random.default_rng(1).random(rows).round(4).tolist()
    for row, (time_ms, score) in enumerate(zip(times_ms.tolist(), scores, strict=True)):
        prediction = b'{"id": "r%d", "score": %.4f}' % (row, score)
        label = b'{"id": "r%d", "label": %s}' % (row, b"true" if row % 10 == 0 else b"false")
        partition = row % PARTITIONS
        producer.produce(topics[0], prediction, partition=partition, timestamp=time_ms)
        producer.produce(topics[1], label, partition=0, timestamp=time_ms + HOUR_MS)
        if row % 10_000 == 0:
            while len(producer) > 500_000:
                producer.poll(0.1)
            producer.poll(0)
    assert producer.flush(300) == 0


def consumer(configuration: Path) -> subprocess.Popen[bytes]:
    """Start a consumer."""
    command = ["consume", "kafka", "--config", str(configuration)]
    return subprocess.Popen([sys.executable, "-m", "streameval", *command])  # noqa: S603 - ours


def main() -> None:
    """Fill the topics, read them, and print what counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("brokers")
    parser.add_argument("--rows", type=int, default=3_600_000)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--max-pending", type=int, default=2_000_000)
    parser.add_argument("--max-skew", default="10m")
    parser.add_argument("--kills", type=int, default=0)
    given = parser.parse_args()
    name = f"backlog-{time.time_ns()}"
    topics = f"{name}-scores", f"{name}-labels"
    began_s = time.monotonic()
    fill(given.brokers, topics, given.rows, given.hours)
    print(f"filled in {time.monotonic() - began_s:.0f} s", flush=True)
    with running_server() as address, tempfile.TemporaryDirectory() as directory:
        configuration = Path(directory) / "consumer.toml"
        configuration.write_text(
            f'[kafka]\nbrokers = "{given.brokers}"\ntopics = ["{topics[0]}", "{topics[1]}"]\n'
            f'server = "{address}"\ngroup = "{name}"\nmax_skew = "{given.max_skew}"\n'
            'metrics = ""\n[[ingest]]\npreset = "ndjson"\nstream = "s"\n'
        )
        began_s = time.monotonic()
        process = consumer(configuration)
        kills_s = sorted(random.uniform(5, 60) for _ in range(given.kills))
        try:
            with Client(address) as client:
                client.create_stream("s", max_pending=given.max_pending)
                while True:
                    time.sleep(1)
                    snapshot = client.stream("s").snapshot()
                    counters = client.get_stream("s").counters
                    coverage = snapshot.coverage
                    assert counters is not None
                    if coverage is None:
                        continue
                    took_s = time.monotonic() - began_s
                    if kills_s and took_s > kills_s[0]:
                        del kills_s[0]
                        process.kill()
                        process.wait()
                        process = consumer(configuration)
                    seen = coverage.labelled + coverage.expired + coverage.orphans
                    if coverage.predictions + coverage.orphans >= given.rows <= seen:
                        break
                    if int(took_s) % 10 == 0:
                        print(f"{took_s:.0f} s: {coverage}", flush=True)
        finally:
            process.terminate()
            process.wait()
        print(
            f"{given.rows:,} predictions and labels in {took_s:.0f} s: {coverage.labelled:,} "
            f"labelled, {coverage.expired:,} expired ({counters.expired_early:,} early), "
            f"{coverage.pending:,} pending, {counters.duplicate_predictions:,} repeated"
        )


if __name__ == "__main__":
    main()
