"""``streameval evaluate``: all figures of one file, or one figure of each group of rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from streameval._breakdown.factors import factor_of_columns
from streameval._breakdown.groups import rank_groups
from streameval._common.errors import StreamEvalError
from streameval._common.extras import needs_extra
from streameval._evaluator import Evaluator
from streameval._metric_registry import HEADLINE
from streameval._uncertainty.intervals import check_prevalence
from streameval.cli._output import print_json, print_ranking, print_snapshot, progress_bar, say
from streameval.cli._rows import read_rows

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from streameval.cli._rows import FileColumns

PLOT_SUFFIXES = (".png", ".svg", ".pdf")


def evaluate(
    file: Path,
    *,
    layout: FileColumns,
    plot: Path | None,
    settings: dict[str, Any],
    as_json: bool,
) -> None:
    """Print a file's figures; write its curves to `plot` when given."""
    if plot is not None and plot.suffix.lower() not in PLOT_SUFFIXES:
        raise StreamEvalError(f"--plot {plot}: use {', '.join(PLOT_SUFFIXES)}")
    evaluator = Evaluator(**settings)
    with progress_bar(f"reading {file.name}") as progress:
        for rows in read_rows(file, layout):
            evaluator.add_cases(labels=rows.labels, scores=rows.scores, **rows.weighting())
            progress(rows.progress)
    if plot is not None:
        draw(evaluator, plot, name=file.stem)
    snapshot = evaluator.snapshot()
    found = snapshot.to_dict()
    found["warnings"] = [*found["warnings"], *_no_rows(file, snapshot.num_cases)]
    if as_json:
        print_json(found)
    else:
        print_snapshot(snapshot, heading=str(file))
        for warning in found["warnings"]:
            say(f"note: {warning}")


def _no_rows(file: Path, rows: int) -> list[str]:
    """Return what to say of a file that has a header alone; nothing of others."""
    return [] if rows else [f"{file} has no rows: is it complete?"]


def draw(evaluator: Evaluator, path: Path, *, name: str) -> None:
    """Draw the ROC and PR curves with their hulls into a file. Needs matplotlib."""
    from streameval.display import (  # noqa: PLC0415 - slow to import
        PrecisionRecallDisplay,
        RocCurveDisplay,
    )

    with needs_extra("plot"):
        from matplotlib.figure import Figure  # noqa: PLC0415 - the extra may be absent
    figure = Figure(figsize=(10.5, 5.8), layout="constrained")
    roc, pr = figure.subplots(1, 2)
    RocCurveDisplay.from_evaluator(evaluator, name=name, ax=roc)
    PrecisionRecallDisplay.from_evaluator(evaluator, name=name, ax=pr)
    figure.savefig(path, dpi=150)


def evaluate_by(
    file: Path,
    *,
    layout: FileColumns,
    plot: Path | None,
    metric: str | None,
    settings: dict[str, Any],
    as_json: bool,
) -> None:
    """Print one figure of each group of a file's rows, the worst group first."""
    if plot is not None:
        raise StreamEvalError("--plot draws the curves of all rows: leave --by out")
    metric = HEADLINE if metric is None else metric
    check_prevalence(None, metric)
    evaluators: dict[Any, Evaluator] = {}
    with progress_bar(f"reading {file.name}") as progress:
        for rows in read_rows(file, layout):
            values, codes = factor_of_columns(rows.by, "by")
            for code, value in enumerate(values):
                group = value if len(layout.by) > 1 else value[0]
                if group not in evaluators:
                    evaluators[group] = Evaluator(**settings)
                chosen = np.flatnonzero(codes == code)
                evaluators[group].add_cases(
                    labels=rows.labels[chosen],
                    scores=rows.scores[chosen],
                    **{
                        name: None if column is None else column[chosen]
                        for name, column in rows.weighting().items()
                    },
                )
            progress(rows.progress)
    ranking = rank_groups(
        evaluators, keys=layout.by, metric=metric, level=0.95, prevalence="common"
    )
    # Of the group whose unseen case weighs most.
    unbounded = [each.value for each in ranking if each.value.weight_warning is not None]
    heaviest = max(unbounded, key=lambda value: value.assumed_weight, default=None)
    unseen = [] if heaviest is None else [heaviest.weight_warning]
    warnings = [*unseen, *_no_rows(file, len(evaluators))]
    if as_json:
        print_json(
            {
                "metric": ranking.metric,
                "level": ranking.level,
                "prevalence": ranking.prevalence,
                "groups": [
                    {name: _plain(value) for name, value in row.items()}
                    for row in ranking.to_rows()
                ],
                "warnings": warnings,
            }
        )
    else:
        print_ranking(ranking, heading=str(file))
        for warning in warnings:
            say(f"note: {warning}")


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: None for nan."""
    return None if isinstance(value, float) and math.isnan(value) else value
