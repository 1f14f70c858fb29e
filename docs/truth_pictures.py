"""Draw the pictures of the pages on labels, clusters and weights from what the library computes.

``python docs/truth_pictures.py`` writes them to docs/images/ and prints the numbers that
the page quotes, which are also the description inside each picture. Seeds are fixed: the
same library draws the same pictures, and tests/docs/test_truth_pictures.py compares their
numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from pictures import BLUE, GREY, IMAGES, MIDNIGHT, ORANGE, RED, STYLE

from streameval import Evaluator, LabelJoiner, WindowedEvaluator

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from streameval import Projection

DAY = timedelta(days=1)
DAYS, TTL_DAYS, WINDOW_DAYS = 80, 20, 7
PREDICTIONS_PER_DAY = 1_000
SHOWN_DAYS = 35


@dataclass(frozen=True)
class Life:
    """One stream, whose labels are those that were there on its last day."""

    days: np.ndarray
    positives: np.ndarray
    scores: np.ndarray
    evaluator: WindowedEvaluator
    joiner: LabelJoiner

    def projection(self, end: int) -> Projection:
        """Return the projection of the week that ends with a day."""
        window = self.evaluator.between(MIDNIGHT + (end - WINDOW_DAYS) * DAY, MIDNIGHT + end * DAY)
        return self.joiner.projection(window)

    def truth(self, end: int) -> float:
        """Return average precision of the same week with the label of each prediction."""
        week = (self.days >= end - WINDOW_DAYS) & (self.days < end)
        whole = Evaluator()
        whole.add_cases(labels=self.positives[week], scores=self.scores[week])
        return whole.average_precision()


@cache
def life(*, chosen: bool) -> Life:
    """Return a stream whose labels are chosen by score, or come later for positives."""
    rng = np.random.default_rng(41 if chosen else 40)
    count = DAYS * PREDICTIONS_PER_DAY
    days = np.sort(rng.random(count) * DAYS)
    positives = rng.random(count) < 0.06
    scores = 1 / (1 + np.exp(3 - 2 * (rng.standard_normal(count) + 2 * positives)))
    mean = np.full(count, 1.0) if chosen else np.where(positives, 8.0, 1.0)
    # Exponential, cut at the ttl: each label of a case that gets one comes within it.
    delays = -mean * np.log1p(rng.random(count) * np.expm1(-TTL_DAYS / mean))
    if chosen:
        kept = (scores > np.quantile(scores, 0.9)) | (rng.random(count) < 0.1)
        delays[~kept] = math.inf
    evaluator = WindowedEvaluator(pane=DAY, retention=2 * DAYS * DAY, scale="probability")
    joiner = LabelJoiner(evaluator, ttl=TTL_DAYS * DAY, keep_delays=True)
    ids = np.arange(count).astype(str)
    for day in range(DAYS):
        made = (days >= day) & (days < day + 1)
        joiner.log_cases(
            ids=ids[made].tolist(),
            scores=scores[made],
            at=[MIDNIGHT + at * DAY for at in days[made]],
        )
        due = days + delays
        known = (due >= day) & (due < day + 1)
        joiner.label_cases(
            ids=ids[known].tolist(),
            labels=positives[known],
            at=[MIDNIGHT + at * DAY for at in due[known]],
        )
    return Life(days, positives, scores, evaluator, joiner)


@dataclass(frozen=True)
class Picture:
    """A figure, and the numbers in it that the page quotes."""

    figure: Figure
    numbers: tuple[str, ...]


def labels() -> Picture:
    """Draw two streams on one day: what each week reads now, is projected to, and will read."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.9), layout="constrained", sharey=True)
    numbers = []
    titles = ("labels of positives take 8 days", "below a score one in ten is labelled")
    for chosen, place, title in zip((False, True), axes, titles, strict=True):
        of_stream = life(chosen=chosen)
        ends = range(DAYS - SHOWN_DAYS, DAYS + 1)
        found = [of_stream.projection(end).figure("average_precision") for end in ends]
        truth = [of_stream.truth(end) for end in ends]
        ago = [end - DAYS for end in ends]
        lower, upper = np.transpose(
            [tuple(each.interval or (math.nan, math.nan)) for each in found]
        )
        projected = [each.projected for each in found]
        now = [each.now for each in found]
        place.fill_between(ago, lower, upper, color=BLUE, alpha=0.18, lw=0)
        place.plot(ago, projected, color=BLUE, lw=2, label="projected, with its interval")
        place.plot(ago, now, color=RED, lw=2, label="the labels that are there")
        place.plot(
            ago, truth, color="black", lw=1.3, ls="--", label="with the label of each prediction"
        )
        place.set(title=title, xlabel="end of the week, days from today")
        numbers.append(
            f"labels, {title}: the last week now {now[-1]:.2f}, projected "
            f"{found[-1].interval:.2f}, in the end {truth[-1]:.2f}; "
            f"refused {sum(each.reason is not None for each in found)}"
        )
    axes[0].set(ylabel="average precision of a week", ylim=(0, 1))
    axes[0].legend(loc="upper left")
    return Picture(figure, tuple(numbers))


