"""A real broker and real processes, killed at random: each row counts once.

What is killed, and after how many rows, is drawn by a seed, which CI draws and prints: give
STREAMEVAL_TEST_KILL_SEED to repeat its kills. Rows go by id, so the server would drop a row that
came twice; that it has dropped none is asserted too.
"""

from __future__ import annotations

import logging
import os
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import Producer, TopicPartition

from streameval import Evaluator
from streameval.client import Client, ClientError
from streameval_server import Settings
from streameval_server.testing import running_server

from ..pages import codes
from .broker import Broker, fetch
from .conftest import consuming, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]

ROWS = 500_000
"""Predictions, and as many labels."""

CONSUMER_KILLS = 6
MAX_AHEAD_ROWS = ROWS // 4
"""Rows that are sent, and not yet counted, when something is killed."""

SEED = int(os.environ.get("STREAMEVAL_TEST_KILL_SEED", "7"))
PAGE = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text(encoding="utf-8")
AWAY = re.compile("WARNING (?:kafka: |no broker answers: )")
"""How a consumer tells that the broker is away: while it runs, or while it starts."""

PASSED = "broker: it has passed"
STREAM = "fraud/v3"
CONFIGURATION = """\
[kafka]
brokers = "{brokers}"
topics = ["scores", "labels"]
server = "{server}"
metrics = ""
[kafka.client]
"session.timeout.ms" = 3000
"heartbeat.interval.ms" = 500
[[ingest]]
preset = "ndjson"
stream = "fraud/v3"
"""


@pytest.fixture(scope="module")
def jars(tmp_path_factory: pytest.TempPathFactory, require_command: Callable[[str], str]) -> Path:
    require_command("java")
    require_command("mvn")
    return fetch(tmp_path_factory.mktemp("kafka"))


@pytest.fixture
def broker(jars: Path, tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Broker]:
    broker = Broker(jars, tmp_path, (free_port(), free_port()))
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


class Kill(NamedTuple):
    """What is killed, and when.

    Attributes
    ----------
    counted : int
        Rows that the server has counted by then, at least.
    ahead : int
        Rows beyond them that are sent by then.
    victim : int or str
        The number of a consumer, ``server`` or ``broker``.
    """

    counted: int
    ahead: int
    victim: int | str


def draw_kills(seed: int) -> list[Kill]:
    """Return kills of consumers, and one each of the server and the broker, in their order."""
    generator = random.Random(seed)
    victims: list[int | str] = [generator.randrange(2) for _ in range(CONSUMER_KILLS)]
    victims += ["server", "broker"]
    generator.shuffle(victims)
    moments = sorted(generator.sample(range(1, ROWS), len(victims)))
    return [
        Kill(counted, generator.randrange(MAX_AHEAD_ROWS), victim)
        for counted, victim in zip(moments, victims, strict=True)
    ]


class Sender:
    """Sends predictions and labels; each message is durable once, whatever stops."""

    def __init__(self, broker: Broker, scores: np.ndarray, positives: np.ndarray) -> None:
        self._rows = list(zip(scores.tolist(), positives.tolist(), strict=True))
        self._sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": broker.address,
                "enable.idempotence": True,
                "linger.ms": 20,
                "log_level": 0,
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": 1_000_000,
            }
        )

    def send_to(self, count: int) -> None:
        """Send the first rows that were not sent yet; returns before they are durable."""
        for number in range(self._sent, min(count, len(self._rows))):
            score, positive = self._rows[number]
            row = b'{"id": "r%d", "score": %a}' % (number, score)
            label = b'{"id": "r%d", "label": %d}' % (number, positive)
            self._producer.produce("scores", row, partition=number % 2)
            self._producer.produce("labels", label, partition=number % 2)
            self._sent = number + 1
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(120) == 0


class Consumers:
    """Two processes of one group."""

    def __init__(self, configuration: Path, log: Path) -> None:
        self._configuration = configuration
        self._log = log
        self._processes = [self._start() for _ in range(2)]

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "streameval", "consume", "kafka"]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*command, "--config", str(self._configuration)], stdout=log, stderr=log
            )

    def __len__(self) -> int:
        return len(self._processes)

    def replace(self, number: int) -> None:
        """Kill one, and start another."""
        self._processes[number].kill()
        self._processes[number].wait()
        self._processes[number] = self._start()

    def stop(self) -> None:
        """Stop all; each ends by itself."""
        for each in self._processes:
            each.terminate()
        assert [each.wait(30) for each in self._processes] == [0, 0], self._log.read_text()

    def kill(self) -> None:
        """End what still runs."""
        for each in self._processes:
            each.kill()
            each.wait()


