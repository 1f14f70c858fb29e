"""What raises an alarm, what it says, what is refused."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from streameval import DriftDetector, Evaluator, InvalidInputError, WindowedEvaluator
from streameval._drift.engine import MAX_KEPT_ALARMS
from streameval.statistics import DriftRows, RowKind

from .streams import START, YEAR, Columns, cases, detector, feed, reference

ALL = ("ranking", "auc_roc", "precision", "recall", "flagged", "calibration")
HOUR = timedelta(hours=1)


@pytest.mark.parametrize("watch", ALL)
@pytest.mark.slow
def test_no_alarm_where_nothing_changes(watch: str) -> None:
    """Ten days; the evidence stays a small share."""
    made = detector(watch, threshold=0.5 if watch in {"precision", "recall", "flagged"} else None)
    feed(made, cases(2, 240))
    assert made.alarms == ()
    assert made.now > START + 239 * HOUR
    assert 0 < made.evidence[watch] < 0.05


@pytest.mark.parametrize(
    ("watch", "change", "direction"),
    [
        ("ranking", {"distance": 1.0}, "fell"),
        ("auc_roc", {"distance": 1.0}, "fell"),
        ("precision", {"prevalence": 0.08}, "fell"),
        ("recall", {"distance": 1.0}, "fell"),
        ("flagged", {"shift": 1.0}, "rose"),
        ("flagged", {"shift": -1.0}, "fell"),
        ("calibration", {"shift": 1.0}, "fell"),
        ("calibration", {"shift": -1.0}, "rose"),
    ],
)
@pytest.mark.slow
def test_a_change_is_found_and_told(watch: str, change: dict[str, float], direction: str) -> None:
    """Within two days of its beginning at hour 72; the interval holds the new mean."""
    made = detector(watch, threshold=0.5 if watch in {"precision", "recall", "flagged"} else None)
    feed(made, cases(2, 72))
    assert made.alarms == ()
    feed(made, cases(3, 48, after=72, **change))
    alarm = made.alarms[0]
    assert (alarm.number, alarm.watch, alarm.direction) == (1, watch, direction)
    began = START + 72 * HOUR
    assert began < alarm.raised_at < began + 48 * HOUR
    assert alarm.earliest <= alarm.since <= alarm.latest <= alarm.raised_at
    assert alarm.earliest - HOUR <= began <= alarm.latest + HOUR
    assert (alarm.difference.estimate > 0) == (direction == "rose")
    assert alarm.value.estimate - alarm.reference == pytest.approx(alarm.difference.estimate)
    assert alarm.is_open
    assert alarm.look_at
    json.dumps(alarm.to_dict())
    assert f"{watch}), {alarm.raised_at:%Y-%m-%d %H:%M}" in str(alarm)


def test_what_it_says_is_true() -> None:
    """Reference and value of `auc_roc` are the AUC-ROC of the model and of the worse one."""
    made = detector("auc_roc")
    feed(made, cases(2, 72))
    feed(made, cases(3, 24, distance=1.0, after=72))
    alarm = made.alarms[0]
    assert alarm.changed == "AUC-ROC against the reference's negatives"
    assert alarm.reference == pytest.approx(norm.cdf(2 / math.sqrt(2)), abs=0.01)
    assert norm.cdf(1 / math.sqrt(2)) in alarm.value
    assert reference().auc_roc() == pytest.approx(alarm.reference, abs=0.001)


def test_the_reference_mean_of_ranking_is_average_precision() -> None:
    """To what bands of scores hide."""
    made = detector("ranking")
    feed(made, cases(3, 24, distance=0.5))
    assert made.alarms[0].reference == pytest.approx(reference().average_precision(), abs=0.01)


@pytest.mark.slow
def test_since_when_and_by_how_much_are_mostly_right() -> None:
    """Of 30 streams the limits hold the beginning in 27 or more, and the new mean in 24 or more."""
    truth = norm.cdf(1.2 / math.sqrt(2))
    since = values = 0
    distances = []
    for seed in range(4_000, 4_030):
        made = detector("auc_roc")
        feed(made, cases(seed, 48))
        feed(made, cases(seed + 100, 24, distance=1.2, after=48))
        alarm = made.alarms[0]
        since += alarm.earliest <= START + 48 * HOUR <= alarm.latest
        values += truth in alarm.value
        distances.append(alarm.value.estimate - truth)
    assert since >= 27
    assert values >= 24
    assert abs(np.mean(distances)) < 0.02


@pytest.mark.slow
def test_a_beginning_inside_merged_hours_is_not_excluded() -> None:
    """Hours of long ago are kept as one: of 16 changes in them the limits hold 14 or more."""
    since = 0
    for seed in range(7_000, 7_016):
        made = detector("auc_roc")
        feed(made, cases(seed, 96, an_hour=50))
        feed(made, cases(seed + 100_000, 96, distance=1.5, an_hour=50, after=96))
        alarm = made.alarms[0]
        since += alarm.earliest <= START + 96 * HOUR <= alarm.latest
    assert since >= 14


def test_what_was_before_the_last_alarm_is_not_read_again() -> None:
    """The second alarm of a watch says since when it began anew, and the mean of those rows."""
    made = detector("auc_roc")
    feed(made, cases(3, 24, distance=0.0))
    feed(made, cases(5, 24, after=24))
    before = made.acknowledge(1, at=made.now).last_at
    feed(made, cases(4, 48, distance=1.5, after=48))
    alarm = made.alarms[1]
    assert alarm.earliest >= before - HOUR
    assert alarm.value.estimate == pytest.approx(norm.cdf(1.5 / math.sqrt(2)), abs=0.06)
    assert norm.cdf(0) not in alarm.value


@pytest.mark.parametrize(
    ("change", "first"), [({"shift": 1.0}, "scores"), ({"prevalence": 0.05}, "labels")]
)
def test_whether_scores_or_labels_changed_first(change: dict[str, float], first: str) -> None:
    """A shift of all scores, and another prevalence."""
    made = detector("calibration")
    feed(made, cases(2, 72))
    feed(made, cases(3, 96, after=72, **change))
    assert made.alarms[0].changed_first == first


def test_neither_scores_nor_labels_changed() -> None:
    """Labels of 30 % of the rows change places: only how they go with the scores is new."""
    made = detector("recall", threshold=0.5)
    feed(made, cases(2, 72))
    columns = cases(3, 400, after=72)
    rng = np.random.default_rng(7)
    labels = columns.labels.copy()
    chosen = np.flatnonzero(rng.random(labels.size) < 0.3)
    labels[chosen] = labels[rng.permutation(chosen)]
    feed(made, columns._replace(labels=labels))
    alarm = made.alarms[0]
    assert alarm.changed_first == "neither"
    assert alarm.scores_changed_at is None
    assert alarm.labels_changed_at is None


def test_the_segment_that_fell_is_named() -> None:
    """One fifth of the rows is worse; e-Benjamini-Hochberg names it and no other."""
    names = np.array(["DE", "FR", "IT", "PL", "ES"])
    before = cases(1, 168)
    country = names[np.arange(before.labels.size) % 5]
    references = {}
    for name in names:
        references[str(name)] = Evaluator(resolution=12, scale="probability")
        rows = country == name
        references[str(name)].add_cases(labels=before.labels[rows], scores=before.scores[rows])
    made = detector("auc_roc", segments={"country": references})
    good, bad = cases(2, 72), cases(3, 72, distance=0.4, after=72)
    feed(made, good, segments={"country": names[np.arange(good.labels.size) % 5]})
    mixed = cases(4, 72, after=72)
    chosen = np.arange(bad.labels.size) % 5
    columns = Columns(
        np.where(chosen == 1, bad.labels, mixed.labels),
        np.where(chosen == 1, bad.scores, mixed.scores),
        mixed.at,
    )
    feed(made, columns, segments={"country": names[chosen]})
    assert [each.segment for each in made.alarms[0].segments] == ["country=FR"]
    assert made.alarms[0].segments[0].e_value > 50
    assert "explained by country=FR" in str(made.alarms[0])


def test_segments_are_named_while_the_alarm_is_open() -> None:
    """The whole rings first, of twice as many cases; each is named once its evidence suffices."""
    names = np.array(["DE", "FR"])
    before = cases(1, 168)
    country = names[np.arange(before.labels.size) % 2]
    references = {}
    for name in names:
        references[str(name)] = Evaluator(resolution=12, scale="probability")
        rows = country == name
        references[str(name)].add_cases(labels=before.labels[rows], scores=before.scores[rows])
    made = detector("auc_roc", segments={"country": references})
    named = []
    for hour in range(24):
        bad = cases(hour, 1, after=hour, distance=1.2)
        feed(made, bad, segments={"country": names[np.arange(bad.labels.size) % 2]})
        if made.alarms:
            named.append({each.segment for each in made.alarms[0].segments})
    assert named[0] == set()
    assert named[-1] == {"country=DE", "country=FR"}
    assert made.alarms[0].repeats > 0
    made.acknowledge(1, at=made.now)
    good = cases(40, 24, after=24)
    feed(made, good, segments={"country": names[np.arange(good.labels.size) % 2]})
    assert [each.is_open for each in made.alarms] == [False]


def test_after_an_alarm() -> None:
    """It begins again and adds to the open alarm; once acknowledged, it may raise another."""
    made = detector("auc_roc")
    feed(made, cases(3, 48, distance=1.0))
    first = made.alarms[0]
    assert len(made.alarms) == 1
    assert first.repeats > 0
    assert first.last_at > first.raised_at
    done = made.acknowledge(1, at=made.now)
    assert not done.is_open
    assert made.alarms == (done,)
    assert done.acknowledged_at == made.now
    with pytest.raises(InvalidInputError, match="alarm 1 was acknowledged already"):
        made.acknowledge(1, at=made.now)
    with pytest.raises(InvalidInputError, match="there is no alarm 9"):
        made.acknowledge(9, at=made.now)
    feed(made, cases(4, 24, distance=1.0, after=48))
    assert [each.number for each in made.alarms] == [1, 2]
    assert made.alarms[1].raised_at > START + 48 * HOUR
    # Evidence of the second began after the last one of the first, in that hour.
    assert made.alarms[1].earliest > done.last_at - HOUR


def test_rows_that_are_better_in_one_pane_and_worse_in_most_are_an_alarm() -> None:
    """Panes count alike, so their mean falls where the mean of the rows rises: no split falls."""
    made = detector("auc_roc")
    for hour in range(3):
        for pane, rows in enumerate([1_000, 1, 1, 1, 1, 1]):
            at = START + hour * HOUR + pane * timedelta(minutes=10)
            scores = np.full(rows, 0.0005 if pane else 0.9999)
            made.add_cases(labels=np.ones(rows, dtype=bool), scores=scores, at=[at] * rows)
    (alarm,) = made.alarms
    assert START == alarm.earliest <= alarm.since < alarm.latest <= alarm.raised_at


def test_the_rate_is_that_of_all_watches_together() -> None:
    """With three watches each needs three times the evidence, so it comes later."""
    alone, among = detector("auc_roc"), detector(("auc_roc", "ranking", "calibration"))
    columns = cases(3, 24, distance=1.3)
    feed(alone, columns)
    feed(among, columns)
    first = next(each for each in among.alarms if each.watch == "auc_roc")
    assert first.raised_at > alone.alarms[0].raised_at
    quiet = cases(2, 24)
    alone, among = detector("auc_roc"), detector(("auc_roc", "ranking", "calibration"))
    feed(alone, quiet)
    feed(among, quiet)
    assert among.evidence["auc_roc"] == pytest.approx(alone.evidence["auc_roc"] / 3)


@pytest.mark.parametrize("maturity", [timedelta(0), timedelta(minutes=30)])
def test_batches_may_be_cut_anywhere(maturity: timedelta) -> None:
    """Rows in any order of time: one call, or a call for each row, give equal bytes."""
    columns = cases(3, 6, distance=1.0, an_hour=60)
    order = np.argsort(np.arange(columns.labels.size) + np.random.default_rng(1).normal(0, 30, 360))
    shuffled = Columns(*(each[order] for each in columns))
    whole, single = (detector("auc_roc", maturity=maturity) for _ in range(2))
    feed(whole, shuffled)
    for row in range(order.size):
        feed(single, Columns(*(each[row : row + 1] for each in shuffled)))
    assert whole.to_bytes() == single.to_bytes()


def test_order_in_a_pane_is_of_no_matter() -> None:
    """Sums are integers: the rows of an hour backwards give equal bytes."""
    columns = cases(3, 1, an_hour=500)
    first, second = (detector(("ranking", "calibration"), pane=HOUR) for _ in range(2))
    feed(first, columns)
    order = np.concatenate((np.arange(columns.labels.size - 1)[::-1], [columns.labels.size - 1]))
    feed(second, Columns(*(each[order] for each in columns)))
    for each in (first, second):
        each.advance(START + 3 * HOUR)
    assert first.to_bytes() == second.to_bytes()
    assert first.evidence["ranking"] > 0


def test_late_labels_count_when_they_come_and_once() -> None:
    """A label of an observed pane counts in the oldest that waits; maturity keeps panes open."""
    prompt, late, patient = (
        detector("auc_roc"),
        detector("auc_roc"),
        detector("auc_roc", maturity=timedelta(minutes=40)),
    )
    columns = cases(3, 0.5, an_hour=120)
    for each in (late, patient):
        each.add_predictions(scores=columns.scores, at=columns.at)
        each.advance(START + timedelta(minutes=35))
    labels = {"labels": columns.labels, "scores": columns.scores, "at": columns.at}
    feed(prompt, columns)
    late.add_labels(**labels)
    patient.add_labels(**labels)
    for each in (prompt, late, patient):
        each.advance(START + 2 * HOUR)
    # One observation of half an hour's cases, against one for each minute.
    assert late.evidence != prompt.evidence
    assert patient.evidence == pytest.approx(prompt.evidence)
    before = late.evidence
    late.advance(START + 5 * HOUR)
    assert late.evidence == before


def test_predictions_count_for_the_share_flagged_only() -> None:
    """And labels that come later do not count a prediction again."""
    parts, whole = (detector(("precision", "flagged"), threshold=0.5) for _ in range(2))
    columns = cases(3, 6)
    feed(whole, columns)
    parts.add_predictions(scores=columns.scores, at=columns.at)
    whole.advance(START + 12 * HOUR)
    parts.advance(START + 12 * HOUR)
    assert parts.evidence["flagged"] == whole.evidence["flagged"]
    assert parts.evidence["precision"] == 0
    flagged = parts.evidence["flagged"]
    parts.add_labels(labels=columns.labels, scores=columns.scores, at=columns.at)
    parts.advance(START + 24 * HOUR)
    assert parts.evidence["flagged"] == flagged
    assert parts.evidence["precision"] > 0


def test_clusters_make_bets_of_fewer_cases() -> None:
    """Rows of one user are one case, and evidence takes longer; those of many users are many."""
    columns = cases(3, 12, distance=1.0, an_hour=400)
    size = columns.labels.size
    plain, apart, alike = (
        detector("auc_roc", clusters=clusters) for clusters in (False, True, True)
    )
    feed(plain, columns)
    feed(apart, columns, clusters=np.arange(size) % 50)
    feed(alike, columns, clusters=np.full(size, "one"))
    assert plain.alarms
    assert apart.alarms[0].raised_at < START + 12 * HOUR
    assert alike.alarms[0].raised_at > plain.alarms[0].raised_at
    with pytest.raises(InvalidInputError, match="give clusters="):
        feed(alike, columns)
    with pytest.raises(InvalidInputError, match="make it with clusters=True"):
        feed(plain, columns, clusters=np.arange(size))


def test_bursts_of_the_reference_widen_its_error() -> None:
    """A window's panes show that cases depend on one another: theta is lower."""
    rng = np.random.default_rng(5)
    labels = rng.random(16_800) < 0.2
    shared = np.repeat(rng.normal(size=168), 100)
    scores = 2 * labels + 0.7 * shared + 0.7 * rng.normal(size=labels.size)
    at = np.datetime64("2026-03-01", "us") + np.repeat(np.arange(168), 100).astype("timedelta64[h]")
    plain = Evaluator()
    plain.add_cases(labels=labels, scores=scores)
    windowed = WindowedEvaluator(pane=HOUR, retention=timedelta(days=30), max_cells=1 << 20)
    windowed.add_cases(labels=labels, scores=scores, at=at)
    settings: dict[str, Any] = {
        "watch": "auc_roc",
        "tolerance": 0.01,
        "mean_time_to_false_alarm": YEAR,
    }
    errors = [
        DriftDetector(each, **settings)._engine.frozen.errors[0]
        for each in (plain, windowed.last(timedelta(days=7)))
    ]
    assert errors[1] > 3 * errors[0]
    taken = windowed.last(timedelta(days=7))
    windowed.add_cases(labels=labels[-1:], scores=scores[-1:], at=at[-1:])
    gone = WindowedEvaluator.from_bytes(windowed.to_bytes()).last(timedelta(days=7))
    for stale in (taken, gone):
        with pytest.raises(InvalidInputError, match="take the window again"):
            DriftDetector(stale, **settings)


