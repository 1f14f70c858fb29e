"""Displays draw the values that the evaluator computes."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from scipy.stats import binomtest

from streameval import Evaluator, InvalidInputError, PrHull, WindowedEvaluator
from streameval._uncertainty.calibration import bin_limits
from streameval.display import (
    PrecisionRecallDisplay,
    ReliabilityDisplay,
    RocCurveDisplay,
    ThresholdDisplay,
    _bands,
    _canvas,
    _paths,
)

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
matplotlib.use("Agg")
figures = pytest.importorskip("matplotlib.figure")
agg = pytest.importorskip("matplotlib.backends.backend_agg")
paths = pytest.importorskip("matplotlib.path")

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
    agg.FigureCanvasAgg(figure).draw()


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
    limits = ev.interval("auc_roc")
    assert display.line_.get_label() == f"model: AUC-ROC {limits:.3f}"
    assert ax.get_aspect() == 1.0
    drawn(display.figure_)


@pytest.mark.parametrize("misses", [0, 25])
def test_pr_has_the_area_of_its_curvature(ax, misses):
    """Straight lines between interpolated points would give another area."""
    ev = evaluator()
    ev.add_misses(misses)
    display = PrecisionRecallDisplay.from_evaluator(ev, ax=ax, threshold=0.5)
    assert area(display.line_) == pytest.approx(ev.auc_pr(), abs=2e-5)
    assert area(display.hull_) == pytest.approx(ev.auc_pr(hull=True), abs=2e-5)
    recall, precision = display.hull_.get_data()
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
        ev, ax=figures.Figure().subplots(), iso_f=False, hull=False
    )
    assert (bare.iso_f_, bare.hull_) == ([], None)


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
    for line, name, part, whole in (
        (display.precision_, "precision", chosen.tp, chosen.tp + chosen.fp),
        (display.recall_, "recall", chosen.tp, chosen.tp + chosen.fn),
    ):
        low, high = binomtest(part, whole).proportion_ci(method="wilson")
        assert line.get_label() == f"{name} {part / whole:.3f} ({low:.3f} to {high:.3f})"
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


def test_reliability_of_weighted_cases(ax):
    """Intervals are of the effective number of cases, and absent where one case decides."""
    labels, scores = columns()
    made = Evaluator()
    made.add_cases(labels=labels, scores=scores, weights=np.where(labels, 40.0, 1.0))
    display = ReliabilityDisplay.from_evaluator(made, ax=ax, bins=5)
    table = display.table
    limits = bin_limits(table, float(table.counts.sum()), 0.95)
    naive = ReliabilityDisplay(table, limits=limits).plot(ax=figures.Figure().subplots())
    heights = [
        np.diff(np.array(one.intervals_.get_segments())[:, :, 1], axis=1)
        for one in (naive, display)
    ]
    assert (heights[0] < heights[1]).all()
    few = Evaluator()
    few.add_cases(
        labels=labels[:60], scores=scores[:60], weights=np.where(np.arange(60) == 0, 1000.0, 1.0)
    )
    few = ReliabilityDisplay.from_evaluator(few, ax=figures.Figure().subplots(), bins=5)
    assert np.isnan(few.limits).all()
    drawn(few.figure_)


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
    assert [name for name in names if name[0] in "abc" and name[1] == ":"] == [
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


def calibrated(prevalence, cases, gain=1.5, seed=3):
    """Return an evaluator of calibrated probabilities."""
    rng = np.random.default_rng(seed)
    labels = rng.random(cases) < prevalence
    odds = np.log(prevalence / (1 - prevalence)) + gain * rng.normal(gain * labels) - gain**2 / 2
    made = Evaluator()
    made.add_cases(labels=labels, scores=1 / (1 + np.exp(-odds)))
    return made


@pytest.mark.parametrize("display", DISPLAYS)
@pytest.mark.parametrize(("prevalence", "cases"), [(0.01, 20_000), (0.5, 2_000)])
@pytest.mark.parametrize("gain", [0.3, 1.5, 3.2])
@pytest.mark.slow
def test_the_legend_is_beside_the_axes(display, prevalence, cases, gain):
    """At any prevalence and for any curve the legend is inside the figure and outside the axes."""
    figure = figures.Figure(figsize=(4.8, 5.4), layout="constrained")
    for seed in (3,) if display is ThresholdDisplay else (3, 4):
        shown = display.from_evaluator(calibrated(prevalence, cases, gain, seed), ax=figure.gca())
    drawn(figure)
    box, axes = shown.ax_.get_legend().get_window_extent(), shown.ax_.get_window_extent()
    assert not box.overlaps(axes)
    for text in shown.ax_.get_legend().get_texts():
        extent = text.get_window_extent()
        assert figure.bbox.y0 <= extent.y0 < extent.y1 <= figure.bbox.y1
        assert figure.bbox.x0 <= extent.x0 < extent.x1 <= figure.bbox.x1
    assert axes.width > 0.6 * figure.bbox.width


@pytest.mark.parametrize("layout", [None, "tight"])
def test_the_legend_of_the_caller_s_axes_is_not_cut(layout):
    """A plain figure gets a layout that makes room; one that the caller chose stays."""
    figure = figures.Figure(layout=layout)
    chosen = figure.get_layout_engine()
    ev = evaluator()
    shown = PrecisionRecallDisplay.from_evaluator(ev, ax=figure.subplots(), threshold=0.5)
    drawn(figure)
    for text in shown.ax_.get_legend().get_texts():
        assert text.get_window_extent().y1 <= figure.bbox.y1
    assert chosen is None or figure.get_layout_engine() is chosen
    nested = figures.Figure()
    RocCurveDisplay.from_evaluator(ev, ax=nested.subfigures(1, 2)[0].subplots())
    assert nested.get_layout_engine() is not None


@pytest.mark.parametrize("options", [{}, {"log": True}])
@pytest.mark.slow
def test_axes_are_logarithmic_where_it_is_asked_for(options):
    """Precision, FPR, threshold and rates; the first curve drawn decides."""
    ev = calibrated(0.01, 5_000)
    scale = "log" if options else "linear"
    scales = {}
    for display in DISPLAYS:
        ax = display.from_evaluator(ev, ax=figures.Figure().subplots(), **options).ax_
        scales[display] = (ax.get_xscale(), ax.get_yscale())
        display.from_evaluator(calibrated(0.5, 500), ax=ax)
    assert scales == {
        PrecisionRecallDisplay: ("linear", scale),
        ReliabilityDisplay: (scale, scale),
        RocCurveDisplay: (scale, "linear"),
        ThresholdDisplay: (scale, scale),
    }


def test_a_logarithmic_roc_curve_is_the_same_curve():
    """Right of the left end the line has every point, and straight pieces between."""
    ev = calibrated(0.01, 5_000)
    ax = figures.Figure().subplots()
    display = RocCurveDisplay.from_evaluator(ev, ax=ax, log=True, threshold=0.02)
    x, y = display.line_.get_data()
    points, least = ev.operating_points(), display.ax_.get_xlim()[0]
    assert x.min() == least == pytest.approx(max(1 / points.N, points.P / points.N / 100))
    assert (np.diff(x) >= 0).all()
    assert (np.diff(y) >= 0).all()
    line = {(round(a, 12), round(b, 12)) for a, b in zip(x, y)}
    shown = points.fpr > least
    assert {
        (round(a, 12), round(b, 12)) for a, b in zip(points.fpr[shown], points.tpr[shown])
    } <= line
    hull = ev.roc_hull()
    x, y = display.hull_.get_data()
    assert y[x > least] == pytest.approx(np.interp(x[x > least], hull.fpr, hull.tpr), abs=1e-12)
    chosen = ev.confusion_at(0.02)
    assert np.ravel(display.threshold_.get_data()) == pytest.approx([chosen.fpr, chosen.recall])


def test_bands_are_wilson_s_limits_of_both_rates():
    """Each threshold's corners are those of its rectangle; the image in PR space is the same."""
    ev = evaluator()
    points = ev.operating_points()
    band, image = _bands.roc_band(points), _bands.pr_band(points)
    level = 0.95**0.5
    for row in range(0, len(points), 9):
        fp, tp = int(points.fp[row]), int(points.tp[row])
        fpr = binomtest(fp, points.N).proportion_ci(level, method="wilson")
        tpr = binomtest(tp, points.P).proportion_ci(level, method="wilson")
        found = [float(each[row + 1]) for each in band]
        assert found == pytest.approx([fpr.low, tpr.high, fpr.high, tpr.low], abs=1e-9)
    node, level = _bands._NODES_PER_PIECE, 0.95 ** (1 / 3)
    corners = _bands.roc_band(points, 0.95 ** (2 / 3))
    share = binomtest(points.P, points.P + points.N).proportion_ci(level, method="wilson")
    for x, y, recall, precision, prevalence in (
        (*corners[:2], *(each[::node] for each in image[:2]), share.high),
        (*corners[2:], *(each[::node] for each in image[2:]), share.low),
    ):
        assert recall == pytest.approx(y)
        called = prevalence * y + (1 - prevalence) * x
        expected = np.where(called > 0, prevalence * y / np.maximum(called, 1e-300), 1.0)
        assert precision == pytest.approx(expected)


