"""The numbers on the pages are those that the code computes now.

A page writes ```expression` → number``; its Python blocks define the names. A
block tagged with a library's name needs that library.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from ..pages import blocks

DOCS = Path(__file__).parents[2] / "docs"
NUMBER = re.compile(r"`([^`]+)` → (nan|-?inf|-?\d+(?:\.\d+)?)")
# An expression that matches is another library's answer.
PEERS = {
    "sklearn": r"\b(auc|\w+_score|log_loss|matthews_corrcoef)\(",
    "torchmetrics": r"\b(torchmetrics|retrieved)\(",
    "river": r"\b(river|rolling)\(|metrics\.",
}


class Program:
    """LingPipe's evaluator by its published rules, on results ranked as + and -.

    Tied cases keep their order of arrival, so a ranking determines every result.
    """

    def __init__(self, ranked: str, misses: int = 0) -> None:
        self.ranked = [mark == "+" for mark in ranked]
        self.positives = sum(self.ranked) + misses
        self.negatives = len(ranked) - sum(self.ranked)
        self.num_cases = self.positives + self.negatives

    def pr_curve(self) -> list[tuple[float, float]]:
        """Return the limits, and a row for each result except those before the first positive."""
        found = [sum(self.ranked[:k]) for k in range(len(self.ranked) + 1)]
        rows = [(tp / self.positives, tp / k) for k, tp in enumerate(found) if tp]
        return [(0.0, 1.0), *rows, (1.0, 0.0)]

    def pr_score_curve(self) -> list[tuple[float, ...]]:
        """Return the interpolated curve with ranks as scores: the limit, then each recall once."""
        found = [sum(self.ranked[: k + 1]) for k in range(len(self.ranked))]
        precision = [tp / (k + 1) for k, tp in enumerate(found)]
        first = [k for k, hit in enumerate(self.ranked) if hit]
        rows = [(found[k] / self.positives, max(precision[k:]), -float(k)) for k in first]
        return [(0.0, 1.0), *rows]

    def roc_curve(self) -> list[tuple[float, float]]:
        """Return a row for each result between two limits, even if a row equals a limit."""
        found = [sum(self.ranked[:k]) for k in range(1, len(self.ranked) + 1)]
        rows = [(k - tp) / self.negatives for k, tp in enumerate(found, 1)]
        reached = [tp / self.positives for tp in found]
        return [(0.0, 0.0), *zip(rows, reached, strict=True), (1.0, 1.0)]

    def r_precision(self) -> float:
        """Return the precision in row P of the PR curve, counted from its limit."""
        if self.positives == 0:
            return 1.0
        rows = self.pr_curve()
        if self.positives < len(rows):
            return rows[self.positives - 1][1]
        return rows[-1][1] * (len(rows) - 1) / self.positives

    def average_precision(self) -> float:
        """Return the precision of each row that raises the recall, over P."""
        total = reached = 0.0
        for recall, precision in self.pr_curve():
            if recall > reached:
                total, reached = total + precision, recall
        return total / self.positives

    def precision_at(self, rank: int) -> float:
        """Return the positives among the first, over the rank."""
        return sum(self.ranked[:rank]) / rank

    def reciprocal_rank(self) -> float:
        """Return 1/rank of the first positive; 0 if there is none."""
        return 1 / (self.ranked.index(True) + 1) if any(self.ranked) else 0.0


def names(page: str, library: str | None = None) -> dict[str, Any]:
    """Run a page's blocks: those without a library, and those of the given one."""
    space: dict[str, Any] = {"program": Program}
    for block in blocks(page):
        if block.language == "python" and block.needs in ("", library):
            exec(block.code, space)
    return space


def agrees(value: float, printed: str) -> bool:
    """Return whether a value, rounded as printed, is the printed one."""
    if math.isnan(value) or math.isinf(value):
        return str(value) == printed
    digits = len(printed.partition(".")[2])
    return abs(value - float(printed)) <= 0.5 * 10**-digits + 1e-9


def is_of(expression: str, library: str) -> bool:
    """Return whether an expression is the other library's answer."""
    return re.search(PEERS[library], expression) is not None and not expression.startswith("ours(")


def tables(page: str) -> list[list[list[str]]]:
    """Return each table's rows of cells, the header first."""
    found: list[list[list[str]]] = [[]]
    for line in page.splitlines():
        if not line.startswith("|"):
            found.append([])
        elif not set(line) <= set("|-"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return [table for table in found if table]


@pytest.mark.parametrize(
    "name", ["differences", "differences-lingpipe", "differences-streaming", "worked-example"]
)
def test_every_number_of_ours_is_computed(name: str) -> None:
    """Every answer of ours on a page is what the code returns."""
    page = (DOCS / f"{name}.md").read_text()
    rows = NUMBER.findall(page)
    assert len(rows) == page.count("→") > 15
    space = names(page)
    for expression, printed in rows:
        if not any(is_of(expression, library) for library in PEERS):
            value = eval(expression, space)
            assert agrees(value, printed), (expression, value, printed)


@pytest.mark.filterwarnings("ignore")  # the others warn where an answer is undefined
@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("differences", "sklearn"),
        ("differences-streaming", "torchmetrics"),
        ("differences-streaming", "river"),
    ],
)
def test_every_number_of_the_others_is_computed(name: str, library: str, require) -> None:
    """Every answer of another library on a page is what that library returns."""
    require(library)
    page = (DOCS / f"{name}.md").read_text()
    space = names(page, library)
    rows = [each for each in NUMBER.findall(page) if is_of(each[0], library)]
    assert len(rows) >= 7
    for expression, printed in rows:
        value = eval(expression, space)
        assert agrees(value, printed), (expression, value, printed)


def test_the_worked_example_s_tables_are_computed() -> None:
    """Each row of the page's ranks and curves is what the evaluator returns."""
    page = (DOCS / "worked-example.md").read_text()
    ev = names(page)["ev"]
    ranks, curve, interpolated, eleven, roc, best, _ = tables(page)
    assert len(ranks) == 12
    for _, score, _, *printed in ranks[1:]:
        at = ev.confusion_at(float(score))
        values = (at.tp, at.tn, at.fp, at.fn, at.recall, at.precision, at.specificity)
        for value, text in zip((*values, at.f_measure), printed, strict=True):
            assert agrees(value, text), (score, value, text)
    levels = [[i / 10, value] for i, value in enumerate(ev.eleven_pt_interp_precision())]
    for table, rows in (
        (curve, ev.pr_curve()),
        (interpolated, ev.pr_curve(True)),
        (eleven, levels),
        (roc, ev.roc_curve()),
        (best, ev.roc_curve(True)),
    ):
        for cells, row in zip(table[1:], rows, strict=True):
            assert all(agrees(value, text) for value, text in zip(row, cells, strict=True)), cells