def backtest() -> Picture:
    """Draw the backtest of the last week's projection."""
    projection = life(chosen=False).projection(DAYS)
    figure_now = projection.figure("average_precision")
    tested = figure_now.backtest
    ago = [(each.end - MIDNIGHT) / DAY - DAYS for each in tested]
    projected = np.array([each.projected for each in tested])
    final = np.array([each.final for each in tested])
    half = 1.96 * (projected - final) / np.array([each.z for each in tested])
    figure, axes = plt.subplots(figsize=(7.5, 3.9), layout="constrained")
    axes.errorbar(
        ago,
        projected,
        yerr=half,
        fmt="o",
        ms=4,
        color=BLUE,
        ecolor="#9fc6e0",
        elinewidth=3,
        label="projected then, and 1.96 standard errors",
    )
    axes.plot(ago, final, "D", ms=5, mfc="none", color="black", label="what it reads now")
    interval = figure_now.interval
    axes.errorbar(
        [0],
        [interval.estimate],
        yerr=[[interval.estimate - interval.lower], [interval.upper - interval.estimate]],
        fmt="o",
        ms=6,
        color=ORANGE,
        elinewidth=3,
        label="the last week, projected now",
    )
    axes.plot(
        0,
        figure_now.now,
        "x",
        color=RED,
        ms=7,
        mew=2,
        label="the last week, of the labels that are there",
    )
    axes.set(xlabel="end of the week, days from today", ylabel="average precision", ylim=(0, 1))
    axes.legend(loc="lower left", ncols=2)
    worst = max(abs(each.z) for each in tested)
    numbers = (
        f"backtest: {len(tested)} windows, largest error {worst:.1f} standard errors, "
        f"widened {figure_now.widening:.2f} times"
    )
    return Picture(figure, (numbers,))


def weights() -> Picture:
    """Draw the PR curve of every case, of the chosen ones, and of these with their weights."""
    rng = np.random.default_rng(7)
    labels = rng.random(200_000) < 0.05
    scores = rng.normal(size=labels.size) + 1.5 * labels
    chance = np.where(scores < 1.0, 0.1, 1.0)
    drawn = rng.random(labels.size) < chance
    figure, axes = plt.subplots(figsize=(6, 3.9), layout="constrained")
    recall = np.linspace(0.01, 1, 300)
    numbers = []
    for name, rows, probability, style in (
        ("every case", slice(None), None, {"color": "black", "ls": "--", "lw": 1.3}),
        ("the labelled ones as they are", drawn, None, {"color": RED, "lw": 2}),
        ("the same with label_probability", drawn, chance[drawn], {"color": BLUE, "lw": 2}),
    ):
        counted = Evaluator()
        counted.add_cases(labels=labels[rows], scores=scores[rows], label_probability=probability)
        points = counted.operating_points()
        axes.plot(recall, np.interp(recall, points.recall, points.precision), label=name, **style)
        numbers.append(f"weights, {name}: average precision {counted.average_precision():.3f}")
    axes.set(xlabel="recall", ylabel="precision", ylim=(0, 1), xlim=(0, 1))
    axes.legend(loc="upper right")
    return Picture(figure, tuple(numbers))


def clusters() -> Picture:
    """Draw the intervals of 60 streams of 20 cases a user, without and with clusters."""
    rng = np.random.default_rng(12)
    truth, streams, users, rows = 0.8556, 60, 120, 20  # Phi(1.5 / sqrt 2)
    user = np.repeat(np.arange(users), rows)
    found: list[tuple[tuple[float, float], ...]] = []
    for _ in range(streams):
        labels = rng.random(user.size) < rng.beta(0.4, 3.6, users)[user]
        shared, own = (
            rng.normal(0, math.sqrt(0.5), users)[user],
            rng.normal(0, math.sqrt(0.5), user.size),
        )
        scores = 1.5 * labels + shared + own
        without, declared = Evaluator(), Evaluator(cluster_groups=32)
        without.add_cases(labels=labels, scores=scores)
        declared.add_cases(labels=labels, scores=scores, clusters=user)
        found.append(tuple(tuple(each.interval("auc_roc")) for each in (without, declared)))
    found.sort(key=sum_of_first)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.9), layout="constrained", sharey=True)
    numbers = []
    for place, title, intervals in zip(
        axes, ("nothing declared", "clusters= the user"), zip(*found, strict=True), strict=True
    ):
        held = draw_intervals(place, intervals, truth)
        place.set(title=f"{title}: {held} of {streams} hold the truth", xlabel="stream")
        numbers.append(f"clusters, {title}: {held} of {streams} hold the truth")
    axes[0].set(ylabel="AUC-ROC, 95 % interval")
    return Picture(figure, tuple(numbers))


def sum_of_first(pair: tuple[tuple[float, float], ...]) -> float:
    """Return twice the middle of the first interval."""
    return sum(pair[0])


def draw_intervals(axes: Axes, intervals: tuple[tuple[float, float], ...], truth: float) -> int:
    """Draw intervals side by side, those without the truth in red; return how many hold it."""
    held = 0
    for place, (lower, upper) in enumerate(intervals):
        holds = lower <= truth <= upper
        held += holds
        axes.plot([place, place], [lower, upper], color=BLUE if holds else RED, lw=2.2)
    axes.axhline(truth, color=GREY, lw=1, ls=":")
    axes.grid(visible=False, axis="x")
    return held


PICTURES: dict[str, Callable[[], Picture]] = {
    "labels": labels,
    "backtest": backtest,
    "weights": weights,
    "clusters": clusters,
}


def main() -> None:
    """Write the pictures, and print their numbers."""
    mpl.use("svg")
    with mpl.rc_context(STYLE):
        for name, draw in PICTURES.items():
            picture = draw()
            numbers = "\n".join(picture.numbers)
            print(numbers)
            picture.figure.savefig(
                IMAGES / f"truth-{name}.svg", metadata={"Date": None, "Description": numbers}
            )
            plt.close(picture.figure)


if __name__ == "__main__":
    main()
