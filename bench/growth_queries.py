"""Every query of the library, for any number of cases. A part of bench/growth.py.

Metrics, intervals, bounds and comparisons are those of the registry: a new one is measured
without a change here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from growth_subject import CHANGED_CASES, HOUR, MAX_PYTHON_CASES, Subject, Work

from streameval import Evaluator, WindowedEvaluator, compare
from streameval._metric_registry import BY_NAME, METRICS, Metric, Place

GIVEN = {"threshold": 0.5, "rank": 100, "cost_fp": 1.0, "cost_fn": 5.0}
"""Values of the arguments without which metrics have no value."""

POSITIVES = Subject.positive_cells.fget
PANES = Subject.pane_cells.fget
PAIRS = Subject.pair_cells.fget

RANKED = {"recall_at", "lift_at"}
"""Metrics that take a rank or a share of the cases."""


def asked(ask: Callable[[Evaluator], object]) -> Callable[[Subject], Callable[[], object]]:
    """Return a query of the exact evaluator, of which nothing is known before."""

    def prepare(subject: Subject) -> Callable[[], object]:
        exact = subject.exact

        def work() -> None:
            exact._view().forget()
            ask(exact)

        return work

    return prepare


def asked_of_cells(ask: Callable[[Evaluator], object]) -> Callable[[Subject], Callable[[], object]]:
    """Return a query of the bounded evaluator, of which nothing is known before."""

    def prepare(subject: Subject) -> Callable[[], object]:
        bounded = subject.bounded

        def work() -> None:
            bounded._view().forget()
            ask(bounded)

        return work

    return prepare


def value_of(metric: Metric) -> Callable[[Evaluator], object]:
    given = arguments_of(metric.name)
    return (lambda ev: metric.function(ev, **given)) if given else metric.value


def arguments_of(name: str) -> dict[str, object]:
    """Return the arguments of a metric, its interval, its bounds or a comparison by it."""
    needed = ("rank",) if name in RANKED else BY_NAME[name].needs
    return {each: GIVEN[each] for each in needed}


def compared(name: str) -> Callable[[Subject], Callable[[], object]]:
    def prepare(subject: Subject) -> Callable[[], object]:
        first, second = subject.exact, subject.second

        def work() -> None:
            first._view().forget()
            second._view().forget()
            compare(first, second, metric=name, **arguments_of(name))

        return work

    return prepare


CURVES: dict[str, Callable[[Evaluator], object]] = {
    "pr_curve": Evaluator.pr_curve,
    "pr_score_curve": Evaluator.pr_score_curve,
    "roc_curve": Evaluator.roc_curve,
    "operating_points": Evaluator.operating_points,
    "candidate_thresholds": Evaluator.candidate_thresholds,
    "precision_recall_gain_curve": Evaluator.precision_recall_gain_curve,
    "cost_curve": Evaluator.cost_curve,
    "roc_hull": Evaluator.roc_hull,
    "pr_hull": Evaluator.pr_hull,
    "reliability": Evaluator.reliability,
    "coin at a recall of 0.5": lambda ev: ev.coin(recall=0.5),
    "best_threshold": lambda ev: ev.best_threshold(cost_fp=1, cost_fn=5),
    "snapshot, with intervals": lambda ev: ev.snapshot().to_dict(),
    "to_bytes": Evaluator.to_bytes,
}


def windows(
    ask: Callable[[WindowedEvaluator], object],
) -> Callable[[Subject], Callable[[], object]]:
    def prepare(subject: Subject) -> Callable[[], object]:
        windowed = subject.windowed
        return lambda: ask(windowed.copy())

    return prepare


def paired_compared(subject: Subject) -> Callable[[], object]:
    paired = subject.paired
    return lambda: paired.compare(metric=Place.COMPARISON.names()[0])


def queries() -> Iterator[tuple[str, tuple[Work, ...]]]:
    """Yield the groups of queries."""
    yield (
        "metrics",
        tuple(Work(metric.name, "O(n)", asked(value_of(metric))) for metric in METRICS),
    )
    yield (
        "curves",
        tuple(Work(name, "O(n log n)", asked(ask)) for name, ask in CURVES.items()),
    )
    yield (
        "intervals",
        tuple(
            Work(
                name,
                "O(n log n)",
                asked(lambda ev, name=name: ev.interval(name, **arguments_of(name))),
            )
            for name in Place.INTERVAL.names()
        ),
    )
    yield (
        "bounds",
        tuple(
            Work(
                name,
                "O(cells)",
                asked_of_cells(lambda ev, name=name: ev.bounds(name, **arguments_of(name))),
                cells=POSITIVES,
            )
            for name in Place.BOUNDS.names()
        ),
    )
    yield (
        "comparisons",
        (
            *(Work(name, "O(n log n)", compared(name)) for name in Place.COMPARISON.names()),
            Work(
                "pairs, at most 65,536 cells", "O(cells)", paired_compared, MAX_PYTHON_CASES, PAIRS
            ),
        ),
    )
    yield (
        "of cells and windows",
        (
            Work(
                "snapshot of 16,384 cells",
                "O(cells)",
                asked_of_cells(lambda ev: ev.snapshot().to_dict()),
                cells=POSITIVES,
            ),
            Work(
                "window of 60 panes",
                "O(cells)",
                windows(lambda each: each.last(HOUR).snapshot().to_dict()),
                MAX_PYTHON_CASES,
                PANES,
            ),
            Work(
                "the last 1,000 cases",
                "O(cells)",
                windows(lambda each: each.last_cases(CHANGED_CASES).auc_pr()),
                MAX_PYTHON_CASES,
                PANES,
            ),
            Work(
                "decayed, half an hour",
                "O(cells)",
                windows(lambda each: each.decayed(HOUR / 2).auc_pr()),
                MAX_PYTHON_CASES,
                PANES,
            ),
        ),
    )
