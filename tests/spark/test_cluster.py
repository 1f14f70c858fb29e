"""A cluster loses a worker, its driver and its server: every figure equals the oracle's."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streameval import Evaluator
from streameval.client import Client

from .conftest import counted, write_json
from .processes import Cluster, Process, Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(240)]

BULK_ROWS = 480_000
FILES = 12
BATCH_ROWS = 20_000


@pytest.fixture(scope="module")
def cluster(
    require: Callable[[str], Any],
    require_command: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    """Return a master with one worker; tests may add others, and kill those."""
    require("pyspark")
    require("pyarrow")
    require_command("java")
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.worker()
        yield made
    finally:
        made.stop()


def smooth(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Return columns whose scores are nearly all distinct."""
    rng = np.random.default_rng(seed)
    label = rng.random(rows) < 0.05
    return {
        "model": rng.choice(["a", "b"], rows),
        "country": rng.choice(["US", "DE"], rows),
        "score": rng.normal(size=rows) + 1.5 * label,
        "label": label,
        "minute": np.zeros(rows, dtype=np.int64),
    }


def check_row(row: dict[str, Any], ev: Evaluator, *, exact: bool) -> None:
    """Assert that a row has the evaluator's figures."""
    snapshot = ev.snapshot()
    assert row["num_cases"] == ev.num_cases
    assert row["auc_roc"] == snapshot.auc_roc
    assert row["auc_roc_hull"] == snapshot.auc_roc_hull
    assert row["auc_pr_hull"] == snapshot.auc_pr_hull
    for name in ("auc_pr", "average_precision"):
        value, limits = row[name], row["intervals"][name]
        interval = snapshot.intervals[name]
        if exact:
            assert value == getattr(snapshot, name)
            assert (limits["lower"], limits["upper"]) == (interval.lower, interval.upper)
        else:
            assert value == pytest.approx(getattr(snapshot, name), rel=1e-12)
            assert limits["lower"] == pytest.approx(interval.lower, rel=1e-12)


def test_bulk_survives_workers_that_die(cluster: Cluster, tmp_path: Path) -> None:
    """A worker is killed with its executor in the middle of each job, merged and sharded."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = smooth(BULK_ROWS, seed=1)
    for index in range(FILES):
        part = slice(index * BULK_ROWS // FILES, (index + 1) * BULK_ROWS // FILES)
        table = pa.table({name: columns[name][part] for name in ("model", "score", "label")})
        parquet.write_table(table, tmp_path / f"{index}.parquet")
    oracle = {model: counted(columns, columns["model"] == model) for model in ("a", "b")}
    for kills, shards in enumerate((0, 6), start=1):
        victim = cluster.worker()
        driver = cluster.driver("bulk", str(tmp_path), str(shards))
        assert int(driver.until("BEGIN")[0]) >= 6
        while int(driver.until("TASKS")[0]) < 2:
            pass
        victim.kill()
        rows = json.loads(" ".join(driver.until("ROWS")))
        assert driver.ended() == 0
        assert cluster.workers_lost() == kills
        assert {row["model"] for row in rows} == {"a", "b"}
        for row in rows:
            check_row(row, oracle[row["model"]], exact=not shards)


class Served:
    """A durable server that can be killed and restarted behind one address."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._starts = 0
        self.process = self._start()
        self.proxy = Proxy(lambda: self.address)

    def _start(self) -> Process:
        self._starts += 1
        process = Process(
            sys.executable, "-m", "streameval_server", "--listen", "127.0.0.1:0", "--http", "off",
            "--data", str(self._directory / "data"),
            log=self._directory / f"server-{self._starts}.log",
        )  # fmt: skip
        self.address = process.until("listening")[-1]
        return process

    def crash(self) -> None:
        """Kill it, and start another on the same data."""
        self.process.kill()
        self.process = self._start()

    def stop(self) -> None:
        """Kill it for good."""
        self.process.kill()
        self.proxy.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Return a server behind a proxy."""
    made = Served(tmp_path)
    try:
        yield made
    finally:
        made.stop()


def check_streams(served: Served, columns: dict[str, np.ndarray]) -> None:
    """Assert that each stream and slice has the figures of an evaluator with these rows."""
    with Client(served.address) as client:
        for model in ("a", "b"):
            mine = columns["model"] == model
            found = client.stream(f"fraud/{model}").snapshot()
            ev = counted(columns, mine)
            assert (found.num_cases, found.auc_roc, found.auc_pr) == (
                ev.num_cases,
                ev.auc_roc(),
                ev.auc_pr(),
            )
            for country in ("US", "DE"):
                where = mine & (columns["country"] == country)
                sliced = counted(columns, where, resolution=12, max_cells=16_384)
                found = client.stream(f"fraud/{model}").snapshot(segment=("country", country))
                assert (found.num_cases, found.auc_roc) == (sliced.num_cases, sliced.auc_roc())


def test_stream_survives_its_driver_and_its_server(
    cluster: Cluster, served: Served, tmp_path: Path
) -> None:
    """The driver dies between push and commit, the server within merges: all counts once."""
    rows, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"
    rows.mkdir()
    columns = smooth(4 * BATCH_ROWS, seed=2)

    def write(batch: int) -> None:
        part = slice(batch * BATCH_ROWS, (batch + 1) * BATCH_ROWS)
        write_json(rows / f"{batch}.json", columns, part)

    with Client(served.address) as client:
        for model in ("a", "b"):
            client.create_stream(f"fraud/{model}", segment_keys=["country"])
    write(0)
    write(1)
    drive = ("stream", str(rows), str(checkpoint), served.proxy.address)
    driver = cluster.driver(*drive)
    pushed(driver, epoch=1)
    assert driver.until("BEFORE") == ["2"]
    driver.go_on()
    assert driver.until("AFTER") == ["2"]
    driver.kill()  # after the push, before the commit
    assert {p.name for p in (checkpoint / "offsets").glob("[0-9]*")} == {"0", "1"}
    assert {p.name for p in (checkpoint / "commits").glob("[0-9]*")} == {"0"}
    seen = {name: column[: 2 * BATCH_ROWS] for name, column in columns.items()}
    check_streams(served, seen)

    write(2)
    write(3)
    driver = cluster.driver(*drive)
    pushed(driver, epoch=2)  # the same rows again
    check_streams(served, seen)
    # In the middle of a merge, and when all of it was sent, committed or not.
    for epoch, share in ((3, 0.5), (4, 1.0)):
        assert driver.until("BEFORE") == [str(epoch)]
        served.proxy.arm(int(share * merge_bytes(columns, epoch - 1)), served.crash)
        driver.go_on()
        assert driver.until("AFTER") == [str(epoch)]
        driver.go_on()
    driver.until("DONE")
    assert driver.ended() == 0
    assert served.proxy.kills == 2
    check_streams(served, columns)


def merge_bytes(columns: dict[str, np.ndarray], batch: int) -> int:
    """Return a lower bound of the bytes of one stream's merge."""
    part = slice(batch * BATCH_ROWS, (batch + 1) * BATCH_ROWS)
    models, countries = columns["model"][part], columns["country"][part]
    rows = {name: column[part] for name, column in columns.items()}
    return min(
        sum(len(counted(rows, (models == m) & (countries == c)).to_bytes()) for c in ("US", "DE"))
        for m in ("a", "b")
    )


def pushed(driver: Process, epoch: int) -> None:
    """Let one micro-batch through."""
    assert driver.until("BEFORE") == [str(epoch)]
    driver.go_on()
    assert driver.until("AFTER") == [str(epoch)]
    driver.go_on()
