"""The engine against a recount: all kinds of rows, changing settings, passing time.

The oracle keeps plain lists: the cases, the misses, and the effects that the joiner's
own oracle computes for each id. It recounts every pane and slice from these lists.
Scores encode the segments, so the oracle of the joiner does not need segments.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streameval._time.effects import COVERAGE
from streameval.checks import OTHER_VALUE
from streameval.kernel import Effect, Grid
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import stream_pb2, types_pb2
from streameval_server import Limits
from streameval_server._core.engine import Engine
from streameval_server._core.entries import Entry
from streameval_server._core.replay import entry_of
from streameval_server._log.checkpoint import LazyParts
from streameval_server._log.rows import Format, Kind, LogRow
from streameval_server._model.stream_settings import (
    HOUR_US,
    MINUTE_US,
    SECOND_US,
    settings_of,
    update_of,
)
from streameval_server._state.counting import counts
from streameval_server._state.ids.join_table import join_settings
from streameval_server._state.views import SliceView

from .test_joiner import Oracle

START = 500_000 * HOUR_US
LIMITS = Limits(max_segment_values=2)
TIGHT = Limits(max_segment_values=2, max_cells=3, pane_cells=2)
"""Counts stay exact when bits are dropped; the dropped bits do not depend on cuts."""

COUNTRIES = ["US", "DE", "FR", ""]
"""The countries of scores 0 to 3; FR is the third value, so it is in `OTHER`."""
PLANS = ["x", "x", "y", ""]
LATE = 20
"""Added to the scores of rows that were sent after the second key was declared."""
BARE = 10
"""Added to the scores of labels with a score: these have no segments."""

IDS = st.sampled_from(["a", "b", "c", "d"])
SCORE = st.integers(0, 3)
AGE = st.sampled_from([0, 1, 30, 61, 300, 500])
DELAY = st.sampled_from([0, 1, 20, 90, 600, 4_000, 30_000])

CASES = st.tuples(
    st.just("cases"), st.lists(st.tuples(SCORE, st.booleans(), AGE), min_size=1, max_size=4)
)
PREDICT = st.tuples(
    st.just("predict"), st.lists(st.tuples(IDS, SCORE, AGE), min_size=1, max_size=3)
)
LABEL = st.tuples(st.just("label"), st.lists(st.tuples(IDS, st.booleans()), min_size=1, max_size=3))
FULL = st.tuples(
    st.just("full"), st.lists(st.tuples(IDS, st.booleans(), SCORE, AGE), min_size=1, max_size=3)
)
RETRACT = st.tuples(st.just("retract"), st.lists(st.tuples(IDS), min_size=1, max_size=2))
MISSES = st.tuples(st.just("misses"), st.tuples(st.integers(0, 2), st.integers(0, 2), SCORE, AGE))
TICK = st.tuples(st.just("tick"), st.just(0))
UPDATE = st.tuples(
    st.just("update"),
    st.sampled_from(
        [
            {"retention": 3 * 3600},
            {"retention": 30 * 3600},
            {"retention": 50 * 3600},
            {"label_ttl": 600},
            {"label_ttl": 3 * 3600},
            {"relabel_ttl": 60},
            {"expired": stream_pb2.EXPIRY_POLICY_DROP},
            {"expired": stream_pb2.EXPIRY_POLICY_NEGATIVE},
            {"segment_keys": ["country", "plan"]},
        ]
    ),
)
OPERATIONS = st.lists(
    st.tuples(
        DELAY, st.one_of(CASES, PREDICT, PREDICT, LABEL, FULL, RETRACT, MISSES, TICK, UPDATE)
    ),
    max_size=30,
)
MADE = {"retention": 12 * 3600, "label_ttl": 3600, "relabel_ttl": 600, "segment_keys": ["country"]}


def settings_message(fields: dict[str, Any]) -> stream_pb2.StreamSettings:
    """Return settings; times are given in seconds."""
    message = stream_pb2.StreamSettings()
    for name, value in fields.items():
        if name in {"retention", "label_ttl", "relabel_ttl"}:
            getattr(message, name).seconds = value
        elif name == "segment_keys":
            message.segment_keys.extend(value)
        else:
            setattr(message, name, value)
    return message


class Stream:
    """The expected contents of a stream, and its log."""

    def __init__(self, made: dict[str, Any]) -> None:
        request = stream_pb2.CreateStreamRequest(
            stream=stream_pb2.Stream(name="s", settings=settings_message(made))
        )
        self.settings = settings_of(request.stream.settings)
        self.joiner = Oracle(join_settings(self.settings))
        self.cases: list[tuple[int, bool, int]] = []
        self.misses: list[tuple[int, int, int, int]] = []
        self.log: list[LogRow] = []
        self.now = START
        self.floor = 0
        self.countries: list[str] = []
        self.append(Kind.CREATE_STREAM, Format.BY_KIND, request)

    @property
    def offset(self) -> int:
        return LATE if len(self.settings.segment_keys) > 1 else 0

    def append(self, kind: Kind, format_: Format, message: Any = None) -> None:
        payload = b"" if message is None else message.SerializeToString()
        name = "" if kind is Kind.TICK else "s"
        row = LogRow(len(self.log) + 1, self.now, kind, format_, name, "", 0, 0, 0, payload)
        self.log.append(row)

    def send(self, **rows: Any) -> None:
        request = pb.IngestBatchRequest(batch=pb.Batch(stream="s", **rows))
        self.append(Kind.BATCH, Format.INGEST_BATCH_REQUEST, request)

    def operate(self, delay: int, operation: tuple[str, Any]) -> None:
        """Record an operation, and log it."""
        self.now += delay * SECOND_US
        self.joiner.step(self.now, ("wait", 0))
        kind, rows = operation
        getattr(self, kind)(rows)

    def note_countries(self, scores: list[int]) -> None:
        """Record the values in use, in the order of the column: the first have own slices."""
        used = {COUNTRIES[score % BARE] for score in scores}
        for country in COUNTRIES[:3]:
            if country in used and country not in self.countries:
                self.countries.append(country)

    def columns(self, scores: list[int]) -> list[pb.SegmentColumn]:
        self.note_countries(scores)
        values = {"country": COUNTRIES, "plan": PLANS}
        return [
            pb.SegmentColumn(key=key, values=values[key], codes=[score % BARE for score in scores])
            for key in self.settings.segment_keys
        ]

    def add_cases(self, rows: list[tuple[int, bool, int]]) -> None:
        scores = [score + self.offset for score, _, _ in rows]
        times = [self.now - age * MINUTE_US for _, _, age in rows]
        positives = [label for _, label, _ in rows]
        self.cases += zip(scores, positives, times, strict=True)
        self.send(
            cases=pb.Cases(
                scores=scores,
                positives=positives,
                event_times_us=times,
                segments=self.columns(scores),
            )
        )

    def predict(self, rows: list[tuple[str, int, int]]) -> None:
        scores = [score + self.offset for _, score, _ in rows]
        times = [self.now - age * MINUTE_US for _, _, age in rows]
        ids = [each for each, _, _ in rows]
        for row in zip(ids, scores, times, strict=True):
            self.joiner.step(self.now, ("predict", *row))
        self.send(
            predictions=pb.Predictions(
                ids=ids, scores=scores, event_times_us=times, segments=self.columns(scores)
            )
        )

    def label(self, rows: list[tuple[str, bool]]) -> None:
        for row in rows:
            self.joiner.step(self.now, ("label", *row))
        ids, positives = zip(*rows, strict=True)
        self.send(labels=pb.Labels(ids=ids, positives=positives))

    def full(self, rows: list[tuple[str, bool, int, int]]) -> None:
        scores = [score + BARE + self.offset for _, _, score, _ in rows]
        times = [self.now - age * MINUTE_US for _, _, _, age in rows]
        ids, positives = [row[0] for row in rows], [row[1] for row in rows]
        for row in zip(ids, positives, scores, times, strict=True):
            self.joiner.step(self.now, ("full", *row))
        self.send(
            labels=pb.Labels(ids=ids, positives=positives, scores=scores, event_times_us=times)
        )

    def retract(self, rows: list[tuple[str]]) -> None:
        for row in rows:
            self.joiner.step(self.now, ("retract", *row))
        self.send(retractions=pb.Retractions(ids=[row[0] for row in rows]))

    def miss(self, row: tuple[int, int, int, int]) -> None:
        positives, negatives, score, age = row
        time = self.now - age * MINUTE_US
        score += self.offset
        if positives + negatives:
            self.note_countries([score])
        self.misses.append((positives, negatives, score, time))
        values = {"country": COUNTRIES[score % BARE], "plan": PLANS[score % BARE]}
        segments = [
            types_pb2.Segment(key=key, value=values[key]) for key in self.settings.segment_keys
        ]
        self.send(
            misses=pb.Misses(
                positives=positives, negatives=negatives, event_time_us=time, segments=segments
            )
        )

    def tick(self, _nothing: int) -> None:
        self.append(Kind.TICK, Format.BY_KIND)

    def update(self, fields: dict[str, Any]) -> None:
        (name,) = fields
        request = stream_pb2.UpdateStreamRequest(
            stream=stream_pb2.Stream(name="s", settings=settings_message(fields))
        )
        request.update_mask.paths.append(f"settings.{name}")
        before = self.settings
        after = update_of(request).apply_to(before)
        if after.label_ttl_us > after.retention_us:
            return  # refused
        self.floor = max(self.floor, self.oldest())
        self.settings = after
        old, self.joiner.settings = self.joiner.settings, join_settings(after)
        for row in self.joiner.ids.values():
            if old.bucket_us != self.joiner.settings.bucket_us:
                row["due"] = self.joiner.bucket((row["due"] + 1) * old.bucket_us - 1)
        self.append(Kind.UPDATE_STREAM, Format.BY_KIND, request)

    def oldest(self) -> int:
        """Return the oldest time that a pane holds."""
        tiers = Grid.tiers_of(self.settings.pane_us, self.settings.retention_us)
        return max(self.floor, Grid.at(tiers, self.now).oldest_us)

    # -- recounting

    def counted(self, start: int, end: int, segment: tuple[str, str] | None) -> Counter[str]:
        """Recount the contents of a slice in a span."""
        found: Counter[str] = Counter()
        for score, positive, time in self.cases:
            if start <= time < end and self.holds(segment, score):
                found["P" if positive else "N"] += 1
        for positives, negatives, score, time in self.misses:
            if start <= time < end and self.holds(segment, score):
                found["missed P"] += positives
                found["missed N"] += negatives
        for (name, event, score), count in self.joiner.effects.items():
            if start <= event < end and self.holds(segment, score):
                found[name] += count
        return found

    def holds(self, segment: tuple[str, str] | None, score: float | None) -> bool:
        """Return whether the row of a score, or an orphan, is in a slice."""
        if segment is None or segment[0] == "plan":
            return holds(segment, score)
        name = "" if score is None or int(score) % LATE >= BARE else COUNTRIES[int(score) % BARE]
        shared = name in self.countries[LIMITS.max_segment_values :]
        return segment[1] == (OTHER_VALUE if shared else name)


def holds(segment: tuple[str, str] | None, score: float | None) -> bool:
    """Return whether the row of a score is in a slice of the second key."""
    if segment is None:
        return True
    if score is None or score < LATE:
        return False
    kind = int(score) % LATE
    return segment[1] == ("" if kind >= BARE else PLANS[kind])


def shown(part: Any, coverage: Any) -> dict[str, int]:
    """Return the counts of an evaluator and its coverage, in the oracle's form."""
    counts = {
        "P": part.num_positive_ref - part.num_misses,
        "N": part.num_negative_ref - part.num_negative_misses,
        "missed P": part.num_misses,
        "missed N": part.num_negative_misses,
    }
    for name in COVERAGE:
        counts[name] = getattr(coverage.counts, name)
    counts["delays"] = len(coverage.delays)
    return counts