def test_a_band_holds_a_threshold_s_true_point():
    """Of 300 samples the true point is in 95 % of the bands or more, less 3 standard errors."""
    truth = calibrated(0.3, 400_000, seed=99).confusion_at(0.4)
    held = {"roc": 0, "pr": 0}
    for seed in range(300):
        points = calibrated(0.3, 300, seed=seed).operating_points()
        for name, band, point in (
            ("roc", _bands.roc_band(points), (truth.fpr, truth.recall)),
            ("pr", _bands.pr_band(points), (truth.recall, truth.precision)),
        ):
            x = np.concatenate((band.upper_x, band.lower_x[::-1]))
            y = np.concatenate((band.upper_y, band.lower_y[::-1]))
            held[name] += paths.Path(np.column_stack((x, y))).contains_point(point)
    assert min(held.values()) >= 300 * 0.95 - 3 * (300 * 0.95 * 0.05) ** 0.5


def test_linear_axes_of_reliability_end_above_the_rates():
    """Rare positives fill the square; a later display widens it, and never narrows it."""
    rare = calibrated(0.01, 20_000)
    ax = rare.plot("reliability", ax=figures.Figure().subplots()).ax_
    table = rare.reliability(10, strategy="mass")
    greatest = max(table.mean_score.max(), *(high for _, high in bin_limits(table, 20_000, 0.95)))
    assert greatest < ax.get_xlim()[1] == ax.get_ylim()[1] < 1.2 * greatest
    calibrated(0.5, 2_000).plot("reliability", ax=ax)
    assert ax.get_xlim() == ax.get_ylim() == (-0.01, 1.01)
    rare.plot("reliability", ax=ax)
    assert ax.get_xlim() == (-0.01, 1.01)


