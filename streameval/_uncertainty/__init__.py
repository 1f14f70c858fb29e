"""Uncertainty of metrics: sampling variances, intervals, comparisons, and bounds.

- `sampling_variance`, `estimates`, `limits`, `unseen_cases`, `student`: from counts to limits;
  `rules`: the strategies that the rows of the table of metrics hold, of areas in `area_rules`.
  `interval` is the answer, `intervals` has the queries, `bootstrap` the other method.
- `compare`: the difference of two independent evaluators; `pair_difference`: the difference
  of two models on the same cases, which `pair_grid` counts by pair of scores (`pair_cells`,
  cut into cells by `pair_cuts`), none of them twice (`pair_ids`); `pair_variance`: its
  variance. `pair_counts` has all counts of a span of time, which `pair_rows` change;
  `pair_codec` writes them as bytes; `pair_comparison` answers,
  `pair_clusters` allows for clusters, `pair_verdict` says the answer in a sentence.
- `design_effect`: how much wider than of independent cases of equal weight a variance is:
  `cluster_effect` by clusters of dependent cases, `pane_blocks` by the panes of a window
  (in coarse cells, `pane_cells`), `weighted_variance` by weights. `class_means`: of classes.
- `calibration`: the calibration error, and observed against expected positives.
- `error_costs`: the expected cost of errors at a threshold, from the shares of errors.
- `bounds`, `cell_orders`: the least and the greatest value of a metric when scores
  kept few bits; `cell_limits`, `cell_variance`: the greatest variance then.
- `shard_variance`: sampling variances of counts that are cut into ranges of scores.
"""