def expected(found: Counter[str]) -> dict[str, int]:
    """Return the same counts from a recount."""
    net = Counter(
        {
            "P": found["LABELLED_POSITIVE"] - found["UNLABELLED_POSITIVE"] + found["P"],
            "N": found["LABELLED_NEGATIVE"]
            - found["UNLABELLED_NEGATIVE"]
            + found["EXPIRED_NEGATIVE"]
            + found["N"],
            "missed P": found["MISSED_POSITIVE"] + found["missed P"],
            "missed N": found["MISSED_NEGATIVE"] + found["missed N"],
            "delays": found["LABELLED_POSITIVE"] + found["LABELLED_NEGATIVE"],
        }
    )
    for name, table in COVERAGE.items():
        net[name] = sum(int(table[effect]) * found[effect.name] for effect in Effect)
    return dict(net)


def compare(slice_view: SliceView | None, stream: Stream, segment: tuple[str, str] | None) -> None:
    """Compare a slice with the recount: for all time, and in each pane."""
    total = expected(stream.counted(0, 1 << 62, segment))
    if slice_view is None:
        assert not any(total.values())
        return
    assert shown(slice_view.all_time, slice_view.coverage) == total
    oldest = stream.oldest()
    left = Counter(expected(stream.counted(oldest, 1 << 62, segment)))
    for pane in slice_view.panes:
        wanted = expected(stream.counted(max(pane.start_us, oldest), pane.end_us, segment))
        assert shown(pane.evaluator, pane.coverage) == wanted
        pane.evaluator._check()
        left.subtract(wanted)
    assert not any(left.values())


