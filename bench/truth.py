"""Bias and coverage of figures where cases are no independent sample, by simulation.

    python bench/truth.py clusters            # bursts and users, some ten minutes
    python bench/truth.py clusters --quick    # 60 streams a cell

Each part is a module with a table of scenarios and a function that prints one table.
Constants of the library were chosen on other seeds.
"""

from __future__ import annotations

import argparse

from truth_clusters import print_clusters


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    clusters = parts.add_parser("clusters", help="cases of one user or one burst")
    clusters.add_argument("--groups", type=int, default=32, help="that clusters are hashed into")
    for each in (clusters,):
        each.add_argument("--streams", type=int, default=300, help="streams a cell")
        each.add_argument("--quick", action="store_true", help="60 streams a cell")
    chosen = parser.parse_args()
    print_clusters(60 if chosen.quick else chosen.streams, chosen.groups)


if __name__ == "__main__":
    main()
