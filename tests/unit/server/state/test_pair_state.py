"""Pairs in the engine, against a recount with plain dicts, row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from streameval import InvalidInputError, PairedEvaluator
from streameval._counts.cluster_keys import cluster_checksums
from streameval.kernel import Grid
from streameval.statistics import PairCounts, PairRows, PairShape
from streameval.v1 import pair_pb2
from streameval.wire import SegmentCodes
from streameval_server import Limits
from streameval_server._core.engine import Engine
from streameval_server._core.entries import Entry
from streameval_server._log.checkpoint import LazyParts
from streameval_server._log.rows import Kind
from streameval_server._model.errors import CorruptLogError, RequestError
from streameval_server._model.pair_settings import (
    PairCreation,
    PairDeletion,
    PairSettings,
    pair_key,
)
from streameval_server._model.row_kinds import LabelRows, PredictionRows, RetractionRows
from streameval_server._model.stream_settings import SettingsUpdate, StreamSettings
from streameval_server._state.pairs import pair_panes
from streameval_server._state.pairs.pair_state import compare_counts

START_US = 1_700_000_000_000_000
MINUTE_US = 60_000_000
SETTINGS = StreamSettings(
    label_ttl_us=40 * MINUTE_US,
    relabel_ttl_us=15 * MINUTE_US,
    retention_us=5 * 60 * MINUTE_US,
    segment_keys=("country",),
    threshold=0.5,
)
COUNTRIES = ("", "DE", "FR")
UNIT = 65_536


class Log:
    """Entries for an engine, one after another."""

    def __init__(
        self,
        *,
        expired: str = "drop",
        groups: int = 0,
        **given: object,
    ) -> None:
        self.now_us = START_US
        self.numbers = count(1)
        self.entries: list[Entry] = []
        settings = SETTINGS
        changes = {"expired": expired, "cluster_groups": groups}
        settings = StreamSettings(**{**_fields(settings), **changes})
        self.settings = settings
        self.groups = groups
        for name in ("a", "b"):
            self.put(Kind.CREATE_STREAM, name, change=settings)
        message = pair_pb2.PairSettings(**given)
        creation = PairCreation("next", "a", "b", message)
        self.put(Kind.CREATE_PAIR, "a", change=creation)

    def put(self, kind: Kind, stream: str, rows: object = None, change: object = None) -> None:
        entry = Entry(next(self.numbers), self.now_us, kind, stream, "", 0, 0, rows, change)
        self.entries.append(entry)

    def predict(self, stream: str, ids, scores, event_us=None, country=None) -> None:
        size = len(ids)
        columns = ()
        if country is not None:
            columns = (SegmentCodes("country", COUNTRIES, np.asarray(country, dtype=np.uint8)),)
        clusters = None
        if self.groups:
            clusters = cluster_checksums([id_.decode().partition("-")[0] for id_ in ids])
        rows = PredictionRows(
            list(ids), np.asarray(scores, dtype=float), size, size, event_us, columns, clusters
        )
        self.put(Kind.BATCH, stream, rows)

    def label(self, stream: str, ids, positive, units=None) -> None:
        size = len(ids)
        labels = np.asarray(positive, dtype=np.bool_)
        self.put(Kind.BATCH, stream, LabelRows(list(ids), labels, size, size, units=units))

    def retract(self, stream: str, ids) -> None:
        self.put(Kind.BATCH, stream, RetractionRows(list(ids), len(ids)))


def _fields(settings: StreamSettings) -> dict[str, object]:
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}


class Recount:
    """What a pair should hold, by the rules of the documentation."""

    def __init__(self, log: Log) -> None:
        settings = log.settings
        self.ttl_us, self.relabel_us = settings.label_ttl_us, settings.relabel_ttl_us
        self.bucket_us = max(1_000_000, min(self.ttl_us, self.relabel_us) // 128)
        self.expired_negative = settings.expired == "negative"
        self.ids: dict[bytes, dict] = {}
        self.cases: Counter = Counter()
        self.units: Counter = Counter()
        self.seen: Counter = Counter()
        self.tally: Counter = Counter()

    def due(self, time_us: int) -> int:
        return time_us // self.bucket_us

    def expire(self, now_us: int) -> None:
        before = now_us // self.bucket_us
        for id_ in [id_ for id_, kept in self.ids.items() if kept["due"] < before]:
            kept = self.ids.pop(id_)
            if self.counts(kept):
                continue
            self.tally["expired"] += 1
            if self.expired_negative and {"a", "b"} <= kept.keys():
                kept["label"] = False
                self.add(kept, 1)

    @staticmethod
    def counts(kept: dict) -> bool:
        return {"a", "b", "label"} <= kept.keys()

    def add(self, kept: dict, sign: int) -> None:
        case = (kept["at"], kept["country"], bool(kept["label"]), kept["a"], kept["b"])
        units = kept.get("units", UNIT)
        if units:
            self.cases[case] += sign
            self.units[case] += sign * units

    def take(self, entry: Entry) -> None:
        rows, now_us = entry.rows, entry.received_us
        self.expire(now_us)
        if isinstance(rows, PredictionRows):
            for row, id_ in enumerate(rows.ids):
                event_us = now_us if rows.event_us is None else int(rows.event_us[row])
                country = rows.segments[0].codes[row] if rows.segments else 0
                at = event_us, country
                self.predict(entry.stream, id_, rows.scores[row], at, now_us)
        elif isinstance(rows, LabelRows):
            weights = [UNIT] * len(rows.ids) if rows.units is None else rows.units.tolist()
            for id_, label, units in zip(rows.ids, rows.labels.tolist(), weights, strict=True):
                self.label(id_, label, units, now_us)
        elif isinstance(rows, RetractionRows):
            for id_ in rows.ids:
                self.retract(id_)
        self.expire(now_us)

    def predict(self, side, id_, score, at, now_us) -> None:
        event_us, country = at
        kept = self.ids.setdefault(id_, {})
        if side in kept:
            self.tally["repeated_predictions"] += 1
            return
        kept[side] = score
        if not {"a", "b"} <= kept.keys():
            kept |= {"at": event_us, "country": country, "due": self.due(event_us + self.ttl_us)}
        else:
            self.seen["both"] += 1
        self.seen[side] += 1
        if self.counts(kept):
            self.add(kept, 1)
            kept["due"] = self.due(now_us + self.relabel_us)

    def label(self, id_, label, units, now_us) -> None:
        kept = self.ids.setdefault(id_, {"due": self.due(now_us + self.ttl_us)})
        if kept.get("label") == label or kept.get("units", units) != units:
            self.tally["repeated_labels"] += 1
            return
        if "label" in kept:
            self.tally["relabelled"] += 1
            if self.counts(kept):
                self.add(kept, -1)
        kept["label"], kept["units"] = label, units
        if self.counts(kept):
            self.add(kept, 1)
            kept["due"] = self.due(now_us + self.relabel_us)

    def retract(self, id_) -> None:
        kept = self.ids.pop(id_, None)
        if kept is None:
            return
        self.tally["retracted"] += 1
        if self.counts(kept):
            self.add(kept, -1)
        for side in ("a", "b"):
            self.seen[side] -= side in kept
        self.seen["both"] -= {"a", "b"} <= kept.keys()


def acted(log: Log, seed: int, steps: int, weights: tuple[int, ...] = ()) -> None:
    """Add random operations on few ids, with pauses; labels with some of these weights."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        log.now_us += int(rng.choice((0, 1, 20, 200, 1_500))) * 1_000_000
        size = int(rng.integers(1, 12))
        ids = [b"u%d-%d" % (each % 5, each) for each in rng.integers(0, 60, size).tolist()]
        stream = str(rng.choice(("a", "b")))
        kind = rng.random()
        if kind < 0.55:
            event_us = None
            if rng.random() < 0.6:
                event_us = log.now_us - rng.integers(0, 90, size) * MINUTE_US
            scores = 1_000 + np.round(rng.random(size), 2)
            log.predict(stream, ids, scores, event_us, rng.integers(0, 3, size))
        elif kind < 0.93:
            units = rng.choice(weights, size) if weights and rng.random() < 0.7 else None
            log.label(stream, ids, rng.random(size) < 0.4, units)
        else:
            log.retract(stream, ids)


