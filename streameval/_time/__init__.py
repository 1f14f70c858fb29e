"""Time: panes, the windows made of them, and how much of the truth each has seen.

- `times`, `panes`: event time cut into slices that coarsen with age.
- `windowed`, `window`, `decay`: evaluators by pane, sums of them, and weighted sums.
- `window_cache`, `parts_cache`: what is kept while panes stay the same.
- `effects`, `changes`, `coverage`: signed counts put where they belong.
"""
