"""Mean time to a false alarm, and delay to detection, by simulation.

    python bench/alarms.py false                     # no change at all: 200 streams x 60 days
    python bench/alarms.py delay                     # falls, beside a CUSUM of the same rate
    python bench/alarms.py delay --rates 80 200 --pane-seconds 10
    python bench/alarms.py mixtures --streams 40     # of other bets than the library's
    python bench/alarms.py false --streams 50 --days 20 --mean-days 30
    python bench/alarms.py rule --streams 4 --days 5 # the rule of fixed intervals
    python bench/alarms.py cost --days 7             # time and bytes of a detector
    PYTHONPATH=. python bench/alarms.py served --streams 1000   # ingest with and without
    python bench/alarms.py check                     # arrays against the library's detector

A stream's scores are probabilities that its model is right about until something changes.
Each stream freezes a reference of its own, its first week. Streams run side by side in
arrays, with the library's values, reference, bets and evidence; `check` compares one of
them with a `DriftDetector`. A mean time of 30 days is passed more often in fewer days of
simulation than one of a year. The bets and the size of panes were chosen on other seeds.
"""

from __future__ import annotations

import argparse

from alarms_cost import print_costs
from alarms_delay import print_delays, print_mixtures
from alarms_false import check_lanes, print_false_alarms
from alarms_rule import print_rule
from alarms_served import print_served


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parts = {
        "check": check_lanes,
        "false": print_false_alarms,
        "delay": print_delays,
        "mixtures": print_mixtures,
        "rule": print_rule,
        "cost": print_costs,
        "served": print_served,
    }
    parser.add_argument("part", choices=parts)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--mean-days", type=int, default=365)
    parser.add_argument("--pane-seconds", type=int, default=60, help="of delay and mixtures")
    parser.add_argument("--rates", type=int, nargs="+", default=[5, 20, 80, 200])
    parser.add_argument("--batches", type=int, default=300, help="a round, of served")
    parser.add_argument("--seed", type=int, default=21)
    chosen = parser.parse_args()
    parts[chosen.part](chosen)


if __name__ == "__main__":
    main()
