"""A real Kafka broker: one node, KRaft, on the loopback, from Maven Central's artifacts."""

from __future__ import annotations

import shlex
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = "4.1.0"

_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>streameval</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId>
      <version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""
_SCRIPTS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
}
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
_START_S = 180.0


def fetch(directory: Path) -> Path:
    """Return a directory with the broker's jars; Maven keeps them in its own cache."""
    (directory / "pom.xml").write_text(_POM)
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
    subprocess.run(command, cwd=directory, check=True, timeout=400)
    return directory / "jars"


class Broker:
    """A broker that can be killed and started again, with its log and its port."""

    def __init__(self, jars: Path, directory: Path, ports: tuple[int, int]) -> None:
        self.address = f"127.0.0.1:{ports[0]}"
        self._command = ["java", "-Xmx384m", "-cp", f"{jars}/*"]
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        (directory / "server.properties").write_text(
            f"""\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{ports[1]}
listeners=PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{ports[1]}
controller.listener.names=CONTROLLER
log.dirs={directory / "data"}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
"""
        )
        format_ = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "--standalone"]
        subprocess.run(
            [*self._command, *format_, "-c", "server.properties"],
            cwd=directory,
            check=True,
            capture_output=True,
            timeout=60,
        )

    def start(self) -> None:
        """Start it; return once it answers."""
        with (self._directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "kafka.Kafka", "server.properties"],
                cwd=self._directory,
                stdout=log,
                stderr=log,
            )
        deadline_s = time.monotonic() + _START_S
        while not self._answers():
            log_text = (self._directory / "broker.log").read_text()[-2000:]
            assert self._process.poll() is None, log_text
            assert time.monotonic() < deadline_s, log_text

    def _answers(self) -> bool:
        try:
            self.admin().list_topics(timeout=1.0)
        except KafkaException:
            return False
        return True

    def add_scripts(self, directory: Path) -> None:
        """Write the commands of Kafka's distribution that docs/kafka.md has; Maven has none."""
        for name, class_ in _SCRIPTS.items():
            script = directory / name
            script.write_text(f'#!/bin/sh\nexec {shlex.join(self._command)} {class_} "$@"\n')
            script.chmod(0o755)

    def admin(self) -> AdminClient:
        """Return a client."""
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def create(self, topics: Mapping[str, int]) -> None:
        """Create topics with as many partitions."""
        new = [NewTopic(name, number, 1) for name, number in topics.items()]
        admin = self.admin()  # kept: it ends its requests when it is dropped
        for created in admin.create_topics(new).values():
            created.result(20)

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