class Server:
    """A server that can be killed, with its disk and its port."""

    def __init__(self, address: str, data: Path, log: Path) -> None:
        options = ["--listen", address, "--http", "127.0.0.1:0", "--data", str(data)]
        self._command = [sys.executable, "-m", "streameval_server", *options]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; returns before it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def test_kills(broker: Broker, tmp_path: Path, free_address: str) -> None:
    """The consumers, the broker and the server are killed while rows come, at random moments."""
    kills = draw_kills(SEED)
    print(f"STREAMEVAL_TEST_KILL_SEED={SEED}: {kills}")
    generator = np.random.default_rng(7)
    scores = generator.integers(0, 1_000, ROWS) / 1_000
    positives = generator.random(ROWS) < scores
    broker.create({"scores": 2, "labels": 2})
    configuration = tmp_path / "consumer.toml"
    configuration.write_text(CONFIGURATION.format(brokers=broker.address, server=free_address))
    log = tmp_path / "consumers.log"
    server = Server(free_address, tmp_path / "server", tmp_path / "server.log")
    sender = Sender(broker, scores, positives)
    consumers = Consumers(configuration, log)
    try:
        server.start()
        for kill in kills:
            sender.send_to(kill.counted + kill.ahead)
            wait_for(lambda: (joined(free_address) or 0) >= kill.counted, "rows", 120.0)  # noqa: B023
            if kill.victim == "server":
                server.kill()
                server.start()
            elif kill.victim == "broker":
                check_absence(broker, log, len(consumers))
            else:
                consumers.replace(int(kill.victim))
        sender.send_to(ROWS)
        sender.flush()
        server.kill()
        server.start()
        wait_for(lambda: joined(free_address) == ROWS, "all rows", 120.0)
        consumers.stop()
        check(free_address, scores, positives)
    except BaseException:
        print(log.read_text())
        raise
    finally:
        consumers.kill()
        server.kill()


def check_absence(broker: Broker, log: Path, consumers: int) -> None:
    """Kill the broker, and start it once it is missed: each consumer tells it once."""
    before = tellings(log)
    broker.kill()
    wait_for(lambda: tellings(log) > 0, "a consumer that misses the broker", 120.0)
    assert tellings(log) - before <= consumers
    broker.start()


def tellings(log: Path) -> int:
    """Return how often consumers have told that the broker is away, but for what has passed.

    Messages that were fetched before it went away may be read after the first error: it has passed.
    """
    text = log.read_text()
    return len(AWAY.findall(text)) - text.count(PASSED)


def test_the_page(
    broker: Broker,
    tmp_path: Path,
    free_port: Callable[[], int],
    require_command: Callable[[str], str],
) -> None:
    """docs/kafka.md, followed to the letter from an empty broker; `...` matches any text."""
    require_command("curl")
    broker.add_scripts(tmp_path)
    grpc, metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))

    def here(text: str) -> str:
        for shown, actual in ((":9092", broker.address), (":50051", grpc), (":9464", metrics)):
            text = text.replace(f"127.0.0.1{shown}", actual)
        return text

    (configuration,) = codes(PAGE, "toml", "consumer")
    text = here(configuration).replace("[kafka]", f'[kafka]\nmetrics = "{metrics}"')
    (tmp_path / "consumer.toml").write_text(text)
    topics, mapping, messages = codes(PAGE, "console", "kafka")
    server = Server(grpc, tmp_path / "data", tmp_path / "server.log")
    (command,) = re.findall(r"^streameval (consume kafka .*)$", PAGE, re.MULTILINE)
    try:
        server.start()
        follow(here(topics), tmp_path, grpc)
        follow(here(mapping), tmp_path, grpc)
        with (tmp_path / "consumer.log").open("wb") as log:
            consumer = subprocess.Popen(
                [sys.executable, "-m", "streameval", *command.split()],
                cwd=tmp_path,
                stdout=log,
                stderr=log,
            )
        try:
            follow(here(messages), tmp_path, grpc)
        finally:
            consumer.terminate()
            assert consumer.wait(30) == 0, (tmp_path / "consumer.log").read_text()
    finally:
        server.kill()


