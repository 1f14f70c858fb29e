"""Time and memory of the list of streams: 10 and 500 served streams, and 10,000 known ones.

    python bench/overview.py
    python bench/overview.py --streams 10 500 10000     # minutes of a processor longer

Each stream has 200 cases of 48 hours, in four groups, and a declared threshold. By gRPC, with one
caller: the first look when nothing is computed, until everything is, other questions, and then 1 %
of the streams get a case: the time of the answer, and until nothing is out of date. Then the server
is stopped and started again, with the summaries that it left and without them. Then lists of
10,000 streams whose summaries are known, as they are after the server has computed them once,
without gRPC. Times are those of the clock, and of the processor in this process, which has the
server, too.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import numpy as np
from google.protobuf.duration_pb2 import Duration

from streameval.client import Client
from streameval.v1 import overview_pb2, query_pb2_grpc
from streameval_server import Settings
from streameval_server._log.acked_revision import AckedRevision
from streameval_server._queries.query_engine import QueryEngine
from streameval_server._queries.stream_list import stream_list
from streameval_server._queries.stream_list_request import parse_list_request
from streameval_server._queries.stream_summaries import WARM_SPAN, StreamSummaries
from streameval_server._queries.stream_summary import ComputedSummary
from streameval_server._queries.summary_file import SummaryFile
from streameval_server._state.views import StreamView
from streameval_server.testing import running_service

CASES = 200
HOURS = 48
DAY = Duration(seconds=86_400)
Request = overview_pb2.ListStreamSummariesRequest
Response = overview_pb2.ListStreamSummariesResponse


def fill(client: Client, streams: int) -> list[str]:
    """Create streams and send their cases; one in twenty is worse in its last 24 hours."""
    rng = np.random.default_rng(1)
    now = datetime.now(UTC)
    names = [f"group-{number % 4}/model-{number}" for number in range(streams)]
    ages = np.sort(rng.random(CASES) * HOURS)[::-1]
    at = [now - timedelta(hours=float(age)) for age in ages]
    for number, name in enumerate(names):
        client.create_stream(name, scale="probability", threshold=0.5)
        labels = rng.random(CASES) < 0.2
        distance = np.where((ages < 24) & (number % 20 == 0), 0.5, 2.0)
        scores = 1 / (1 + np.exp(1.5 - rng.normal(size=CASES) - distance * labels))
        client.stream(name).add_cases(labels=labels, scores=scores, at=at)
    client.flush(600)
    return names


@dataclass(frozen=True)
class Took:
    """How long a call took, and how much of the processors' time it used in this process."""

    wall_s: float
    processor_s: float

    def __str__(self) -> str:
        return f"{self.wall_s * 1e3:>10,.1f} ms, processor {self.processor_s * 1e3:>10,.1f} ms"


def took(work: Callable[[], object]) -> Took:
    """Measure a call. The server is in this process."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - wall, time.process_time() - processor)


def median(calls: Iterable[Took]) -> Took:
    """Return the median of each."""
    found = list(calls)
    return Took(
        statistics.median(each.wall_s for each in found),
        statistics.median(each.processor_s for each in found),
    )


class Lists:
    """Lists of one server over a day."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._stub = query_pb2_grpc.QueryServiceStub(channel)

    def look(self, **fields: object) -> Response:
        """Return a page."""
        return self._stub.ListStreamSummaries(Request(last=DAY, **fields), timeout=300)

    def complete(self) -> None:
        """Ask until every stream has its summary, and none is out of date."""
        while True:
            found = self.look()
            if not (found.num_pending or found.num_outdated):
                return
            time.sleep(0.05)


def measure(streams: int, repeats: int) -> list[overview_pb2.StreamSummary]:
    """Print the times of one number of served streams; return some of their summaries."""
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(listen="127.0.0.1:0", data=Path(directory))
        known = measure_served(settings, streams, repeats)
        for kept in Path(directory).glob("*-summaries"):  # none of an older release
            measure_start("summaries kept", settings, streams)
            kept.unlink()
        measure_start("no summaries kept", settings, streams)
    return known


def measure_start(title: str, settings: Settings, streams: int) -> None:
    """Print the times of a server that starts with streams that it had before."""
    began = Took(time.perf_counter(), time.process_time())
    with running_service(settings) as addresses, grpc.insecure_channel(addresses.grpc) as channel:
        served = Took(time.perf_counter() - began.wall_s, time.process_time() - began.processor_s)
        lists = Lists(channel)
        show(f"start, {title}", served)
        show("first look", took(lists.look))
        done = took(lists.complete)
        show("complete", done)
        show("complete, a stream", Took(done.wall_s / streams, done.processor_s / streams))


