"""Windows of before, replayed: as live where they are as fine, later and wider where not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval import DriftDetector, InvalidInputError, WindowedEvaluator

from .streams import START, Columns, cases, detector, feed

if TYPE_CHECKING:
    from streameval import Window

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def windows(columns: Columns, *, pane: timedelta = HOUR, **options: object) -> list[Window]:
    ev = WindowedEvaluator(
        pane=pane, retention=timedelta(days=60), resolution=12, scale="probability"
    )
    ev.add_cases(labels=columns.labels, scores=columns.scores, at=columns.at, **options)
    return list(ev.panes())


def changed(seed: int, hours: int, days: int = 6) -> Columns:
    """Return days whose model is worse from an hour on."""
    before = cases(seed, hours)
    after = cases(seed + 1, 24 * days - hours, distance=1.0, after=hours)
    return Columns(*(np.concatenate(pair) for pair in zip(before, after, strict=True)))


@pytest.mark.parametrize("maturity", [timedelta(0), 2 * HOUR])
def test_windows_as_fine_as_panes_are_as_live(maturity: timedelta) -> None:
    """The same evidence to the bit, and the same alarm, which is past."""
    watch = ("auc_roc", "ranking")
    for columns in (cases(3, 144), changed(4, 70)):
        live = detector(watch, pane=HOUR, maturity=maturity)
        feed(live, columns)
        live.advance(START + 6 * DAY + maturity)
        replayed = detector(watch, pane=HOUR, maturity=maturity)
        found = replayed.replay(windows(columns))
        assert found == tuple(replace(each, is_past=True) for each in live.alarms)
        assert all(not each.is_open for each in found)
        assert replayed.evidence == live.evidence
        assert replayed.now == live.now
        if not found:
            assert replayed.to_bytes() == live.to_bytes()
    assert [each.watch for each in found] == ["auc_roc", "ranking"]


def test_days_find_it_later_and_say_so() -> None:
    """A day is one observation at its end; the limits hold the beginning nevertheless."""
    columns, truth = changed(5, 320, days=20), START + 320 * HOUR
    by_hour, by_day = (
        detector("auc_roc", pane=HOUR).replay(windows(columns, pane=pane)) for pane in (HOUR, DAY)
    )
    (fine,), (coarse,) = by_hour, by_day
    assert truth < fine.raised_at < coarse.raised_at
    assert coarse.raised_at.hour == 0
    assert coarse.earliest <= truth <= coarse.latest
    assert coarse.latest - coarse.earliest >= DAY
    assert fine.latest - fine.earliest < DAY
    assert str(coarse).startswith(f"alarm 1 (auc_roc), would have rung {coarse.raised_at:%Y-%m-%d}")


def test_a_change_that_goes_on_rings_after_the_replay() -> None:
    made = detector("auc_roc", pane=HOUR)
    (past,) = made.replay(windows(changed(6, 100)))
    feed(made, cases(8, 48, distance=1.0, after=144))
    (kept, raised) = made.alarms
    assert kept == past
    assert kept.is_past
    assert not raised.is_past
    assert raised.number == 2
    assert raised.is_open
    again = DriftDetector.from_bytes(made.to_bytes())
    assert again.alarms == made.alarms
    assert again.to_bytes() == made.to_bytes()
    with pytest.raises(InvalidInputError, match=r"alarm 1 is past: .* nothing to acknowledge"):
        made.acknowledge(1, at=made.now)
    made.acknowledge(2, at=made.now)


def test_healthy_history_does_not_ring() -> None:
    """Of 40 healthy months, days, at most one in what is promised once in ten years."""
    rang = 0
    for seed in range(40):
        made = detector(("auc_roc", "ranking"), pane=HOUR, mean_time_to_false_alarm=3_650 * DAY)
        rang += len(made.replay(windows(cases(700 + seed, 24 * 30, an_hour=20), pane=DAY)))
    assert rang <= 1


def test_clusters_of_windows_make_fewer_cases() -> None:
    """Where all cases of an hour are one cluster, evidence grows as of one case."""
    columns = cases(9, 48, distance=1.0)
    ev = WindowedEvaluator(pane=HOUR, resolution=12, scale="probability", cluster_groups=32)
    keys = np.array([f"{at:%j%H}" for at in columns.at.astype(object)])
    ev.add_cases(labels=columns.labels, scores=columns.scores, at=columns.at, clusters=keys)
    made = detector("auc_roc", pane=HOUR, clusters=True)
    made.replay(ev.panes())
    plain = detector("auc_roc", pane=HOUR)
    plain.replay(windows(columns))
    assert plain.alarms[0].raised_at < made.alarms[0].raised_at


def test_what_cannot_be_replayed() -> None:
    columns = cases(10, 24)
    panes = windows(columns)
    with pytest.raises(InvalidInputError, match=r"begins at .* before the end of the window"):
        detector().replay(panes[::-1])
    weighted = windows(columns, weights=np.full(columns.labels.size, 2.5))
    with pytest.raises(InvalidInputError, match="windows have weights: alarms count cases"):
        detector().replay(weighted)
    used = detector()
    feed(used, columns)
    with pytest.raises(InvalidInputError, match="has observed nothing: make another one"):
        used.replay(panes)
    assert detector().replay([]) == ()
