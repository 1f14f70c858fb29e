"""A recount of pairs with plain dicts, row by row, and its comparison with an engine.

As `oracle`, it shares nothing with the engine but the grid of panes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from streameval.kernel import Grid

if TYPE_CHECKING:
    from streameval.statistics import PairCounts
    from streameval.v1 import ingest_pb2
    from streameval_server._core.engine import Engine
    from streameval_server._model.pair_settings import PairSettings

    from .oracle import Oracle, StreamOracle

UNIT = 2**16
SECOND_US = 1_000_000

Case = tuple[int, tuple[str, ...], bool, float, float]
"""Event time, segment values, class, a's score and b's; counted in units of 2**-16."""


class SharedId:
    """What is known of an id."""

    def __init__(self, due: int) -> None:
        self.due = due
        self.scores: dict[str, float] = {}
        self.event_us = 0
        self.slices: tuple[str, ...] = ()
        self.positive: bool | None = None
        self.units = UNIT

    @property
    def is_shared(self) -> bool:
        """Whether both streams have predicted it."""
        return len(self.scores) == 2

    @property
    def is_counted(self) -> bool:
        """Whether it counts."""
        return self.is_shared and self.positive is not None


class PairOracle:
    """The state that one pair should have.

    Parameters
    ----------
    names : (str, str)
        Of a and of b.
    settings
        The pair's.
    """

    def __init__(self, names: tuple[str, str], settings: PairSettings) -> None:
        self.names = names
        self.settings = settings
        self.ids: dict[str, SharedId] = {}
        self.cases: Counter[Case] = Counter()
        self.seen: Counter[str] = Counter()
        self.tally: Counter[str] = Counter()

    def bucket(self, time_us: int) -> int:
        """Return the bucket of a time."""
        shortest = min(self.settings.label_ttl_us, self.settings.relabel_ttl_us)
        return max(time_us // max(SECOND_US, shortest // 128), 0)

    def expire(self, before: int) -> int:
        """Expire the ids in buckets below `before`; return how many."""
        due = [each for each, kept in self.ids.items() if kept.due < before]
        for each in due:
            kept = self.ids.pop(each)
            self.tally["expired"] += not kept.is_counted
            if kept.is_shared and kept.positive is None and self.settings.expired_negative:
                kept.positive = False
                self.count(kept, 1)
        return len(due)

    def count(self, kept: SharedId, sign: int) -> None:
        """Count an id, or remove it."""
        a, b = (kept.scores[name] for name in self.names)
        case = kept.event_us, kept.slices, bool(kept.positive), a, b
        self.cases[case] += sign * kept.units

    def take(
        self, stream: str, batch: ingest_pb2.Batch, of: StreamOracle, now_us: int, due_us: int
    ) -> None:
        """Take a batch of one of the streams, whose own recount parses its columns."""
        kind = batch.WhichOneof("rows")
        if kind not in {"predictions", "labels", "retractions"}:
            return
        self.expire(self.bucket(due_us))
        rows = getattr(batch, kind)
        if kind == "predictions":
            self.predictions(stream, rows, of, now_us)
        elif kind == "labels":
            self.labels(stream, rows, of, now_us)
        else:
            for each in rows.ids:
                self.retract(each)
        self.expire(self.bucket(due_us))
        while len(self.ids) > self.settings.max_pending:
            first = min(kept.due for kept in self.ids.values())
            self.tally["expired_early"] += self.expire(first + 1)

    def predictions(
        self, stream: str, rows: ingest_pb2.Predictions, of: StreamOracle, now_us: int
    ) -> None:
        """Take predictions."""
        size = len(rows.ids)
        places = [of.settings.segment_keys.index(key) for key in self.settings.segment_keys]
        slices = [tuple(row[at] for at in places) for row in of.columns(rows.segments, size)]
        times = of.times(rows.event_times_us, size, now_us)
        for each, score, time_us, where in zip(rows.ids, rows.scores, times, slices, strict=True):
            if not self.predict(stream, each, score + 0.0, (time_us, where), now_us):
                self.tally["repeated_predictions"] += 1

    def predict(
        self, stream: str, each: str, score: float, at: tuple[int, tuple[str, ...]], now_us: int
    ) -> bool:
        """Take a prediction; return whether it is its stream's first of the id."""
        settings = self.settings
        kept = self.ids.setdefault(each, SharedId(self.bucket(at[0] + settings.label_ttl_us)))
        if stream in kept.scores:
            return False
        if not kept.scores:
            kept.event_us, kept.slices = at
            kept.due = self.bucket(at[0] + settings.label_ttl_us)
        kept.scores[stream] = score
        self.seen[stream] += 1
        self.seen["both"] += kept.is_shared
        if kept.is_counted:
            self.count(kept, 1)
            kept.due = self.bucket(now_us + settings.relabel_ttl_us)
        return True

    def labels(self, stream: str, rows: ingest_pb2.Labels, of: StreamOracle, now_us: int) -> None:
        """Take labels; those that stand for their predictions, too, as such first."""
        size, nowhere = len(rows.ids), ("",) * len(self.settings.segment_keys)
        times = of.times(rows.event_times_us, size, now_us)
        if rows.scores:
            for each, score, time_us in zip(rows.ids, rows.scores, times, strict=True):
                self.predict(stream, each, score + 0.0, (time_us, nowhere), now_us)
        for each, positive, units in zip(
            rows.ids, rows.positives, of.units(rows, size), strict=True
        ):
            self.label(each, positive, units, now_us)

    def label(self, each: str, positive: bool, units: int, now_us: int) -> None:
        """Take one label; one of another weight than the id's first repeats it."""
        settings = self.settings
        kept = self.ids.setdefault(each, SharedId(self.bucket(now_us + settings.label_ttl_us)))
        if kept.positive == positive or (kept.positive is not None and kept.units != units):
            self.tally["repeated_labels"] += 1
            return
        if kept.positive is not None:
            self.tally["relabelled"] += 1
            if kept.is_counted:
                self.count(kept, -1)
        kept.positive, kept.units = positive, units
        if kept.is_counted:
            self.count(kept, 1)
            kept.due = self.bucket(now_us + settings.relabel_ttl_us)

    def retract(self, each: str) -> None:
        """Forget an id."""
        kept = self.ids.pop(each, None)
        if kept is None:
            return
        self.tally["retracted"] += 1
        if kept.is_counted:
            self.count(kept, -1)
        self.seen.subtract([*kept.scores, *(["both"] if kept.is_shared else [])])


