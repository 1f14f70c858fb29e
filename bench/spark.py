"""Rows counted per second: in this process, by Spark on two threads, by two workers.

    python bench/spark.py [--quick]

Needs ``streameval[spark]`` and Java 17. The rows are in Parquet files, as for a real
job: 10 groups, scores nearly all distinct, 5 % positive. Each variant reads them and
computes the six metrics with intervals for every group. In process that is pyarrow and
one `Evaluator` per group, timed alternately with Spark. Spark has started and run one
small job before the timing begins, because a session starts once, not once per job.

The last lines estimate the sizes from which Spark is faster, if its rate held at every
size and it had more cores; below them the library alone is faster.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyspark
from pyarrow import parquet
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from streameval import Evaluator
from streameval.spark import evaluate
from streameval.spark._partial import grouped

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUPS = 10
FILE_ROWS = 250_000
SETTINGS: dict[str, dict[str, int]] = {
    "merged, exact": {},
    "merged, 12 bits": {"resolution": 12},
    "8 shards, exact": {"shards": 8},
}
SPARK = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "768m",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.files.maxPartitionBytes": str(4 << 20),
}


def write_rows(directory: Path, rows: int) -> None:
    """Write the Parquet files."""
    rng = np.random.default_rng(7)
    for index in range(rows // FILE_ROWS):
        label = rng.random(FILE_ROWS) < 0.05
        columns = {
            "model": rng.integers(0, GROUPS, FILE_ROWS),
            "score": rng.normal(size=FILE_ROWS) + 1.5 * label,
            "label": label,
        }
        parquet.write_table(pa.table(columns), directory / f"{index:05}.parquet")


def in_process(directory: Path, **settings: int) -> None:
    """Read and evaluate all rows in this process."""
    evaluators = {key: Evaluator(**settings) for key in range(GROUPS)}
    for path in sorted(directory.iterdir()):
        for (model,), rows in grouped(parquet.read_table(path), ("model",)):
            evaluators[model].add_cases(
                labels=rows["label"].to_numpy(), scores=rows["score"].to_numpy()
            )
    for ev in evaluators.values():
        snapshot = ev.snapshot()
        dict(snapshot.intervals), dict(snapshot.bounds)


def in_spark(session: Any, directory: Path, **settings: int) -> None:
    """Read and evaluate all rows in Spark."""
    df = session.read.parquet(str(directory))
    found = evaluate(df, score="score", label="label", by=["model"], **settings).collect()
    assert len(found) == GROUPS


@contextmanager
def session(master: str) -> Iterator[Any]:
    """Run a Spark session; yield it."""
    builder = SparkSession.builder.master(master).appName("streameval-bench")
    for name, value in SPARK.items():
        builder = builder.config(name, value)
    started = builder.getOrCreate()
    started.sparkContext.setLogLevel("OFF")
    try:
        yield started
    finally:
        started.stop()


@contextmanager
def cluster(directory: Path) -> Iterator[str]:
    """Run a master and two workers of one core; yield the master's address."""
    home = Path(pyspark.__file__).parent
    processes = []

    def start(name: str, main: str, *arguments: str) -> Path:
        log = directory / f"{name}.log"
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}"]
        command += [*arguments, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        with log.open("wb") as output:
            environment = {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
            process = subprocess.Popen(  # noqa: S603 - our own command
                command, stderr=output, stdout=output, env=os.environ | environment
            )
        processes.append(process)
        return log

    try:
        url = wait_for(start("master", "master.Master"), "Starting Spark master at ").split()[-1]
        for name in ("worker-1", "worker-2"):
            log = start(name, "worker.Worker", url, "--cores", "1", "--memory", "1g",
                        "--work-dir", str(directory / "work"))  # fmt: skip
            wait_for(log, "Successfully registered with master")
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(30)


def wait_for(log: Path, text: str) -> str:
    """Wait for a line with `text` in a log; return it."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for line in log.read_text(errors="replace").splitlines():
            if text in line:
                return line
        time.sleep(0.1)
    sys.exit(f"{text!r} never appeared in the log:\n{log.read_text(errors='replace')[-2000:]}")


def timed(work: Any) -> float:
    """Return the seconds that `work` takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


Taken = dict[tuple[str, str, int], tuple[float, float]]
"""Seconds in Spark and in process, by cluster, variant and size."""


def measure(spark: Any, place: str, scratch: Path, sizes: list[int], repeats: int) -> Taken:
    """Time each variant and size alternately in Spark and in this process."""
    taken: Taken = {}
    in_spark(spark, scratch / str(sizes[0]))
    for size in sizes:
        directory = scratch / str(size)
        for way, settings in SETTINGS.items():
            alone = {name: value for name, value in settings.items() if name != "shards"}
            pairs = [
                (
                    timed(lambda d=directory, s=settings: in_spark(spark, d, **s)),
                    timed(lambda d=directory, s=alone: in_process(d, **s)),
                )
                for _ in range(repeats)
            ]
            there, here = (statistics.median(times) for times in zip(*pairs))
            taken[place, way, size] = there, here
            print(f"{place}, {way}, {size:,} rows: {there:.2f} s, in process {here:.2f} s",
                  file=sys.stderr, flush=True)  # fmt: skip
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes, once each")
    quick = parser.parse_args().quick
    sizes = [250_000, 2_000_000] if quick else [1_000_000, 4_000_000, 16_000_000]
    repeats = 1 if quick else 3
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    scratch = Path(tempfile.mkdtemp())
    taken: Taken = {}
    try:
        for size in sizes:
            (scratch / str(size)).mkdir()
            write_rows(scratch / str(size), size)
        with session("local[2]") as spark:
            taken |= measure(spark, "local[2]", scratch, sizes, repeats)
        with cluster(scratch) as url, session(url) as spark:
            taken |= measure(spark, "two workers", scratch, sizes, repeats)
    finally:
        shutil.rmtree(scratch)
    show(taken, sizes)


def show(taken: Taken, sizes: list[int]) -> None:
    """Print the table, and the sizes from which Spark is faster."""
    table = Table("rows per second, Spark and one process", *(f"{s / 1e6:g} M rows" for s in sizes))
    for place, way in dict.fromkeys((place, way) for place, way, _ in taken):
        cells = []
        for size in sizes:
            there, here = taken[place, way, size]
            cells.append(f"{size / there / 1e6:.2f} M and {size / here / 1e6:.2f} M "
                         f"({there / here:.1f}x the time)")  # fmt: skip
        table.add_row(f"{place}, {way}", *cells)
    console = Console(width=120)
    console.print(table)
    way = "merged, exact"
    for place in ("local[2]", "two workers"):
        # t = fixed + rows / rate, from the smallest and the largest size.
        (small, _), (large, here) = (taken[place, way, size] for size in (sizes[0], sizes[-1]))
        if large < 1.5 * small:
            console.print(f"{place}: a large job takes {large:.1f} s, little more than a small one")
            continue
        rate = (sizes[-1] - sizes[0]) / (large - small)
        fixed = max(0.0, small - sizes[0] / rate)
        alone = sizes[-1] / here
        console.print(
            f"{place}: {fixed:.1f} s per job and {rate / 2e6:.2f} M rows/s per core, one process "
            f"{alone / 1e6:.2f} M/s: Spark breaks even at {2 * alone / rate:.0f} cores"
        )
        for cores in (8, 32, 128):
            together = cores * rate / 2
            if together > alone:
                level = fixed / (1 / alone - 1 / together)
                console.print(f"  with {cores} cores Spark wins from {level / 1e6:,.0f} M rows on")


if __name__ == "__main__":
    main()
