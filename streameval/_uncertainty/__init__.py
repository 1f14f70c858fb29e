"""How sure: sampling variance, intervals, comparisons, and the certificates of cells.

- `influence`, `estimates`, `limits`, `student`: from counts to limits; `intervals`
  are the queries, `bootstrap` the other method.
- `compare`, `pairs`: is one better than the other, apart or on the same cases.
- `bounds`, `cell_orders`: what a figure can be at most and at least when scores kept
  few bits.
- `shard_variance`: the scatter of counts that are cut into ranges of scores.
"""
