"""Every kind of row that the library takes, for any number of cases. A part of bench/growth.py."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import numpy as np
from growth_subject import CHANGED_CASES, HOUR, MAX_PYTHON_CASES, START, Subject, Work

from streameval import (
    DriftDetector,
    Evaluator,
    LabelJoiner,
    PairedEvaluator,
    WindowedEvaluator,
)


def one_by_one(subject: Subject) -> Callable[[], object]:
    rows = list(zip(subject.labels.tolist(), subject.scores.tolist(), strict=True))

    def work() -> None:
        evaluator = Evaluator()
        add_case = evaluator.add_case
        for label, score in rows:
            add_case(label, score)
        _ = evaluator.num_cells

    return work


def changed(change: Callable[[Evaluator], object]) -> Callable[[Subject], Callable[[], object]]:
    """Return a work that changes a copy of all cases, and merges the change."""

    def prepare(subject: Subject) -> Callable[[], object]:
        exact = subject.exact

        def work() -> None:
            evaluator = exact.copy()
            change(evaluator)
            _ = evaluator.num_cases

        return work

    return prepare


def few_added(subject: Subject) -> Callable[[], object]:
    rng = np.random.default_rng(1)
    labels, scores = rng.random(CHANGED_CASES) < 0.05, rng.random(CHANGED_CASES)
    exact = subject.exact

    def work() -> None:
        evaluator = exact.copy()
        evaluator.add_cases(labels=labels, scores=scores)
        evaluator.auc_roc()

    return work


def few_removed(subject: Subject) -> Callable[[], object]:
    labels, scores = subject.labels[:CHANGED_CASES], subject.scores[:CHANGED_CASES]
    return changed(lambda ev: ev.remove_cases(labels=labels, scores=scores))(subject)


def all_removed(subject: Subject) -> Callable[[], object]:
    labels, scores = subject.labels, subject.scores
    return changed(lambda ev: ev.remove_cases(labels=labels, scores=scores))(subject)


def windowed_added(subject: Subject) -> Callable[[], object]:
    def work() -> None:
        windowed = WindowedEvaluator(resolution=12)
        windowed.add_cases(labels=subject.labels, scores=subject.scores, at=subject.at)
        windowed.last(HOUR).auc_pr()

    return work


def logged(subject: Subject) -> Callable[[], object]:
    ids = subject.ids

    def work() -> None:
        joiner = LabelJoiner(Evaluator(resolution=12), ttl=timedelta(days=7))
        joiner.log_cases(ids=ids, scores=subject.scores, at=START)

    return work


def labelled(subject: Subject) -> Callable[[], object]:
    before, ids = subject.logged, subject.ids

    def work() -> None:
        joiner = before.copy()
        joiner.label_cases(ids=ids, labels=subject.labels, at=START)
        _ = joiner.evaluator.num_cases

    return work


def paired_added(subject: Subject) -> Callable[[], object]:
    def work() -> None:
        paired = PairedEvaluator(scale="probability")
        paired.add_cases(labels=subject.labels, scores_a=subject.scores, scores_b=subject.others)

    return work


def detected(subject: Subject) -> Callable[[], object]:
    reference = subject.filled(resolution=12, scale="probability")

    def work() -> None:
        detector = DriftDetector(
            reference,
            watch=("auc_roc",),
            tolerance=0.01,
            mean_time_to_false_alarm=timedelta(days=365),
        )
        detector.add_cases(labels=subject.labels, scores=subject.scores, at=subject.at)

    return work


def two_merged(subject: Subject) -> Callable[[], object]:
    first, second = subject.exact, subject.second
    return lambda: first + second


ROWS = (
    Work("add_case, each", "O(n log n)", one_by_one, MAX_PYTHON_CASES),
    Work("add_cases, all at once", "O(n log n)", lambda subject: subject.filled),
    Work("1,000 more, and AUC-ROC", "O(n)", few_added),
    Work("add_misses", "O(1)", changed(lambda ev: ev.add_misses(3))),
    Work("merge of two", "O(n)", two_merged),
    Work("remove 1,000", "O(n)", few_removed),
    Work("remove all", "O(n log n)", all_removed),
    Work("60 panes, and their window", "O(n log n)", windowed_added, MAX_PYTHON_CASES),
    Work("joiner: log_cases", "O(n log n)", logged, MAX_PYTHON_CASES),
    Work("joiner: label_cases", "O(n log n)", labelled, MAX_PYTHON_CASES),
    Work("pairs: add_cases", "O(n log n)", paired_added, MAX_PYTHON_CASES),
    Work("detector: add_cases", "O(n log n)", detected, MAX_PYTHON_CASES),
)
