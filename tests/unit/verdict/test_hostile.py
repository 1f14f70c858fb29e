"""Populations that are made to mislead a verdict."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval import WindowedEvaluator

from .streams import DAY_US, START_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval import Verdict

    Columns = tuple[np.ndarray, np.ndarray, np.ndarray]
    """Labels, scores and times in microseconds."""

pytestmark = pytest.mark.slow

DAYS, DAY_OF_CHANGE = 28, 14
NAMES = ("DE", "FR", "IT")


def normal(seed: int, distance: float = 2.0) -> Columns:
    """Return 40 cases an hour, a tenth of them positive, with `distance` between the classes."""
    rng = np.random.default_rng(seed)
    size = DAYS * 24 * 40
    at_us = START_US + np.sort(rng.integers(DAYS * DAY_US, size=size))
    labels = rng.random(size) < 0.1
    return labels, rng.normal(size=size) + distance * labels, at_us


def is_then(at_us: np.ndarray) -> np.ndarray:
    return at_us >= START_US + DAY_OF_CHANGE * DAY_US


def verdict_of(columns: Columns, order: slice | np.ndarray = slice(None)) -> Verdict:
    """Return the verdict on rows that came in an order, with three segments of equal kind."""

    def new() -> WindowedEvaluator:
        return WindowedEvaluator(pane=timedelta(hours=1), retention=timedelta(days=90))

    labels, scores, at_us = (each[order] for each in columns)
    whole, parts = new(), {name: new() for name in NAMES}
    times = at_us.astype("datetime64[us]")
    for rows in np.array_split(np.arange(labels.size), 20):
        whole.add_cases(labels=labels[rows], scores=scores[rows], at=times[rows])
        for place, part in enumerate(parts.values()):
            own = rows[at_us[rows] % len(NAMES) == place]
            part.add_cases(labels=labels[own], scores=scores[own], at=times[own])
    for each in (whole, *parts.values()):
        each.advance(np.datetime64(START_US + DAYS * DAY_US, "us"))
    return whole.verdict(segments={"country": parts}, threshold=1.0, cost_fp=1.0, cost_fn=5.0)


@pytest.mark.parametrize(
    "moved",
    [lambda s: s + 1, lambda s: s - 1, lambda s: 0.5 * s, lambda s: 2 * s, np.exp],
    ids=["up", "down", "shrunk", "stretched", "exponential"],
)
def test_scores_that_all_move_are_no_fall(moved: Callable[[np.ndarray], np.ndarray]) -> None:
    """A recalibrated model orders cases as before: neither worse nor better."""
    labels, scores, at_us = normal(3)
    found = verdict_of((labels, np.where(is_then(at_us), moved(scores), scores), at_us))
    assert found.quality in {"steady", "unsure"}, found
    assert found.because == ()


@pytest.mark.parametrize(("before", "then"), [(2.0, 1.5), (1.5, 2.0)])
def test_a_change_of_order_is_called_whatever_scores_do(before: float, then: float) -> None:
    """Also where all scores move at the same time."""
    labels, scores, at_us = normal(4, 0.0)
    distance = np.where(is_then(at_us), then, before)
    found = verdict_of((labels, scores + distance * labels + is_then(at_us), at_us))
    assert found.quality == ("worse" if then < before else "better"), found
    assert found.since is not None
    changed_us = found.since.likeliest.timestamp() * 1e6
    assert abs(changed_us - START_US - DAY_OF_CHANGE * DAY_US) <= DAY_US


def test_scores_that_become_all_equal_are_a_fall() -> None:
    """Although no limits of a difference can tell: ties may hide any order."""
    labels, scores, at_us = normal(5)
    found = verdict_of((labels, np.where(is_then(at_us), 0.5, scores), at_us))
    assert found.quality == "worse", found


def test_a_segment_without_a_share_is_named_without_one() -> None:
    """Where replacing one of three equal parts changes nothing, no sentence says 0 %."""
    labels, scores, at_us = normal(6)
    rng = np.random.default_rng(7)
    perfect = labels + 0.5 * rng.random(labels.size)
    found = verdict_of((labels, np.where(is_then(at_us), scores, perfect), at_us))
    assert found.quality == "worse"
    assert len(found.because) == len(NAMES)
    assert " 0 %" not in found.sentence
    assert "It is seen in country=" in found.sentence


@pytest.mark.parametrize("distance", [1.0, 2.0])
def test_the_order_in_which_rows_come_changes_nothing(distance: float) -> None:
    """Backwards and shuffled, with gaps of days and bursts of equal rows: the same verdict."""
    labels, scores, at_us = normal(8)
    kept = np.flatnonzero((at_us - START_US) // DAY_US % 5 < 3)
    kept = np.concatenate((kept, np.repeat(kept[::50], 10)))
    kept = kept[np.argsort(at_us[kept], kind="stable")]
    scores = scores - (2.0 - distance) * labels * is_then(at_us)
    columns = labels[kept], scores[kept], at_us[kept]
    found = verdict_of(columns)
    assert found.quality == ("worse" if distance < 2 else "unsure")
    for order in (slice(None, None, -1), np.random.default_rng(9).permutation(kept.size)):
        assert verdict_of(columns, order).to_dict() == found.to_dict()


@pytest.mark.parametrize(
    ("change", "quality"),
    [
        (lambda labels, scores: (labels, 1e300 * scores), "unsure"),
        (lambda labels, scores: (labels, 5e-324 * scores), "unsure"),
        (lambda labels, _: (labels, np.zeros(labels.size)), "unsure"),
        (lambda labels, _: (labels, labels * 1.0), "unsure"),
        (lambda labels, scores: (np.zeros(labels.size, bool), scores), "immature"),
        (lambda labels, scores: (np.ones(labels.size, bool), scores), "immature"),
    ],
    ids=["huge", "smallest", "all equal", "perfect", "no positives", "no negatives"],
)
@pytest.mark.filterwarnings("error")
def test_what_does_not_change_is_not_called(
    change: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]], quality: str
) -> None:
    """Scores at the ends of what a number holds, ties, one class: an answer, and no change."""
    labels, scores, at_us = normal(10)
    with np.errstate(all="raise", under="ignore"):
        found = verdict_of((*change(labels, scores), at_us))
    assert (found.quality, found.flow) == (quality, "ok"), found


@pytest.mark.parametrize("then", [True, False])
def test_a_class_that_vanishes_is_a_change_of_prevalence(then: bool) -> None:
    """All labels are alike from a day on: said as what it is, with the ranking of before."""
    labels, scores, at_us = normal(11, 0.0)
    labels = np.where(is_then(at_us), then, labels)
    found = verdict_of((labels, scores + 2.0 * labels, at_us))
    assert found.quality in {"steady", "unsure", "immature"}, found
    assert "prevalence" in {each.name for each in found.moved}
    assert f"{'rose' if then else 'fell'} from" in found.sentence
