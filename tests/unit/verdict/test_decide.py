"""The verdict from evidence, search and counts: every quality, and what goes with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError, Verdict, WindowedEvaluator
from streameval._counts.merge import merge_states
from streameval._verdict.decide import Question, decide
from streameval._verdict.evidence import Evidence
from streameval._verdict.evidence_base import Pane

from .streams import DAY_US, START_US, begun, columns, hourly, windowed

START = datetime(2026, 1, 5, tzinfo=UTC)


def at_day(day: float) -> datetime:
    return START + timedelta(days=day)


def told(panes: list[Pane], day: float, evidence: Evidence | None = None, **given) -> Verdict:
    """Return the verdict on a day, on a stream that is observed as it runs."""
    evidence = evidence or begun(panes)
    at_us = START_US + int(day * DAY_US)
    evidence.observe(panes, at_us)
    rows = [
        each.end_us
        for each in panes
        if each.end_us <= at_us and (each.state.total or each.predictions)
    ]
    seen = [each for each in panes if each.end_us <= at_us]
    return decide(evidence, seen, Question(at_us, max(rows), **given))


def spell(seed: int, days: int, first: float, last: float) -> list[Pane]:
    """Return a stream that is worse from one day to another."""
    well, ill = hourly(seed, days), hourly(seed + 1000, days, distance=0.5)
    inside = (START_US + first * DAY_US, START_US + last * DAY_US)
    return [
        bad if inside[0] <= good.start_us < inside[1] else good
        for good, bad in zip(well, ill, strict=True)
    ]


def test_a_fall_is_worse_since_it_began() -> None:
    """The limits hold the beginning, the figures the values, and the sentence says both."""
    verdict = told(hourly(21, 20, day=14.5, distance_then=1.0), 20)
    assert verdict.quality == "worse"
    assert verdict.since.earliest <= at_day(14.5) <= verdict.since.latest
    headline, roc = verdict.figures
    assert (headline.metric, roc.metric) == ("auc_pr", "auc_roc")
    assert 0.55 < headline.before.estimate < 0.75
    assert -0.5 < headline.difference.lower < headline.difference.upper < -0.2
    assert -0.2 < roc.difference.estimate < -0.1
    assert verdict.sentence.startswith("AUC-PR fell from 0.6")
    assert " since Jan 19, " in verdict.sentence
    assert verdict.moved == ()
    assert verdict.base.positives == pytest.approx(672, abs=80)


def test_a_rise_is_better() -> None:
    """Both directions have evidence."""
    verdict = told(hourly(22, 26, day=14, distance=1.0, distance_then=2.0), 26)
    assert verdict.quality == "better"
    assert verdict.since.earliest <= at_day(14) <= verdict.since.latest
    assert verdict.sentence.startswith("AUC-PR rose from 0.3")


def test_a_fall_that_is_over_is_recovered_and_then_forgotten() -> None:
    """Both times are said for a week; then the stream is as any other."""
    panes = spell(23, 34, 14, 18)
    during, after, long_after = (told(panes, day) for day in (17.5, 22, 33))
    assert during.quality == "worse"
    assert after.quality == "recovered"
    assert after.since.earliest <= at_day(14) <= after.since.latest
    assert after.returned.earliest <= at_day(18) <= after.returned.latest
    assert after.sentence.startswith("Recovered: worse from Jan 19, ")
    assert " to Jan 23, " in after.sentence or " to Jan 22, " in after.sentence
    assert after.figures[0].difference.estimate == pytest.approx(0, abs=0.06)
    assert long_after.quality in {"steady", "unsure"}
    assert long_after.since is None


def test_a_return_is_said_while_the_alarm_is_open() -> None:
    """Until it is acknowledged an alarm makes the stream worse; the sentence says both."""
    verdict = told(spell(23, 23, 14, 18), 22, alarm=4)
    assert (verdict.quality, verdict.alarm) == ("worse", 4)
    assert "is back since" in verdict.sentence
    assert verdict.sentence.endswith("Alarm 4 is open.")


def test_an_alarm_alone_says_no_fall_of_the_order() -> None:
    """It may be of precision: no figure is said to have fallen that evidence does not call."""
    verdict = told(hourly(24, 15), 15, alarm=2)
    assert verdict.quality == "worse"
    assert verdict.sentence == "Alarm 2 is open."
    assert verdict.since is None


def test_without_a_change_a_fall_is_excluded_or_not() -> None:
    """With many cases it is steady, with few unsure, and each says by how much."""
    many, few = hourly(25, 24, rate=200), hourly(26, 24, rate=10)
    steady, unsure = told(many, 24), told(few, 24)
    assert steady.quality == "steady"
    assert 0 < steady.excluded < steady.margin
    assert "would have been seen" in steady.sentence
    assert unsure.quality == "unsure"
    assert unsure.excluded > unsure.margin
    assert "is not excluded" in unsure.sentence
    assert told(many, 24, margin=0.001).quality == "unsure"


def test_a_fall_that_is_excluded_is_wider_than_at_one_look() -> None:
    """It holds at every look, so it is below the limit of the difference at one."""
    verdict = told(hourly(27, 24, rate=100), 24)
    assert verdict.excluded > -verdict.figures[0].difference.lower


def test_too_early() -> None:
    """Without thirty labels of a class since the base nothing is said of quality."""
    panes = hourly(28, 10)
    early = told(panes, 7.1)
    assert early.quality == "immature"
    assert early.sentence.startswith("Too early: fewer than 30")
    none = decide(None, panes, Question(START_US, no_base="it has no labelled cases"))
    assert none.quality == "immature"
    assert none.sentence == "Too early: it has no labelled cases."
    assert none.figures == ()


def test_a_change_of_prevalence_alone_is_no_fall() -> None:
    """It is said as what it is, with the time since when."""
    verdict = told(hourly(29, 20, rate=200, day=14, prevalence_then=0.03), 20)
    assert verdict.quality in {"steady", "unsure"}
    assert verdict.since is None
    (moved,) = verdict.moved
    assert moved.name == verdict.first == "prevalence"
    assert moved.before == pytest.approx(0.1, abs=0.01)
    assert moved.now == pytest.approx(0.03, abs=0.01)
    assert moved.since.earliest <= at_day(14) <= moved.since.latest
    assert verdict.sentence.startswith("Prevalence fell from ")


def test_labels_that_stay_away_are_said() -> None:
    """The flow is late; the labelled cases may be others, which is said as a doubt."""
    panes = [
        each._replace(predictions=each.state.total * (2 if each.start_us >= change else 1))
        for change in [START_US + 12 * DAY_US]
        for each in hourly(30, 16)
    ]
    verdict = told(panes, 16)
    assert verdict.flow == "late"
    assert [each.name for each in verdict.moved] == ["labelled_share"]
    assert "Labels come later than they did." in verdict.sentence
    assert "share of predictions with a label" in verdict.could_be_wrong[0]


def test_labels_that_do_not_come_at_all() -> None:
    """Rows come, and no label: it is called within a day, and said."""
    nothing = Evaluator(resolution=12, scale="probability")._view()
    panes = [
        each._replace(
            predictions=each.state.total,
            state=each.state if each.start_us < START_US + 9 * DAY_US else nothing,
        )
        for each in hourly(35, 10)
    ]
    verdict = told(panes, 10)
    assert verdict.flow == "no_labels"
    assert verdict.sentence.endswith("Rows come without labels.")


def test_weights_are_left_out_and_said() -> None:
    """Evidence counts cases: panes with weights are no part of it."""
    ev = Evaluator(resolution=12, scale="probability")
    ev.add_cases(labels=[0, 1] * 50, scores=[0.9, 0.1] * 50, weights=[2.0] * 100)
    panes = [
        each._replace(state=ev._view()) if each.start_us >= START_US + 9 * DAY_US else each
        for each in hourly(36, 12)
    ]
    verdict = told(panes, 12)
    assert verdict.quality not in {"worse", "better"}
    assert "weights are left out" in verdict.could_be_wrong[0]


def test_scores_that_all_move_ask_for_a_new_base() -> None:
    """The order is as it was, so it is no fall; what to do is said."""
    labels, scores, times = columns(37, 21)
    is_then = times >= np.datetime64(START_US + 14 * DAY_US, "us")
    ev = WindowedEvaluator(pane=timedelta(minutes=10))
    ev.add_cases(labels=labels, scores=np.where(is_then, scores / 10, scores), at=times)
    verdict = ev.verdict()
    assert verdict.quality in {"steady", "unsure"}
    assert "accept what is now as the new base" in verdict.could_be_wrong[0]


def test_a_stream_without_rows_is_silent() -> None:
    """After twice the longest gap of the base, an hour at least, and not before."""
    panes = hourly(31, 10)
    rows_end = at_day(10)
    before = told(panes, 10 + 1 / 24)
    after = told(panes, 10 + 2 / 24)
    assert (before.flow, after.flow) == ("ok", "silent")
    assert before.valid_until == rows_end + timedelta(hours=2)
    assert after.sentence.endswith(f" No rows have come since {rows_end:%b %-d, %H:%M}.")
    assert after.happened == f"no rows since {rows_end:%b %-d, %H:%M}"
    assert "no rows" not in before.sentence.lower() + before.happened
    assert after.quality == before.quality


def test_what_is_empty_before_the_first_row_is_no_gap() -> None:
    """A base begins with a day, the stream at any hour: silence is told as soon."""
    panes = hourly(31, 10)[9:]
    evidence = begun(panes)
    assert evidence.base.start_us == START_US < panes[0].start_us
    assert told(panes, 10 + 2 / 24, evidence).flow == "silent"


def test_annotations_within_since_are_named() -> None:
    """One that is outside of it is not."""
    noted = [(START_US + 15 * DAY_US, "model v4"), (START_US + 2 * DAY_US, "model v3")]
    verdict = told(hourly(21, 18, day=15, distance_then=0.8), 18, annotations=noted)
    assert verdict.since.annotations == ("model v4",)
    assert verdict.sentence.endswith("Noted then: model v4.")


def test_the_segment_that_fell_explains_it() -> None:
    """With its share of the fall; the other one is not named."""
    fell, stayed = hourly(32, 20, day=14, distance_then=0.0), hourly(33, 20)
    both = [
        Pane(
            first.start_us,
            first.end_us,
            merge_states([first.state, second.state], revision=0),
            segments={"country=IT": first.state, "country=FR": second.state},
        )
        for first, second in zip(fell, stayed, strict=True)
    ]
    verdict = told(both, 20)
    (because,) = verdict.because
    assert because.segment == "country=IT"
    assert because.share >= 0.8
    assert f"country=IT explains {100 * because.share:.0f} % of it." in verdict.sentence


def test_figures_at_a_declared_threshold() -> None:
    """Precision, recall and cost come after the areas."""
    verdict = told(hourly(34, 12), 12, threshold=0.5, cost_fp=1.0, cost_fn=10.0)
    names = [each.metric for each in verdict.figures]
    assert names == ["auc_pr", "auc_roc", "precision", "recall", "expected_cost"]


# -- of a windowed evaluator


def test_windowed_is_the_same_after_bytes_and_in_any_order() -> None:
    """The verdict is of the cases, not of how they came."""
    labels, scores, times = columns(40, 20, day=14, distance_then=1.0)
    order = np.random.default_rng(1).permutation(labels.size)
    first = windowed(40, 20, day=14, distance_then=1.0)
    other = WindowedEvaluator(
        pane=timedelta(minutes=10), retention=timedelta(days=120), scale="probability"
    )
    other.advance(times.max())
    other.add_cases(labels=labels[order], scores=scores[order], at=times[order])
    other.advance(first.now)
    verdict = first.verdict()
    assert verdict.quality == "worse"
    assert verdict == other.verdict()
    assert verdict == WindowedEvaluator.from_bytes(first.to_bytes()).verdict()


def test_windowed_history_of_days_comes_to_the_same() -> None:
    """Older panes are days: the same quality, and a wider since that overlaps."""
    panes = hourly(41, 40, day=16, distance_then=1.0)
    live, loaded = told(panes, 40), windowed(41, 40, day=16, distance_then=1.0).verdict()
    assert live.quality == loaded.quality == "worse"
    assert loaded.since.earliest <= live.since.latest
    assert live.since.earliest <= loaded.since.latest
    assert loaded.since.earliest <= at_day(16) <= loaded.since.latest


def test_windowed_at_an_earlier_time() -> None:
    """What came later does not count."""
    ev = windowed(42, 20, day=14, distance_then=0.5)
    assert ev.verdict(at=at_day(14)).quality in {"steady", "unsure"}
    assert ev.verdict().quality == "worse"


def test_windowed_with_segments() -> None:
    """They are given as evaluators of the same cases."""
    parts = {"IT": windowed(43, 20, day=14, distance_then=0.0), "FR": windowed(44, 20)}
    whole = parts["IT"].copy()
    whole.merge(parts["FR"])
    verdict = whole.verdict(segments={"country": parts})
    assert [each.segment for each in verdict.because] == ["country=IT"]


def test_a_declared_base() -> None:
    """It is what now is compared with; one with a change in it is refused with the dates."""
    ev = windowed(45, 30, day=14, distance_then=1.0)
    verdict = ev.verdict(base=(at_day(16), at_day(23)))
    assert verdict.base.is_declared
    assert verdict.quality in {"steady", "unsure"}
    with pytest.raises(InvalidInputError, match="2026-01-1"):
        ev.verdict(base=(at_day(7), at_day(21)))
    for base in ((at_day(3), at_day(2)), (at_day(25), at_day(40)), at_day(3)):
        with pytest.raises(InvalidInputError, match="base must"):
            ev.verdict(base=base)


def test_too_little_history_has_a_reason() -> None:
    """It says what is missing, and when to look again."""
    verdict = windowed(46, 3).verdict()
    assert verdict.quality == "immature"
    assert verdict.sentence.startswith("Too early: its first week")
    assert verdict.valid_until == at_day(7)


def test_wrong_settings_are_refused() -> None:
    """With the value."""
    with pytest.raises(InvalidInputError, match="margin must be between 0 and 1, got 2"):
        windowed(47, 1).verdict(margin=2)
