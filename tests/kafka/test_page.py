"""The configurations of docs/kafka.md and docs/kafka-guarantees.md, and what is refused in one."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("confluent_kafka")

from streameval import InvalidInputError, StreamEvalError
from streameval.kafka import KafkaConfiguration
from streameval.kafka._metrics import ConsumerMetrics
from tests.pages import codes

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

PAGE = Path(__file__).parents[2] / "docs/kafka.md"
GUARANTEES = PAGE.with_name("kafka-guarantees.md")
EXAMPLE = PAGE.parents[1] / "deploy/helm/examples/consumer.yaml"
KAFKA = {"brokers": "a:9092", "topics": ["scores"]}
KAFKA_TEXT = "[kafka]\nbrokers = 'a'\ntopics = ['t']\n"
INGEST = [{"preset": "ndjson", "stream": "fraud/v3"}]


@pytest.mark.parametrize(
    ("page", "name", "stream"),
    [
        (PAGE, "consumer", "fraud/v3"),
        (GUARANTEES, "replica", "fraud/v3"),
        (GUARANTEES, "eu", "{region}/fraud"),
    ],
)
def test_configurations_of_the_pages(page: Path, name: str, stream: str) -> None:
    (code,) = codes(page.read_text(), "toml", name)
    configuration = KafkaConfiguration.of(tomllib.loads(code))
    assert configuration.topics == ["scores", "labels"]
    assert configuration.mappings[0].stream == stream


def test_the_configuration_of_the_chart(require: Callable[[str], ModuleType]) -> None:
    """The example's is one; tests/deploy/test_kubernetes.py has the rest of the chart."""
    values = require("yaml").safe_load(EXAMPLE.read_text())
    made = KafkaConfiguration.of(tomllib.loads(values["consumer"]["config"]))
    assert made.topics == ["scores", "labels"]


@pytest.mark.parametrize(
    ("tables", "field"),
    [
        ({"ingest": INGEST}, "kafka"),
        ({"kafka": KAFKA}, "ingest"),
        ({"kafka": {"topics": ["t"]}, "ingest": INGEST}, "brokers"),
        ({"kafka": {**KAFKA, "topic": "t"}, "ingest": INGEST}, "topic"),
        ({"kafka": {**KAFKA, "topics": "scores"}, "ingest": INGEST}, "topics"),
        ({"kafka": {**KAFKA, "topics": []}, "ingest": INGEST}, "topics"),
        ({"kafka": {**KAFKA, "group": ""}, "ingest": INGEST}, "group"),
        ({"kafka": {**KAFKA, "server": 50051}, "ingest": INGEST}, "server"),
        ({"kafka": {**KAFKA, "start": "now"}, "ingest": INGEST}, "start"),
        ({"kafka": {**KAFKA, "streams": "eu"}, "ingest": INGEST}, "streams"),
        ({"kafka": {**KAFKA, "streams": ["eu//x"]}, "ingest": INGEST}, "streams"),
        ({"kafka": {**KAFKA, "streams": [7]}, "ingest": INGEST}, "streams"),
        ({"kafka": {**KAFKA, "metrics": "9464"}, "ingest": INGEST}, "metrics"),
        ({"kafka": {**KAFKA, "dead_letters": "scores"}, "ingest": INGEST}, "dead_letters"),
        ({"kafka": {**KAFKA, "client": {"group.id": "g"}}, "ingest": INGEST}, "client"),
        ({"kafka": {**KAFKA, "client": {"a": [1]}}, "ingest": INGEST}, "client"),
        ({"kafka": KAFKA, "ingest": [{"stream": "s"}]}, "id"),
    ],
)
def test_wrong_configurations(tables: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        KafkaConfiguration.of(tables)
    assert caught.value.field == field


def test_metrics_are_served() -> None:
    metrics = ConsumerMetrics()
    metrics.count_rows("fraud/v3", "score", 2)
    metrics.set_lag({("scores", 1): 7}, held=0)
    address = metrics.serve("127.0.0.1:0")
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as response:
        text = response.read().decode()
    assert 'streameval_kafka_rows_total{mapping="fraud/v3",outcome="score"} 2.0' in text
    assert 'streameval_kafka_lag_messages{partition="1",topic="scores"} 7.0' in text
    with pytest.raises(StreamEvalError, match="cannot listen at"):
        ConsumerMetrics().serve(address)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[kafka", "it is not TOML"),
        (KAFKA_TEXT, "it has no [[ingest]] table"),
        (
            KAFKA_TEXT + "client = {'no.such' = 1}\n[[ingest]]\npreset = 'ndjson'\nstream = 's'\n",
            'No such configuration property: "no.such"',
        ),
    ],
)
def test_the_command_names_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "consumer.toml"
    file.write_text(text)
    command = [sys.executable, "-m", "streameval", "consume", "kafka", "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
