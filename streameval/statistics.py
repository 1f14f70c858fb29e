"""Metrics by name, intervals, comparisons, detectors and projections, as the server computes them.

A part of the seam between server and library (docs/packages.md). Names are imported when
they are first used.

- Metrics: `BY_NAME` has the row of each, which says where it is shown (`Place`) and how it is
  computed; `HEADLINE` is the one that is shown first.
- Pairs of streams: `PairRows` are counted in `PairCounts`, and a `ComparedPair` answers.
- Alarms: a `DriftEngine` takes rows and compares them with a frozen reference.
- Bases: `choose_base` proposes what to compare with, `changes_in` refuses it with the dates.
- Projections: `DelayCounts` count labels by delay, `LabelHistory` projects from them.
"""

from typing import TYPE_CHECKING

from streameval._common.lazy_module import lazy_exports as _lazy_exports

if TYPE_CHECKING:
    from streameval._drift.codec import decode_engine, encode_engine
    from streameval._drift.engine import DriftEngine
    from streameval._drift.frozen import FrozenReference
    from streameval._drift.reference import ReferenceCases
    from streameval._drift.settings import DriftSettings
    from streameval._drift.side_table import CellCases, DriftRows, RowKind
    from streameval._evaluator_queries import RevisionQueries
    from streameval._metric_registry import BY_NAME, HEADLINE, Metric, Place
    from streameval._metrics.costs import ErrorCosts
    from streameval._projection.delay_counts import DelayCounts, DelayRows
    from streameval._projection.label_history import LabelHistory
    from streameval._uncertainty.compare import common_prevalence
    from streameval._uncertainty.interval import dependence_warning
    from streameval._uncertainty.intervals import rate_limits
    from streameval._uncertainty.pair_comparison import ComparedPair
    from streameval._uncertainty.pair_counts import PairCounts, PairShape
    from streameval._uncertainty.pair_rows import PairRows
    from streameval._verdict.base import BaseSpan, NoBase, choose_base
    from streameval._verdict.base_changes import changes_in
    from streameval._verdict.decide import Question, decide
    from streameval._verdict.evidence import Evidence
    from streameval._verdict.evidence_base import Pane
    from streameval._verdict.evidence_codec import decode_evidence, encode_evidence

__all__ = [
    "BY_NAME",
    "HEADLINE",
    "BaseSpan",
    "CellCases",
    "ComparedPair",
    "DelayCounts",
    "DelayRows",
    "DriftEngine",
    "DriftRows",
    "DriftSettings",
    "ErrorCosts",
    "Evidence",
    "FrozenReference",
    "LabelHistory",
    "Metric",
    "NoBase",
    "PairCounts",
    "PairRows",
    "PairShape",
    "Pane",
    "Place",
    "Question",
    "ReferenceCases",
    "RevisionQueries",
    "RowKind",
    "changes_in",
    "choose_base",
    "common_prevalence",
    "decide",
    "decode_engine",
    "decode_evidence",
    "dependence_warning",
    "encode_engine",
    "encode_evidence",
    "rate_limits",
]

_EXPORTS = {
    "streameval._drift.codec": ["decode_engine", "encode_engine"],
    "streameval._drift.engine": ["DriftEngine"],
    "streameval._drift.frozen": ["FrozenReference"],
    "streameval._drift.reference": ["ReferenceCases"],
    "streameval._drift.settings": ["DriftSettings"],
    "streameval._drift.side_table": ["CellCases", "DriftRows", "RowKind"],
    "streameval._evaluator_queries": ["RevisionQueries"],
    "streameval._metric_registry": ["BY_NAME", "HEADLINE", "Metric", "Place"],
    "streameval._metrics.costs": ["ErrorCosts"],
    "streameval._projection.delay_counts": ["DelayCounts", "DelayRows"],
    "streameval._projection.label_history": ["LabelHistory"],
    "streameval._uncertainty.compare": ["common_prevalence"],
    "streameval._uncertainty.interval": ["dependence_warning"],
    "streameval._uncertainty.intervals": ["rate_limits"],
    "streameval._uncertainty.pair_comparison": ["ComparedPair"],
    "streameval._uncertainty.pair_counts": ["PairCounts", "PairShape"],
    "streameval._uncertainty.pair_rows": ["PairRows"],
    "streameval._verdict.base": ["BaseSpan", "NoBase", "choose_base"],
    "streameval._verdict.base_changes": ["changes_in"],
    "streameval._verdict.decide": ["Question", "decide"],
    "streameval._verdict.evidence": ["Evidence"],
    "streameval._verdict.evidence_base": ["Pane"],
    "streameval._verdict.evidence_codec": ["decode_evidence", "encode_evidence"],
}
"""Each module, and the public names whose first use imports it."""

if not TYPE_CHECKING:  # for a type checker, a name that is not imported above is an error
    __getattr__ = _lazy_exports(__name__, _EXPORTS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
