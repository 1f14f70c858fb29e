"""Evidence without being declared: what it calls, when, and its bytes."""

from __future__ import annotations

import numpy as np
import pytest

from streameval import CorruptStateError, Evaluator
from streameval._counts.merge import merge_states
from streameval._counts.state import LABELS
from streameval._verdict.base import BaseSpan
from streameval._verdict.evidence import Evidence
from streameval._verdict.evidence_base import CALLS, MAX_BYTES, Pane, step_length
from streameval._verdict.evidence_codec import decode_evidence, encode_evidence
from streameval._verdict.level_sums import MAX_DAYS, MAX_FINE, ROW, SPANNED

from .streams import DAY_US, HOUR_US, START_US, begun, hourly

END_US = START_US + 60 * DAY_US


def calls(panes: list[Pane], **given: int) -> dict[str, float]:
    """Return what is called, and on which day first."""
    evidence, found = begun(panes, **given), {}
    for until_us in (*(each.end_us for each in panes), END_US):
        evidence.observe(panes, until_us)
        for call, at_us in zip(CALLS, evidence.called_us.tolist(), strict=True):
            if at_us >= 0:
                found.setdefault(call, (at_us - START_US) / DAY_US)
    return found


def observed(panes: list[Pane], **given: int) -> Evidence:
    evidence = begun(panes, **given)
    evidence.observe(panes, END_US)
    return evidence


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"distance_then": 1.0}, {"ranking_worse", "auc_roc_worse"}),
        ({"distance": 1.0, "distance_then": 2.0}, {"ranking_better", "auc_roc_better"}),
        ({"prevalence_then": 0.02}, {"prevalence"}),
        ({"prevalence_then": 0.25}, {"prevalence", "scores"}),
        ({}, set()),
    ],
)
def test_what_changed_is_called(given: dict[str, float], expected: set[str]) -> None:
    """A fall is worse, a rise better; a change of prevalence alone is neither."""
    found = calls(hourly(3, 26, day=14, **given))
    assert set(found) == expected
    assert all(day > 14 for day in found.values())


def test_a_tenth_of_late_labels_is_no_change() -> None:
    """A step is observed without them: neither the prevalence nor the labelled share changed."""
    rng = np.random.default_rng(18)

    def late(pane: Pane, share: float) -> Pane:
        labels, scores = pane_columns(pane)
        here = ~labels | (rng.random(labels.size) >= share)
        ev = Evaluator(resolution=12, scale="probability")
        ev.add_cases(labels=labels[here], scores=scores[here])
        return pane._replace(state=ev._view(), predictions=labels.size)

    whole = hourly(18, 40, rate=60, prevalence=0.2)
    for share, expected in ((0.1, set()), (0.5, {"prevalence"})):
        panes = [late(each, 0.0 if each.end_us <= START_US + 7 * DAY_US else share)
                 for each in whole]  # fmt: skip
        assert set(calls(panes)) & {"prevalence", "labelled_share"} >= expected
        assert expected or not calls(panes)


def pane_columns(pane: Pane) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels and scores of a pane's cases."""
    runs = dict(zip(LABELS, pane.state.counts.runs, strict=True))
    scores = {label: np.repeat(run.scores, run.multiplicities()) for label, run in runs.items()}
    labels = np.repeat([True, False], [scores[True].size, scores[False].size])
    return labels, np.concatenate((scores[True], scores[False]))


def test_no_healthy_stream_is_called() -> None:
    """Of twenty streams of three weeks none is: 0.01 would be allowed."""
    for seed in range(100, 120):
        assert observed(hourly(seed, 21, rate=20)).called_us.max() < 0, f"seed {seed}"


