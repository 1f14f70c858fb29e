"""Memory of a server under long-lasting churn, which must not grow.

    python bench/soak.py [--minutes 10] [--seed 1]

Producers connect, send cases, misses, predictions and labels with segments, and
disconnect. Streams are created and deleted. Readers query windows, segments, series and
states. Others watch a stream and disconnect in the middle, or connect and send nothing.
Streams keep panes of a second for ten seconds, so that after a warm-up the state of the
server has a constant size.

The benchmark reads the resident memory twice a second. The slope is the median of the
slopes between all pairs of readings after the warm-up (Theil and Sen), and must stay
below 1 MB per minute. A table lists the completed actions ten times during the run,
late answers included; any other error of an actor ends the run.
"""

from __future__ import annotations

import argparse
import random
import socket
import sys
import threading
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import psutil
from load import Process, scratch

from streameval.client import Client, DeadlineError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

MB = 1e6
BUDGET_MB_A_MINUTE = 1.0
STREAMS = 10
READ_S = 0.5
WARM_S = 25.0
"""Streams are full after this time; allocators take longer to settle."""
KEYS = {"country": ("US", "DE", "FR", "IT"), "device": ("web", "app")}
SETTINGS = {
    "pane": timedelta(seconds=1),
    "retention": timedelta(seconds=10),
    "label_ttl": timedelta(seconds=8),
    "relabel_ttl": timedelta(seconds=2),
    "segment_keys": list(KEYS),
}
WINDOWS = timedelta(seconds=3), timedelta(seconds=9)


