"""Bias and coverage of figures where cases depend on each other or labels lack, by simulation.

    python bench/truth.py clusters            # bursts and users, some three minutes
    python bench/truth.py clusters --quick    # 60 streams a cell
    python bench/truth.py labels              # late and chosen labels, some five minutes
    python bench/truth.py labels --only "late by class"

Each part is a module with a table of scenarios and a function that prints one table.
Constants of the library were chosen on other seeds.
"""

from __future__ import annotations

import argparse

from truth_clusters import print_clusters
from truth_labels import print_labels


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    clusters = parts.add_parser("clusters", help="cases of one user or one burst")
    clusters.add_argument("--groups", type=int, default=32, help="that clusters are hashed into")
    labels = parts.add_parser("labels", help="labels that come late or are chosen")
    for each in (clusters, labels):
        each.add_argument("--seed", type=int, default=20_264)
        each.add_argument("--only", default="", help="a part of the scenarios' names")
        each.add_argument("--streams", type=int, default=300, help="streams a cell")
        each.add_argument("--quick", action="store_true", help="60 streams a cell")
    chosen = parser.parse_args()
    streams = 60 if chosen.quick else chosen.streams
    if chosen.part == "clusters":
        print_clusters(streams, chosen.seed, chosen.only, chosen.groups)
    else:
        print_labels(streams, chosen.seed, chosen.only)


if __name__ == "__main__":
    main()