def compare_pairs(engine: Engine, oracle: Oracle) -> None:
    """Assert that an engine has the pairs that the oracle computes."""
    found = {pair.info.name: pair for pair in engine.pairs.values()}
    assert found.keys() == oracle.pairs.keys()
    for name, wanted in oracle.pairs.items():
        pair, names = found[name], wanted.names
        pair._check()
        assert (pair.info.a, pair.info.b) == names
        assert pair.info.settings == wanted.settings
        assert len(pair.joiner.ids) == len(wanted.ids), names
        mine = {kind: size for kind, size in wanted.tally.items() if size}
        assert {kind: size for kind, size in pair.joiner.tally.items() if size} == mine, names
        view = engine.pair_view(name)
        assert view is not None
        counts = view.counts()
        counts._check()
        seen = tuple(wanted.seen[each] for each in (*names, "both"))
        assert counts.total_seen.get(0, (0, 0, 0)) == seen, names
        _same(counts.totals.get(0), wanted.cases, names)
        settings = wanted.settings
        grid = Grid.at(Grid.tiers_of(settings.pane_us, settings.retention_us), oracle.due_us)
        by_pane: dict[int, Counter[Case]] = {}
        for case, size in wanted.cases.items():
            if case[0] >= grid.oldest_us:
                by_pane.setdefault(grid.start_of(case[0]), Counter())[case] += size
        kept = {pane.start_us: pane.content.counts.get(0) for pane in counts.panes}
        for start in by_pane.keys() | kept.keys():
            _same(kept.get(start), by_pane.get(start, Counter()), (names, start))


def _same(counts: PairCounts | None, wanted: Counter[Case], where: object) -> None:
    """Assert that counts have these cases: exactly, or by class where scores lost bits."""
    for model in range(2):
        found: Counter[tuple[bool, float]] = Counter()
        expected: Counter[tuple[bool, float]] = Counter()
        state = None if counts is None else counts.models[model]
        is_exact = state is None or state.resolution is None
        for case, size in wanted.items():
            expected[case[2], case[3 + model] if is_exact else 0.0] += size
        if state is not None:
            for label in (True, False):
                run = state.counts.weighed().run(label)
                for score, size in zip(run.scores.tolist(), run.counts.tolist(), strict=True):
                    found[label, score if is_exact else 0.0] += size
        assert {key: size for key, size in expected.items() if size} == found, where