def applied(entries: list[Entry], pieces: int = 1) -> Engine:
    """Return an engine with all entries, in pieces of this length."""
    engine = Engine(Limits())
    for at in range(0, len(entries), pieces):
        engine.apply(entries[at : at + pieces])
    return engine


def cases_of(counts: PairCounts | None) -> tuple[Counter, Counter]:
    """Return the cases of each model by class and score."""
    found = (Counter(), Counter())
    if counts is None:
        return found
    for model, cases in zip(counts.models, found, strict=True):
        for label in (True, False):
            run = model.counts.weighed().run(label)
            for score, size in zip(run.scores.tolist(), run.cases.tolist(), strict=True):
                cases[label, score] += size
    return found


def expected_cases(recount: Recount, chosen) -> tuple[Counter, Counter]:
    found = (Counter(), Counter())
    for (at, country, label, a, b), size in recount.cases.items():
        if size and chosen(at, country):
            found[0][label, a] += size
            found[1][label, b] += size
    return tuple(+each for each in found)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.slow
def test_a_pair_is_what_a_recount_gives(seed: int) -> None:
    """All time, panes, segments, ids and tallies after random operations on few ids."""
    log = Log(expired="negative" if seed % 2 else "drop", max_cells=16 if seed > 2 else 4_096)
    acted(log, seed, 120)
    recount = Recount(log)
    for entry in log.entries:
        recount.take(entry)
    engine = applied(log.entries)
    pair = engine.pairs.get(pair_key("next"))
    pair._check()
    view = engine.pair_view("next")
    counts = view.counts()
    counts._check()
    assert cases_of(counts.totals.get(0)) == expected_cases(recount, lambda *_: True)
    assert len(pair.joiner.ids) == len(recount.ids)
    tally = {name: size for name, size in pair.joiner.tally.items() if size}
    assert tally == {name: size for name, size in recount.tally.items() if size}
    seen = (recount.seen["a"], recount.seen["b"], recount.seen["both"])
    assert counts.total_seen[0] == seen
    for code, value in enumerate(COUNTRIES):
        number = view.slice_number(("country", value))
        wanted = expected_cases(recount, lambda _, country, code=code: country == code)
        assert cases_of(counts.totals.get(-1 if number is None else number)) == wanted
    settings = pair.info.settings
    grid = Grid.at(Grid.tiers_of(settings.pane_us, settings.retention_us), log.now_us)
    kept = {pane.start_us: pane.content for pane in counts.panes}
    starts = {grid.start_of(at) for at, *_ in recount.cases if at >= grid.oldest_us}
    for start in starts | kept.keys():
        wanted = expected_cases(
            recount, lambda at, _, s=start: at >= grid.oldest_us and grid.start_of(at) == s
        )
        pane = kept.get(start)
        assert cases_of(None if pane is None else pane.counts.get(0)) == wanted


