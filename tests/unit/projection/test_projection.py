"""Projections: known truths, refusals, the effects that are counted, bytes."""

from __future__ import annotations

import math
import pickle
from datetime import timedelta
from statistics import fmean, median, pstdev

import numpy as np
import pytest

from streameval import (
    CorruptStateError,
    Evaluator,
    InvalidInputError,
    LabelJoiner,
    RefusalReason,
    WindowedEvaluator,
)
from streameval.statistics import BY_NAME

from .streams import DAY, DAYS, TTL_DAYS, WINDOW_DAYS, at_day, draw, joined

NEEDS = {"threshold": 0.7, "cost_fp": 0.3, "cost_fn": 0.2}


def noon_joiner(**settings: bool) -> LabelJoiner:
    """Return a joiner of panes of a day that keeps delays."""
    evaluator = WindowedEvaluator(pane=DAY, retention=90 * DAY)
    return LabelJoiner(evaluator, ttl=8 * DAY, keep_delays=True, **settings)


# -- known truths --------------------------------------------------------------------


@pytest.mark.slow
def test_late_positives_are_projected_to_the_truth() -> None:
    """The mean error of AP falls to a quarter or less, and intervals hold the truth."""
    before, after, held = [], [], []
    for seed in range(700, 710):
        stream = draw(seed)
        figure = stream.projection.figure("average_precision")
        truth = stream.whole.average_precision()
        before.append(figure.now - truth)
        after.append(figure.projected - truth)
        held.append(figure.interval is not None and truth in figure.interval)
        assert figure.limits is not None
        assert figure.limits[0] <= truth <= figure.limits[1]
        assert len(figure.backtest) > 3
    assert fmean(before) < -0.05
    assert abs(fmean(after)) < -fmean(before) / 4
    assert sum(held) >= 9


def test_negatives_by_expiry_are_projected() -> None:
    """With expired="negative" the window has no negatives yet, and an answer all the same."""
    errors, held = [], []
    for seed in range(720, 726):
        stream = draw(
            seed, labelled=lambda _, positives: positives, expired=True, days_of_positive=2.0
        )
        projection = stream.projection
        figure = projection.figure("auc_roc")
        assert np.isnan(figure.now)
        assert figure.interval is not None
        truth = stream.whole.auc_roc()
        errors.append(figure.projected - truth)
        held.append(truth in figure.interval)
    assert abs(fmean(errors)) < 0.02
    assert sum(held) >= 5


def test_labels_chosen_by_score_are_weighted() -> None:
    """A tenth of the labels below a score: the mean error of AP falls to a quarter or less."""
    before, after = [], []
    for seed in range(740, 748):
        draws = np.random.default_rng([seed, 1]).random(400 * DAYS)
        stream = draw(
            seed,
            labelled=lambda scores, _, draws=draws: (scores > 0.7) | (draws < 0.1),
            days_of_positive=0.5,
        )
        figure = stream.projection.figure("average_precision")
        truth = stream.whole.average_precision()
        if figure.reason is None:
            before.append(figure.now - truth)
            after.append(figure.projected - truth)
    assert len(after) >= 6
    assert fmean(before) > 0.05
    assert abs(fmean(after)) < fmean(before) / 4


def test_a_window_whose_labels_are_in_is_itself() -> None:
    """Each metric with a gradient reads the cases as they are, but for the cells' width."""
    projection = draw(3, first_day=DAYS - TTL_DAYS - WINDOW_DAYS - 2).projection
    assert projection.labelled_share == 1.0
    for metric in BY_NAME.values():
        if metric.gradient is None:
            continue
        arguments = {name: NEEDS[name] for name in metric.needs}
        figure = projection.figure(metric.name, **arguments)
        assert figure.projected == pytest.approx(figure.now, abs=0.01), metric.name
        assert figure.interval is not None, metric.name
        assert figure.interval.lower <= figure.now <= figure.interval.upper, metric.name
        if figure.limits is not None:
            assert figure.limits[0] <= figure.now <= figure.limits[1]
            assert figure.limits[1] - figure.limits[0] < 0.1


# -- refusals ------------------------------------------------------------------------


def test_nothing_is_projected_before_labels_are_in() -> None:
    """Without panes whose ttl has passed there is no model."""
    joiner = noon_joiner()
    joiner.log_cases(ids=["a", "b"], scores=[0.9, 0.1], at=at_day(1))
    joiner.label("a", True, at=at_day(1))
    projection = joiner.projection(joiner.evaluator.last(DAY))
    assert projection.reason is RefusalReason.TOO_FEW_MATURE
    assert np.isnan(projection.prevalence)
    assert projection.labelled_share == 0.5
    figure = projection.figure("auc_roc")
    assert figure.interval is None
    assert figure.reason is RefusalReason.TOO_FEW_MATURE
    assert "not projected: fewer than 30 labels" in str(figure)


