"""The figures and curves, each computed from groups or operating points.

Pure functions stand below (`roc_areas`, `pr_areas`, `hull`, `space`,
`tied_ranks`, `ranked_curves`), the queries that an evaluator inherits above them
(`areas`, `curves`, `skew`, `ranked`, `decisions`, `scorecards`, `probabilities`).
`shards` puts figures together from ranges of scores that no one place holds all of.
"""