def sent_again(seed: int, days: int, times: int) -> tuple[Columns, np.ndarray]:
    """Return cases of 60 an hour, each sent in all this often within ten minutes, and their ids."""
    once = cases(seed, 24 * days, an_hour=60 // times)
    ids = np.repeat(np.arange(once.labels.size), times)
    later = np.random.default_rng(seed).integers(600, size=ids.size)
    at = once.at[ids] + (later * (np.arange(ids.size) % times > 0)).astype("timedelta64[s]")
    order = np.argsort(at, kind="stable")
    columns = Columns(once.labels[ids][order], once.scores[ids][order], at[order])
    return columns, ids[order]


@pytest.mark.parametrize("clusters", [False, True])
def test_rows_that_are_sent_again_in_later_panes_are_warned_of(clusters: bool) -> None:
    """Without a change alarms come too often, with clusters too; not in panes that are longer."""

    def raised(times: int, pane: timedelta) -> tuple[tuple[str, ...], int]:
        columns, ids = sent_again(3, 17, times)
        week = columns.at < np.datetime64("2026-03-08")
        windowed = WindowedEvaluator(
            pane=timedelta(minutes=1),
            retention=timedelta(days=30),
            cluster_groups=32 if clusters else None,
        )
        made = None
        for chosen in (week, ~week):
            part = {"clusters": ids[chosen]} if clusters else {}
            part |= Columns(*(each[chosen] for each in columns))._asdict()
            if made is not None:
                made.add_cases(**part)
                break
            windowed.add_cases(**part)
            made = DriftDetector(
                windowed.last(timedelta(days=7)),
                watch=("ranking", "auc_roc"),
                tolerance=0.005,
                mean_time_to_false_alarm=timedelta(days=30),
                pane=pane,
                clusters=clusters,
            )
        restored = DriftDetector.from_bytes(made.to_bytes())
        assert restored.warnings == made.warnings
        return made.warnings, sum(1 + each.repeats for each in made.alarms)

    (warning,), alarms = raised(10, timedelta(minutes=1))
    assert alarms > 5  # a third of one is allowed
    assert "in several panes of 1m" in warning
    assert ("clusters=, of a stream cluster_key" in warning) != clusters
    assert raised(10, HOUR) == ((), 0)
    assert raised(1, timedelta(minutes=1)) == ((), 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": 1}, "tolerance must be at least 0 and below 1, got 1"),
        ({"tolerance": -0.1}, "tolerance must be at least 0 and below 1, got -0.1"),
        ({"tolerance": 0.99}, "no change of auc_roc could be seen: its mean in the reference"),
        ({"tolerance": {"ranking": 0.1}}, "tolerance must have one value for each of auc_roc"),
        (
            {"mean_time_to_false_alarm": timedelta(minutes=9)},
            "mean_time_to_false_alarm must be at least one pane of 0:10:00, got 0:09:00",
        ),
        ({"mean_time_to_false_alarm": 365}, "mean_time_to_false_alarm must be a timedelta"),
        (
            {"watch": "precision", "threshold": 1.5},
            "threshold must be a probability, from 0 to 1, got 1.5",
        ),
        ({"watch": "precision", "threshold": math.nan}, "threshold must be finite, got nan"),
        ({"watch": "precision"}, "threshold is needed to watch precision"),
        ({"threshold": 0.5}, "threshold is used to watch precision, recall, flagged"),
        ({"watch": "auc"}, "watch must be of ranking, auc_roc, .*, got 'auc'"),
        ({"watch": ()}, "watch names nothing"),
        ({"watch": ("auc_roc", "auc_roc")}, "watch names 'auc_roc' twice"),
        ({"pane": timedelta(0)}, "pane must be positive"),
        ({"maturity": 9 * HOUR}, "maturity must be at most 48 panes of 0:10:00, got 9:00:00"),
        ({"segments": {"a=b": {}}}, "a key of segments must be text without '='"),
        ({"segments": {"country": {"DE": 3}}}, "segments must be an Evaluator or a Window, got 3"),
        ({"segments": ["country"]}, "segments must map keys to the references of values"),
        ({"segments": {"country": 3}}, r"segments.* must map values to references, got 3"),
        ({"segments": {3: {}}}, "a key of segments must be text without '=', got 3"),
        ({"watch": None}, "watch must be a name or several of them, got None"),
        ({"watch": [["auc_roc"]]}, r"watch must be of ranking, .*, got \['auc_roc'\]"),
        ({"tolerance": {"auc_roc": 0.1, 3: 0.1}}, "for each of auc_roc, got 'auc_roc', 3"),
        (
            {"watch": "precision", "threshold": 1.0},
            "precision is of 0 cases of the reference at the threshold 1, at least 30 are needed",
        ),
    ],
)
def test_refused_settings(options: dict[str, Any], message: str) -> None:
    """In one clear line."""
    with pytest.raises(InvalidInputError, match=message):
        detector(**({"watch": "auc_roc"} | options))


