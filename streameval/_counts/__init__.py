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
- `state`: one immutable revision with its cached answers. `merge`: sums and differences of
  states; `cell_sums`: sums of cells in a table, cut to a cap there.
- `codec`: a state as bytes; `state_head`: their header; `steps`: scores as steps between cells.
  `stored_counts`: counts that are bytes; `stored_check`: whether many of them are valid.
- `cluster_keys`, `cluster_cells`, `cluster_counts`: clusters hashed into groups, and the counts
  of each group, by coarse cells, in addition to the whole counts. `weights`: sums of weights
  by score and class.
- `tally`, `unsorted_cases`, `additions`: a state, and the changes that are not merged yet;
  `lazy_counts`: the same at one moment; `accumulator`: a tally as an evaluator has it.
  `missing_cases`: which case of a removal is not counted.
- `columns`, `weight_columns`: the rules for the labels, scores, counts and weights that
  callers pass.
"""
