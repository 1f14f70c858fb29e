"""The server is killed in the middle of merges: none that returned is lost or counts twice.

Each epoch of the source adds one positive with a score of its own, and many negatives, to the
all-time counts, to a pane and to a slice. So the state after a restart tells which epochs
count: those that returned, and at most the one in progress, which must not count again when
it is repeated.
"""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval import Evaluator
from streameval.client import Client, ClientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Process

SMALL_SERVER = str(Path(__file__).parent / "serve_small.py")
NAME = "kill/merged"
SEGMENT = ("country", "US")
NEGATIVES = 20_000


def one_epoch(epoch: int) -> Evaluator:
    """Return the counts of an epoch."""
    scores = np.random.default_rng(epoch).random(NEGATIVES).round(4) - 1.0
    counted = Evaluator()
    counted.add_cases(labels=np.zeros(NEGATIVES), scores=scores)
    counted.add_case(True, float(epoch))
    return counted


class Source:
    """Merges one epoch after the other, and records which of them returned."""

    def __init__(self) -> None:
        self.at = datetime.now(UTC) - timedelta(minutes=5)
        self.returned = 0

    def merge(self, client: Client, epoch: int, timeout_s: float) -> None:
        """Merge an epoch."""
        client.stream(NAME).merge(
            one_epoch(epoch),
            source="edge",
            epoch=epoch,
            at=self.at,
            segments=dict([SEGMENT]),
            timeout_s=timeout_s,
        )

    def run(self, address: str, kill: Callable[[], None], after_s: float) -> None:
        """Merge until the server is killed, a given time after its first answer."""
        answered = threading.Event()

        def merging() -> None:
            try:
                while True:
                    self.merge(client, self.returned + 1, timeout_s=0.7)
                    self.returned += 1
                    answered.set()
            except ClientError:
                answered.set()

        with Client(address) as client:
            thread = threading.Thread(target=merging)
            thread.start()
            assert answered.wait(30)
            # Any moment will do, so it is random.
            threading.Event().wait(after_s)
            kill()
            thread.join(30)
            assert not thread.is_alive()

    def counted(self, client: Client) -> int:
        """Check that the first epochs count once each and no others; return how many."""
        stream = client.stream(NAME)
        epochs = set()
        for chosen in ({}, {"segment": SEGMENT}, {"window": timedelta(hours=1)}):
            found = stream.snapshot(**chosen)
            assert found.num_negative_ref == NEGATIVES * found.num_positive_ref
            epochs.add(found.num_positive_ref)
        (count,) = epochs
        points = stream.evaluator().operating_points()
        positives = dict(zip(points.thresholds[1:], np.diff(points.tp), strict=True))
        found = {score: n for score, n in positives.items() if n}
        resolution = stream.evaluator().resolution
        if resolution is None:
            assert found == {float(epoch): 1 for epoch in range(1, count + 1)}
        assert sum(found.values()) == count
        return count


def kill_rounds(start: Callable[..., Process], disk: Path, seed: int, rounds: int) -> None:
    """Kill the server repeatedly, and check after each restart which epochs count."""
    chance = random.Random(seed)
    source = Source()
    server = start(SMALL_SERVER, str(disk))
    with Client(server.address) as client:
        client.create_stream(NAME, segment_keys=["country"])
    under_way = 0
    for _ in range(rounds):
        source.run(server.address, server.kill, chance.uniform(0.0, 0.1))
        server = start(SMALL_SERVER, str(disk))
        with Client(server.address) as client:
            counted = source.counted(client)
            assert counted in (source.returned, source.returned + 1)
            under_way += counted == source.returned + 1
            # A client without an answer repeats the merge: it counts exactly once.
            source.merge(client, source.returned + 1, timeout_s=30.0)
            source.returned += 1
            assert source.counted(client) == source.returned
            # Older epochs are duplicates too.
            source.merge(client, 1, timeout_s=30.0)
            assert source.counted(client) == source.returned
    assert source.returned > rounds
    print(f"seed {seed}: {source.returned} merges, {under_way} were durable and not heard of")


@pytest.mark.parametrize("seed", [1])
def test_killed_while_merging(start: Callable[..., Process], disk: Path, seed: int) -> None:
    """Over several kills on one log, whether or not the merge in progress was durable."""
    kill_rounds(start, disk, seed, rounds=5)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_killed_while_merging_many_times(start: Callable[..., Process], disk: Path) -> None:
    """The same with many more kills."""
    kill_rounds(start, disk, seed=10, rounds=30)
