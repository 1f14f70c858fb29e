"""Uncertainty of metrics: sampling variances, intervals, comparisons, and bounds.

- `sampling_variance`, `estimates`, `limits`, `unseen_cases`, `student`: from counts to limits;
  `rules`: the strategies that the rows of the table of metrics hold, of areas in `area_rules`.
  `intervals` has the queries, `bootstrap` the other method.
- `compare`: the difference of two independent evaluators; `pair_difference`: the difference
  of two models on the same cases, which `pair_grid` counts by pair of scores (`pair_cells`,
  cut into cells by `pair_cuts`), none of them twice (`pair_ids`). `pair_counts` has all counts
  of a span of time, `pair_codec` writes them as bytes; `pair_comparison` answers,
  `pair_clusters` allows for clusters, `pair_verdict` says the answer in a sentence.
- `fall`: since when a series of figures is lower.
- `design_effect`: how much wider than of independent cases of equal weight a variance is:
  `cluster_effect` by clusters of dependent cases, `pane_blocks` by the panes of a window,
  `weighted_variance` by weights.
- `calibration`: the calibration error, and observed against expected positives.
- `error_costs`: the expected cost of errors at a threshold, from the shares of errors.
- `bounds`, `cell_orders`: the least and the greatest value of a metric when scores
  kept few bits; `cell_limits`, `cell_variance`: the greatest variance then.
- `shard_variance`: sampling variances of counts that are cut into ranges of scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._common import lazy_exports as _lazy_exports

if TYPE_CHECKING:
    from streameval._metrics.costs import ErrorCosts
    from streameval._uncertainty.compare import Comparison, compare, holm, pooled_prevalence
    from streameval._uncertainty.interval import Interval, dependence_warning
    from streameval._uncertainty.limits import MIN_ANYTIME_POSITIVES
    from streameval._uncertainty.pair_codec import decode_pair, encode_pair
    from streameval._uncertainty.pair_comparison import (
        DECIDING_E_VALUE,
        ComparedPair,
        Flags,
        check_compared,
        flags_of,
    )
    from streameval._uncertainty.pair_counts import PairCounts, PairShape
    from streameval._uncertainty.pair_rows import PairRows
    from streameval._uncertainty.pair_verdict import verdict_of

# What the server may use; the library imports the modules themselves.
__all__ = [
    "DECIDING_E_VALUE",
    "MIN_ANYTIME_POSITIVES",
    "ComparedPair",
    "Comparison",
    "ErrorCosts",
    "Flags",
    "Interval",
    "PairCounts",
    "PairRows",
    "PairShape",
    "check_compared",
    "compare",
    "decode_pair",
    "dependence_warning",
    "encode_pair",
    "flags_of",
    "holm",
    "pooled_prevalence",
    "verdict_of",
]

_EXPORTS = {
    "ComparedPair": "streameval._uncertainty.pair_comparison",
    "Comparison": "streameval._uncertainty.compare",
    "DECIDING_E_VALUE": "streameval._uncertainty.pair_comparison",
    "ErrorCosts": "streameval._metrics.costs",
    "Flags": "streameval._uncertainty.pair_comparison",
    "Interval": "streameval._uncertainty.interval",
    "MIN_ANYTIME_POSITIVES": "streameval._uncertainty.limits",
    "PairCounts": "streameval._uncertainty.pair_counts",
    "PairRows": "streameval._uncertainty.pair_rows",
    "PairShape": "streameval._uncertainty.pair_counts",
    "check_compared": "streameval._uncertainty.pair_comparison",
    "compare": "streameval._uncertainty.compare",
    "decode_pair": "streameval._uncertainty.pair_codec",
    "dependence_warning": "streameval._uncertainty.interval",
    "encode_pair": "streameval._uncertainty.pair_codec",
    "flags_of": "streameval._uncertainty.pair_comparison",
    "holm": "streameval._uncertainty.compare",
    "pooled_prevalence": "streameval._uncertainty.compare",
    "verdict_of": "streameval._uncertainty.pair_verdict",
}

if not TYPE_CHECKING:  # the table of metrics is made of a part of these modules
    __getattr__ = _lazy_exports(__name__, _EXPORTS)
