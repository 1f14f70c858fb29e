"""Displays draw the values that the evaluator computes."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys

import numpy as np
import pytest

from streameval import Evaluator, InvalidInputError, PrHull
from streameval.display import (
    PrecisionRecallDisplay,
    ReliabilityDisplay,
    RocCurveDisplay,
    ThresholdDisplay,
    _canvas,
    _paths,
)

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
matplotlib.use("Agg")
figures = pytest.importorskip("matplotlib.figure")

DISPLAYS = [PrecisionRecallDisplay, ReliabilityDisplay, RocCurveDisplay, ThresholdDisplay]


@pytest.fixture
def ax():
    return figures.Figure().subplots()


def columns(cases=400, seed=5):
    rng = np.random.default_rng(seed)
    labels = rng.random(cases) < 0.3
    return labels, np.round(1 / (1 + np.exp(-rng.normal(1.5 * labels))), 2)


def evaluator(**kwargs):
    made = Evaluator()
    labels, scores = columns(**kwargs)
    made.add_cases(labels=labels, scores=scores)
    return made


def area(line):
    """Integrate a drawn line by trapezoids."""
    x, y = line.get_data()
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))


def drawn(figure):
    """Render the figure, which fails for artists that cannot be drawn."""
    figure.canvas.draw()


def test_roc_is_the_operating_points_and_the_hull(ax):
    """Each operating point is a vertex, and the areas are those of the labels."""
    ev = evaluator()
    display = RocCurveDisplay.from_evaluator(ev, name="model", ax=ax, threshold=0.5)
    points, hull = ev.operating_points(), ev.roc_hull()
    assert np.array_equal(display.line_.get_data(), (points.fpr, points.tpr))
    assert np.array_equal(display.hull_.get_data(), (hull.fpr, hull.tpr))
    assert area(display.line_) == pytest.approx(ev.auc_roc())
    assert area(display.hull_) == pytest.approx(ev.auc_roc(hull=True))
    chosen = ev.confusion_at(0.5)
    assert np.ravel(display.threshold_.get_data()) == pytest.approx([chosen.fpr, chosen.recall])
    assert display.line_.get_label() == f"model (AUC-ROC {ev.auc_roc():.3f})"
    assert ax.get_aspect() == 1.0
    drawn(display.figure_)


@pytest.mark.parametrize("misses", [0, 25])
def test_pr_has_the_area_of_its_curvature(ax, misses):
    """Straight lines between interpolated points would give another area."""
    ev = evaluator()
    ev.add_misses(misses)
    display = PrecisionRecallDisplay.from_evaluator(ev, ax=ax, threshold=0.5)
    assert area(display.line_) == pytest.approx(ev.auc_pr(), abs=2e-5)
    assert area(display.achievable_) == pytest.approx(ev.auc_pr(hull=True), abs=2e-5)
    recall, precision = display.achievable_.get_data()
    assert precision == pytest.approx(ev.pr_hull().at(recall), abs=1e-12)
    line = {(round(x, 9), round(y, 9)) for x, y in zip(*display.line_.get_data())}
    points = ev.operating_points()
    gains = np.flatnonzero(np.diff(points.tp)) + 1
    ends = zip(points.recall[gains], points.precision[gains])
    assert {(round(float(x), 9), round(float(y), 9)) for x, y in ends} <= line
    chosen = ev.confusion_at(0.5)
    marked = np.ravel(display.threshold_.get_data())
    assert marked == pytest.approx([chosen.recall, chosen.precision])
    drawn(display.figure_)


def test_pr_of_few_points_is_curved(ax):
    """The line contains the interpolated points of table 1 between (5, 5) and (30, 10)."""
    ev = Evaluator()
    ev.add_cases(
        labels=[1, 0, 1, 0, 1, 0], scores=[3, 3, 2, 2, 1, 1], counts=[5, 5, 5, 25, 10, 1970]
    )
    display = PrecisionRecallDisplay.from_evaluator(ev, ax=ax)
    at = np.interp([0.3, 0.35, 0.4, 0.45], *display.line_.get_data())
    assert at == pytest.approx([6 / 16, 7 / 22, 8 / 28, 9 / 34], abs=1e-3)


def test_pr_guides_are_the_prevalence_the_worst_scorer_and_equal_f(ax):
    """Guides are drawn once on one axes, again for another prevalence."""
    ev = evaluator()
    first = PrecisionRecallDisplay.from_evaluator(ev, ax=ax)
    pi = ev.prevalence
    assert first.prevalence_.get_ydata() == pytest.approx([pi, pi])
    path = first.unachievable_.get_paths()[0].vertices
    recall = np.linspace(0.01, 1, 50)
    worst = pi * recall / (1 - pi + pi * recall)
    top = path[path[:, 1] > 0]
    order = np.argsort(top[:, 0], kind="stable")
    assert np.interp(recall, top[order, 0], top[order, 1]) == pytest.approx(worst, abs=1e-4)
    for line, level in zip(first.iso_f_, (0.2, 0.4, 0.6, 0.8)):
        r, p = line.get_data()
        assert 2 * p * r / (p + r) == pytest.approx(np.full(r.size, level))
    second = PrecisionRecallDisplay.from_evaluator(ev, ax=ax)
    assert (second.prevalence_, second.unachievable_, second.iso_f_) == (None, None, [])
    other = Evaluator()
    other.add_cases(labels=[1, 0], scores=[2, 1])
    assert PrecisionRecallDisplay.from_evaluator(other, ax=ax).prevalence_ is not None
    bare = PrecisionRecallDisplay.from_evaluator(
        ev, ax=figures.Figure().subplots(), iso_f=False, achievable=False
    )
    assert (bare.iso_f_, bare.achievable_) == ([], None)


@pytest.mark.parametrize("beta", [2.0, 1e7, 1e200])
def test_threshold_lines_are_the_figures_at_each_threshold(ax, beta):
    """At each score, and between scores, the steps equal confusion_at."""
    ev = evaluator()
    ev.add_misses(3)
    display = ThresholdDisplay.from_evaluator(ev, ax=ax, beta=beta)
    x = display.recall_.get_xdata()
    assert (np.diff(x) > 0).all()
    assert np.isfinite(x).all()
    for row, threshold in list(enumerate(x))[::7]:
        for at in (threshold, np.nextafter(threshold, -np.inf) if row == 0 else threshold):
            chosen = ev.confusion_at(float(at))
            assert display.precision_.get_ydata()[row] == pytest.approx(chosen.precision)
            assert display.recall_.get_ydata()[row] == pytest.approx(chosen.recall)
            assert display.f_.get_ydata()[row] == pytest.approx(chosen.f_beta(beta))
    assert display.f_.get_drawstyle() == "steps-pre"
    assert max(display.f_.get_ydata()) == pytest.approx(ev.maximum_f_measure(beta))
    best = ev.confusion_at(display.threshold_.get_xdata()[0])
    assert best.f_beta(beta) == pytest.approx(ev.maximum_f_measure(beta))
    drawn(display.figure_)


def test_threshold_that_was_chosen_is_marked(ax):
    """The legend shows the values of the three lines there."""
    ev = evaluator()
    display = ThresholdDisplay.from_evaluator(ev, ax=ax, threshold=0.6)
    chosen = ev.confusion_at(0.6)
    assert display.threshold_.get_xdata() == pytest.approx([0.6, 0.6])
    assert display.precision_.get_label() == f"precision {chosen.precision:.3f}"
    assert display.recall_.get_label() == f"recall {chosen.recall:.3f}"
    with pytest.raises(InvalidInputError, match="beta must be positive"):
        ThresholdDisplay.from_evaluator(ev, ax=ax, beta=0.0)


@pytest.mark.parametrize("strategy", ["width", "mass"])
def test_reliability_is_the_table(ax, strategy):
    """Points, intervals around them, and bars equal the table."""
    ev = evaluator()
    display = ReliabilityDisplay.from_evaluator(ev, ax=ax, bins=5, strategy=strategy)
    table = ev.reliability(5, strategy=strategy)
    points = display.line_.get_data()
    assert np.array_equal(points, (table.mean_score, table.observed_rate))
    for segment, rate in zip(display.intervals_.get_segments(), table.observed_rate):
        assert segment[0][1] < rate < segment[1][1]
    heights = np.array([bar.get_height() for bar in display.shares_])
    assert heights / heights.max() == pytest.approx(table.counts / table.counts.max())
    drawn(display.figure_)


@pytest.mark.parametrize("display", DISPLAYS)
def test_predictions_draw_what_an_evaluator_draws(display):
    """Columns are counted, then drawn like an evaluator; invalid ones are refused."""
    labels, scores = columns()
    ours = display.from_evaluator(evaluator(), ax=figures.Figure().subplots())
    theirs = display.from_predictions(labels=labels, scores=scores, ax=figures.Figure().subplots())
    for one, other in zip(ours.ax_.get_lines(), theirs.ax_.get_lines()):
        assert np.array_equal(one.get_data(), other.get_data())
    with pytest.raises(InvalidInputError, match="score must be finite"):
        display.from_predictions(
            labels=[1, 0], scores=[0.5, np.nan], ax=figures.Figure().subplots()
        )


@pytest.mark.parametrize("display", [PrecisionRecallDisplay, ReliabilityDisplay, RocCurveDisplay])
def test_several_on_one_axes_have_their_own_colours(display, ax):
    """The next colour is taken, guides are not repeated, and a given colour is used."""
    first = display.from_evaluator(evaluator(), name="a", ax=ax)
    second = display.from_evaluator(evaluator(seed=6), name="b", ax=first.ax_)
    third = display.from_evaluator(evaluator(seed=7), name="c", ax=first.ax_, color="black")
    colours = [each.line_.get_color() for each in (first, second, third)]
    assert colours == [*_canvas.PALETTE[:2], "black"]
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert [name for name in names if name[0] in "abc" and name[1] == " "] == [
        each.line_.get_label() for each in (first, second, third)
    ]
    drawn(first.figure_)


@pytest.mark.parametrize("display", DISPLAYS)
@pytest.mark.parametrize("labels", [[], [1, 1], [0, 0]])
def test_absent_classes_leave_what_is_undefined_out(display, labels):
    """No warning, no error; the curve is empty if its metric is undefined."""
    shown = display.from_predictions(
        labels=labels, scores=np.linspace(0.2, 0.7, len(labels)), ax=figures.Figure().subplots()
    )
    drawn(shown.figure_)


@pytest.mark.parametrize("display", DISPLAYS)
def test_a_new_figure_is_made_where_no_axes_are_given(display):
    """A figure of pyplot, so that notebooks show it."""
    from matplotlib import pyplot as plt

    shown = display.from_evaluator(evaluator())
    assert shown.figure_.number in plt.get_fignums()
    plt.close(shown.figure_)


def test_long_curves_are_thinned_to_what_can_be_seen(ax):
    """A hundred thousand points: few vertices, the same area, ends and extremes kept."""
    rng = np.random.default_rng(2)
    ev = Evaluator()
    labels = rng.random(100_000) < 0.5
    ev.add_cases(labels=labels, scores=rng.normal(labels))
    roc = RocCurveDisplay.from_evaluator(ev, ax=ax)
    pr = PrecisionRecallDisplay.from_evaluator(ev, ax=figures.Figure().subplots())
    assert max(roc.line_.get_xdata().size, pr.line_.get_xdata().size) <= 8_004
    assert area(roc.line_) == pytest.approx(ev.auc_roc(), abs=1e-4)
    assert area(pr.line_) == pytest.approx(ev.auc_pr(), abs=1e-3)
    x = np.linspace(0, 1, 50_000)
    y = np.zeros(50_000)
    y[777], y[778] = 5.0, -5.0
    tx, ty = _paths.thin(x, y)
    assert (ty.max(), ty.min(), tx[0], tx[-1]) == (5.0, -5.0, 0.0, 1.0)
    assert (np.diff(tx) > 0).all()


def test_the_hull_path_ends_at_the_best_precision():
    """The part of the curve after the last positive is not drawn."""
    hull = PrHull(
        np.array([np.inf, 1.0, -np.inf]), np.array([0, 1, 9]), np.array([0, 3, 3]), P=3, N=9
    )
    recall, precision = _paths.pr_path(hull)
    assert (recall[0], recall[-1]) == (0.0, 1.0)
    assert precision == pytest.approx(np.full(recall.size, 0.75))


def test_matplotlib_is_imported_only_to_draw():
    """Importing the displays does not import it; without it the message says what to install."""
    script = """
import sys
import streameval.display as display
assert "matplotlib" not in sys.modules
sys.modules["matplotlib"] = None
try:
    display.RocCurveDisplay.from_predictions(labels=[1, 0], scores=[0.9, 0.1])
except ModuleNotFoundError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'streameval[plot]'" in run.stdout


@pytest.mark.parametrize(
    "module", ["_canvas", "_precision_recall", "_reliability", "_roc", "_threshold"]
)
def test_docstrings(module):
    """The docstrings' examples run."""
    assert doctest.testmod(importlib.import_module(f"streameval.display.{module}")).failed == 0
