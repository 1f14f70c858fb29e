"""States from Spark to servers: each counts once, with several servers and repetitions."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError
from streameval.client import Client
from streameval_server.testing import running_server

from .conftest import counted, frame, fraud, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.heavy

SCHEMA = "model string, country string, score double, label boolean, minute long"


@pytest.fixture
def servers() -> Iterator[list[str]]:
    """Two servers in memory."""
    with ExitStack() as stack:
        yield [stack.enter_context(running_server()) for _ in range(2)]


def check(client: Client, columns: dict[str, Any], where: Any = slice(None)) -> None:
    """Assert that both models' streams have the figures of an evaluator with these rows."""
    for model in ("a", "b"):
        mine = {name: column[where][columns["model"][where] == model]
                for name, column in columns.items()}  # fmt: skip
        ev, stream = counted(mine), client.stream(f"fraud/{model}")
        snapshot = stream.snapshot()
        assert (snapshot.num_cases, snapshot.auc_pr) == (ev.num_cases, ev.auc_pr())
        assert snapshot.auc_roc == ev.auc_roc()
        for country in ("US", "DE"):
            found = stream.snapshot(segment=("country", country))
            sliced = counted(mine, mine["country"] == country)
            assert (found.num_cases, found.auc_roc) == (sliced.num_cases, sliced.auc_roc())


def made(client: Client) -> None:
    """Make the streams that have segments."""
    for model in ("a", "b"):
        client.create_stream(f"fraud/{model}", segment_keys=["country"])


def test_batch_is_pushed_once(spark: Any, servers: list[str]) -> None:
    """Groups go to their streams, slices and panes, on two servers; a repetition adds nothing."""
    from pyspark.sql import functions as sf

    from streameval.spark import push, states

    columns = fraud(6_000)
    now = int(datetime.now(UTC).timestamp()) // 60 * 60 - 600
    timed = frame(spark, columns, SCHEMA).withColumn(
        "at", sf.timestamp_seconds(sf.lit(now) + sf.col("minute") * 60)
    )
    by = ["model", "country"]
    found = states(
        timed, score="score", label="label", by=by, at="at", pane=timedelta(minutes=1)
    ).cache()
    with Client(servers) as client:
        made(client)
        for _ in range(2):
            merged = push(found, to=servers, stream="fraud/{model}", source="job", epoch=1, by=by)
            assert set(merged) == {"fraud/a", "fraud/b"}
            check(client, columns)
        start = datetime.fromtimestamp(now + 60, UTC)
        minute = client.stream("fraud/b").snapshot(window=(start, start + timedelta(minutes=1)))
        where = (columns["model"] == "b") & (columns["minute"] == 1)
        assert minute.num_cases == where.sum()
        assert minute.auc_roc == counted(columns, where, resolution=12).auc_roc()


def test_long_merges_are_sent_in_parts(
    spark: Any, servers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream with more states than one merge may hold gets several, each counted once."""
    from streameval.client import MergeState
    from streameval.spark import _push

    del spark
    monkeypatch.setattr(_push, "_MAX_MERGE_BYTES", 5_000)
    columns = fraud(4_000)
    found = []
    for minute in range(3):
        ev = counted(columns, columns["minute"] == minute)
        found.append((len(ev.to_bytes()), MergeState(ev)))
    assert len(list(_push._parts(found))) == 3
    for _ in range(2):
        send = _push._sender(servers, source="parts", epoch=7, token=None, tls=None, timeout_s=20.0)
        assert [name for name, _ in send(iter([("parts/v1", found)]))] == ["parts/v1"]
    with Client(servers) as client:
        assert client.stream("parts/v1").snapshot().auc_pr == counted(columns).auc_pr()


def test_stream_goes_on_from_its_checkpoint(spark: Any, servers: list[str], tmp_path: Path) -> None:
    """Micro-batches count once, also when the last one runs again."""
    from streameval.spark import push_stream

    columns = fraud(6_000)
    rows, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"
    rows.mkdir()

    def run() -> None:
        query = push_stream(
            spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(rows)),
            to=servers,
            stream="fraud/{model}",
            score="score",
            label="label",
            by=["model", "country"],
            checkpoint=str(checkpoint),
            trigger={"availableNow": True},
        )
        query.awaitTermination(120)
        assert query.exception() is None
        assert not query.isActive

    with Client(servers) as client:
        made(client)
        write_json(rows / "0.json", columns, slice(0, 2_000))
        write_json(rows / "1.json", columns, slice(2_000, 4_000))
        run()
        check(client, columns, slice(0, 4_000))
        # The batch was pushed and not committed: Spark runs it again.
        (checkpoint / "commits" / "1").unlink()
        (checkpoint / "commits" / ".1.crc").unlink()
        write_json(rows / "2.json", columns, slice(4_000, 6_000))
        run()
        check(client, columns)


def test_refused_rows_fail_the_query(spark: Any, servers: list[str], tmp_path: Path) -> None:
    """An invalid row fails the query."""
    from streameval.spark import push_stream

    columns = {"score": np.array([1.0, None], dtype=object), "label": np.array([True, False])}
    write_json(tmp_path / "0.json", columns)
    query = push_stream(
        spark.readStream.schema("score double, label boolean").json(str(tmp_path)),
        to=servers,
        stream="strict/v1",
        score="score",
        label="label",
        checkpoint=str(tmp_path / "checkpoint"),
        trigger={"availableNow": True},
    )
    with pytest.raises(Exception, match="all rows: 1 of 2 scores are null"):
        query.awaitTermination(120)
    with Client(servers) as client:
        assert client.list_streams("strict/") == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"stream": "fraud/{version}"}, "stream names {version}, which is not among by: model"),
        ({"stream": 7}, "stream must be text, got 7"),
        ({"by": "model"}, "by must be a list of columns"),
        ({"by": ["nope"]}, "there is no column 'nope' among the states'"),
        ({"epoch": 0}, "epoch must be an integer from 1 to 2^47 - 2, got 0"),
        ({"to": []}, "give at least one address"),
    ],
)
def test_refused_pushes(spark: Any, arguments: dict[str, Any], text: str) -> None:
    """Invalid arguments are refused before anything is sent."""
    from streameval.spark import push

    state = Evaluator().to_bytes()
    df = spark.createDataFrame([("a", 0, state)], "model string, num_cases long, state binary")
    given = {"to": "127.0.0.1:1", "stream": "s", "source": "x", "epoch": 1, "by": ["model"]}
    with pytest.raises(InvalidInputError) as caught:
        push(df, **(given | arguments))
    assert text in str(caught.value)
