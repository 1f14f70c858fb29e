"""``streameval auc``: AUC-ROC and AUC-PR of a list of scores, or of points of a curve.

Does the work of the program that the authors of the paper published with it (Davis
and Goadrich 2006): from a file of ``score label`` lines, or of ROC or PR points with
totals, it computes both areas and writes both curves.
"""

from __future__ import annotations

import csv
import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.labels import boolean_of
from streameval._evaluator import Evaluator
from streameval._metrics.operating_points import OperatingPoints, precision_of
from streameval._metrics.roc_pr_space import PrPoints, pr_between, pr_to_roc
from streameval.cli._file_values import ROWS_PER_CHUNK, FileError
from streameval.cli._options import LineFormat
from streameval.cli._output import out

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from streameval._common.arrays import FloatArray

_COMMENT = "#"
_MAX_LINE_CHARACTERS = 100_000
_MAX_ROWS_BETWEEN_POINTS = 1_000_000
"""Rows written between two points of a curve."""
_MAX_REFERENCES = 1 << 53
"""Exclusive; from 2**53 on float64 cannot represent every count."""


COLUMNS = {
    LineFormat.LIST: "score label",
    LineFormat.ROC: "fpr tpr",
    LineFormat.PR: "recall precision",
}


def auc(
    file: Path,
    *,
    format_: LineFormat,
    positives: int | None,
    negatives: int | None,
    min_recall: float,
    curves: Path | None,
    weighting: Sequence[str] = (),
) -> None:
    """Print both areas of a file, and write its curves as CSV next to it.

    `weighting` names what lines of a list have after the label: a weight, a label
    probability, or both.
    """
    if format_ is LineFormat.LIST:
        if positives is not None or negatives is not None:
            raise FileError(
                "--positives and --negatives are counted with --format list; leave them out"
            )
        points, moved = _list_points(file, weighting), 0.0
    else:
        if weighting:
            raise FileError("--weight and --label-probability need --format list")
        if positives is None or negatives is None:
            raise FileError(f"--format {format_} needs --positives and --negatives")
        points, moved = _rate_points(file, format_, positives, negatives)
    auc_roc = points.auc_roc()
    auc_pr = points.auc_pr(min_recall=min_recall)
    stem = curves if curves is not None else file
    written = [_write_roc(points, stem), _write_pr(points, stem)]

    where = f" for recall >= {min_recall:g}" if min_recall else ""
    of_weights = " (sums of weights)" if points.is_weighted else ""
    out.print(f"{points.P:,} positives, {points.N:,} negatives{of_weights}, {len(points):,} points")
    out.print(f"AUC-ROC  {auc_roc:.6f}")
    out.print(f"AUC-PR   {auc_pr:.6f}{where}, interpolated")
    if moved > 0.01:
        out.print(
            f"rates were rounded to whole counts, by at most {moved:.2f} of a case",
        )
    out.print(f"curves in {' and '.join(map(str, written))}", soft_wrap=True)


