"""Two models on the same cases: coverage, labels to decide, and cost, by simulation.

    python bench/pairs.py coverage                  # 30 settings, 400 pairs each
    python bench/pairs.py looks                     # looked at 20 times: e-values, labels to decide
    python bench/pairs.py cost                      # bytes of a pane, rows a second
    python bench/pairs.py coverage --streams 50     # the same in less time
    python bench/pairs.py errors                    # why coverage is what it is

The seeds are not those with which anything was tuned.
"""

from __future__ import annotations

import argparse
import time

from pairs_cost import print_costs
from pairs_coverage import KINDS, print_coverage
from pairs_errors import print_errors
from pairs_looks import print_looks


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parts = {
        "coverage": print_coverage,
        "errors": print_errors,
        "looks": print_looks,
        "cost": print_costs,
    }
    parser.add_argument("part", choices=parts)
    parser.add_argument("--streams", type=int, help="simulated pairs of each setting")
    parser.add_argument(
        "--kinds", nargs="+", choices=KINDS, default=KINDS, help="of coverage, errors"
    )
    parser.add_argument("--seed", type=int, default=7_000_000)
    given = parser.parse_args()
    start = time.perf_counter()
    parts[given.part](given)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
