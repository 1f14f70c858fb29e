"""streameval: live, exact evaluation of binary scorers.

The layers, from the caller inwards; each imports only those below it:

- `Evaluator`, `PairedEvaluator`, `WindowedEvaluator`, `LabelJoiner`: cases of one
  scorer, cases of two scorers, cases by event time, and predictions whose labels
  arrive later. `Snapshot`: the metrics of one revision.
- `checks`, `wire`, `statistics`, `kernel`: what the server needs of the packages below.
- `functional`: metrics of columns in one call. `_row_codec`: rows as messages.
- `_joining`: predictions and labels by id. `_sampling`: which of them to label next.
  `_projection`: what a window will read once its labels are in.
- `_verdict`: what changed, since when, because of whom, and how sure that is.
- `_drift`: alarms with a stated rate. `_time`: panes, windows, coverage.
- `_breakdown`: figures of groups of cases and of classes.
- `_evaluator_queries`: all facets of queries combined.
- `_uncertainty`: intervals, comparisons, and the bounds of bounded memory.
- `_metric_registry`: the table of metrics by name.
- `_metrics`: curves and metrics; pure functions, and above them the query facets.
- `_counts`: a sorted multiset of scores for each class: one immutable state for each
  revision, with its answers cached.
- `_common`: errors, values, names, array types, framed bytes.

It needs numpy and sortedcontainers. ``streameval.client``, ``streameval.cli``,
``streameval.display``, ``streameval.spark``, ``streameval.kafka``,
``streameval.payloads`` and the server, ``streameval_server``, are extras.
"""

from typing import TYPE_CHECKING

from streameval._common.lazy_module import lazy_exports as _lazy_exports

if TYPE_CHECKING:
    from streameval import functional
    from streameval._breakdown.groups import GroupRanking, RankedGroup, evaluate_by
    from streameval._breakdown.one_vs_rest import OneVsRest, one_vs_rest
    from streameval._common.coverage import Coverage
    from streameval._common.errors import CorruptStateError, InvalidInputError, StreamEvalError
    from streameval._drift.alarm import Alarm, DriftedSegment
    from streameval._drift.detector import DriftDetector
    from streameval._evaluator import Evaluator
    from streameval._joining.label_joiner import LabelJoiner
    from streameval._joining.rules import JoinCounts
    from streameval._metrics.coin import Coin
    from streameval._metrics.confusion import Confusion
    from streameval._metrics.costs import CostCurve
    from streameval._metrics.curves import PrHull, RocHull
    from streameval._metrics.operating_points import OperatingPoints
    from streameval._metrics.ranked_retrieval_curves import format_pr_curve, format_pr_score_curve
    from streameval._metrics.reliability import BrierDecomposition, ReliabilityTable
    from streameval._metrics.roc_pr_space import dominates, pr_between, pr_to_roc, roc_to_pr
    from streameval._metrics.skew import PrecisionRecallGainCurve
    from streameval._metrics.weighting import WeightTotals
    from streameval._paired_evaluator import PairedEvaluator, compare_paired
    from streameval._projection.projection import (
        BacktestedWindow,
        ProjectedFigure,
        Projection,
        RefusalReason,
    )
    from streameval._sampling.allocation import (
        LabelAllocation,
        LabelSample,
        SampledBand,
        allocate_labels,
    )
    from streameval._snapshot import Snapshot
    from streameval._time.coverage import ScoreBand
    from streameval._time.fall import Fall, find_fall
    from streameval._time.window import Window
    from streameval._time.windowed import WindowedEvaluator
    from streameval._uncertainty.compare import Comparison, compare, holm
    from streameval._uncertainty.interval import Interval
    from streameval._verdict.verdict import Verdict, VerdictFigure


__version__ = "0.1.0"

__all__ = [
    "Alarm",
    "BacktestedWindow",
    "BrierDecomposition",
    "Coin",
    "Comparison",
    "Confusion",
    "CorruptStateError",
    "CostCurve",
    "Coverage",
    "DriftDetector",
    "DriftedSegment",
    "Evaluator",
    "Fall",
    "GroupRanking",
    "Interval",
    "InvalidInputError",
    "JoinCounts",
    "LabelAllocation",
    "LabelJoiner",
    "LabelSample",
    "OneVsRest",
    "OperatingPoints",
    "PairedEvaluator",
    "PrHull",
    "PrecisionRecallGainCurve",
    "ProjectedFigure",
    "Projection",
    "RankedGroup",
    "RefusalReason",
    "ReliabilityTable",
    "RocHull",
    "SampledBand",
    "ScoreBand",
    "Snapshot",
    "StreamEvalError",
    "Verdict",
    "VerdictFigure",
    "WeightTotals",
    "Window",
    "WindowedEvaluator",
    "allocate_labels",
    "compare",
    "compare_paired",
    "dominates",
    "evaluate_by",
    "find_fall",
    "format_pr_curve",
    "format_pr_score_curve",
    "functional",
    "holm",
    "one_vs_rest",
    "pr_between",
    "pr_to_roc",
    "roc_to_pr",
]

_EXPORTS = {
    "streameval": ["functional"],
    "streameval._breakdown.groups": ["GroupRanking", "RankedGroup", "evaluate_by"],
    "streameval._breakdown.one_vs_rest": ["OneVsRest", "one_vs_rest"],
    "streameval._common.coverage": ["Coverage"],
    "streameval._common.errors": ["CorruptStateError", "InvalidInputError", "StreamEvalError"],
    "streameval._drift.alarm": ["Alarm", "DriftedSegment"],
    "streameval._drift.detector": ["DriftDetector"],
    "streameval._evaluator": ["Evaluator"],
    "streameval._joining.label_joiner": ["LabelJoiner"],
    "streameval._joining.rules": ["JoinCounts"],
    "streameval._metrics.coin": ["Coin"],
    "streameval._metrics.confusion": ["Confusion"],
    "streameval._metrics.costs": ["CostCurve"],
    "streameval._metrics.curves": ["PrHull", "RocHull"],
    "streameval._metrics.operating_points": ["OperatingPoints"],
    "streameval._metrics.ranked_retrieval_curves": ["format_pr_curve", "format_pr_score_curve"],
    "streameval._metrics.reliability": ["BrierDecomposition", "ReliabilityTable"],
    "streameval._metrics.roc_pr_space": ["dominates", "pr_between", "pr_to_roc", "roc_to_pr"],
    "streameval._metrics.skew": ["PrecisionRecallGainCurve"],
    "streameval._metrics.weighting": ["WeightTotals"],
    "streameval._paired_evaluator": ["PairedEvaluator", "compare_paired"],
    "streameval._projection.projection": [
        "BacktestedWindow",
        "ProjectedFigure",
        "Projection",
        "RefusalReason",
    ],
    "streameval._sampling.allocation": [
        "LabelAllocation",
        "LabelSample",
        "SampledBand",
        "allocate_labels",
    ],
    "streameval._snapshot": ["Snapshot"],
    "streameval._time.coverage": ["ScoreBand"],
    "streameval._time.fall": ["Fall", "find_fall"],
    "streameval._time.window": ["Window"],
    "streameval._time.windowed": ["WindowedEvaluator"],
    "streameval._uncertainty.compare": ["Comparison", "compare", "holm"],
    "streameval._uncertainty.interval": ["Interval"],
    "streameval._verdict.verdict": ["Verdict", "VerdictFigure"],
}
"""Each module, and the public names whose first use imports it."""

if not TYPE_CHECKING:  # for a type checker, a name that is not imported above is an error
    __getattr__ = _lazy_exports(__name__, _EXPORTS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
