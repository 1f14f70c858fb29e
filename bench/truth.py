"""Where figures can be trusted, by simulation: a map of all, and two parts of it in detail.

    python bench/truth.py map                 # every figure: coverage, width, refusals
    python bench/truth.py map --quick         # 200 samples a cell in place of 1,000
    python bench/truth.py map --only areas    # again, cells whose part or name has this text
    python bench/truth.py map --resume        # only cells that the file does not have
    python bench/truth.py clusters            # of equal and unequal sizes, some three minutes
    python bench/truth.py clusters --quick    # 60 streams a cell
    python bench/truth.py labels              # late and chosen labels, some five minutes
    python bench/truth.py labels --only "late by class"

Each part is a module with a table of scenarios and a function that prints one table.
Constants of the library were chosen on other seeds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from truth_clusters import print_clusters
from truth_labels import print_labels
from truth_map import REPLICATES, RESULTS, print_map


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    drawn = parts.add_parser("map", help="every figure, over prevalence, positives and designs")
    drawn.add_argument("--resume", action="store_true", help="keep the cells of the file")
    drawn.add_argument("--replicates", type=int, default=REPLICATES, help="samples a cell")
    drawn.add_argument("--to", type=Path, default=RESULTS, help="the file of results")
    clusters = parts.add_parser("clusters", help="cases of one user or one burst")
    clusters.add_argument("--groups", type=int, default=32, help="that clusters are hashed into")
    labels = parts.add_parser("labels", help="labels that come late or are chosen")
    for each in (clusters, labels):
        each.add_argument("--streams", type=int, default=300, help="streams a cell")
    for each in (drawn, clusters, labels):
        each.add_argument("--seed", type=int, default=20_264)
        each.add_argument("--only", default="", help="a part of the scenarios' names")
        each.add_argument("--quick", action="store_true", help="fewer streams a cell")
    chosen = parser.parse_args()
    if chosen.part == "map":
        replicates = 200 if chosen.quick else chosen.replicates
        print_map(chosen.seed, chosen.only, chosen.to, replicates=replicates, resume=chosen.resume)
        return
    streams = 60 if chosen.quick else chosen.streams
    if chosen.part == "clusters":
        print_clusters(streams, chosen.seed, chosen.only, chosen.groups)
    else:
        print_labels(streams, chosen.seed, chosen.only)


if __name__ == "__main__":
    main()
