"""Time: panes, the windows made of them, and how many predictions have their label.

- `times`: datetimes as microseconds; `panes`: event time cut into panes that coarsen
  with age.
- `windowed`: the public evaluator; `evaluator_panes`: its state, with its bytes.
- `window`, `decay`: sums of panes, and weighted sums of panes; `decayed_weights`: such sums
  of cases that have weights of their own.
- `window_cache`, `parts_cache`: caches that hold while panes stay the same.
- `fall`: since when a figure of a series of windows is lower.
- `effects`: what joining did to each prediction; `changes`: effects summed by pane or
  slice; `coverage`: how many predictions have their label; `distinct`: the groups of rows.
"""
