"""Counts, panes and the joiner of ids: what the server keeps of a stream.

A part of the seam between server and library (docs/packages.md). Names are imported when
they are first used.
"""

from typing import TYPE_CHECKING

from streameval._common.lazy_module import lazy_exports as _lazy_exports

if TYPE_CHECKING:
    from streameval._common.frame import Frame, Reader
    from streameval._counts.cell_layout import cell_edges
    from streameval._counts.cluster_counts import ClusterCounts
    from streameval._counts.cluster_keys import check_cluster_groups, groups_of
    from streameval._counts.codec import decode_evaluator
    from streameval._counts.columns import check_scores
    from streameval._counts.lazy_counts import LazyCounts
    from streameval._counts.merge import merge_states
    from streameval._counts.multiset import ScoreCounts
    from streameval._counts.resolution import Scale, quantise
    from streameval._counts.run import Run
    from streameval._counts.scatter import rank_cells
    from streameval._counts.state import State
    from streameval._counts.stored_counts import StoredCounts
    from streameval._counts.tally import Tally
    from streameval._counts.unsorted_cases import UnsortedCases
    from streameval._counts.weight_columns import check_weights_allowed
    from streameval._counts.weights import WEIGHT_UNITS, unless_one
    from streameval._evaluator import evaluator_of
    from streameval._joining.id_column import IdColumn
    from streameval._joining.joiner import Joiner
    from streameval._joining.rules import JoinSettings
    from streameval._joining.table import JoinTable
    from streameval._time.changes import Change, rows_by_group
    from streameval._time.coverage import CoverageCell
    from streameval._time.decay import decayed_window
    from streameval._time.distinct import distinct_values
    from streameval._time.effects import Effect, Effects
    from streameval._time.panes import Grid, Panes
    from streameval._time.parts_cache import PartsCache
    from streameval._time.times import MAX_TIME_US
    from streameval._time.window import PaneState, newest_panes, state_of
    from streameval._time.window_cache import WindowCache

__all__ = [
    "MAX_TIME_US",
    "WEIGHT_UNITS",
    "Change",
    "ClusterCounts",
    "CoverageCell",
    "Effect",
    "Effects",
    "Frame",
    "Grid",
    "IdColumn",
    "JoinSettings",
    "JoinTable",
    "Joiner",
    "LazyCounts",
    "PaneState",
    "Panes",
    "PartsCache",
    "Reader",
    "Run",
    "Scale",
    "ScoreCounts",
    "State",
    "StoredCounts",
    "Tally",
    "UnsortedCases",
    "WindowCache",
    "cell_edges",
    "check_cluster_groups",
    "check_scores",
    "check_weights_allowed",
    "decayed_window",
    "decode_evaluator",
    "distinct_values",
    "evaluator_of",
    "groups_of",
    "merge_states",
    "newest_panes",
    "quantise",
    "rank_cells",
    "rows_by_group",
    "state_of",
    "unless_one",
]

_EXPORTS = {
    "streameval._common.frame": ["Frame", "Reader"],
    "streameval._counts.cell_layout": ["cell_edges"],
    "streameval._counts.cluster_counts": ["ClusterCounts"],
    "streameval._counts.cluster_keys": ["check_cluster_groups", "groups_of"],
    "streameval._counts.codec": ["decode_evaluator"],
    "streameval._counts.columns": ["check_scores"],
    "streameval._counts.lazy_counts": ["LazyCounts"],
    "streameval._counts.merge": ["merge_states"],
    "streameval._counts.multiset": ["ScoreCounts"],
    "streameval._counts.resolution": ["Scale", "quantise"],
    "streameval._counts.run": ["Run"],
    "streameval._counts.scatter": ["rank_cells"],
    "streameval._counts.state": ["State"],
    "streameval._counts.stored_counts": ["StoredCounts"],
    "streameval._counts.tally": ["Tally"],
    "streameval._counts.unsorted_cases": ["UnsortedCases"],
    "streameval._counts.weight_columns": ["check_weights_allowed"],
    "streameval._counts.weights": ["WEIGHT_UNITS", "unless_one"],
    "streameval._evaluator": ["evaluator_of"],
    "streameval._joining.id_column": ["IdColumn"],
    "streameval._joining.joiner": ["Joiner"],
    "streameval._joining.rules": ["JoinSettings"],
    "streameval._joining.table": ["JoinTable"],
    "streameval._time.changes": ["Change", "rows_by_group"],
    "streameval._time.coverage": ["CoverageCell"],
    "streameval._time.decay": ["decayed_window"],
    "streameval._time.distinct": ["distinct_values"],
    "streameval._time.effects": ["Effect", "Effects"],
    "streameval._time.panes": ["Grid", "Panes"],
    "streameval._time.parts_cache": ["PartsCache"],
    "streameval._time.times": ["MAX_TIME_US"],
    "streameval._time.window": ["PaneState", "newest_panes", "state_of"],
    "streameval._time.window_cache": ["WindowCache"],
}
"""Each module, and the public names whose first use imports it."""

if not TYPE_CHECKING:  # for a type checker, a name that is not imported above is an error
    __getattr__ = _lazy_exports(__name__, _EXPORTS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
