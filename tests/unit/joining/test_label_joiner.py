"""LabelJoiner: late, early, missing and repeated halves under each policy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest

from streameval import Evaluator, InvalidInputError, JoinCounts, LabelJoiner, WindowedEvaluator

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def test_a_late_label_restates_the_past() -> None:
    """A label counts in the pane of its prediction, weeks later too, and in no other."""
    ev = WindowedEvaluator()
    joiner = LabelJoiner(ev, ttl=25 * DAY)
    joiner.log("late", 0.9, at=NOON)
    joiner.log("soon", 0.2, at=NOON)
    joiner.label("soon", False, at=NOON + HOUR)
    before = ev.between(NOON, NOON + MINUTE)
    assert (before.num_cases, joiner.coverage(before).pending) == (1, 1)
    joiner.label("late", True, at=NOON + 21 * DAY)
    after = ev.between(NOON, NOON + MINUTE)
    assert (after.num_cases, after.auc_roc()) == (2, 1.0)
    assert joiner.coverage(after).labelled_share == 1.0
    assert ev.last(HOUR).num_cases == 0
    assert joiner.coverage(ev.last(HOUR)).predictions == 0


def test_either_order() -> None:
    """A label may arrive first; the case still counts at the time of its prediction."""
    ev = WindowedEvaluator()
    joiner = LabelJoiner(ev, ttl=DAY)
    joiner.label("a", True, at=NOON + HOUR)
    assert joiner.coverage().predictions == 0
    joiner.log("a", 0.7, at=NOON)
    window = ev.between(NOON, NOON + MINUTE)
    assert (window.num_positive_ref, window.start) == (1, NOON)


def test_relabel_and_retract_move_counts() -> None:
    """Within relabel_ttl a label can be changed and a prediction retracted; not after."""
    ev = Evaluator()
    joiner = LabelJoiner(ev, ttl=DAY, relabel_ttl=HOUR)
    joiner.log_cases(ids=["a", "b", "c"], scores=[0.9, 0.5, 0.1], at=NOON)
    joiner.label_cases(ids=["a", "b", "c"], labels=[1, 1, 0], at=NOON)
    joiner.label("b", False, at=NOON + MINUTE)
    joiner.retract("c", at=NOON + MINUTE)
    assert (ev.num_positive_ref, ev.num_negative_ref) == (1, 1)
    assert joiner.counts.relabelled == 1
    assert joiner.coverage().retracted == 1
    joiner.label("a", False, at=NOON + 3 * HOUR)
    assert ev.num_positive_ref == 1
    joiner.advance(NOON + 3 * DAY)
    assert joiner.coverage().orphans == 1
    assert joiner.num_ids == 0


def test_orphans_and_expired_by_policy() -> None:
    """An unmatched half is dropped, or counts as a miss or a negative case; coverage has it."""
    found = {}
    for orphans, expired in (("drop", "drop"), ("miss", "drop"), ("drop", "negative")):
        ev = Evaluator()
        joiner = LabelJoiner(ev, ttl=HOUR, orphans=orphans, expired=expired)
        joiner.log("unlabelled", 0.4, at=NOON)
        joiner.label_cases(ids=["orphan+", "orphan-"], labels=[True, False], at=NOON)
        joiner.advance(NOON + 2 * HOUR)
        coverage = joiner.coverage()
        assert (coverage.expired, coverage.orphans, coverage.pending) == (1, 2, 0)
        found[orphans, expired] = (ev.num_scored, ev.num_misses, ev.num_negative_misses)
    assert found == {
        ("drop", "drop"): (0, 0, 0),
        ("miss", "drop"): (0, 1, 1),
        ("drop", "negative"): (1, 0, 0),
    }


def test_what_is_past_retention_is_counted() -> None:
    """Effects on an expired pane are in the overall coverage and in a counter only."""
    ev = WindowedEvaluator(retention=6 * HOUR)
    joiner = LabelJoiner(ev, ttl=6 * HOUR, relabel_ttl=8 * HOUR)
    for name in ("one", "by columns"):
        joiner.log(name, 0.9, at=NOON)
        joiner.label(name, True, at=NOON + 5 * HOUR)
    joiner.advance(NOON + 8 * HOUR)
    joiner.retract("one", at=NOON + 8 * HOUR)
    assert joiner.counts.beyond_retention == 2
    joiner.retract_cases(ids=["by columns"], at=NOON + 8 * HOUR)
    assert joiner.counts.beyond_retention == 4
    assert joiner.coverage().retracted == 2
    joiner._check()


def test_above_max_pending_the_oldest_go_early() -> None:
    """At most `max_pending` ids are kept, and the early expiries are counted."""
    joiner = LabelJoiner(Evaluator(), ttl=DAY, relabel_ttl=DAY, max_pending=5)
    for number in range(8):
        joiner.log(f"p{number}", 0.5, at=NOON + number * HOUR)
    assert (joiner.num_ids, joiner.counts.expired_early) == (5, 3)
    joiner.label("early", True, at=NOON + 8 * HOUR)
    joiner.log_cases(
        ids=[f"q{number}" for number in range(5)], scores=[0.5] * 5, at=NOON + 9 * HOUR
    )
    assert joiner.counts == JoinCounts(expired_early=8, forgotten_early=1)
    assert joiner.coverage().orphans == 1
    joiner._check()


def test_labelled_share_by_score() -> None:
    """Missing labels show in the bands of score where they are missing."""
    joiner = LabelJoiner(WindowedEvaluator(), ttl=DAY)
    scores = np.arange(1000) / 1000
    ids = [f"id-{number}" for number in range(1000)]
    joiner.log_cases(ids=ids, scores=scores, at=NOON)
    joiner.label_cases(ids=ids[500:], labels=scores[500:] > 0.7, at=NOON)
    bands = joiner.coverage_by_score(joiner.evaluator.last(HOUR))
    assert len(bands) <= 10
    assert (bands[0].lower, bands[-1].upper) == (-np.inf, np.inf)
    assert all(a.upper == b.lower for a, b in pairwise(bands))
    assert sum(band.predictions for band in bands) == 1000
    for band in bands:
        assert band.labelled_share == (1.0 if band.lower >= 0.5 else 0.0)
        inside = (scores >= band.lower) & (scores < band.upper)
        assert band.predictions == inside.sum() <= 260


@pytest.mark.parametrize(
    "column",
    [
        ["a", b"b", "ü"],
        ("a", "b", "ü"),
        np.array(["a", "b", "ü"]),
        np.array(["a", b"b", "ü"], dtype=object),
        pd.Series(["a", "b", "ü"]),
        pl.Series(["a", "b", "ü"]),
    ],
)
def test_columns_of_ids(column: object) -> None:
    """Ids come in lists, arrays and frames; text and its UTF-8 are the same id."""
    joiner = LabelJoiner(Evaluator(), ttl=DAY)
    joiner.log_cases(ids=column, scores=[0.1, 0.2, 0.3], at=NOON)
    joiner.label_cases(ids=["a", "b", "ü".encode()], labels=[0, 0, 1], at=NOON)
    assert joiner.coverage().labelled == 3


GOOD = {"ids": ["a", "b"], "scores": [0.1, 0.2], "at": NOON}


@pytest.mark.parametrize(
    ("wrong", "message", "field", "index"),
    [
        ({"ids": ["a", ""]}, "ids must have 1 to 128 bytes, got 0 at index 1", "ids", 1),
        ({"ids": ["a", "ü" * 65]}, "ids must have 1 to 128 bytes, got 130 at index 1", "ids", 1),
        ({"ids": [1.7, "b"]}, "ids must be a text or an integer, got 1.7 at index 0", "ids", 0),
        ({"ids": ["a", None]}, "ids must be a text or an integer, got None at index 1", "ids", 1),
        (
            {"ids": ["a", "\ud800"]},
            r"ids must be valid Unicode, got '\ud800' at index 1",
            "ids",
            1,
        ),
        ({"ids": "ab"}, "ids must be a column of ids, got str", "ids", None),
        ({"scores": [0.1, np.nan]}, "score must be finite, got nan at index 1", "scores", 1),
        (
            {"scores": [0.1]},
            "scores must have one row for each of ids, got 1 rows and 2",
            "scores",
            None,
        ),
        (
            {"at": [NOON, NOON - 40 * DAY]},
            "at is older than retention: got 2026-01-20T12:00:00+00:00 at index 1, kept since ...",
            "at",
            1,
        ),
        ({"at": [NOON]}, "at has 1 rows, expected 2", "at", None),
    ],
)
def test_what_is_wrong_changes_nothing(
    wrong: dict, message: str, field: str, index: int | None
) -> None:
    """An invalid column is refused as a whole; the error names it, the row and the value."""
    joiner = LabelJoiner(WindowedEvaluator(), ttl=DAY)
    joiner.log("before", 0.5, at=NOON - HOUR)
    before = joiner.copy()
    with pytest.raises(InvalidInputError) as caught:
        joiner.log_cases(**(GOOD | wrong))
    assert str(caught.value).startswith(message.removesuffix("..."))
    assert (caught.value.field, caught.value.index) == (field, index)
    assert joiner == before


def test_single_calls_are_checked() -> None:
    """Scalars are refused as columns are, before anything changes."""
    joiner = LabelJoiner(WindowedEvaluator(scale="probability"), ttl=DAY)
    before = joiner.copy()
    for call, message in (
        (lambda: joiner.log("", 0.5, at=NOON), "id must have 1 to 128 bytes, got 0"),
        (lambda: joiner.log("a", 1.5, at=NOON), "score must be between 0 and 1"),
        (lambda: joiner.log("a", 0.5, at=12), "at must be a datetime, got 12"),
        (lambda: joiner.label("a", 2, at=NOON), "label must be True, False, 1 or 0, got 2"),
        (lambda: joiner.retract(1.5, at=NOON), "id must be a text or an integer, got 1.5"),
        (lambda: joiner.label_cases(ids=["a"], labels=[0.5], at=NOON), "label must be True"),
        (
            lambda: joiner.label_cases(ids=["a"], labels=[1, 0], at=NOON),
            "labels must have one row for each of ids",
        ),
        (lambda: joiner.advance(datetime(2026, 1, 1)), "now must have a time zone"),  # noqa: DTZ001 - that is the point
    ):
        with pytest.raises(InvalidInputError, match=message):
            call()
    assert joiner == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"into": "evaluator"}, "into must be a WindowedEvaluator or an Evaluator"),
        ({"ttl": 31 * DAY}, "ttl must be at most the evaluator's retention, got 31 days"),
        ({"ttl": timedelta(0)}, "ttl must be positive"),
        ({"relabel_ttl": 5}, "relabel_ttl must be a timedelta, got 5"),
        ({"max_pending": 0}, "max_pending must be positive, got 0"),
        ({"max_pending": 1.5}, "max_pending must be an integer, got 1.5"),
        ({"orphans": "keep"}, "orphans must be one of"),
        ({"orphans": "miss", "expired": "negative"}, "count a late positive twice"),
    ],
)
def test_settings_are_checked(arguments: dict, message: str) -> None:
    """Invalid settings, or those that contradict one another, are refused by name."""
    with pytest.raises(InvalidInputError, match=message):
        LabelJoiner(**({"into": WindowedEvaluator(), "ttl": DAY} | arguments))


def test_a_plain_evaluator_has_no_windows() -> None:
    """Coverage of a window needs panes."""
    joiner = LabelJoiner(Evaluator(), ttl=DAY)
    with pytest.raises(InvalidInputError, match="a plain Evaluator has no panes"):
        joiner.coverage(WindowedEvaluator().last(HOUR))


def test_more_than_can_be_counted_is_refused_first() -> None:
    """If counts could exceed the limit, the call is refused and changes nothing."""
    for into in (Evaluator(), WindowedEvaluator()):
        joiner = LabelJoiner(into, ttl=DAY)
        at = {} if isinstance(into, Evaluator) else {"at": NOON}
        into.add_cases(labels=[1], scores=[0.5], counts=[2**62 - 2], **at)
        joiner.log("a", 0.5, at=NOON)
        before = joiner.copy()
        with pytest.raises(InvalidInputError, match=r"must stay below 2\*\*62"):
            joiner.label("a", True, at=NOON)
        assert joiner == before


def test_repr_and_hash() -> None:
    """The repr has the counts; a joiner is not hashable."""
    joiner = LabelJoiner(Evaluator(), ttl=DAY)
    joiner.log("a", 0.5, at=NOON)
    assert repr(joiner).startswith("<LabelJoiner: 1 ids, 0 of 1 predictions labelled")
    assert joiner.now == NOON
    with pytest.raises(TypeError):
        hash(joiner)
    assert joiner != 1
