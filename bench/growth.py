"""How every cost grows: each row and query from 10^3 to 10^7 cases, servers of 10 to 10^5 streams.

    python bench/growth.py                     # some 15 minutes of a core
    python bench/growth.py --quick             # to 10^5 cases and 1,000 streams
    python bench/growth.py --plots DIRECTORY   # and log-log pictures
    python bench/growth.py --only streams      # or: rows, metrics, curves, ...

Times are those of the processor, medians of calls that alternate between the sizes, each of a
query of which nothing is known before; 5 % of the cases are positive, and all scores distinct.
Memory is the peak that a call adds (`tracemalloc`), to 10^6 cases; of streams it is what a fresh
process keeps. The exponent is that of the largest sizes, by least squares on log-log axes.
"may be" is the class that it is held to (`growth_fit`): beside it stands ABOVE where it grows
faster, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

from growth_fit import Curve, plot, table
from growth_queries import queries
from growth_rows import ROWS
from growth_streams import EXPECTED, measure_streams
from growth_subject import Subject, Work
from host import cpu_seconds, print_host_at_exit

REPEATS = 5
SECONDS_A_WORK = 1.0
"""Once its calls have taken this long, a size is not measured again."""

MAX_TRACED_CASES = 1_000_000


def measure(works: tuple[Work, ...], subjects: list[Subject]) -> Iterator[Curve]:
    """Yield the time and the memory of each work by the number of cases."""
    for work in works:
        calls = {
            subject.size: work.prepare(subject)
            for subject in subjects
            if subject.size <= work.greatest
        }
        took: dict[int, list[float]] = {size: [] for size in calls}
        for _ in range(REPEATS):
            for size, call in calls.items():
                if sum(took[size]) < SECONDS_A_WORK:
                    took[size].append(cpu_seconds(call))
        # The first call of each size also fills caches of the process.
        costs = {size: sorted(each)[(len(each) - 1) // 2] for size, each in took.items()}
        cells = {}
        if work.cells is not None:
            cells = {each.size: work.cells(each) for each in subjects if each.size in calls}
        yield Curve(work.name, "s", work.expected, costs, cells)
        peaks = {n: peak_bytes(call) for n, call in calls.items() if n <= MAX_TRACED_CASES}
        yield Curve(
            work.name, "B", work.expected, peaks, {n: cells[n] for n in cells if n in peaks}
        )


def peak_bytes(call: Callable[[], object]) -> float:
    """Return the most memory that a call has at once, besides what was there before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        call()
        return float(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()


def stream_curves(sizes: list[int]) -> list[Curve]:
    """Return the costs of a server's core by the number of streams."""
    found = measure_streams(sizes)
    return [
        Curve(name, "B" if "memory" in name else "s", EXPECTED[name], costs)
        for name, costs in found.items()
    ]


def measured(chosen: argparse.Namespace) -> Iterator[tuple[str, list[Curve]]]:
    """Yield the groups of curves, by their titles."""
    powers = range(3, 6 if chosen.quick else 8)
    subjects = [Subject(10**power) for power in powers]
    for group, works in (("rows", ROWS), *queries()):
        if chosen.only in {"", group}:
            curves = list(measure(works, subjects))
            yield f"{group}, ms", [each for each in curves if each.unit == "s"]
            yield f"{group}, KB", [each for each in curves if each.unit == "B"]
    if chosen.only in {"", "streams"} and chosen.streams:
        sizes = [10**power for power in range(1, 4 if chosen.quick else 6)]
        sizes = [size for size in sizes if size <= chosen.streams]
        curves = stream_curves(sizes)
        yield "streams, ms", [each for each in curves if each.unit == "s"]
        yield "streams, KB", [each for each in curves if each.unit == "B"]


def main() -> int:
    print_host_at_exit()
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="to 10^5 cases and 1,000 streams")
    parser.add_argument("--only", default="", help="one group")
    parser.add_argument("--streams", type=int, default=100_000, help="the most streams; 0 for none")
    parser.add_argument("--markdown", action="store_true", help="tables as documentation has them")
    parser.add_argument("--plots", type=Path, help="a directory for log-log pictures")
    chosen = parser.parse_args()
    began = time.process_time()
    above = []
    for title, curves in measured(chosen):
        print(table(title, curves, is_markdown=chosen.markdown), flush=True)
        print(flush=True)
        above += [f"{title}: {each.name}" for each in curves if each.is_above]
        if chosen.plots is not None:
            chosen.plots.mkdir(parents=True, exist_ok=True)
            name = "-".join(title.replace(",", "").split())
            plot(title, curves, chosen.plots / f"{name}.svg")
    print(f"{time.process_time() - began:,.0f} s of the processor besides those with streams")
    print("above what they may be:", "; ".join(above) or "none")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
