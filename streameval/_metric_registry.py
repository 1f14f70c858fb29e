"""Figures by name: what a request, or a column of a table, may ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval._evaluator_queries import EvaluatorQueries

COMPUTE: dict[str, Callable[[EvaluatorQueries], float]] = {
    "auc_roc": lambda queries: queries.auc_roc(),
    "auc_roc_hull": lambda queries: queries.auc_roc(hull=True),
    "auc_pr": lambda queries: queries.auc_pr(),
    "auc_pr_hull": lambda queries: queries.auc_pr(hull=True),
    "average_precision": lambda queries: queries.average_precision(),
    "prevalence": lambda queries: queries.prevalence,
    "auc_pr_normalized": lambda queries: queries.auc_pr_normalized(),
    "auc_pr_minimum": lambda queries: queries.auc_pr_minimum(),
    "auc_prg": lambda queries: queries.auc_prg(),
    "maximum_f_measure": lambda queries: queries.maximum_f_measure(),
    "brier_score": lambda queries: queries.brier_score(),
    "log_loss": lambda queries: queries.log_loss(),
    "ks_statistic": lambda queries: queries.ks_statistic(),
    "gini": lambda queries: queries.gini(),
}
"""How each figure is asked of an evaluator, a window or a revision."""

METRICS = tuple(COMPUTE)
"""The names, those of a snapshot first."""
