"""What a label costs the server with a pair and without one: processor time, interleaved.

    python bench/pair_cost.py --rounds 5

Both models' predictions by id, then the labels to one of them, through the core (decoding,
log in memory, applying): the rows that a server takes for an A/B test. With a pair the same
rows meet in it, too. The order of the two alternates; the table has medians.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import pair_pb2, stream_pb2
from streameval_server._core.recovery import open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.storage import NullStorage
from streameval_server._model.limits import Limits

START_US = 1_800_000_000_000_000
BATCH_ROWS = 1_000
MINUTE_US = 60_000_000


def frames(rows: int, seed: int) -> tuple[list[bytes], list[bytes]]:
    """Return encoded batches: predictions of both models, and labels to a."""
    rng = np.random.default_rng(seed)
    predictions, labels = [], []
    for at in range(0, rows, BATCH_ROWS):
        ids = [f"order-{seed}-{row}" for row in range(at, at + BATCH_ROWS)]
        positive = rng.random(BATCH_ROWS) < 0.1
        shared = rng.normal(1.5 * positive)
        for name in ("a", "b"):
            scores = (shared + rng.normal(0, 0.5, BATCH_ROWS)).tolist()
            batch = pb.Batch(stream=name, predictions=pb.Predictions(ids=ids, scores=scores))
            predictions.append(pb.IngestBatchRequest(batch=batch).SerializeToString())
        batch = pb.Batch(stream="a", labels=pb.Labels(ids=ids, positives=positive.tolist()))
        labels.append(pb.IngestBatchRequest(batch=batch).SerializeToString())
    return predictions, labels


class Server:
    """A core without a disk, with two streams, and a pair of them if asked."""

    def __init__(self, *, has_pair: bool) -> None:
        self.core = open_core(NullStorage(), Limits())
        self.now_us = START_US
        for name in ("a", "b"):
            stream = stream_pb2.Stream(name=name)
            request = stream_pb2.CreateStreamRequest(stream=stream).SerializeToString()
            UnaryCall(self.core.committer, Limits()).create_stream(request)
        self.step()
        if has_pair:
            request = pair_pb2.CreatePairRequest(pair=pair_pb2.Pair(a="a", b="b"))
            UnaryCall(self.core.committer, Limits()).create_pair(request.SerializeToString())
        self.step()

    def step(self) -> None:
        """Commit and apply what was submitted."""
        self.core.committer.step(self.now_us).deliver()
        self.core.applier.finish()

    def take(self, sent: list[bytes]) -> float:
        """Take batches, four a second of the log; return the processor seconds."""
        began = time.process_time()
        for frame in sent:
            self.now_us += 250_000
            UnaryCall(self.core.committer, Limits()).ingest_batch(frame, self.now_us)
            self.step()
        return time.process_time() - began


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100_000)
    asked = parser.parse_args()
    servers = {name: Server(has_pair=name == "with") for name in ("without", "with")}
    seconds: dict[tuple[str, str], list[float]] = {}
    for turn in range(asked.rounds):
        predictions, labels = frames(asked.rows, turn)
        names = sorted(servers, reverse=bool(turn % 2))
        for kind, sent in (("predictions", predictions), ("labels", labels)):
            for name in names:
                seconds.setdefault((kind, name), []).append(servers[name].take(sent))
    sizes = {"predictions": 2 * asked.rows, "labels": asked.rows}
    print("| rows | without a pair, us a row | with one | ratio |")
    print("|---|---|---|---|")
    both = {"without": 0.0, "with": 0.0}
    for kind, size in sizes.items():
        without, paired = (statistics.median(seconds[kind, n]) for n in ("without", "with"))
        both["without"] += without
        both["with"] += paired
        print(
            f"| {kind} | {without / size * 1e6:.2f} | {paired / size * 1e6:.2f} "
            f"| {paired / without:.2f}x |"
        )
    without, paired = both["without"], both["with"]
    print(
        f"| a label with its two predictions | {without / asked.rows * 1e6:.2f} "
        f"| {paired / asked.rows * 1e6:.2f} | {paired / without:.2f}x |"
    )
    [pair] = servers["with"].core.engine.pairs.values()
    cells = sum(each.content.counts[0].nbytes for each in pair.counts.panes if each.content.counts)
    panes = len(pair.counts.panes)
    ids_mib, all_mib = pair.joiner.ids.memory_bytes / 2**20, pair.memory_bytes / 2**20
    print(f"{panes} panes, {cells / panes / 1024:.0f} KiB each;", end=" ")
    print(f"all {all_mib:.0f} MiB, of them {ids_mib:.0f} MiB for {pair.kept_ids:,} ids")


if __name__ == "__main__":
    main()
