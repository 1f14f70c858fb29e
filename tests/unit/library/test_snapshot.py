"""Snapshots: immutable metrics, reasons for undefined ones, plain values and a table."""

from __future__ import annotations

import json
import math
import pickle

import pytest

from streameval import Evaluator, Snapshot
from streameval.statistics import BY_NAME, Place


def example(**settings) -> Evaluator:
    """Return an evaluator of a few cases and misses."""
    ev = Evaluator(**settings)
    ev.add_cases(labels=[1, 0, 1, 1, 0, 0, 1, 0], scores=[0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.2])
    ev.add_misses(1)
    ev.add_negative_misses(2)
    return ev


def test_figures_are_those_of_the_evaluator():
    """Every metric, count and interval equals that of the evaluator's own methods."""
    ev = example()
    snapshot = ev.snapshot()
    assert snapshot.auc_roc == ev.auc_roc()
    assert snapshot.auc_roc_hull == ev.auc_roc(hull=True)
    assert snapshot.auc_pr == ev.auc_pr()
    assert snapshot.auc_pr_hull == ev.auc_pr(hull=True)
    assert snapshot.average_precision == ev.average_precision()
    assert snapshot.prevalence == 5 / 11
    assert (snapshot.num_misses, snapshot.num_negative_misses) == (1, 2)
    assert (snapshot.num_cases, snapshot.num_scored) == (11, 8)
    assert (snapshot.num_positive_ref, snapshot.num_negative_ref) == (5, 6)
    assert snapshot.revision == ev.revision == 3
    assert snapshot.resolution is None
    assert snapshot.reasons == {}
    assert snapshot.hull.tp.tolist() == ev.roc_hull().tp.tolist()
    assert snapshot.intervals["auc_roc"] == ev.interval("auc_roc")
    assert sorted(snapshot.intervals) == [
        "auc_pr",
        "auc_roc",
        "average_precision",
        "prevalence",
    ]
    assert snapshot.bounds["auc_pr_hull"] == ev.bounds("auc_pr_hull")
    with pytest.raises(KeyError):
        snapshot.intervals["auc_pr_hull"]


def test_a_snapshot_is_frozen():
    """Neither the caller nor the evaluator changes it afterwards."""
    ev = example()
    snapshot = ev.snapshot()
    area, limits = snapshot.auc_roc, ev.interval("auc_roc")
    ev.add_cases(labels=[0] * 50, scores=[1.0] * 50)
    assert (snapshot.auc_roc, snapshot.intervals["auc_roc"]) == (area, limits)
    assert snapshot != ev.snapshot()
    with pytest.raises(AttributeError):
        snapshot.auc_roc = 1.0


@pytest.mark.parametrize(
    ("labels", "reason", "undefined"),
    [
        ([], "EMPTY", set(Place.SNAPSHOT.names())),
        ([0, 0], "NO_POSITIVES", set(Place.SNAPSHOT.names()) - {"prevalence"}),
        ([1, 1], "NO_NEGATIVES", {"auc_roc", "auc_roc_hull"}),
    ],
)
def test_undefined_figures_have_a_reason(labels, reason, undefined):
    """Exactly the nan metrics have a reason, and JSON has neither nan nor inf."""
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=[0.5] * len(labels))
    snapshot = ev.snapshot()
    assert {
        name for name in Place.SNAPSHOT.names() if math.isnan(getattr(snapshot, name))
    } == undefined
    assert snapshot.reasons == dict.fromkeys(undefined, reason)
    assert snapshot.hull is None
    plain = json.loads(json.dumps(snapshot.to_dict(), allow_nan=False))
    assert {name for name in Place.SNAPSHOT.names() if plain[name] is None} == undefined
    assert plain["hull"] is None
    assert f"undefined ({reason})" in str(snapshot)
    assert f"undefined ({reason})" in snapshot._repr_html_()
    found = BY_NAME["auc_roc"].undefined_reason(positives=sum(labels), negatives=labels.count(0))
    assert found == reason


def test_to_dict_is_plain():
    """Infinite thresholds are strings, limits are numbers, and JSON round-trips."""
    plain = example().snapshot().to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["hull"]["thresholds"][0] == "Infinity"
    assert plain["hull"]["thresholds"][-1] == "-Infinity"
    assert plain["hull"]["tp"][-1] == 5
    limits = plain["intervals"]["auc_roc"]
    assert limits["lower"] < plain["auc_roc"] < limits["upper"]
    assert limits["level"] == 0.95
    assert plain["bounds"]["auc_pr"][0] <= plain["auc_pr"] <= plain["bounds"]["auc_pr"][1]