def _lines(file: Path, columns: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and fields of each line that is neither empty nor a comment."""
    width = len(columns.split())
    with file.open(encoding="utf-8-sig", errors="replace") as lines:
        for number in itertools.count(1):
            try:
                line = lines.readline(_MAX_LINE_CHARACTERS + 1)
            except OSError as error:
                raise FileError(f"{file}: {error.strerror}") from error
            if not line:
                return
            if len(line) > _MAX_LINE_CHARACTERS:
                raise FileError(
                    f"{file}: line {number} is longer than {_MAX_LINE_CHARACTERS} characters"
                )
            fields = line.replace(",", " ").split()
            if not fields or fields[0].startswith(_COMMENT):
                continue
            if len(fields) != width:
                raise FileError(
                    f"{file}: line {number}: expected '{columns}', got {line.strip()!r}"
                )
            yield number, fields


def _number(file: Path, line: int, text: str, name: str) -> float:
    try:
        # float() also accepts 1_000 and digits of other scripts; other programs do not.
        if text.isascii() and "_" not in text:
            return float(text)
    except ValueError:
        pass
    raise FileError(f"{file}: line {line}: {name} {text!r} is not a number")


def _list_points(file: Path, weighting: Sequence[str]) -> OperatingPoints:
    evaluator = Evaluator()
    lines = _lines(file, " ".join((COLUMNS[LineFormat.LIST], *weighting)))
    while chunk := list(itertools.islice(lines, ROWS_PER_CHUNK)):
        _add(evaluator, file, chunk, weighting)
    if not (evaluator.num_positive_ref and evaluator.num_negative_ref):
        raise FileError(f"{file}: needs at least one positive and one negative")
    return evaluator.operating_points()


def _add(
    evaluator: Evaluator, file: Path, lines: list[tuple[int, list[str]]], weighting: Sequence[str]
) -> None:
    scores, labels = [], []
    weights: dict[str, list[float]] = {name: [] for name in weighting}
    for number, (score, label, *more) in lines:
        positive = boolean_of(label)
        if positive is None:
            raise FileError(
                f"{file}: line {number}: label {label!r} is none of 0, 1, true, false: "
                "write 1 for positives"
            )
        scores.append(_number(file, number, score, "score"))
        labels.append(positive)
        for name, text in zip(weighting, more, strict=True):
            weights[name].append(_number(file, number, text, name))
    try:
        evaluator.add_cases(
            labels=labels,
            scores=scores,
            weights=weights.get("weight"),
            label_probability=weights.get("probability"),
        )
    except InvalidInputError as error:
        if error.index is None:
            raise
        what = str(error).replace(f" at index {error.index}", "")
        raise FileError(f"{file}: line {lines[error.index][0]}: {what}") from None


def _rate_points(
    file: Path, format_: LineFormat, positives: int, negatives: int
) -> tuple[OperatingPoints, float]:
    """Return the points of a curve given as rates, and the largest change by rounding."""
    if not 1 <= min(positives, negatives) <= max(positives, negatives) < _MAX_REFERENCES:
        raise FileError("--positives and --negatives must each be at least 1 and below 2**53")
    x_name, y_name = COLUMNS[format_].split()
    rows = []
    for number, (x, y) in _lines(file, COLUMNS[format_]):
        point = _number(file, number, x, x_name), _number(file, number, y, y_name)
        for name, value in zip((x_name, y_name), point, strict=True):
            if not 0 <= value <= 1:
                raise FileError(f"{file}: line {number}: {name} must be in [0, 1], got {value:g}")
        # At recall 0 the false positives are unknown; (0, 0) is on every curve.
        if format_ is LineFormat.ROC or point[0] > 0:
            rows.append((number, *point))
    if not rows:
        raise FileError(f"{file}: no points")
    numbers = [row[0] for row in rows]
    fpr, tpr = (np.array([row[axis] for row in rows]) for axis in (1, 2))
    if format_ is LineFormat.PR:
        try:
            fpr, tpr = pr_to_roc(fpr, tpr, positives=positives, negatives=negatives)
        except InvalidInputError as error:
            line = numbers[error.index or 0]
            raise FileError(f"{file}: line {line}: {error}") from None
    return _rounded(file, numbers, fpr * negatives, tpr * positives, P=positives, N=negatives)


def _rounded(
    file: Path, numbers: list[int], fp: FloatArray, tp: FloatArray, *, P: int, N: int
) -> tuple[OperatingPoints, float]:
    counts_fp, counts_tp = np.rint(fp).astype(np.int64), np.rint(tp).astype(np.int64)
    moved = float(max(np.abs(fp - counts_fp).max(), np.abs(tp - counts_tp).max()))
    order = np.lexsort((counts_tp, counts_fp))
    counts_fp, counts_tp = counts_fp[order], counts_tp[order]
    falls = np.flatnonzero(np.diff(counts_tp) < 0)
    if falls.size:
        lower, higher = (numbers[int(order[falls[0] + step])] for step in (1, 0))
        raise FileError(
            f"{file}: line {lower}: fewer true positives than line {higher} "
            "with no fewer false positives; no ranking has both points"
        )
    counts_fp = np.concatenate(([0], counts_fp, [N]))
    counts_tp = np.concatenate(([0], counts_tp, [P]))
    kept = np.append(True, (np.diff(counts_fp) > 0) | (np.diff(counts_tp) > 0))
    # Points of a curve have no scores: their ranks serve as thresholds.
    ranks = -np.arange(int(kept.sum()), dtype=np.float64)
    ranks[0] = np.inf
    return OperatingPoints(ranks, counts_fp[kept], counts_tp[kept], P, N), moved


def _write_roc(points: OperatingPoints, stem: Path) -> Path:
    path = stem.with_name(stem.name + ".roc.csv")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("fpr", "tpr", "fp", "tp"))
        writer.writerows(
            zip(
                points.fpr.tolist(),
                points.tpr.tolist(),
                points.fp.tolist(),
                points.tp.tolist(),
                strict=True,
            )
        )
    return path


def _write_pr(points: OperatingPoints, stem: Path) -> Path:
    """Write the PR curve, with a row at every whole number of true positives.

    Between two points that are very far apart it has fewer rows, at equal steps; with
    weights it has equal steps of at most 1.
    """
    path = stem.with_name(stem.name + ".pr.csv")
    corners = list(zip(points.fp.tolist(), points.tp.tolist(), strict=True))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("recall", "precision", "fp", "tp"))
        for before, after in itertools.pairwise(corners):
            if after[1] == before[1]:
                fp, tp = after
                if tp:
                    writer.writerow((tp / points.P, tp / (tp + fp), fp, tp))
                continue
            between = _between(before, after, points)
            first = 0 if before[1] == 0 else 1
            writer.writerows(
                zip(
                    between.recall[first:].tolist(),
                    between.precision[first:].tolist(),
                    between.fp[first:].tolist(),
                    between.tp[first:].tolist(),
                    strict=True,
                )
            )
    return path


def _between(before: tuple[int, int], after: tuple[int, int], points: OperatingPoints) -> PrPoints:
    (fp_a, tp_a), (fp_b, tp_b) = before, after
    positives, steps = points.P, min(math.ceil(tp_b - tp_a), _MAX_ROWS_BETWEEN_POINTS)
    if points.is_weighted:
        tp = np.linspace(tp_a, tp_b, steps + 1)
    elif tp_b - tp_a == steps:
        return pr_between(before, after, int(positives))
    else:
        tp = np.rint(np.linspace(tp_a, tp_b, steps + 1))
    fp = fp_a + (tp - tp_a) * ((fp_b - fp_a) / (tp_b - tp_a))
    precision = precision_of(fp, tp)
    if fp_a == 0 and tp_a == 0:
        precision[0] = precision[1]
    return PrPoints(tp=tp, fp=fp, recall=tp / positives, precision=precision)