def test_an_evaluator_and_a_window_plot_themselves():
    """Each curve by its name is the display of it, with its options; no other name is one."""
    ev = evaluator()
    made = {"pr": 0, "roc": 0, "threshold": 0, "reliability": 0}
    for curve in made:
        shown = ev.plot(curve, ax=figures.Figure().subplots())
        made[curve] = type(shown)
    assert set(made.values()) == set(DISPLAYS)
    assert type(ev.plot(ax=figures.Figure().subplots())) is PrecisionRecallDisplay
    assert ev.plot("roc", hull=False, ax=figures.Figure().subplots()).hull_ is None
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    windowed = WindowedEvaluator()
    windowed.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1], at=noon)
    window = windowed.last(timedelta(hours=1))
    for curve, display in made.items():
        assert type(window.plot(curve, ax=figures.Figure().subplots())) is display
    with pytest.raises(InvalidInputError, match=r"curve must be 'pr', 'roc', .*, got 'ROC'"):
        ev.plot("ROC")


@pytest.mark.parametrize("display", [PrecisionRecallDisplay, RocCurveDisplay])
def test_the_interval_can_be_left_out(display):
    """Then the legend has the area alone, and there is no band."""
    shown = display.from_evaluator(evaluator(), interval=False, ax=figures.Figure().subplots())
    assert shown.band_ is None
    assert "to" not in shown.line_.get_label()
    few = display.from_predictions(labels=[1, 0], scores=[2, 1], ax=figures.Figure().subplots())
    assert few.line_.get_label().endswith("1.000")


