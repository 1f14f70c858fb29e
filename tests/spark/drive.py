"""The driver of the cluster scenario: a separate process, which the test may kill.

    drive.py MASTER bulk ROWS.parquet SHARDS
    drive.py MASTER stream ROWS CHECKPOINT ADDRESS

It reports its progress on stdout, one line each, and waits for a line on stdin where
the test acts first.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.files.maxPartitionBytes": str(1 << 19),
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def say(*words: object) -> None:
    """Write one line."""
    print(*words, flush=True)


def session(master: str) -> Any:
    """Connect to the cluster."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("streameval-cluster")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def report_tasks(context: Any) -> None:
    """Print the number of finished tasks while a job runs."""
    tracker = context.statusTracker()
    while True:
        done = 0
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            done += info.numCompletedTasks if info else 0
        if done:
            say("TASKS", done)
        time.sleep(0.05)


def bulk(spark: Any, path: str, shards: str) -> None:
    """Evaluate a table; print the progress and the figures."""
    from streameval.spark import evaluate

    df = spark.read.parquet(path)
    say("BEGIN", df.rdd.getNumPartitions())
    threading.Thread(target=report_tasks, args=(spark.sparkContext,), daemon=True).start()
    rows = evaluate(
        df, score="score", label="label", by=["model"], shards=int(shards) or None
    ).collect()
    say("ROWS", json.dumps([row.asDict(recursive=True) for row in rows]))


def stream(spark: Any, rows: str, checkpoint: str, address: str) -> None:
    """Push a directory of files, one per micro-batch; wait before and after each push."""
    from streameval.spark import _push

    push = _push.push

    def asked(states: Any, **settings: Any) -> dict[str, int]:
        say("BEFORE", settings["epoch"])
        sys.stdin.readline()
        merged = push(states, **settings)
        say("AFTER", settings["epoch"])
        sys.stdin.readline()
        return merged

    _push.push = asked
    query = _push.push_stream(
        spark.readStream.schema(
            "model string, country string, score double, label boolean, minute long"
        )
        .option("maxFilesPerTrigger", 1)
        .json(rows),
        to=[address],
        stream="fraud/{model}",
        score="score",
        label="label",
        by=["model", "country"],
        checkpoint=checkpoint,
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    say("DONE")


if __name__ == "__main__":
    master, task, *arguments = sys.argv[1:]
    {"bulk": bulk, "stream": stream}[task](session(master), *arguments)
    sys.stdout.flush()
    os._exit(0)  # Spark's own shutdown is not under test