@pytest.mark.parametrize(("groups", "weights"), [(0, ()), (8, ()), (0, (UNIT, 3 * UNIT, 0))])
@pytest.mark.slow
def test_replay_and_checkpoints_give_the_same_state(
    groups: int, weights: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However entries are grouped, views taken and checkpoints restored: the same bytes."""
    monkeypatch.setattr(pair_panes, "MAX_WAITING_ROWS", 50)
    log = Log(groups=groups, max_cells=16)
    acted(log, 7, 120, weights)
    whole = applied(log.entries, 1_000)
    expected = whole.state_hash()
    pieces = Engine(Limits())
    checkpoint_at, since = {}, 0
    parts: dict[str, bytes] = {}
    for entry in log.entries:
        while pieces.pass_time(entry.received_us, 3):
            pass
        pieces.apply([entry])
        if entry.revision % 7 == 0 and pieces.pair_view("next") is not None:
            pieces.pair_view("next").counts()
        if entry.revision % 40 == 0:
            made = pieces.checkpoint(since)
            new = dict(made.changed.pop_all())
            parts = {**{name: parts[name] for name in made.unchanged}, **new}
            checkpoint_at[entry.revision] = dict(parts)
            since = entry.revision
    assert pieces.state_hash() == expected
    for revision, kept in checkpoint_at.items():
        received_us = log.entries[revision - 1].received_us
        restored = Engine.restore(Limits(), revision, received_us, LazyParts.holding(kept))
        restored.pairs.get(pair_key("next"))._check()
        restored.apply(log.entries[revision:])
        assert restored.state_hash() == expected, revision
    kept = checkpoint_at[max(checkpoint_at)]
    for name in kept:
        if name.startswith("pair"):
            damaged = {**kept, name: kept[name][:-5]}
            with pytest.raises(CorruptLogError):
                Engine.restore(Limits(), max(checkpoint_at), 0, LazyParts.holding(damaged))


@pytest.mark.slow
def test_the_evidence_is_noted_at_the_look_that_first_has_enough() -> None:
    """`decided_since` is the first of the looks, one a minute, that all say so."""
    rng = np.random.default_rng(4)
    size = 1_500
    log = Log()
    labels = rng.random(size) < 0.3
    shared = rng.normal(1.3 * labels)
    scores = {"a": shared + rng.normal(0, 1.0, size), "b": shared}
    ids = [b"id-%d" % row for row in range(size)]
    evaluator, since_us = PairedEvaluator(), None
    for at in range(0, size, 30):
        rows = slice(at, at + 30)
        for stream in ("a", "b"):
            log.predict(stream, ids[rows], scores[stream][rows])
        log.label("b", ids[rows], labels[rows])
        evaluator.add_cases(
            labels=labels[rows], scores_a=scores["a"][rows], scores_b=scores["b"][rows]
        )
        log.now_us += MINUTE_US
        enough = evaluator.compare(metric="auc_roc", anytime=True).e_value >= 20
        look_us = log.now_us // MINUTE_US * MINUTE_US
        since_us = (since_us or look_us) if enough else None
    log.label("a", ids[:1], labels[:1])
    evidence = applied(log.entries).pairs.get(pair_key("next")).evidence
    assert since_us is not None
    assert evidence["auc_roc"].since_us == since_us
    assert not evidence["auc_roc"].a_is_better


def test_clusters_widen_as_in_the_library() -> None:
    """Bursts of one cluster: the design effect and the limits are the library's."""
    rng = np.random.default_rng(5)
    log = Log(groups=8)
    users = rng.integers(0, 40, 800)
    labels = rng.random(800) < 0.4
    a = rng.normal(labels) + rng.normal(0, 1, 40)[users] * (2 * labels - 1)
    b = rng.normal(labels)
    ids = [b"u%d-%d" % (user, row) for row, user in enumerate(users.tolist())]
    log.predict("a", ids, a)
    log.predict("b", ids, b)
    log.label("a", ids, labels)
    counts = applied(log.entries).pair_view("next").counts().totals[0]
    evaluator = PairedEvaluator(cluster_groups=8)
    clusters = [f"u{user}" for user in users.tolist()]
    evaluator.add_cases(labels=labels, scores_a=a, scores_b=b, clusters=clusters)
    found = compare_counts(counts, "auc_roc", None).comparison(0.95, anytime=False)
    expected = evaluator.compare(metric="auc_roc")
    assert found.design_effect == pytest.approx(expected.design_effect)
    assert found.design_effect > 1.5
    assert (found.lower, found.upper) == pytest.approx((expected.lower, expected.upper))


def test_ids_above_the_cap_expire_early_and_memory_is_counted() -> None:
    """`max_pending` bounds the ids; the engine's totals have the pair's, and lose them."""
    log = Log(max_pending=100)
    before = applied(log.entries)
    log.predict(
        "a",
        [b"%d" % row for row in range(300)],
        np.zeros(300),
        np.arange(300) * 60_000_000 + START_US - 10 * MINUTE_US,
    )
    engine = applied(log.entries)
    pair = engine.pairs.get(pair_key("next"))
    assert pair.kept_ids <= 100
    assert pair.joiner.tally["expired_early"] >= 200
    assert engine.kept_ids == pair.kept_ids + engine._streams["a"].kept_ids
    sizes = sum(state.memory_bytes for state in engine._streams.values())
    assert engine.memory_bytes == sizes + pair.memory_bytes + 2 * engine.marks.memory_bytes
    assert engine.memory_bytes > before.memory_bytes
    log.put(Kind.DELETE_PAIR, "b", change=PairDeletion("next"))
    log.now_us += 1_000 * MINUTE_US
    log.label("a", [b"1"], [True])
    after = applied(log.entries)
    assert after.pair_view("next") is None
    assert after.catalog()["a"].pairs == ()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"max_cells": 3}, "max_cells must be from 16"),
        ({"prevalence": 1.0}, "between 0 and 1"),
        ({"cluster_groups": 8}, "leave it out"),
        ({"min_label_probability": 0.1}, "leave it out"),
    ],
)
def test_settings_that_no_pair_has_are_refused(given: dict, text: str) -> None:
    """With the field."""
    creation = PairCreation("next", "a", "b", pair_pb2.PairSettings(**given))
    with pytest.raises(RequestError, match=text):
        creation.check(Limits())


