"""Draw the pictures of docs/ideas.md from what the library computes.

``python docs/pictures.py`` writes them to docs/images/ and prints the numbers that
the page quotes. Seeds are fixed: the same library draws the same pictures.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from streameval import Evaluator, LabelJoiner, WindowedEvaluator, pr_between

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

IMAGES = Path(__file__).parent / "images"
# The palette of Okabe and Ito, which remains distinct for colour-blind people and in grey.
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6b6b6b"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "svg.hashsalt": "streameval",
    "svg.fonttype": "path",
}
MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)


def interpolation() -> Figure:
    """Draw two thresholds of the paper's table 1, joined correctly and by a straight line."""
    points = pr_between((5, 5), (30, 10), positives=20)
    recall = np.asarray(points.recall)
    precision = np.asarray(points.precision)
    figure, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
    ends = [0, -1]
    straight = np.interp(recall, recall[ends], precision[ends])
    axes.fill_between(recall, precision, straight, color=RED, alpha=0.12, lw=0)
    axes.plot(recall[ends], precision[ends], "--", color=RED, label="a straight line")
    axes.plot(recall, precision, color=BLUE, lw=2, marker="o", ms=4, label="mixing A and B")
    for name, k in (("A", 0), ("B", -1)):
        axes.annotate(
            name, (recall[k], precision[k]), (6, 6), textcoords="offset points", weight="bold"
        )
    axes.set(xlabel="recall", ylabel="precision", xlim=(0.2, 0.55), ylim=(0.2, 0.55))
    axes.legend(loc="upper right")
    middle = len(recall) // 2
    print(
        f"interpolation: at recall {recall[middle]:.2f} precision is {precision[middle]:.3f}, "
        f"the straight line says {straight[middle]:.3f}"
    )
    return figure


def hull() -> Figure:
    """Draw a small sample's curves in both spaces, with their hull."""
    rng = np.random.default_rng(3)
    ev = Evaluator()
    ev.add_cases(
        labels=np.repeat([True, False], [20, 60]),
        scores=np.concatenate([rng.normal(1.2, 1, 20), rng.normal(0, 1, 60)]).round(1),
    )
    points, upper = ev.operating_points(), ev.roc_hull()
    figure, (roc, pr) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    roc.plot(points.fpr, points.tpr, color=BLUE, lw=1.2, label="thresholds")
    roc.plot(upper.fpr, upper.tpr, color=ORANGE, lw=2, marker="o", ms=4, label="hull")
    roc.set(xlabel="false positive rate", ylabel="true positive rate", title="ROC space")
    recall = np.linspace(0.01, 1, 400)
    achievable = ev.pr_hull()
    pr.plot(points.recall[1:], points.precision[1:], color=BLUE, lw=1.2, label="thresholds")
    pr.plot(recall, achievable.at(recall), color=ORANGE, lw=2, label="achievable")
    pr.plot(achievable.recall, achievable.precision, "o", color=ORANGE, ms=4)
    pr.axhline(ev.prevalence, color=GREY, lw=1, ls=":", label="prevalence")
    pr.set(xlabel="recall", ylabel="precision", title="PR space", ylim=(0, 1.03))
    for axes in (roc, pr):
        axes.legend(loc="lower right" if axes is roc else "lower left")
    print(f"hull: auc_pr {ev.auc_pr():.3f}, achievable {ev.auc_pr(hull=True):.3f}")
    return figure


def certainty() -> Figure:
    """Draw one stream's interval and confidence sequence, and certificates by bits."""
    rng = np.random.default_rng(11)
    n = 20_000
    labels = rng.random(n) < 0.1
    scores = rng.normal(labels * 1.5, 1)
    looks = np.unique(np.geomspace(600, n, 60).astype(int))
    ev, rows, before = Evaluator(), [], 0
    for look in looks:
        ev.add_cases(labels=labels[before:look], scores=scores[before:look])
        before = look
        once, always = ev.interval("auc_roc"), ev.interval("auc_roc", anytime=True)
        rows.append((once.estimate, once.lower, once.upper, always.lower, always.upper))
    estimate, lower, upper, low, high = np.transpose(rows)
    truth = 0.8556  # Phi(1.5 / sqrt 2)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    left.fill_between(looks, low, high, color=ORANGE, alpha=0.25, lw=0, label="holds at every look")
    left.fill_between(looks, lower, upper, color=BLUE, alpha=0.35, lw=0, label="holds at one look")
    left.plot(looks, estimate, color=BLUE, lw=1.5, label="AUC-ROC")
    left.axhline(truth, color=GREY, lw=1, ls=":", label="truth")
    left.set(xscale="log", xlabel="cases seen", ylabel="AUC-ROC, 95 % limits")
    left.legend(loc="lower right")
    bits = np.arange(3, 13)
    widths = []
    for b in bits:
        bounded = Evaluator(resolution=int(b))
        bounded.add_cases(labels=labels, scores=scores)
        least, most = bounded.bounds("auc_roc")
        widths.append((most - least) / 2)
    right.semilogy(
        bits, widths, color=GREEN, lw=2, marker="o", ms=4, label="certificate, half width"
    )
    right.axhline((upper[-1] - lower[-1]) / 2, color=BLUE, lw=1.5, label="interval, half width")
    right.set(xlabel="bits kept of a score", ylabel=f"AUC-ROC of {n:,} cases")
    right.legend(loc="upper right")
    print(
        f"certainty: half widths at {n:,} cases: interval {(upper[-1] - lower[-1]) / 2:.4f}, "
        f"at every look {(high[-1] - low[-1]) / 2:.4f}, certificate at 12 bits {widths[-1]:.1e}"
    )
    return figure


