"""The counts: a sorted multiset of (score, label), exact or in cells, and its bytes.

From the bottom up:

- `exact`: exact sums of products, and the limit on all counts together.
- `keys`, `resolution`: doubles as ordered integers, and scores reduced to cells.
- `run`: one class's distinct scores, sorted, with counts; `insertion`: values inserted into long
  columns. `layered_run`: a large run, and a small run that is merged into it when read.
  `multiset`: a run for each class, and how they interleave.
- `cell_layout`, `scatter`: tables of cells, and counting into them without sorting.
- `ascending`: ranks where nothing ties. `groups`, `cumulative`: the integers that metrics are
  computed from. `view`: the protocol by which queries read them.
- `state`: one immutable revision with its cached answers. `packed_counts`, `packed_run`: its
  counts as bytes, and one class of them; `opened_counts`: which of them are open. `merge`: sums
  and differences of states; `cell_sums`: sums of cells in a table, cut to a cap there;
  `table_counts`: a sum that is kept as its table. `codec`: a state as bytes;
  `evaluator_codec`: one that may have clusters or weights. `state_decoder`: many of them,
  verified together (`encoded_states`) and opened later (`encoded_counts`).
- `cluster_keys`, `cluster_counts`, `cluster_codec`: clusters hashed into groups, the counts of
  each group in addition to the whole counts, and states with clusters as bytes.
- `weights`, `weighted_codec`: sums of weights by score and class, and states with weights as
  bytes.
- `accumulator`, `pending_weights`, `unsorted_cases`, `additions`: the current state, and the
  changes that are not merged yet.
  `missing_cases`: which case of a removal is not counted.
- `columns`, `weight_columns`: the rules for the labels, scores, counts and weights that
  callers pass.
"""

# The names that the server may use; the library imports from the modules.
from streameval._counts.additions import (
    Addition,
    has_clusters,
    has_weights,
    merge_pending,
    sorted_cases,
    weighted_sums,
)
from streameval._counts.cell_layout import cell_edges
from streameval._counts.cluster_counts import CLUSTER_ROW_BYTES, ClusterCounts
from streameval._counts.cluster_keys import (
    DEFAULT_CLUSTER_GROUPS,
    ClusterChecksums,
    check_cluster_groups,
    cluster_checksums,
    groups_of,
)
from streameval._counts.columns import (
    check_columns,
    check_count,
    check_labels,
    check_length,
    check_scores,
)
from streameval._counts.encoded_counts import EncodedCounts
from streameval._counts.evaluator_codec import decode_evaluator, encode_evaluator
from streameval._counts.exact import MAX_TOTAL
from streameval._counts.merge import check_mergeable, merge_states
from streameval._counts.multiset import ScoreCounts
from streameval._counts.opened_counts import OPENED
from streameval._counts.resolution import MAX_BITS, Scale, quantise
from streameval._counts.run import EMPTY_RUN, Run, merge_runs
from streameval._counts.scatter import rank_cells
from streameval._counts.state import MAX_UNPACKED_BYTES, State, empty_state
from streameval._counts.state_decoder import StateDecoder, closed_state
from streameval._counts.unsorted_cases import UnsortedCases
from streameval._counts.weight_columns import check_weights_allowed
from streameval._counts.weights import (
    MAX_WEIGHT,
    MAX_WEIGHTED_CASES,
    WEIGHT_UNITS,
    WeightedCounts,
    too_many_weighted,
    unless_one,
)

__all__ = [
    "CLUSTER_ROW_BYTES",
    "DEFAULT_CLUSTER_GROUPS",
    "EMPTY_RUN",
    "MAX_BITS",
    "MAX_TOTAL",
    "MAX_UNPACKED_BYTES",
    "MAX_WEIGHT",
    "MAX_WEIGHTED_CASES",
    "OPENED",
    "WEIGHT_UNITS",
    "Addition",
    "ClusterChecksums",
    "ClusterCounts",
    "EncodedCounts",
    "Run",
    "Scale",
    "ScoreCounts",
    "State",
    "StateDecoder",
    "UnsortedCases",
    "WeightedCounts",
    "cell_edges",
    "check_cluster_groups",
    "check_columns",
    "check_count",
    "check_labels",
    "check_length",
    "check_mergeable",
    "check_scores",
    "check_weights_allowed",
    "closed_state",
    "cluster_checksums",
    "decode_evaluator",
    "empty_state",
    "encode_evaluator",
    "groups_of",
    "has_clusters",
    "has_weights",
    "merge_pending",
    "merge_runs",
    "merge_states",
    "quantise",
    "rank_cells",
    "sorted_cases",
    "too_many_weighted",
    "unless_one",
    "weighted_sums",
]
