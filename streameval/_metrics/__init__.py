"""Metrics and curves, computed from tied groups or operating points.

- Pure functions: `roc_areas`, `pr_areas` (with `log_series`), `hull`, `costs`,
  `confusion`, `reliability`, `tied_ranks`, `ranked_retrieval_curves`, `roc_pr_space`;
  `influence`: how the areas move with each case; `gradients`, `rate_gradients`: how a metric
  moves with the cases of each cell; `chains`: points whose upper hull is wanted; `coin`: mixtures
  of two thresholds.
- Query facets, from which an evaluator inherits: `areas`, `curves`, `skew`,
  `ranked_curve_queries`, `ranked_retrieval`, `decisions`, `class_separation`,
  `probabilities`, `weighting`; `queries` combines them.
- `operating_points`: the points of a curve, and the base class of curve objects.
- `shards`: metrics of counts that are divided into ranges of scores, one per node.
"""