class Churn:
    """The actors and their shared state.

    Parameters
    ----------
    address
        The address of the server.
    seed
        The seed of the actors' choices; the scheduling of their threads is not seeded.
    """

    def __init__(self, address: str, seed: int) -> None:
        self.counts: dict[str, int] = {}
        self.problems: list[BaseException] = []
        self._address = address
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._first, self._last = 0, STREAMS
        actors = [self._watch, self._manage, *3 * [self._produce], *2 * [self._read], self._dial]
        self._watcher, *self._others = self._threads = [
            threading.Thread(
                target=self._act, args=(actor, random.Random(f"{seed} {i}")), daemon=True
            )
            for i, actor in enumerate(actors)
        ]

    def start(self) -> None:
        """Create the streams, and start the actors."""
        with Client(self._address) as client:
            for number in range(self._first, self._last):
                client.create_stream(_name(number), **SETTINGS)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the actors and wait for them."""
        self._stop.set()
        for thread in self._others:
            thread.join()
        if self.problems:
            return
        # A watcher of a stream that no longer changes waits until the stream is deleted.
        with Client(self._address) as client:
            for stream in client.list_streams():
                client.delete_stream(stream.name)
        self._watcher.join()

    def _act(self, actor: Callable[[random.Random], None], chance: random.Random) -> None:
        while not self._stop.is_set() and not self.problems:
            try:
                # A stream may be deleted during a query.
                with suppress(NotFoundError):
                    actor(chance)
            except (DeadlineError, UnavailableError) as error:
                # The machine is busy with other work; the table counts these.
                self._count("late answers")
                print(f"{type(error).__name__}: {error}", flush=True)
            except Exception as error:  # noqa: BLE001 - reported; ends the run
                self.problems.append(error)

    def _count(self, what: str, count: int = 1) -> None:
        with self._lock:
            self.counts[what] = self.counts.get(what, 0) + count

    def _any(self, chance: random.Random) -> str:
        # One of the newer streams, which will not be deleted soon.
        return _name(chance.randrange(self._first + STREAMS // 2, self._last))

    def _manage(self, _: random.Random) -> None:
        """Create a stream, and delete the oldest."""
        with Client(self._address) as client:
            client.create_stream(_name(self._last), **SETTINGS)
            self._last += 1
            self._first += 1
            # Actors that chose this stream have had time to finish with it.
            self._stop.wait(1.0)
            client.delete_stream(_name(self._first - 1))
        self._count("streams")

    def _produce(self, chance: random.Random) -> None:
        """Send rows as a new producer."""
        rng = np.random.default_rng(chance.randrange(1 << 30))
        with Client(self._address) as client:
            stream = client.stream(self._any(chance))
            for _ in range(chance.randrange(1, 20)):
                labels = rng.random(500) < 0.1
                scores = np.round(rng.normal(size=500) + labels, 1)
                segments = {key: rng.choice(values, 500) for key, values in KEYS.items()}
                stream.add_cases(labels=labels, scores=scores, segments=segments)
                ids = [f"{chance.randrange(1 << 40):x}" for _ in range(200)]
                stream.log_cases(ids=ids, scores=scores[:200])
                stream.label_cases(ids=ids[:150], labels=labels[:150])
                stream.add_misses(1)
                self._stop.wait(0.05)
                self._count("rows", 851)
            client.flush()
        self._count("producers")

    def _read(self, chance: random.Random) -> None:
        """Run random queries."""
        with Client(self._address) as client:
            for _ in range(chance.randrange(1, 20)):
                stream = client.stream(self._any(chance))
                window = chance.choice((None, *WINDOWS))
                segment = chance.choice((None, ("country", "US"), ("device", "app")))
                with suppress(NotFoundError):
                    stream.snapshot(window=window, segment=segment)
                    if chance.random() < 0.2:
                        stream.evaluator(window=window)
                    if chance.random() < 0.2:
                        now = datetime.now(UTC)
                        stream.series(now - WINDOWS[-1], now, timedelta(seconds=2))
                self._count("queries")
                self._stop.wait(0.02)

    def _watch(self, chance: random.Random) -> None:
        """Read a few answers of a watch, then cancel it."""
        with Client(self._address) as client:
            stream = client.stream(self._any(chance))
            watching = stream.watch(window=chance.choice((None, *WINDOWS)))
            for _ in range(chance.randrange(1, 5)):
                next(watching)
            watching.close()
        self._count("watchers")

    def _dial(self, chance: random.Random) -> None:
        """Connect and send nothing, or an incomplete preface."""
        host, _, port = self._address.rpartition(":")
        with ExitStack() as stack:
            for _ in range(10):
                line = stack.enter_context(socket.create_connection((host, int(port))))
                line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[: chance.randrange(25)])
            self._stop.wait(0.5)
        self._count("silent connections", 10)


def _name(number: int) -> str:
    return f"soak/{number}"


def slope_mb_a_minute(seconds: np.ndarray, resident: np.ndarray) -> float:
    """Return the median slope between all pairs of readings. O(n^2)."""
    early, late = np.triu_indices(seconds.size, k=1)
    rises = (resident[late] - resident[early]) / (seconds[late] - seconds[early])
    return float(np.median(rises)) * 60 / MB


def soak(server: Process, minutes: float, seed: int) -> float:
    """Run the churn; print its progress; return the slope in MB per minute."""
    process = psutil.Process(server.pid)
    churn = Churn(server.address, seed)
    churn.start()
    begun = time.monotonic()
    readings: list[tuple[float, int]] = []
    shown = 0
    print(f"{'minute':>7}{'RSS MB':>8}{'threads':>8}{'files':>7}  completed since the start")
    while (at := time.monotonic() - begun) < 60 * minutes and not churn.problems:
        readings.append((at, process.memory_info().rss))
        if at >= 6 * minutes * shown:
            shown += 1
            done = ", ".join(f"{count:,} {what}" for what, count in sorted(churn.counts.items()))
            print(
                f"{at / 60:7.1f}{readings[-1][1] / MB:8.1f}{process.num_threads():8}"
                f"{process.num_fds():7}  {done}",
                flush=True,
            )
        time.sleep(READ_S)
    churn.stop()
    if churn.problems:
        raise churn.problems[0]
    seconds, resident = np.array(readings, dtype=float).T
    warm = seconds > max(WARM_S, 60 * minutes / 4)
    slope = slope_mb_a_minute(seconds[warm], resident[warm])
    print(
        f"after {seconds[warm][0] / 60:.1f} minutes {resident[warm][0] / MB:.1f} MB, at the end "
        f"{resident[-1] / MB:.1f} MB: {slope:+.2f} MB a minute (budget {BUDGET_MB_A_MINUTE:g})"
    )
    return slope


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="duration")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=BUDGET_MB_A_MINUTE, help="MB a minute")
    arguments = parser.parse_args()
    if 60 * arguments.minutes < 2 * WARM_S:
        parser.error(f"--minutes must be at least {2 * WARM_S / 60:.2f}: {WARM_S:g} s are warm-up")
    print(f"seed {arguments.seed}")
    with scratch() as directory:
        command = ("-m", "streameval_server", "--listen", "127.0.0.1:0")
        server = Process(*command, "--data", str(directory / "data"))
        try:
            slope = soak(server, arguments.minutes, arguments.seed)
        finally:
            took = server.stop()
        print(f"stopped in {took:.1f} s, exit code {server.popen.returncode}")
    if server.popen.returncode or slope > arguments.budget:
        sys.exit(1)


if __name__ == "__main__":
    main()
