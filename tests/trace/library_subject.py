"""The library under a recorded trace: evaluators by name, verbs with plain values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import streameval
from streameval import Evaluator, PairedEvaluator, StreamEvalError, WindowedEvaluator

from .neutral import neutral

if TYPE_CHECKING:
    from collections.abc import Mapping

_KINDS = {"plain": Evaluator, "windowed": WindowedEvaluator, "paired": PairedEvaluator}
_METHODS: dict[str, dict[str, Any]] = {
    "auc_pr": {},
    "auc_roc": {},
    "average_precision": {},
    "auc_prg": {},
    "auc_pr_normalized": {},
    "auc_pr_minimum": {},
    "gini": {},
    "ks_statistic": {},
    "maximum_f_measure": {},
    "maximum_mcc": {},
    "pr_breakeven_point": {},
    "brier_score": {},
    "log_loss": {},
    "calibration_error": {},
    "observed_expected_ratio": {},
    "r_precision": {},
    "reciprocal_rank": {},
    "eleven_pt_interp_precision": {},
    "pr_curve": {"interpolate": True},
    "confusion_at": {"threshold": 0.5},
    "threshold_for": {"precision": 0.5},
    "expected_cost": {"threshold": 0.5, "cost_fp": 1.0, "cost_fn": 4.0},
}
_BOUNDED = ("auc_pr", "auc_roc", "average_precision", "brier_score")
_ESTIMATED = ("auc_pr", "auc_roc", "average_precision")


class LibrarySubject:
    """Evaluators by name."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def take(self, request: Mapping[str, Any]) -> Any:
        """Return the answer to one line of the trace, as JSON values."""
        given = dict(request)
        verb = given.pop("do")
        try:
            return neutral(getattr(self, "_" + verb)(**given))
        except StreamEvalError as error:
            return {"refused": type(error).__name__}

    def _make(self, name: str, kind: str, **settings: Any) -> None:
        for key in ("pane", "retention"):
            if key in settings:
                settings[key] = timedelta(seconds=settings[key])
        self._named[name] = _KINDS[kind](**settings)

    def _call(self, name: str, method: str, **given: Any) -> None:
        """Change an evaluator."""
        if "at_us" in given:
            given["at"] = _time(given.pop("at_us"))
        getattr(self._named[name], method)(**given)

    def _advance(self, name: str, at_us: int) -> None:
        self._named[name].advance(_time(at_us))

    def _merge(self, name: str, others: list[str]) -> None:
        self._named[name].merge(*(self._named[other] for other in others))

    def _copy(self, name: str, to: str, *, through_bytes: bool) -> None:
        source = self._named[name]
        copied = type(source).from_bytes(source.to_bytes()) if through_bytes else source.copy()
        self._named[to] = copied

    def _ask(self, name: str, span_s: int = 0, half_life_s: int = 0, cases: int = 0) -> Any:
        """Return every figure of an evaluator, or of a window of it."""
        subject = self._named[name]
        if span_s:
            subject = subject.last(timedelta(seconds=span_s))
        elif half_life_s:
            subject = subject.decayed(timedelta(seconds=half_life_s))
        elif cases:
            subject = subject.last_cases(cases)
        return _figures(subject)

    def _panes(self, name: str) -> Any:
        return [
            (pane.start, pane.end, pane.num_positive_ref, _tried(pane, "auc_pr", {}))
            for pane in self._named[name].panes()
        ]

    def _compare(self, a: str, b: str, metric: str) -> Any:
        return streameval.compare(self._named[a], self._named[b], metric=metric)

    def _pair(self, name: str, metric: str, *, anytime: bool) -> Any:
        return self._named[name].compare(metric=metric, anytime=anytime)


def _time(at_us: Any) -> Any:
    """Return a time, or a column of times."""
    if isinstance(at_us, list):
        return [_time(each) for each in at_us]
    return datetime.fromtimestamp(0, tz=UTC) + timedelta(microseconds=at_us)


def _figures(subject: Any) -> dict[str, Any]:
    found = {
        name: getattr(subject, name)
        for name in ("num_positive_ref", "num_negative_ref", "num_scored", "num_misses")
    }
    found |= {name: _tried(subject, name, given) for name, given in _METHODS.items()}
    for name in _ESTIMATED:
        found["interval of " + name] = _tried(subject, "interval", {"metric": name})
        shifted = {"metric": name, "prevalence": 0.05}
        found["at 0.05, " + name] = _tried(subject, "interval", shifted)
    found["anytime"] = _tried(subject, "interval", {"metric": "auc_roc", "anytime": True})
    for name in _BOUNDED:
        found["bounds of " + name] = _tried(subject, "bounds", {"metric": name})
    return found


def _tried(subject: Any, method: str, given: dict[str, Any]) -> Any:
    """Return what a method answers; windows lack some of them, and counts refuse others."""
    call = getattr(subject, method, None)
    if call is None:
        return None
    try:
        return partial(call, **given)()
    except StreamEvalError as error:
        return {"refused": type(error).__name__}