def measure_served(
    settings: Settings, streams: int, repeats: int
) -> list[overview_pb2.StreamSummary]:
    """Print the times of a server that has just got its streams; return some summaries."""
    with (
        running_service(settings) as addresses,
        Client(addresses.grpc, timeout_s=300) as client,
        grpc.insecure_channel(addresses.grpc) as channel,
    ):
        lists = Lists(channel)
        look, complete = lists.look, lists.complete
        names = fill(client, streams)
        before = resident_bytes()
        print(f"\n{streams:,} streams, {CASES} cases each")
        show("first look, nothing computed", took(look))
        cold = took(complete)
        show("all computed", cold)
        show("all computed, a stream", Took(cold.wall_s / streams, cold.processor_s / streams))
        grown = resident_bytes() - before
        print(
            f"  {'memory, merged panes included':<38}{grown / streams / 1024:>10,.1f} KB a stream"
        )
        for title, fields in (
            ("unchanged", {}),
            ("another order", {"order_by": "auc_roc"}),
            ("search", {"search": "model-1"}),
            ("groups", {"grouped": True}),
        ):
            show(title, took(lambda fields=fields: look(**fields)))
            again = median(took(lambda fields=fields: look(**fields)) for _ in range(5))
            show(f"{title}, again", again)
        changed = max(1, streams // 100)
        first, rest = [], []
        rng = np.random.default_rng(2)
        for _ in range(repeats):
            for index in rng.choice(streams, changed, replace=False):
                client.stream(names[index]).add_case(True, 0.9)
            client.flush(300)
            first.append(took(look))
            rest.append(took(complete))
        show(f"{changed:,} changed: first screen", median(first))
        show("then until all is up to date", median(rest))
        return list(look(page_size=1_000).summaries)


def summaries_of(
    names: list[str], revision: list[int], directory: Path | None = None
) -> StreamSummaries:
    """Return a list of streams of which no summary is known, at a log revision."""

    def missing(_name: str) -> StreamView:
        raise LookupError("every summary is known")

    return StreamSummaries(
        QueryEngine(missing, lambda: 0),
        lambda: ([(name, 1, 1, 1) for name in names], revision[0]),
        visible=lambda: revision[0],
        clock_us=lambda: 0,
        file=None if directory is None else SummaryFile(directory / "log", WARM_SPAN.span_us),
    )


def known_summaries(
    names: list[str], known: list[overview_pb2.StreamSummary], directory: Path | None = None
) -> tuple[StreamSummaries, list[int]]:
    """Return a list whose summaries are all known, and the log revision that it sees.

    Parameters
    ----------
    names : list of str
        Of the streams, sorted.
    known : list of StreamSummary
        Each stream has one of these, under its name.
    directory : Path, optional
        Where it leaves them.
    """
    rng = np.random.default_rng(3)
    revision = [1]
    summaries = summaries_of(names, revision, directory)
    last = parse_list_request(Request(last=DAY)).span
    table = summaries.table(last)
    table.scan()
    for name, entry in zip(names, table.entries, strict=True):
        message = overview_pb2.StreamSummary()
        message.CopyFrom(known[rng.integers(len(known))])
        message.stream, message.snapshot.revision = name, 1
        message.verdict.figures.add(metric="auc_pr").difference.estimate = 0.001 * rng.normal()
        entry.store(ComputedSummary(message, 1 << 62))
    table._outdated.clear()  # noqa: SLF001 - as `refresh` does, without computing
    table.version += 1
    return summaries, revision


def rank(streams: int, known: list[overview_pb2.StreamSummary]) -> None:
    """Print the times of a list whose summaries are known: of these, under other names."""
    with tempfile.TemporaryDirectory() as directory:
        rank_known(streams, known, Path(directory))


def rank_known(streams: int, known: list[overview_pb2.StreamSummary], directory: Path) -> None:
    """Print the times, and those of leaving the summaries to the next server."""
    names = sorted(f"group-{number % 7}/model-{number:05}" for number in range(streams))
    summaries, revision = known_summaries(names, known, directory)
    end = AckedRevision(1, 0)

    def look(**fields: object) -> Response:
        asked = parse_list_request(Request(last=DAY, **fields))
        return stream_list(summaries, lambda _: True, asked)

    def entered() -> Response:
        revision[0] += 1
        return look()

    print(f"\n{streams:,} streams whose summaries are known")
    show("kept in a file", took(lambda: summaries.keep(end)))
    after = summaries_of(names, revision, directory)
    show("read by the next server", took(lambda: after.restore(end)))
    assert after.table(WARM_SPAN).num_pending == 0
    show("first screen", took(look))
    show("again", median(took(look) for _ in range(5)))
    show("after an entry of the log", median(took(entered) for _ in range(5)))
    for title, fields in (
        ("another order", {"order_by": "auc_roc"}),
        ("search", {"search": "model-099"}),
        ("groups, one open", {"grouped": True, "open_groups": ["group-1"]}),
    ):
        show(title, took(lambda fields=fields: look(**fields)))


def show(title: str, found: Took) -> None:
    """Print a line."""
    print(f"  {title:<38}{found}", flush=True)


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    with Path("/proc/self/statm").open(encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def steal_share() -> float:
    """Return the share of the processors' time that the host took since the start."""
    with Path("/proc/stat").open(encoding="ascii") as file:
        ticks = [int(each) for each in file.readline().split()[1:]]
    return ticks[7] / sum(ticks)


def main() -> None:
    """Measure each number of streams."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, nargs="*", default=[10, 500])
    parser.add_argument("--known", type=int, default=10_000, help="streams of known summaries")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    known = []
    for streams in options.streams:
        known = measure(streams, options.repeats)
    rank(options.known, known)
    print(f"\nload {os.getloadavg()[0]:.1f}, steal since boot {steal_share():.1%}")


if __name__ == "__main__":
    main()
