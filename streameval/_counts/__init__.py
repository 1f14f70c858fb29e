"""What is counted: a sorted multiset of (score, label), exact or in cells, and its bytes.

- `run`: one class's distinct scores, sorted, with counts; `multiset`: a run for each
  class and how they interleave; `limit`: how much can be counted.
- `columns`: what counts as a label, a score and a count; `groups`, `points` and
  `exact` are what figures are computed from, in integers.
- `ledger`: one immutable `state` and the changes that wait; `view` is what queries
  read of it. `sums`: many states merged, a part taken from a whole.
- `keys`, `resolution`, `scatter`: doubles as integers in their order, scores reduced
  to cells, and cells counted without sorting.
- `codec`: evaluators as bytes.
"""

# What the server may use; the library imports the modules themselves.
from streameval._counts.cell_layout import Layout, Span, cell_keys
from streameval._counts.codec import decode_state, encode_state
from streameval._counts.columns import (
    check_columns,
    check_count,
    check_labels,
    check_length,
    check_scores,
)
from streameval._counts.exact import MAX_TOTAL
from streameval._counts.merge import merge_states
from streameval._counts.multiset import ScoreCounts
from streameval._counts.resolution import MAX_BITS, Scale, quantise
from streameval._counts.run import EMPTY_RUN, Run, locate
from streameval._counts.scatter import concatenate_parts, count_cells, rank_cells, run_from_table
from streameval._counts.state import State, empty_state

__all__ = [
    "EMPTY_RUN",
    "MAX_BITS",
    "MAX_TOTAL",
    "Layout",
    "Run",
    "Scale",
    "ScoreCounts",
    "Span",
    "State",
    "cell_keys",
    "check_columns",
    "check_count",
    "check_labels",
    "check_length",
    "check_scores",
    "concatenate_parts",
    "count_cells",
    "decode_state",
    "empty_state",
    "encode_state",
    "locate",
    "merge_states",
    "quantise",
    "rank_cells",
    "run_from_table",
]
