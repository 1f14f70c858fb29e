"""Two reads of a server at rest are equal, so that who polls and compares sees changes only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streameval.client import Client
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

A, B, EMPTY = "fraud/v1", "fraud/v2", "empty"
END = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
WEEK = (END - timedelta(days=7), END)
"""In whole panes and in the past: it reads the same whenever it is read."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Yield the address of a server with a pair, a stream without rows, and undefined figures."""
    rng = np.random.default_rng(1)
    with running_server() as address, Client(address) as client:
        for name in (A, B):
            client.create_stream(
                name, threshold=0.5, cost_fp=1, cost_fn=5, scale="probability",
                segment_keys=["country"],
            )  # fmt: skip
        client.create_stream(EMPTY)
        client.create_pair(A, B)
        ids = [f"id{row}" for row in range(600)]
        at = [END - timedelta(minutes=15 * row) for row in range(1, 601)]
        labels = rng.random(600) < 0.3
        country = np.where(np.arange(600) < 4, "SM", np.where(rng.random(600) < 0.5, "DE", "FR"))
        for name in (A, B):
            scores = 1 / (1 + np.exp(-2.0 * labels - rng.normal(size=600)))
            client.stream(name).log_cases(
                ids=ids, scores=scores, at=at, segments={"country": country}
            )
            client.stream(name).label_cases(ids=ids[100:], labels=labels[100:])
        client.create_mark(A, "deployed", at=END)
        client.flush()
        client.stream(A).snapshot()  # waits until what this client has sent is visible
        yield address


READ: Mapping[str, Callable[[Any], Any]] = {
    "snapshot": lambda client: client.stream(A).snapshot(),
    "snapshot of nothing": lambda client: client.stream(EMPTY).snapshot(),
    "snapshot of a window": lambda client: client.stream(A).snapshot(window=WEEK),
    "verdict": lambda client: client.stream(A).verdict(),
    "series": lambda client: client.stream(A).series(*WEEK, timedelta(days=1)),
    "ranking": lambda client: client.stream(A).rank_segments("country", window=WEEK),
    "reliability": lambda client: client.stream(A).reliability(window=WEEK),
    "points": lambda client: client.stream(A).operating_points(window=WEEK),
    "hull": lambda client: client.stream(A).roc_hull(window=WEEK),
    "sample": lambda client: client.stream(A).sample_for_labels(5, seed=1),
    "evaluator": lambda client: client.stream(A).evaluator(window=WEEK),
    "comparison": lambda client: client.compare(A, B),
    "comparison with nothing": lambda client: client.compare(A, EMPTY),
    "pair": lambda client: client.compare_pair(f"{A}-vs-{B}"),
    "stream": lambda client: client.get_stream(A),
    "streams": lambda client: client.list_streams(),
    "pairs": lambda client: client.list_pairs(),
    "marks": lambda client: client.list_marks(A),
    "alarms": lambda client: client.list_alarms(),
}


@pytest.mark.parametrize("name", READ)
def test_two_reads_are_equal(address: str, name: str) -> None:
    """What one client reads twice, and what two clients read, is equal by value."""
    with Client(address) as client, Client(address) as other:
        first = READ[name](client)
        assert first == READ[name](client)
        assert first == READ[name](other)
