"""Draws an evaluator's ROC and PR curves side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._common.extras import needs_extra
from streameval.display import PrecisionRecallDisplay, RocCurveDisplay

if TYPE_CHECKING:
    from pathlib import Path

    from streameval._evaluator import Evaluator


def draw(evaluator: Evaluator, path: Path, *, name: str) -> None:
    """Draw the ROC and PR curves with their hulls into a file. Needs matplotlib."""
    with needs_extra("plot"):
        from matplotlib.figure import Figure  # noqa: PLC0415 - the extra may be absent
    figure = Figure(figsize=(10.5, 5.8), layout="constrained")
    roc, pr = figure.subplots(1, 2)
    RocCurveDisplay.from_evaluator(evaluator, name=name, ax=roc)
    PrecisionRecallDisplay.from_evaluator(evaluator, name=name, ax=pr)
    figure.savefig(path, dpi=150)
