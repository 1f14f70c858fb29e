"""Processor time of each step of a durable merge, in one process without gRPC.

    python bench/merge_steps.py

States of 1,000 cases are merged into eight streams, 64 in a commit: each is read and checked,
submitted, committed to a log on the disk, and applied. The rest of what `merges.py` measures is
the message, the event loop and its threads. The table shows medians of rounds.
"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise

from host import print_host_at_exit
from load import scratch
from rich.console import Console
from rich.table import Table
from scale import state

from streameval.client._delivery.merge_upload import Upload
from streameval.v1 import ingest_pb2
from streameval_server._batch.merge import MergeInbox
from streameval_server._core.catalog import is_merged, settings_in
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.limits import Limits

STEPS = ("read", "check", "submit", "commit", "apply")
STREAMS, MERGES, IN_A_COMMIT, ROUNDS = 8, 256, 64, 5


def merge(core: ServerCore, merges: list[list[bytes]], now_us: int) -> list[float]:
    """Merge encoded requests by one commit; return the seconds of each step."""
    committer, inboxes, clock = core.committer, [], [time.process_time()]
    for requests in merges:
        inboxes.append(MergeInbox(core.limits))
        for request in requests:
            inboxes[-1].feed(ingest_pb2.MergeRequest.FromString(request))
    clock.append(time.process_time())
    prepared = []
    for inbox in inboxes:
        assert inbox.is_small()
        assert not is_merged(committer.catalog, inbox.header)
        prepared.append(inbox.finish(now_us, settings_in(committer.catalog, inbox.header)))
    clock.append(time.process_time())
    for inbox, each in zip(inboxes, prepared, strict=True):
        UnaryCall(committer, core.limits).merge(inbox, each)
    clock.append(time.process_time())
    committer.step(now_us).deliver()
    clock.append(time.process_time())
    core.applier.step()
    core.applier.finish_step()
    clock.append(time.process_time())
    return [end - begin for begin, end in pairwise(clock)]


def main() -> None:
    print_host_at_exit()
    ev, now_us = state(1_000, 2), time.time_ns() // 1_000
    rounds = []
    with scratch() as directory:
        core = open_core(SqliteStorage(directory / "log"), Limits())
        for number in range(ROUNDS):
            merges = []
            for place in range(MERGES):
                name, source, epoch = f"merges/{place % STREAMS}", f"source-{number}", place + 1
                upload = Upload(name, ev, source=source, epoch=epoch, at=None, segments=None)
                merges.append([request.SerializeToString() for request in upload.requests()])
            spent = [
                merge(core, merges[begin : begin + IN_A_COMMIT], now_us)
                for begin in range(0, MERGES, IN_A_COMMIT)
            ]
            rounds.append([sum(step) / MERGES * 1e6 for step in zip(*spent)])
        core.storage.close()
    table = Table("step", "CPU us a merge")
    for step, each in zip((*STEPS, "all"), [*zip(*rounds), [sum(each) for each in rounds]]):
        table.add_row(step, f"{statistics.median(each):,.0f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
