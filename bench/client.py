"""Cost of the client's calls for their caller, compared with a bare list append.

    python bench/client.py [--quick]

The server runs in a separate process without a disk, so the disk is not measured.
"call" is the time of the calls, while the client's background thread sends and
competes for the interpreter lock. "CPU" is the CPU time of the whole client
process, including that thread, until everything is durable. "durable" is the wall
time until then. Rounds alternate; the table shows medians.

Labels refer to predictions that the same round logged before.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from typing import TYPE_CHECKING

import numpy as np
from host import print_host_at_exit
from load import Process

from streameval.client import AlreadyExistsError, Client

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval.client import Stream

Measured = tuple[float, float, float]


def _one_by_one(labels: list[bool], scores: list[float]) -> Callable[[Stream], None]:
    def add(stream: Stream) -> None:
        add_case = stream.add_case
        for label, score in zip(labels, scores):
            add_case(label, score)

    return add


def _in_columns(
    labels: np.ndarray, scores: np.ndarray, rows: int, *, lists: bool = False
) -> Callable:
    chunks = [
        (labels[start : start + rows], scores[start : start + rows])
        for start in range(0, len(scores), rows)
    ]
    if lists:
        chunks = [(y.tolist(), x.tolist()) for y, x in chunks]

    def add(stream: Stream) -> None:
        for y, x in chunks:
            stream.add_cases(labels=y, scores=x)

    return add


def _segmented(
    labels: list[bool], scores: list[float], countries: list[str]
) -> Callable[[Stream], None]:
    def add(stream: Stream) -> None:
        add_case = stream.add_case
        for label, score, country in zip(labels, scores, countries):
            add_case(label, score, segments={"country": country})

    return add


def _log(ids: list[str], scores: list[float]) -> Callable[[Stream], None]:
    def add(stream: Stream) -> None:
        log = stream.log
        for id_, score in zip(ids, scores):
            log(id_, score)

    return add


def _label(ids: list[str], labels: list[bool]) -> Callable[[Stream], None]:
    def add(stream: Stream) -> None:
        label = stream.label
        for id_, positive in zip(ids, labels):
            label(id_, positive)

    return add


def _log_columns(ids: list[str], scores: np.ndarray, rows: int) -> Callable[[Stream], None]:
    def add(stream: Stream) -> None:
        for start in range(0, len(ids), rows):
            end = start + rows
            stream.log_cases(ids=ids[start:end], scores=scores[start:end])

    return add


def _label_columns(ids: list[str], labels: np.ndarray, rows: int) -> Callable[[Stream], None]:
    def add(stream: Stream) -> None:
        for start in range(0, len(ids), rows):
            end = start + rows
            stream.label_cases(ids=ids[start:end], labels=labels[start:end])

    return add


def _measure(add: Callable[[Stream], None], stream: Stream, cases: int) -> Measured:
    """Return nanoseconds per case: of the calls, of CPU time, and until durable."""
    cpu, start = time.process_time(), time.perf_counter()
    add(stream)
    called = time.perf_counter() - start
    stream.flush()
    durable, used = time.perf_counter() - start, time.process_time() - cpu
    return called / cases * 1e9, used / cases * 1e9, durable / cases * 1e9


def _stream(client: Client, name: str) -> Stream:
    with contextlib.suppress(AlreadyExistsError):
        client.create_stream(name, segment_keys=["country"])
    return client.stream(name)


def _append(labels: list[bool], scores: list[float]) -> float:
    """Return the nanoseconds of a bare list append in the same kind of loop."""
    kept: list[float] = []
    append = kept.append
    start = time.perf_counter()
    for _, score in zip(labels, scores):
        append(score)
    return (time.perf_counter() - start) / len(scores) * 1e9


def main() -> None:
    print_host_at_exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds in total")
    quick = parser.parse_args().quick
    cases, rounds = (200_000, 3) if quick else (1_000_000, 7)
    server = Process("-m", "streameval_server", "--listen", "127.0.0.1:0", "--memory")
    try:
        with Client(server.address) as client:
            _table(client, cases, rounds)
    finally:
        server.stop()


def _table(client: Client, cases: int, rounds: int) -> None:
    rng = np.random.default_rng(0)
    labels, scores = rng.random(cases) < 0.05, rng.normal(size=cases)
    label_list, score_list = labels.tolist(), scores.tolist()
    ids = [f"order-{i}" for i in range(cases)]
    countries = [("US", "DE", "FR")[i % 3] for i in range(cases)]
    works: dict[str, tuple[Callable[[Stream], None], str]] = {
        "add_case": (_one_by_one(label_list, score_list), "600"),
        "add_case with a segment": (_segmented(label_list, score_list, countries), ""),
        "add_cases, arrays of 100": (_in_columns(labels, scores, 100), ""),
        "add_cases, arrays of 1,000": (_in_columns(labels, scores, 1_000), "60"),
        "add_cases, arrays of 100,000": (_in_columns(labels, scores, 100_000), "60"),
        "add_cases, lists of 1,000": (_in_columns(labels, scores, 1_000, lists=True), ""),
        "log": (_log(ids, score_list), ""),
        "label": (_label(ids, label_list), ""),
        "log_cases, 1,000": (_log_columns(ids, scores, 1_000), ""),
        "label_cases, 1,000": (_label_columns(ids, labels, 1_000), ""),
    }
    measured: dict[str, list[Measured]] = {name: [] for name in works}
    appends: list[float] = []
    for round_ in range(rounds):
        for name, (add, _) in works.items():
            appends.append(_append(label_list, score_list))
            # Labels go to the stream to which the same round logged the predictions.
            kind = name.replace("label", "log").replace(",", "").replace(" ", "-")
            stream = _stream(client, f"bench/{kind}-{round_}")
            measured[name].append(_measure(add, stream, cases))
            if "log" not in name:
                client.delete_stream(stream.name)
    bare = statistics.median(appends)
    print(
        f"{f'ns a case, {cases:,} cases':32}{'call':>8}{'/ append':>10}"
        f"{'CPU':>8}{'durable':>10}{'budget':>8}"
    )
    print(f"{'bare list append':32}{bare:8.0f}{1:10.1f}")
    for name, (_, budget) in works.items():
        call, cpu, durable = (statistics.median(column) for column in zip(*measured[name]))
        print(f"{name:32}{call:8.0f}{call / bare:10.1f}{cpu:8.0f}{durable:10.0f}{budget:>8}")
    counts = client.statistics()
    if counts.acked != counts.added or counts.dropped:
        raise SystemExit(f"not everything is durable: {counts}")


if __name__ == "__main__":
    main()