def test_a_declared_probability_moves_with_a_pair() -> None:
    """To a server that refuses one which no stream may declare."""
    a, b = (replace(SETTINGS, min_label_probability=least) for least in (0.2, 0.05))
    creation = PairCreation("next", "a", "b", pair_pb2.PairSettings())
    settings = creation.resolved(a, b)
    assert settings.min_label_probability == 0.05
    assert creation.resolved(a, SETTINGS).min_label_probability is None
    fields = settings.to_fields()
    assert PairSettings.of_fields(fields) == settings
    settings.check_exported(Limits())
    for wrong in (1.5, 0.0, "0.1"):
        moved = PairSettings.of_fields(fields | {"min_label_probability": wrong})
        with pytest.raises(ValueError, match="min_label_probability must be from 2"):
            moved.check_exported(Limits())


@pytest.mark.parametrize("groups", [0, 4])
def test_counts_are_signed_mergeable_and_bytes(groups: int) -> None:
    """Random changes keep the invariants; a removal of what is not there is refused."""
    rng = np.random.default_rng(groups)
    shape = PairShape(64, num_groups=groups)
    counts, held = PairCounts.empty(shape), []
    parts = [PairCounts.empty(shape) for _ in range(3)]
    for step in range(60):
        size = int(rng.integers(1, 30))
        codes = rng.integers(0, 4, size).astype(np.uint16) if groups else None
        rows = PairRows(
            rng.random(size) < 0.3,
            1_000 + rng.random(size),
            rng.normal(size=size),
            np.ones(size, dtype=np.int64),
            codes,
        )
        held.append((step % 3, rows))
        counts = counts.changed(rows)
        parts[step % 3] = parts[step % 3].changed(rows)
        if step % 4 == 3:
            which, gone = held.pop(int(rng.integers(len(held))))
            gone = gone._replace(signs=-gone.signs)
            counts, parts[which] = counts.changed(gone), parts[which].changed(gone)
        counts._check()
        parts[step % 3]._check()
    total = parts[0].merged(parts[1:])
    total._check()
    assert cases_of(total) == cases_of(counts)
    data = counts.to_bytes()
    assert PairCounts.from_bytes(data, shape).to_bytes() == data
    unknown = PairRows(*(column[:1] for column in rows[:4]), None if codes is None else codes[:1])
    unknown = unknown._replace(a=np.array([7.0]), signs=np.array([-1]))
    with pytest.raises(InvalidInputError):
        counts.changed(unknown)