def test_refused_references() -> None:
    """Without positives, with too few, with weights, of other values."""
    settings: dict[str, Any] = {"tolerance": 0.01, "mean_time_to_false_alarm": YEAR}
    with pytest.raises(InvalidInputError, match="must be an Evaluator or a Window, got 'week'"):
        DriftDetector("week", **settings)  # type: ignore[arg-type]
    negatives, few, weighted, plain = (Evaluator() for _ in range(4))
    negatives.add_cases(labels=[0] * 100, scores=np.arange(100))
    with pytest.raises(InvalidInputError, match="the reference has no scored positives, at least"):
        DriftDetector(negatives, **settings)
    few.add_cases(labels=[1] * 29 + [0] * 100, scores=np.arange(129))
    with pytest.raises(InvalidInputError, match="the reference has 29 scored positives"):
        DriftDetector(few, **settings)
    weighted.add_cases(labels=[0, 1] * 50, scores=np.arange(100), weights=[0.5] * 100)
    with pytest.raises(InvalidInputError, match="the reference has weights"):
        DriftDetector(weighted, **settings)
    plain.add_cases(labels=[0, 1] * 50, scores=np.arange(100))
    with pytest.raises(InvalidInputError, match="calibration is of probabilities"):
        DriftDetector(plain, watch="calibration", **settings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [0.5, 1.5]}, "1.5 at index 1"),
        ({"labels": [1, 2]}, "2 at index 1"),
        ({"labels": [1]}, "scores must have one row for each of labels"),
        ({"at": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001
        ({"segments": {"country": ["DE", "FR"]}}, "the key 'country', of which the reference"),
        ({"segments": ["DE", "FR"]}, "segments must map keys to columns"),
        ({"clusters": ["a", "b"]}, "the detector declares no clusters: make it with clusters=True"),
    ],
)
def test_refused_rows_change_nothing(change: dict[str, Any], message: str) -> None:
    """All or none."""
    made = detector("calibration")
    before = made.to_bytes()
    rows = {"labels": [1, 0], "scores": [0.5, 0.2], "at": datetime(2026, 3, 1, tzinfo=UTC)}
    with pytest.raises(InvalidInputError, match=message):
        made.add_cases(**(rows | change))
    assert made.to_bytes() == before