def test_a_class_that_is_never_labelled_is_refused() -> None:
    """Complaints only: the negatives are unknown unless expiry declares them."""
    stream = draw(5, labelled=lambda _, positives: positives)
    projection = stream.projection
    assert projection.reason is RefusalReason.CLASS_NEVER_LABELLED


def test_scores_that_are_never_labelled_are_refused() -> None:
    """High scores without labels, also where they begin inside a band."""
    for quantile in (0.9, 0.7):
        stream = draw(6, labelled=lambda scores, _, q=quantile: scores < np.quantile(scores, q))
        projection = stream.projection
        assert projection.reason is RefusalReason.BAND_NEVER_LABELLED
        figure = projection.figure("auc_roc")
        assert figure.limits is not None
        assert figure.limits[0] <= stream.whole.auc_roc() <= figure.limits[1]


def test_a_window_without_labels_yet_is_refused() -> None:
    """Labels that take a week: nothing is known of the last hours."""
    stream = draw(7, days_of_positive=1e6, days_of_negative=1e6, first_day=DAYS - 0.5)
    assert stream.projection.reason is RefusalReason.TOO_FEW_EFFECTIVE
    stream = draw(7, days_of_positive=1e6, days_of_negative=1e6, first_day=DAYS - 1)


def test_a_small_window_is_refused() -> None:
    """Fewer than 50 effective positives."""
    stream = draw(8, per_day=60)
    projection = stream.projection
    assert projection.reason is RefusalReason.TOO_FEW_EFFECTIVE
    empty = draw(8, first_day=DAYS + 5)
    assert empty.projection.reason is RefusalReason.TOO_FEW_EFFECTIVE


def test_labels_at_another_pace_are_refused() -> None:
    """Delays of the window twice or half as long, with hundreds of labels: no figure, limits."""
    for slower in (2.0, 0.5):
        stream = draw(9, slower=slower, per_day=2000, days_of_positive=1.0)
        projection = stream.projection
        assert projection.fit < 0.01
        assert projection.reason is RefusalReason.FIT_FAILED
        for figure in projection.headline():
            assert figure.reason is RefusalReason.FIT_FAILED
            assert "slower or faster" in str(figure)
            assert figure.limits is not None
        truth = stream.whole.average_precision()
        lower, upper = projection.figure("average_precision").limits
        assert lower <= truth <= upper


@pytest.mark.parametrize("pace", [0.5, 1.0, 2.0])
def test_a_pace_that_labels_do_not_tell_is_in_the_interval(pace: float) -> None:
    """Few positives: with delays that double or halve it holds the truth, and says why."""
    answered, held = 0, 0
    for seed in range(300, 316):
        stream = draw(seed, slower=pace, per_day=300, days_of_positive=4.0)
        figure = stream.projection.figure("average_precision")
        if figure.interval is not None:
            assert "too few labels are there to tell" in str(figure)
            answered += 1
            held += stream.whole.average_precision() in figure.interval
    assert answered >= 4
    assert held / answered > 0.93 - 4 * math.sqrt(0.93 * 0.07 / answered)