def test_time_that_passes_without_rows_is_in_the_next_checkpoint() -> None:
    """An entry of a stream that the pair ignores moves its panes, so its head changes."""
    log = Log()
    engine = applied(log.entries)
    first = engine.checkpoint(0)
    log.now_us += 3 * 24 * 60 * MINUTE_US
    log.put(Kind.UPDATE_STREAM, "a", change=SettingsUpdate({"threshold": 0.5}))
    engine.apply(log.entries[len(engine.catalog()) + 1 :])
    second = engine.checkpoint(first.revision)
    parts = {**dict(first.changed), **dict(second.changed)}
    kept = {name: parts[name] for name in (*second.changed, *second.unchanged)}
    restored = Engine.restore(Limits(), second.revision, log.now_us, LazyParts.holding(kept))
    assert restored.state_hash() == engine.state_hash()


def test_a_pane_whose_ids_were_all_retracted_is_as_a_restored_one() -> None:
    """A slice without ids leaves nothing behind (seed 100 of the simulator)."""
    log = Log()
    log.predict("a", [b"x"], [0.5])
    engine = applied(log.entries)
    engine.checkpoint(0)
    log.retract("a", [b"x"])
    engine.apply(log.entries[-1:])
    engine.pair_view("next")
    made = engine.checkpoint(0)
    parts = LazyParts.holding(dict(made.changed))
    restored = Engine.restore(Limits(), made.revision, log.now_us, parts)
    assert restored.state_hash() == engine.state_hash()


def test_time_passes_the_same_whether_predictions_wait_or_are_counted() -> None:
    """A prediction in no pane is no reason to move the panes (seed 963 of the simulator)."""
    log = Log()
    log.predict("a", [b"x"], [0.5], event_us=START_US - 2 * SETTINGS.retention_us)
    waits, counted = applied(log.entries), applied(log.entries)
    counted.pair_view("next")
    for engine in (waits, counted):
        engine.pass_time(START_US + 24 * 60 * MINUTE_US, 1_000)
    assert waits.state_hash() == counted.state_hash()
