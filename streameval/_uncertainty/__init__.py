"""How sure: sampling variance, intervals, comparisons, and the certificates of cells.

- `influence`, `estimates`, `limits`, `student`: from counts to limits; `intervals`
  are the queries, `bootstrap` the other method.
- `compare`, `pairs`: is one better than the other, apart or on the same cases.
- `bounds`, `cell_orders`: what a figure can be at most and at least when scores kept
  few bits.
- `shard_variance`: the scatter of counts that are cut into ranges of scores.
"""

# What the server may use; the library imports the modules themselves.
from streameval._uncertainty.bounds import BOUNDED_FIGURES
from streameval._uncertainty.compare import Comparison, compare, holm, pooled_prevalence
from streameval._uncertainty.intervals import NAMES, PR_NAMES, Interval

__all__ = [
    "BOUNDED_FIGURES",
    "NAMES",
    "PR_NAMES",
    "Comparison",
    "Interval",
    "compare",
    "holm",
    "pooled_prevalence",
]
