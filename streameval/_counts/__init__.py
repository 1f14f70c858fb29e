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