def follow(console: str, directory: Path, server: str) -> None:
    """Run the commands of a block; what is shown comes at once, or a moment later."""
    environment = {**os.environ, "COLUMNS": "100", "STREAMEVAL_SERVER": server}
    environment["PATH"] = f"{directory}:{os.environ['PATH']}"
    python = f"{shlex.quote(sys.executable)} -m streameval "
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE):
        line = re.sub(r"^streameval ", lambda _: python, command)
        # The words of each line, wherever they are: `...` between the lines of the page.
        pattern = ".*".join(
            r"\s+".join(map(re.escape, part.split())) for part in re.split(r"\.\.\.|\n", shown)
        )

        def is_shown() -> bool:
            done = subprocess.run(
                ["sh", "-c", line],  # noqa: B023 - called at once
                check=False,
                cwd=directory,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
            printed.append(done.stdout + done.stderr)  # noqa: B023
            return done.returncode == 0 and bool(re.search(pattern, done.stdout, re.DOTALL))  # noqa: B023

        printed: list[str] = []
        if shown and command.startswith(("streameval query", "curl")):
            wait_for(is_shown, f"{command}: {printed[-1:]}")
        else:
            assert is_shown(), (command, printed)


def check(address: str, scores: np.ndarray, positives: np.ndarray) -> None:
    """Compare what the server has with the rows."""
    expected = Evaluator()
    expected.add_cases(labels=positives, scores=scores)
    with Client(address) as client:
        found = client.stream(STREAM).evaluator().operating_points()
        wanted = expected.operating_points()
        # The evaluators have other settings, so their bytes differ, and their counts do not.
        assert found.tp.tolist() == wanted.tp.tolist()
        assert found.fp.tolist() == wanted.fp.tolist()
        counters = client.get_stream(STREAM).counters
        assert counters is not None
        assert counters.duplicate_predictions == counters.duplicate_labels == 0


def joined(address: str) -> float | None:
    """Return how many cases are joined, a half for none; None while the server is away."""
    with Client(address) as client:
        try:
            if not client.list_streams():
                return 0.5
            snapshot = client.stream(STREAM).snapshot(metrics=["auc_roc"])
        except ClientError:
            return None
        return snapshot.num_positive_ref + snapshot.num_negative_ref or 0.5


def test_what_retention_removes_is_counted(
    broker: Broker, tmp_path: Path, free_address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each message is a row or lost, with its offsets; aborted transactions lose none."""
    number = 60_000
    broker.create({"scores": 1, "labels": 1})

    def send(first: int, last: int) -> None:
        producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 20})
        for row in range(first, last):
            producer.produce("scores", b'{"id": "r%d", "score": 0.5}' % row)
            if row % 10_000 == 0:
                producer.flush(60)
        assert producer.flush(60) == 0

    settings = Settings(listen=free_address, data=tmp_path / "data")
    cluster: Any = SimpleNamespace(brokers=broker.address)
    with consuming(cluster, free_address) as running:
        with running_server(settings):
            send(0, 10)
            wait_for(lambda: running.rows() == 10, "the first rows")
            transactions = Producer({"bootstrap.servers": broker.address, "transactional.id": "t"})
            transactions.init_transactions(30)
            for row in range(20):
                transactions.begin_transaction()
                transactions.produce("labels", b'{"id": "r%d", "label": true}' % row)
                (transactions.abort_transaction if row % 2 else transactions.commit_transaction)(30)
            wait_for(lambda: running.rows() == 20, "labels of transactions")
        # The server is away: the consumer reads on until it has enough, and then waits.
        send(10, number)
        wait_for(lambda: running.value("lag_messages", topic="scores", partition="0") > 9, "lag")
        place = TopicPartition("scores", 0, 50_000)
        admin = broker.admin()  # kept: it ends its requests when it is dropped
        for removed in admin.delete_records([place]).values():
            removed.result(30)
        with running_server(settings):
            lost = {"topic": "scores", "partition": "0"}
            wait_for(
                lambda: running.rows() + running.value("lost_messages_total", **lost) > number + 9,
                "each message",
            )
            assert running.rows() + running.value("lost_messages_total", **lost) == number + 10
            assert running.value("lost_messages_total", **lost) > 0
            assert running.value("lost_messages_total", topic="labels", partition="0") == 0
    (told,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert re.match(r"scores\[0\]: offsets \d+ to 49999 are lost: the topic removed them", told)


def test_an_outage_has_passed_though_no_message_comes(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """The last line about the broker says so."""
    broker.create({"scores": 2, "labels": 1})
    cluster: Any = SimpleNamespace(brokers=broker.address)
    with running_server() as address, consuming(cluster, address) as running:
        wait_for(lambda: running.value("assigned_partitions") == 3, "partitions")
        broker.kill()
        wait_for(lambda: running.value("troubles_total", cause="broker") > 0, "the outage")
        broker.start()
        wait_for(lambda: caplog.messages[-1] == "broker: it has passed", "the end of it")