def entries_of(stream: Stream) -> list[Entry]:
    return [entry_of(row) for row in stream.log]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    operations=OPERATIONS,
    cuts=st.lists(st.integers(1, 30), max_size=4),
    expired=st.booleans(),
    limits=st.sampled_from([LIMITS, TIGHT]),
    early=st.booleans(),
)
def test_whatever_happens_equals_a_recount(
    operations: list[tuple[int, tuple[str, Any]]],
    cuts: list[int],
    expired: bool,
    limits: Limits,
    early: bool,
) -> None:
    """Counts, coverage, panes and slices; for any cuts, early counts, and checkpoints."""
    policy = {"expired": stream_pb2.EXPIRY_POLICY_NEGATIVE}
    made = MADE | (policy if expired else {"orphans": stream_pb2.ORPHAN_POLICY_MISS})
    stream = Stream(made)
    for delay, (kind, rows) in operations:
        if kind == "update" and rows.get("expired") == policy["expired"] and not expired:
            continue  # refused
        stream.operate(delay, ({"cases": "add_cases", "misses": "miss"}.get(kind, kind), rows))
    entries = entries_of(stream)

    whole = Engine(limits)
    whole.apply(entries)
    view = whole.view("s")
    assert view is not None
    assert view.now_us == stream.now
    compare(view.whole, stream, None)
    for value in (*COUNTRIES, OTHER_VALUE):
        compare(view.slice(("country", value)), stream, ("country", value))
    for value in ("x", "y"):
        compare(view.slice(("plan", value)), stream, ("plan", value))
    assert view.counters.kept_ids == len(stream.joiner.ids)
    named = set(stream.countries[: limits.max_segment_values])
    assert set(view.segments("country")) <= {"", OTHER_VALUE} | named

    parts: dict[str, bytes] = {}
    since = 0
    pieces = Engine(limits)
    bounds = sorted({0, len(entries), *(cut for cut in cuts if cut < len(entries))})
    for start, end in pairwise(bounds):
        while start < end and pieces.pass_time(entries_of(stream)[start].received_us, 1):
            pieces.view("s")  # looking in between does not matter
        with mock.patch.object(
            counts, "MIN_IDLE_COUNT_ROWS", 1 if early else counts.MIN_IDLE_COUNT_ROWS
        ):
            pieces.apply(entries_of(stream)[start:end])
            pieces.count()
        pieces.view("s")
        checkpoint = pieces.checkpoint(since)
        since = checkpoint.revision
        parts = {name: parts[name] for name in checkpoint.unchanged} | dict(checkpoint.changed)
        again = Engine.restore(
            limits, pieces.revision, pieces.received_us, LazyParts.holding(parts)
        )
        assert again.state_hash() == pieces.state_hash()
        assert again.catalog() == pieces.catalog()
        again.apply(entries_of(stream)[end:])
        assert again.state_hash() == whole.state_hash()
    assert pieces.state_hash() == whole.state_hash()
