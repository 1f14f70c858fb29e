"""``python tests/simulation``: run many seeds, or one seed with its trace."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from typing import NamedTuple

from .run import run

_SEEDS_PER_CHUNK = 10


class SeedResults(NamedTuple):
    """The results of some seeds."""

    totals: Counter[str]
    failures: list[tuple[int, str]]


def simulate(seeds: range) -> SeedResults:
    """Run seeds; a failure is the text of its traceback."""
    totals: Counter[str] = Counter()
    failures = []
    for seed in seeds:
        try:
            outcome = run(seed)
        except Exception:  # noqa: BLE001 - any error is a failure of the seed
            failures.append((seed, traceback.format_exc()))
        else:
            totals += outcome.tally
    return SeedResults(totals, failures)


def replay_command(seed: int) -> str:
    """Return the command that runs a seed with its trace."""
    return f"python tests/simulation --seed {seed} --trace"


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0, or 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python tests/simulation", description=__doc__)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--seed", type=int, help="one seed")
    chosen.add_argument("--seeds", metavar="FIRST:END", help="a range of seeds, without END")
    parser.add_argument("--trace", action="store_true", help="print every event")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        outcome = run(options.seed, print if options.trace else None)
        print(f"seed {options.seed}: {outcome}")
        return 0
    first, end = map(int, options.seeds.split(":"))
    return _many(range(first, end), options.jobs)


def _many(seeds: range, jobs: int) -> int:
    started = time.monotonic()
    chunks = [
        seeds[start : start + _SEEDS_PER_CHUNK] for start in range(0, len(seeds), _SEEDS_PER_CHUNK)
    ]
    totals: Counter[str] = Counter()
    failed: list[int] = []
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for found in pool.imap_unordered(simulate, chunks):
            totals += found.totals
            for seed, text in found.failures:
                failed.append(seed)
                print(f"{text}\nseed {seed} failed; {replay_command(seed)}\n", flush=True)
    print(
        f"{len(seeds)} seeds: {len(failed)} failed; "
        f"{totals.pop('events', 0):,} events, {time.monotonic() - started:.0f} s"
    )
    for what, count in sorted(totals.items()):
        print(f"{count:10,} {what}")
    for seed in sorted(failed)[:20]:
        print(f"  {replay_command(seed)}", file=sys.stderr)
    return 1 if failed else 0