def test_fewer_positives_at_the_same_pace_are_not_refused() -> None:
    """The window's prevalence falls to a third; labels come as before."""

    def thinned(scores: np.ndarray, positives: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(scores.size)
        newest = np.arange(scores.size) > scores.size * (1 - WINDOW_DAYS / DAYS)
        return ~(positives & newest & (rng.random(scores.size) < 2 / 3))

    reasons = [
        draw(seed, per_day=1000, labelled=thinned).projection.reason for seed in range(60, 80)
    ]
    assert sum(reason is RefusalReason.FIT_FAILED for reason in reasons) <= 3


def test_an_interval_is_no_wider_than_the_final_value_needs() -> None:
    """Where labels tell the pace: 1.5 times the spread of the errors at most, four errors off."""
    errors, widths, held = [], [], []
    for seed in range(200, 224):
        stream = draw(seed, days_of_positive=1.0, per_day=200)
        figure = stream.projection.figure("average_precision")
        if figure.interval is not None:
            truth = stream.whole.average_precision()
            errors.append(figure.projected - truth)
            widths.append(figure.interval.upper - figure.interval.lower)
            held.append(truth in figure.interval)
    assert len(held) >= 20
    needed = 2 * 1.96 * pstdev(errors)
    assert median(widths) < 1.5 * needed * (1 + 4 / math.sqrt(2 * len(errors)))
    assert fmean(held) > 0.93 - 4 * math.sqrt(0.93 * 0.07 / len(held))


def test_arguments_that_make_no_sense_are_refused() -> None:
    """One clear line each."""
    stream = draw(10, per_day=20)
    projection = stream.projection
    with pytest.raises(InvalidInputError, match="'maximum_mcc' cannot be projected"):
        projection.figure("maximum_mcc")
    with pytest.raises(InvalidInputError, match="needs a threshold"):
        projection.figure("recall")
    with pytest.raises(InvalidInputError, match="does not depend on a prevalence"):
        projection.figure("auc_roc", prevalence=0.1)
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        projection.figure("auc_pr", prevalence=1.0)
    with pytest.raises(InvalidInputError, match="level must be"):
        projection.figure("auc_pr", level=1.0)
    joiner = noon_joiner()
    with pytest.raises(InvalidInputError, match="decayed"):
        joiner.projection(joiner.evaluator.decayed(DAY))
    with pytest.raises(InvalidInputError, match="keep_delays=True"):
        LabelJoiner(WindowedEvaluator(), ttl=DAY).projection(projection.window)
    with pytest.raises(InvalidInputError, match="needs a WindowedEvaluator"):
        LabelJoiner(Evaluator(), ttl=DAY, keep_delays=True)


# -- what is kept --------------------------------------------------------------------


def test_rows_and_columns_keep_the_same_delays() -> None:
    """One call for each row, and one for all, give the same bytes; labels may change."""
    rng = np.random.default_rng(11)
    ids = [f"{number}" for number in range(60)]
    scores, labels = rng.random(60), rng.random(60) < 0.4
    single, columns = noon_joiner(), noon_joiner()
    for day in range(3):
        part = slice(20 * day, 20 * day + 20)
        columns.log_cases(ids=ids[part], scores=scores[part], at=at_day(day))
        for id_, score in zip(ids[part], scores[part], strict=True):
            single.log(id_, score, at=at_day(day))
    columns.label_cases(ids=ids, labels=labels, at=at_day(4))
    columns.label_cases(ids=ids[:5], labels=~labels[:5], at=at_day(4))
    columns.retract_cases(ids=ids[5:8], at=at_day(4))
    for id_, label in zip(ids, labels.tolist(), strict=True):
        single.label(id_, label, at=at_day(4))
    for id_, label in zip(ids[:5], labels.tolist(), strict=False):
        single.label(id_, not label, at=at_day(4))
    for id_ in ids[5:8]:
        single.retract(id_, at=at_day(4))
    assert single.to_bytes() == columns.to_bytes()
    single._check()


@pytest.mark.slow
def test_bytes_round_trip_with_the_same_answer() -> None:
    """Bytes, pickles and copies answer as the joiner, and go on alike."""
    joiner, window = joined(12, per_day=250)
    expected = str(joiner.projection(window).headline())
    assert joiner.projection(window).reason is None
    restored = LabelJoiner.from_bytes(joiner.to_bytes())
    for other in (restored, pickle.loads(pickle.dumps(joiner)), joiner.copy()):
        assert other == joiner
        window = other.evaluator.between(at_day(DAYS - WINDOW_DAYS), at_day(DAYS))
        assert str(other.projection(window).headline()) == expected
        other._check()
    restored.advance(at_day(DAYS + 200))
    assert restored != joiner


def test_delays_are_an_optional_part_of_the_bytes() -> None:
    """A flag says that they are there; altered bytes are refused."""
    plain, keeping = joined(13, per_day=5, keep_delays=False), joined(13, per_day=5)
    old, new = plain[0].to_bytes(), keeping[0].to_bytes()
    assert old[:7] == b"SVET\x01\x00\x00"
    assert new[:7] == b"SVET\x01\x00\x01"
    assert old[7:-4] == new[7 : len(old) - 4]
    for at in range(6, len(new), len(new) // 50):
        altered = bytearray(new)
        altered[at] ^= 1
        with pytest.raises(CorruptStateError):
            LabelJoiner.from_bytes(altered)


def test_panes_that_coarsen_keep_their_delays() -> None:
    """Minutes become hours, then days; sums stay, and panes past retention go."""
    evaluator = WindowedEvaluator(pane=timedelta(minutes=1), retention=20 * DAY)
    joiner = LabelJoiner(evaluator, ttl=2 * DAY, keep_delays=True)
    for hour in range(5):
        at = at_day(0) + timedelta(hours=hour, minutes=7 * hour)
        joiner.log_cases(ids=[f"{hour}-{n}" for n in range(4)], scores=[0.1, 0.2, 0.3, 0.4], at=at)
        joiner.label(f"{hour}-1", True, at=at + timedelta(minutes=30))
    for day in (1, 3, 9):
        joiner.advance(at_day(day))
        joiner._check()
        window = evaluator.between(at_day(0), at_day(1))
        assert joiner.projection(window).labelled_share == 0.25
    joiner.advance(at_day(40))
    assert np.isnan(joiner.projection(evaluator.last(60 * DAY)).labelled_share)


def test_an_answer_is_readable() -> None:
    """What is printed names the metric, both values, the assumption and the backtest."""
    stream = draw(14)
    text = str(stream.projection)
    assert "AUC-ROC: 0." in text
    assert "projected 0." in text
    assert "whatever the missing labels" in text
    assert "assumed: labelling depends on score band, class and age only" in text
    assert "not on when a batch of labels comes" in text
    assert "backtest of " in text