def restatement() -> Figure:
    """Draw two weeks' AUC-PR by day, evaluated at three times while labels arrive."""
    rng = np.random.default_rng(5)
    days, each, day = 14, 1500, timedelta(days=1)
    ev = WindowedEvaluator(pane=day, retention=365 * day)
    joiner = LabelJoiner(ev, ttl=300 * day)
    n = days * each
    positive = rng.random(n) < 0.08
    scores = rng.normal(positive * 1.6, 1)
    # Stopped events are reviewed at once; complaints about the others arrive late.
    waited = np.where(scores > 1, rng.exponential(0.05, n), rng.exponential(20.0, n))
    made = [MIDNIGHT + day * (k / each) for k in range(n)]
    ids = [f"case-{k}" for k in range(n)]
    joiner.log_cases(ids=ids, scores=scores, at=made)
    due = [at + day * float(wait) for at, wait in zip(made, waited, strict=True)]
    order = sorted(range(n), key=due.__getitem__)
    figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
    done = 0
    for name, after, colour in (
        ("a day later", 1, RED),
        ("three weeks later", 21, ORANGE),
        ("half a year later", 182, BLUE),
    ):
        limit = MIDNIGHT + (days + after) * day
        upto = next((k for k in range(done, n) if due[order[k]] > limit), n)
        chosen, done = order[done:upto], upto
        joiner.label_cases(
            ids=[ids[k] for k in chosen], labels=positive[chosen], at=[due[k] for k in chosen]
        )
        windows = [ev.between(MIDNIGHT + k * day, MIDNIGHT + (k + 1) * day) for k in range(days)]
        areas = [window.auc_pr() for window in windows]
        share = np.mean([joiner.coverage(window).labelled_share for window in windows])
        label = f"{name}: {share:.0%} labelled"
        mean = np.mean(areas)
        axes.plot(range(1, days + 1), areas, color=colour, lw=2, marker="o", ms=4, label=label)
        print(f"restatement: {name} the mean of AUC-PR is {mean:.2f}, {share:.0%} labelled")
    axes.set(xlabel="day of the predictions", ylabel="AUC-PR of that day", ylim=(0, 1))
    axes.legend(loc="lower left")
    return figure


def prevalence() -> Figure:
    """Draw one model with one ROC curve, and its AUC-PR at every prevalence."""
    rng = np.random.default_rng(2)
    ev = Evaluator()
    ev.add_cases(
        labels=np.repeat([True, False], 50_000),
        scores=np.concatenate([rng.normal(1.88, 1, 50_000), rng.normal(0, 1, 50_000)]),
    )
    shares = np.geomspace(0.001, 0.5, 60)
    figure, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
    axes.plot(
        shares, [ev.auc_pr(prevalence=float(p)) for p in shares], color=BLUE, lw=2, label="AUC-PR"
    )
    axes.plot(shares, [ev.auc_roc()] * len(shares), color=GREEN, lw=2, label="AUC-ROC")
    axes.plot(shares, shares, color=GREY, lw=1, ls=":", label="precision of guessing")
    for p in (0.05, 0.005):
        value = ev.auc_pr(prevalence=p)
        axes.plot(p, value, "o", color=BLUE)
        axes.annotate(f"{value:.2f}", (p, value), (8, -12), textcoords="offset points")
        print(f"prevalence: AUC-PR {value:.2f} at {p}")
    print(f"prevalence: AUC-ROC {ev.auc_roc():.2f} at each")
    axes.set(xscale="log", xlabel="share of positives", ylim=(0, 1.02))
    axes.legend(loc="center left")
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "interpolation": interpolation,
    "hull": hull,
    "certainty": certainty,
    "restatement": restatement,
    "prevalence": prevalence,
}

if __name__ == "__main__":
    mpl.use("svg")
    with mpl.rc_context(STYLE):
        for name, draw in PICTURES.items():
            figure = draw()
            figure.savefig(IMAGES / f"idea-{name}.svg", metadata={"Date": None})
            plt.close(figure)
