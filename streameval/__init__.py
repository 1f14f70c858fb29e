"""streameval: live, exact evaluation of binary scorers.

Its layers, from the caller inwards:

- `Evaluator`: what is counted, put together from facets of queries
  (`_curves`, `_areas`, `_skew`, `_ranked`, `_decisions`, `_probabilities`,
  `_intervals`, `_bounds`), each beside the pure functions that it serves.
- `WindowedEvaluator` and `LabelJoiner`: the same by event time, and with labels
  that come later.
- `_state`: one revision's counts, immutable, with its answers cached; `_ledger`
  notes changes until somebody asks.
- `_multiset`: sorted distinct scores with counts, one run for each class.
- `_groups`, `_points`: what figures and curves are computed from, in integers.

It needs numpy and sortedcontainers. ``streameval.client``, ``streameval.cli``,
``streameval.display`` and the server, ``streameval_server``, are extras.
"""

from streameval._compare import Comparison, compare, holm
from streameval._confusion import Confusion
from streameval._costs import CostCurve
from streameval._coverage import ScoreBand
from streameval._curves import PrHull, RocHull
from streameval._effects import Coverage
from streameval._errors import CorruptStateError, InvalidInputError, StreamEvalError
from streameval._evaluator import Evaluator
from streameval._intervals import Interval
from streameval._join_rules import JoinCounts
from streameval._label_joiner import LabelJoiner
from streameval._pairs import PairedEvaluator
from streameval._points import OperatingPoints
from streameval._ranked_curves import format_pr_curve, format_pr_score_curve
from streameval._reliability import BrierDecomposition, ReliabilityTable
from streameval._skew import PrecisionRecallGainCurve
from streameval._snapshot import Snapshot
from streameval._space import dominates, pr_between, pr_to_roc, roc_to_pr
from streameval._window import Window
from streameval._windowed import WindowedEvaluator

__version__ = "0.1.0"

__all__ = [
    "BrierDecomposition",
    "Comparison",
    "Confusion",
    "CorruptStateError",
    "CostCurve",
    "Coverage",
    "Evaluator",
    "Interval",
    "InvalidInputError",
    "JoinCounts",
    "LabelJoiner",
    "OperatingPoints",
    "PairedEvaluator",
    "PrHull",
    "PrecisionRecallGainCurve",
    "ReliabilityTable",
    "RocHull",
    "ScoreBand",
    "Snapshot",
    "StreamEvalError",
    "Window",
    "WindowedEvaluator",
    "compare",
    "dominates",
    "format_pr_curve",
    "format_pr_score_curve",
    "holm",
    "pr_between",
    "pr_to_roc",
    "roc_to_pr",
]