def test_a_mean_gains_its_evidence_over_hours_also_in_short_steps() -> None:
    """With many positives a step is shorter than an hour: a fall is called within hours."""
    panes = hourly(5, 9, rate=400, day=8, distance_then=1.0, width_us=HOUR_US // 6)
    day = calls(panes, pane_us=HOUR_US // 6)["auc_roc_worse"]
    assert 8 < day < 8.3


def test_segments_have_evidence_of_their_own() -> None:
    """The one that fell has; the one that did not has not."""
    fell, stayed = (hourly(7, 16, day=12, distance_then=then) for then in (0.5, 2.0))
    both = [
        first._replace(
            state=merge_states([first.state, second.state], revision=0),
            segments={"country=IT": first.state, "country=FR": second.state},
        )
        for first, second in zip(fell, stayed, strict=True)
    ]
    values = observed(both).segment_values()
    assert values["country=IT"] > 1e4
    assert values["country=FR"] < 2


def test_the_share_of_labels_is_a_mean_of_its_own() -> None:
    """Half of the labels stay away, and the order of cases is as it was."""
    panes = [
        each._replace(predictions=each.state.total * (1 if day < 12 else 2))
        for each, day in ((each, (each.start_us - START_US) / DAY_US) for each in hourly(9, 18))
    ]
    found = calls(panes)
    assert set(found) == {"labelled_share"}
    assert 12 < found["labelled_share"] < 14


@pytest.mark.parametrize("every", [1, 7, 100])
def test_loaded_at_once_equals_live(every: int) -> None:
    """How often it is advanced, and whether bytes lie between, changes no byte."""
    panes = hourly(11, 16, day=12, distance_then=1.0)
    at_once = observed(panes)
    live = begun(panes)
    for hour in range(0, 60 * 24, every):
        live.observe(panes, START_US + hour * HOUR_US)
        live = decode_evidence(encode_evidence(live))
    live.observe(panes, END_US)
    assert encode_evidence(live) == encode_evidence(at_once)


def test_a_step_is_observed_once() -> None:
    """Panes of time that was observed change nothing, whatever they have."""
    panes = hourly(12, 10)
    evidence = observed(panes)
    before = encode_evidence(evidence)
    evidence.observe(hourly(13, 10, distance=0.0), END_US)
    assert encode_evidence(evidence) == before


def test_the_order_of_rows_is_of_no_matter() -> None:
    """Panes are sums."""
    panes = hourly(14, 9)
    shuffled = [Pane(*reversed_rows(each)) for each in panes]
    assert encode_evidence(observed(shuffled)) == encode_evidence(observed(panes))


def reversed_rows(pane: Pane) -> tuple[int, int, object]:
    again = Evaluator(resolution=12, scale="probability")
    for label, run in zip(LABELS, pane.state.counts.runs, strict=True):
        scores = np.repeat(run.scores, run.multiplicities())[::-1]
        again.add_cases(labels=np.full(scores.size, label), scores=scores)
    return pane.start_us, pane.end_us, again._view()


@pytest.mark.parametrize("width", [2, 6, 20, 60])
def test_segments_take_the_room_that_is_left(width: int) -> None:
    """It has 32 of fourteen characters, and is no larger once all rows of the search are."""
    week = hourly(15, 7, rate=30)
    names = [f"country={number:0{width}d}" for number in range(50)]
    evidence = begun([each._replace(segments=dict.fromkeys(names, each.state)) for each in week])
    number = len(evidence.frozen.segments)
    full = len(encode_evidence(evidence)) + MAX_FINE * ROW.itemsize + MAX_DAYS * SPANNED.itemsize
    if width <= 6:
        assert number == 32
    else:
        assert 10 < number < 32
        assert full + len(names[0]) + 100 > MAX_BYTES
    assert full <= MAX_BYTES


def test_it_is_small_after_a_year() -> None:
    """16 KB hold what a search reads, however long the stream runs."""
    week = hourly(15, 7, rate=30)
    names = [f"merchant category={number:04d}" for number in range(50)]
    panes = [each._replace(segments=dict.fromkeys(names, each.state)) for each in week]
    evidence = begun(panes)
    assert 10 < len(evidence.frozen.segments) < 33
    for again in range(1, 53):
        later = [
            each._replace(
                start_us=each.start_us + again * 7 * DAY_US,
                end_us=each.end_us + again * 7 * DAY_US,
                segments=dict(list(each.segments.items())[:2]),
            )
            for each in panes
        ]
        evidence.observe(later, later[-1].end_us)
    assert len(encode_evidence(evidence)) <= MAX_BYTES
    sums = evidence.levels.sums("order")
    # All but what rounding takes.
    total = sum(each.state.total for each in panes) * 52
    assert sums.counts.sum() == pytest.approx(total, rel=1e-3)
    assert (np.diff(sums.starts_us) > 0).all()
    assert (sums.ends_us[:-1] <= sums.starts_us[1:]).all()
    means = sums.totals.sum(axis=1) / sums.counts.sum(axis=1)
    assert means == pytest.approx(evidence.frozen.means[2:4], abs=1e-3)


def test_a_search_reads_the_hour_that_is_not_over() -> None:
    """Half an hour after a change there is a row of it, also from bytes."""
    panes = hourly(17, 9)
    evidence = begun(panes)
    evidence.observe(panes, END_US)
    last, half = evidence.next_us, HOUR_US // 2
    state = panes[-1].state
    minutes = [
        Pane(last + place * half // 30, last + (place + 1) * half // 30, state)
        for place in range(30)
    ]
    for each in minutes:
        (level,) = evidence._levels([each], evidence._counts([[each.state]]))
        evidence.levels.add(each.start_us, each.end_us, level)
    evidence.next_us = last + half
    for found in (evidence, decode_evidence(encode_evidence(evidence))):
        sums = found.levels.sums("order")
        assert (sums.starts_us[-1], sums.ends_us[-1]) == (last, last + half)
        assert sums.counts[:, -1].tolist() == [30 * state.P, 30 * state.N]


def test_altered_bytes_are_refused() -> None:
    """No other evidence comes of them."""
    data = encode_evidence(begun(hourly(16, 8)))
    for at in (0, 5, 40, len(data) - 2):
        altered = bytearray(data)
        altered[at] ^= 1
        with pytest.raises(CorruptStateError):
            decode_evidence(altered)
    with pytest.raises(CorruptStateError):
        decode_evidence(data[:-1])


@pytest.mark.parametrize(
    ("positives", "pane_minutes", "minutes"),
    [(7 * 24 * 5, 1, 60), (7 * 24 * 20, 1, 30), (7 * 24 * 1000, 1, 1), (7 * 24 * 60, 7.5, 15)],
)
def test_the_length_of_a_step(positives: int, pane_minutes: float, minutes: int) -> None:
    """Ten positives on average, an hour at most, and whole panes that divide an hour."""
    ev = Evaluator()
    ev.add_cases(labels=[True], scores=[0.5], counts=[positives])
    base = BaseSpan(START_US, START_US + 7 * DAY_US, ev._view())
    assert step_length(base, int(pane_minutes * 60_000_000)) == minutes * 60_000_000
