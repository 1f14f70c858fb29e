"""``python tests/simulation``: many seeds, or one with its trace."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from typing import NamedTuple

from .run import run

_CHUNK = 10


class Found(NamedTuple):
    """What some seeds came to."""

    totals: Counter[str]
    failures: list[tuple[int, str]]


def simulate(seeds: range) -> Found:
    """Run seeds; a failure is the text of what did not hold."""
    totals: Counter[str] = Counter()
    failures = []
    for seed in seeds:
        try:
            outcome = run(seed)
        except Exception:  # noqa: BLE001 - whatever it is, the seed shows it
            failures.append((seed, traceback.format_exc()))
        else:
            totals += outcome.tally
    return Found(totals, failures)


def replay_command(seed: int) -> str:
    """Return what shows a seed's history again."""
    return f"python tests/simulation --seed {seed} --trace"


def main(arguments: list[str] | None = None) -> int:
    """Return how it went: 0, or 1 when something does not hold."""
    parser = argparse.ArgumentParser(prog="python tests/simulation", description=__doc__)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--seed", type=int, help="one seed")
    chosen.add_argument("--seeds", metavar="FIRST:END", help="many: END is not among them")
    parser.add_argument("--trace", action="store_true", help="show all that happens")
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
    chunks = [seeds[start : start + _CHUNK] for start in range(0, len(seeds), _CHUNK)]
    totals: Counter[str] = Counter()
    failed: list[int] = []
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for found in pool.imap_unordered(simulate, chunks):
            totals += found.totals
            for seed, text in found.failures:
                failed.append(seed)
                print(f"{text}\nseed {seed} does not hold; {replay_command(seed)}\n", flush=True)
    print(
        f"{len(seeds)} seeds: {len(failed)} failed; "
        f"{totals.pop('events', 0):,} events, {time.monotonic() - started:.0f} s"
    )
    for what, count in sorted(totals.items()):
        print(f"{count:10,} {what}")
    for seed in sorted(failed)[:20]:
        print(f"  {replay_command(seed)}", file=sys.stderr)
    return 1 if failed else 0
