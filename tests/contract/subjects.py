"""The evaluators that one suite tests: in process, after a round trip of bytes, over gRPC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from streameval import Evaluator

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval import Snapshot
    from streameval.client import Stream

FIGURES = (
    "auc_roc",
    "auc_roc_hull",
    "auc_pr",
    "auc_pr_hull",
    "average_precision",
    "prevalence",
)
COUNTS = (
    "num_cases",
    "num_scored",
    "num_positive_ref",
    "num_negative_ref",
    "num_misses",
    "num_negative_misses",
)


class Subject(Protocol):
    """The interface under test: adds cases and answers queries."""

    def add_case(self, positive: bool, score: float, **sampling: Any) -> None: ...
    def add_cases(self, *, labels: Any, scores: Any, **columns: Any) -> None: ...
    def add_misses(self, count: int) -> None: ...
    def add_negative_misses(self, count: int) -> None: ...
    def snapshot(self) -> Snapshot: ...
    def evaluator(self) -> Evaluator: ...


class InProcess(Evaluator):
    """The evaluator itself."""

    def evaluator(self) -> Evaluator:
        return self.copy()


class RoundTrip:
    """The evaluator, rebuilt from its bytes after each mutation and before each answer."""

    def __init__(self, **settings: Any) -> None:
        self._data = Evaluator(**settings).to_bytes()

    def _change(self, change: Callable[[Evaluator], None]) -> None:
        evaluator = Evaluator.from_bytes(self._data)
        try:
            change(evaluator)
        finally:
            self._data = evaluator.to_bytes()

    def add_case(self, positive: bool, score: float, **sampling: Any) -> None:
        self._change(lambda ev: ev.add_case(positive, score, **sampling))

    def add_cases(self, **columns: Any) -> None:
        self._change(lambda ev: ev.add_cases(**columns))

    def add_misses(self, count: int) -> None:
        self._change(lambda ev: ev.add_misses(count))

    def add_negative_misses(self, count: int) -> None:
        self._change(lambda ev: ev.add_negative_misses(count))

    def snapshot(self) -> Snapshot:
        return self.evaluator().snapshot()

    def evaluator(self) -> Evaluator:
        return Evaluator.from_bytes(self._data)


class Served:
    """A stream of a server."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.add_case = stream.add_case
        self.add_cases = stream.add_cases
        self.add_misses = stream.add_misses
        self.add_negative_misses = stream.add_negative_misses

    def snapshot(self) -> Snapshot:
        self._stream.flush()
        return self._stream.snapshot()

    def evaluator(self) -> Evaluator:
        self._stream.flush()
        return self._stream.evaluator()


def content(evaluator: Evaluator) -> tuple[Any, ...]:
    """Return the counts without the cap on cells, which only a server's evaluator has."""
    points = evaluator.operating_points()
    columns = (points.thresholds, points.fp, points.tp)
    misses = (evaluator.num_misses, evaluator.num_negative_misses)
    return evaluator.resolution, *misses, *(column.tolist() for column in columns)


def counts_of(snapshot: Snapshot) -> tuple[int, ...]:
    """Return the numbers of cases."""
    return tuple(getattr(snapshot, name) for name in COUNTS)


def figures_of(snapshot: Snapshot) -> tuple[float, ...]:
    """Return the figures of a snapshot."""
    return tuple(getattr(snapshot, name) for name in FIGURES)
