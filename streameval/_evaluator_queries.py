"""All facets of queries put together, for an evaluator and for one revision of it."""

from __future__ import annotations

from streameval._metrics.queries import MetricQueries, ViewQueries
from streameval._uncertainty.bounds import BoundsQueries
from streameval._uncertainty.intervals import UncertaintyQueries


class EvaluatorQueries(MetricQueries, UncertaintyQueries, BoundsQueries):
    """Every query, over the view that `_view` returns."""


class RevisionQueries(ViewQueries, EvaluatorQueries):
    """Every query of one revision: later mutations of its evaluator change no answer."""