def test_scores_that_are_no_probabilities_count_as_the_nearest() -> None:
    """Rows of a server's stream without a scale are not checked: means stay from 0 to 1."""
    kinds = np.array([RowKind.NEGATIVE_CASE, RowKind.POSITIVE_CASE] * 50, dtype=np.uint8)
    outside, nearest = detector("calibration"), detector("calibration")
    for made, low, high in ((outside, -50.0, 7.0), (nearest, 0.0, 1.0)):
        scores = np.tile([high, low], 50)
        for pane in range(3):
            made._engine.add(DriftRows(kinds, scores, None, None), pane, [])
        made.advance(datetime(2026, 3, 1, tzinfo=UTC))
    assert outside.evidence["calibration"] > 0
    assert outside.to_bytes() == nearest.to_bytes()


def test_of_many_alarms_the_newest_and_those_that_are_open_are_kept() -> None:
    """Forty that were acknowledged drop the oldest of themselves; numbers are never used again."""
    made = detector(
        ("auc_roc", "flagged"),
        threshold=0.5,
        tolerance=0.0,
        mean_time_to_false_alarm=timedelta(minutes=10),
    )
    hours = 0
    while made.alarms[-1:] == () or made.alarms[-1].number <= 41:
        feed(made, cases(hours, 1, distance=0.0, shift=1.0, an_hour=600, after=hours))
        hours += 1
        for each in made.alarms:
            if each.is_open and each.watch == "auc_roc":
                made.acknowledge(each.number, at=made.now)
        assert hours < 200
    numbers = [each.number for each in made.alarms]
    (kept,) = (each for each in made.alarms if each.is_open)
    assert kept.watch == "flagged"
    assert numbers == [kept.number, *range(numbers[-1] - 30, numbers[-1] + 1)]
    assert len(numbers) == MAX_KEPT_ALARMS
    again = DriftDetector.from_bytes(made.to_bytes())
    assert again.alarms == made.alarms
    dropped = min({*range(1, 41)} - {*numbers})
    with pytest.raises(InvalidInputError, match=f"there is no alarm {dropped}: it was never"):
        made.acknowledge(dropped, at=made.now)