def test_bins_without_positives_are_marked_at_the_bottom():
    """A rate of 0 has no place on a logarithmic axis: an open mark, and the upper limit."""
    ev = calibrated(0.01, 20_000, gain=3.2)
    display = ReliabilityDisplay.from_evaluator(ev, ax=figures.Figure().subplots(), log=True)
    table = ev.reliability(10, strategy="mass")
    assert np.array_equal(display.table.counts, table.counts)
    empty = table.positives == 0
    assert empty.any()
    rates = display.line_.get_ydata()
    assert np.isnan(rates[empty]).all()
    assert np.array_equal(rates[~empty], table.observed_rate[~empty])
    marks = next(line for line in display.ax_.get_lines() if line.get_marker() == "v")
    assert np.array_equal(marks.get_xdata(), table.mean_score[empty])


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
    "module", ["_bands", "_canvas", "_precision_recall", "_reliability", "_roc", "_threshold"]
)
def test_docstrings(module):
    """The docstrings' examples run."""
    assert doctest.testmod(importlib.import_module(f"streameval.display.{module}")).failed == 0


def weighted(display, unit):
    """Return the display of cases that weigh 1 and 3 times a unit."""
    labels, scores = columns()
    made = Evaluator()
    made.add_cases(labels=labels, scores=scores, weights=unit * np.where(scores > 0.5, 1.0, 3.0))
    return display.from_evaluator(made, ax=figures.Figure().subplots())


@pytest.mark.parametrize("display", DISPLAYS)
def test_only_ratios_of_weights_are_drawn(display):
    """Curves, lines, bars and axes are the same in pounds and in pence."""
    shown, scaled = (weighted(display, unit) for unit in (1.0, 2.0**-12))
    for mine, other in zip(shown.ax_.lines, scaled.ax_.lines, strict=True):
        np.testing.assert_allclose(other.get_data(), mine.get_data(), atol=1e-12)
    for mine, other in zip(shown.ax_.patches, scaled.ax_.patches, strict=True):
        assert other.get_height() == pytest.approx(mine.get_height())
    assert scaled.ax_.get_xlim() == pytest.approx(shown.ax_.get_xlim())
    assert scaled.ax_.get_ylim() == pytest.approx(shown.ax_.get_ylim())
    drawn(scaled.figure_)


@pytest.mark.parametrize("display", [PrecisionRecallDisplay, RocCurveDisplay, ThresholdDisplay])
def test_sums_of_weights_have_no_bands(display):
    """A curve of weights does not have the numbers of cases that limits need."""
    shown = weighted(display, 1.0)
    assert not getattr(shown, "band_", None)
    assert not getattr(shown, "bands_", None)
    texts = [text.get_text() for text in shown.ax_.get_legend().get_texts()]
    assert not [text for text in texts if "95 %" in text]
    if display is ThresholdDisplay:
        assert not [text for text in texts if " to " in text]


def test_a_table_of_sums_of_weights_has_no_limits(ax):
    """An evaluator has them, by the effective number of its cases; its table has not."""
    shown = weighted(ReliabilityDisplay, 1.0)
    assert len(shown.intervals_.get_segments()) == len(shown.table)
    alone = ReliabilityDisplay(shown.table).plot(ax=ax)
    assert not alone.intervals_.get_segments()
    drawn(alone.figure_)
