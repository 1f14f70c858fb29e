"""All facets of queries combined, for an evaluator and for one revision of it."""

from __future__ import annotations

from streameval._metrics.queries import MetricQueries, ViewQueries
from streameval._uncertainty.intervals import UncertaintyQueries


class EvaluatorQueries(MetricQueries, UncertaintyQueries):
    """Every query, over the view that `_view` returns."""


class RevisionQueries(ViewQueries, EvaluatorQueries):
    """Every query of one fixed revision; later mutations of its evaluator have no effect."""
