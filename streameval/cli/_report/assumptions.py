"""What a report's figures assume, in sentences; each holds for this stream and this window."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from streameval._common.spans import format_span
from streameval.cli._report.words import cost, count, listed, percent, score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streameval.cli._report.answers import Answers


def assumptions(found: Answers) -> Iterator[str]:
    """Yield the sentences."""
    yield from _of_cases(found)
    yield from _of_scores(found)
    yield from _of_intervals(found)
    yield (
        "AUC-PR interpolates between operating points as Davis and Goadrich (2006): false "
        "positives grow evenly with true positives. Its value for scores in random order is the "
        "prevalence, so values at different prevalences are not comparable as they are."
    )
    yield (
        "The achievable curve and the ROC hull choose their thresholds on the same cases that they "
        "are judged by, so they are optimistic."
    )
    if found.segments is not None:
        yield (
            "Each segment is compared with the rest of the window, all at one prevalence, the "
            "greatest of the segments; intervals are per segment, and p-values are adjusted for "
            "the number of segments (Holm)."
        )
    if found.alarms is not None:
        yield (
            "Alarms compare cases with a frozen reference; false alarms are as rare as the "
            "settings state, at any number of looks."
        )


def _of_cases(found: Answers) -> Iterator[str]:
    snapshot, settings = found.snapshot, found.settings
    yield (
        "Cases are placed at their event time, in panes of at least "
        f"{format_span(settings.pane)}; a window consists of whole panes."
        if snapshot.window
        else "All cases since the stream was created count, whatever their event time."
    )
    coverage = snapshot.coverage
    if coverage is not None:
        yield (
            f"Figures include labelled cases only: {count(coverage.labelled)} of "
            f"{count(coverage.predictions)} predictions have their label, "
            f"{count(coverage.pending)} wait for it. A prediction waits "
            f"{format_span(settings.label_ttl)} at most; then it "
            + ("is a negative case." if settings.expired == "negative" else "is left out.")
            + " If labels that are late differ from the present ones, the figures will change."
        )
        yield (
            "A label without a prediction is a reference that was never scored: it counts as "
            "missed."
            if settings.orphans == "miss"
            else "A label without a prediction is left out."
        )
    misses = snapshot.num_misses + snapshot.num_negative_misses
    if misses:
        yield (
            f"{count(misses)} references were never scored; no finite threshold calls them "
            f"positive."
        )
    if snapshot.weights is not None:
        yield "Cases have weights: figures are of sums of weights, and counts are of cases."


def _of_scores(found: Answers) -> Iterator[str]:
    snapshot, settings = found.snapshot, found.settings
    if snapshot.resolution is not None:
        yield (
            f"Scores keep {snapshot.resolution} significant bits; scores that agree in them "
            f"are tied."
        )
    else:
        yield "Scores are kept exactly."
    if settings.threshold is not None:
        yield (
            f"Cases are flagged at scores of {score(settings.threshold)} and above, the "
            "declared threshold. The intervals of its rates hold if it was chosen on other cases."
        )
    if settings.cost_fp is not None and settings.cost_fn is not None:
        yield (
            f"A false positive costs {cost(settings.cost_fp)}, a false negative "
            f"{cost(settings.cost_fn)}, as the stream declares; the cost per case is the mean over "
            "all labelled cases, and correct ones cost nothing."
        )
    share = snapshot.prevalence
    prevalence = "" if math.isnan(share) else f", {percent(share)}"
    yield f"The prevalence is taken from the labelled cases{prevalence}."


def _of_intervals(found: Answers) -> Iterator[str]:
    settings = found.settings
    dependence = "assume that cases are independent of each other"
    if settings.cluster_groups:
        key = f" by {settings.cluster_key}" if settings.cluster_key else ""
        dependence = f"account for clusters of cases{key}"
    elif found.snapshot.weights is not None:
        dependence = "account for the weights, and assume that cases are independent of each other"
    yield (
        f"Intervals have a nominal coverage of 95 % each, and {dependence}. They are for "
        "one look at one window, not for the worst of many."
    )


def settings_words(found: Answers) -> Iterator[tuple[str, str]]:
    """Yield the settings of the stream that matter to its figures, as names and values."""
    settings = found.settings
    yield "Pane", format_span(settings.pane)
    yield "Retention of panes", format_span(settings.retention)
    yield "Scale of scores", settings.scale
    yield "Declared threshold", _declared(settings.threshold, score)
    yield "Cost of a false positive", _declared(settings.cost_fp, cost)
    yield "Cost of a false negative", _declared(settings.cost_fn, cost)
    yield "Least label probability", _declared(settings.min_label_probability, "{:g}".format)
    yield "Labels are awaited", format_span(settings.label_ttl)
    yield "Segment keys", listed(settings.segment_keys) if settings.segment_keys else "none"


def _declared(value: float | None, shown: Callable[[float], str]) -> str:
    return "none" if value is None else shown(value)