def test_plain_values_make_a_snapshot():
    """A snapshot can be made of metrics that were computed elsewhere."""
    snapshot = Snapshot(
        revision=7,
        num_positive_ref=2,
        num_negative_ref=1,
        auc_roc=0.5,
        auc_roc_hull=0.75,
        auc_pr=0.6,
        auc_pr_hull=math.nan,
        average_precision=0.7,
        prevalence=2 / 3,
        reasons={"auc_pr_hull": "TOO_FEW"},
    )
    assert snapshot.intervals == {}
    assert snapshot.bounds == {}
    assert json.dumps(snapshot.to_dict(), allow_nan=False)
    assert "undefined (TOO_FEW)" in str(snapshot)
    assert "AUC-ROC" in snapshot._repr_html_()


def test_copies_are_equal_even_where_nan():
    """Pickling keeps a snapshot with its intervals; nan equals nan here."""
    for ev in (example(), example(resolution=3), Evaluator()):
        snapshot = ev.snapshot()
        back = pickle.loads(pickle.dumps(snapshot))
        assert back == snapshot
        assert hash(back) == hash(snapshot)
        assert dict(back.bounds).keys() == dict(snapshot.bounds).keys()
    assert snapshot != 1


def test_bounded_snapshots_show_their_bounds():
    """A bounded evaluator's table shows the limits of the exact metrics."""
    snapshot = example(resolution=2).snapshot()
    low, high = snapshot.bounds["auc_roc"]
    assert low < snapshot.auc_roc < high
    page = snapshot._repr_html_()
    assert f"exact value within {low:.6f} to {high:.6f}" in page
    assert "2 bits of each score" in str(snapshot)
    assert "exact value within" not in example().snapshot()._repr_html_()
    assert "never scored" in str(snapshot)


def test_printing_shows_intervals():
    """Each metric with an interval has it beside its value, and one line says which level."""
    snapshot = example().snapshot()
    lower, upper = snapshot.intervals["auc_pr"]
    lines = str(snapshot).splitlines()
    assert f"  AUC-PR               {snapshot.auc_pr:.6f}  {lower:.4f} to {upper:.4f}" in lines
    assert f"  AUC-ROC of the hull  {snapshot.auc_roc_hull:.6f}" in lines
    assert "  (95 % intervals, if cases are independent)" in lines


def test_three_cases_say_why_there_is_no_interval():
    """A value without an interval has the reason beside it."""
    ev = Evaluator()
    ev.add_cases(labels=[1, 1, 0], scores=[0.9, 0.4, 0.6])
    snapshot = ev.snapshot()
    assert "  AUC-PR               0.797267  no interval: TOO_FEW" in str(snapshot).splitlines()
    assert "no interval: TOO_FEW" in snapshot._repr_html_()
    assert "no interval" not in str(Evaluator().snapshot())


def test_rows_are_flat_and_of_the_same_columns():
    """Snapshots of any content make one table."""
    rows = [each.snapshot().to_row() for each in (example(), Evaluator(), example(resolution=3))]
    assert rows[0].keys() == rows[1].keys() == rows[2].keys()
    assert rows[0]["auc_pr"] == example().auc_pr()
    assert (rows[0]["auc_pr_lower"], rows[0]["auc_pr_upper"]) == tuple(example().interval())
    assert math.isnan(rows[1]["auc_pr"])
    plain = (int, float, str, type(None))
    assert all(isinstance(value, plain) for row in rows for value in row.values())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_one_line_makes_a_data_frame(library, require):
    """Snapshots are rows, operating points are columns."""
    frames = require(library)
    ev = example()
    table = frames.DataFrame([each.to_row() for each in (ev.snapshot(), ev.snapshot())])
    assert table["auc_pr"].to_list() == [ev.auc_pr()] * 2
    points = ev.operating_points()
    columns = frames.DataFrame(points.to_dict())
    assert columns["precision"].to_list() == points.precision.tolist()
    assert columns["threshold"].to_list() == points.thresholds.tolist()
