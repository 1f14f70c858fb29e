"""A client at work, as a process of its own, so that it can be another release's.

    python release_client.py talk ADDRESS           # every verb; prints the answers as JSON
    python release_client.py send ADDRESS STREAM    # a batch for each line of stdin

Only names that both releases have are used here.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta

from streameval import Evaluator
from streameval.client import Client

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
STREAM = "fraud/v3"


def talk(address: str) -> dict[str, object]:
    """Fill two streams with rows of every kind; return the answers to every question."""
    with Client(address) as client:
        client.create_stream(
            STREAM,
            segment_keys=["country"],
            retention=timedelta(days=3_650),
            label_ttl=timedelta(days=3_000),
        )
        fill(client)
        found = ask(client)
        found["acked"] = client.statistics().acked
        client.update_stream(STREAM, retention=timedelta(days=3_651))
        found["stream"] = client.get_stream(STREAM).settings.retention.days
        client.delete_stream("edge")
        found["streams"] = [stream.name for stream in client.list_streams()]
    return found


def fill(client: Client) -> None:
    """Send rows of every kind."""
    stream = client.stream(STREAM)
    for number in range(60):
        country = {"country": ["US", "DE", "FR"][number % 3]}
        at = START + number * timedelta(minutes=7)
        ids = [f"{number}-{row}" for row in range(10)]
        scores = [(number * 7 + row * 13) % 101 / 101 for row in range(10)]
        stream.log_cases(ids=ids, scores=scores, at=at, segments=country)
        labels = [(number + row * row) % 4 == 0 for row in range(10)]
        stream.label_cases(ids=ids[:8], labels=labels[:8])
        stream.add_cases(labels=labels, scores=scores, at=at, segments=country)
    stream.retract_cases(ids=["0-0", "0-9"])
    stream.add_case(positive=True, score=0.5, at=START)
    stream.log("single", 0.25, at=START)
    stream.label("single", positive=False)
    stream.add_misses(3, at=START)
    stream.add_negative_misses(2, at=START)
    client.flush()
    edge = Evaluator()
    edge.add_cases(labels=[1, 0, 0], scores=[0.9, 0.1, 0.6])
    for _ in range(2):
        client.stream("edge").merge(edge, source="edge-7", epoch=1)


def ask(client: Client) -> dict[str, object]:
    """Return the answers to every question about what was filled."""
    stream = client.stream(STREAM)
    window = (START, START + 3 * HOUR)
    german = stream.select(segment=("country", "DE"))
    snapshots = {
        "all": stream.snapshot(),
        "window": stream.snapshot(window=window),
        "segment": stream.snapshot(segment=("country", "DE")),
        "edge": client.stream("edge").snapshot(),
    }
    evaluator = stream.evaluator()
    points = stream.operating_points()
    compared = client.compare(german, stream, metric="auc_roc")
    return {
        **{name: row(snapshot.to_row()) for name, snapshot in snapshots.items()},
        "evaluator": [evaluator.num_positive_ref, evaluator.auc_pr(), evaluator.num_misses],
        "points": [points.tp.tolist(), points.fp.tolist()],
        "hull": stream.roc_hull().thresholds.tolist(),
        "series": [each.auc_roc for each in stream.series(*window, HOUR)],
        "ranked": [
            [*each.segment, each.difference]
            for each in stream.rank_segments("country", metric="auc_roc")
        ],
        "compared": [compared.difference, compared.complement],
    }


def row(figures: dict[str, object]) -> dict[str, object]:
    """Return a snapshot's figures without times, its revision, and limits of intervals.

    A release may estimate a variance better than the one before.
    """
    left_out = ("revision", "_lower", "_upper")
    return {
        name: value
        for name, value in figures.items()
        if isinstance(value, int | float | str | None) and not name.endswith(left_out)
    }


def send(address: str, name: str) -> dict[str, object]:
    """Send a batch for each line of stdin, and print a line for each that is acknowledged."""
    with Client(address) as client:
        for number, _ in enumerate(sys.stdin):
            stream = client.stream(name)
            stream.add_cases(labels=[True, False], scores=[number + 0.5, number])
            stream.log(f"id-{number}", number)
            stream.label(f"id-{number}", positive=number % 2 == 0)
            client.flush(60.0)
            print(json.dumps(number), flush=True)
        return {"statistics": client.statistics().acked}


if __name__ == "__main__":
    print(json.dumps({"talk": talk, "send": send}[sys.argv[1]](*sys.argv[2:])))
