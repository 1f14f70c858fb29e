"""Time: panes, the windows made of them, and how many predictions have their label.

- `times`: datetimes as microseconds; `panes`: event time cut into panes that coarsen
  with age.
- `windowed`: the public evaluator; `evaluator_panes`: its state, with its bytes.
- `window`, `decay`: sums of panes, and weighted sums of panes; `decayed_weights`: such sums
  of cases that have weights of their own.
- `window_cache`, `parts_cache`: caches that hold while panes stay the same.
- `effects`: what joining did to each prediction; `changes`: effects summed by pane or
  slice; `coverage`: how many predictions have their label; `distinct`: the groups of rows.
"""

# What the server may use; the library imports the modules themselves.
from streameval._time.changes import Cases, Change, changes_by_group, rows_by_group
from streameval._time.coverage import CoverageCell, ScoreBand
from streameval._time.decay import decayed_window
from streameval._time.distinct import distinct_values
from streameval._time.effects import CodeArray, Effect, Effects
from streameval._time.panes import Grid, Panes, tiers_of
from streameval._time.parts_cache import PartsCache
from streameval._time.times import MAX_TIME_US, to_datetime
from streameval._time.window import PaneState, Window, newest_panes
from streameval._time.window_cache import WindowCache

__all__ = [
    "MAX_TIME_US",
    "Cases",
    "Change",
    "CodeArray",
    "CoverageCell",
    "Effect",
    "Effects",
    "Grid",
    "PaneState",
    "Panes",
    "PartsCache",
    "ScoreBand",
    "Window",
    "WindowCache",
    "changes_by_group",
    "decayed_window",
    "distinct_values",
    "newest_panes",
    "rows_by_group",
    "tiers_of",
    "to_datetime",
]
