"""What a report's figures assume, in sentences; each holds for this stream and this window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.v1 import stream_pb2
from streameval_server._report.words import cost, count, listed, percent, score, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval_server._report.contents import Contents


def assumptions(found: Contents, level: float) -> Iterator[str]:
    """Yield the sentences."""
    yield from _of_cases(found)
    yield from _of_scores(found)
    yield from _of_intervals(found, level)
    yield (
        "AUC-PR interpolates between operating points as Davis and Goadrich (2006): false "
        "positives "
        "grow evenly with true positives. Its value for scores in random order is the "
        "prevalence, so "
        "values at different prevalences are not comparable as they are."
    )
    yield (
        "The achievable curve and the ROC hull choose their thresholds on the same cases that they "
        "are judged by, so they are optimistic."
    )
    if found.ranking is not None:
        yield (
            "Each segment is compared with the rest of the window at the window's prevalence; "
            "intervals are per segment, and p-values are adjusted for the number of segments "
            "(Holm)."
        )
    if found.alarms is not None:
        yield (
            "Alarms compare cases with a frozen reference; false alarms are as rare as the "
            "settings state, at any number of looks."
        )


def _of_cases(found: Contents) -> Iterator[str]:
    snapshot, settings = found.snapshot, found.stream.settings
    yield (
        "Cases are placed at their event time, in panes of at least "
        f"{span(settings.pane)}; a window consists of whole panes."
        if snapshot.HasField("window")
        else "All cases since the stream was created count, whatever their event time."
    )
    if snapshot.HasField("coverage"):
        coverage = snapshot.coverage
        yield (
            f"Figures include labelled cases only: {count(coverage.labelled)} of "
            f"{count(coverage.predictions)} predictions have their label, "
            f"{count(coverage.pending)} "
            f"wait for it. A prediction waits {span(settings.label_ttl)} at most; then it "
            + (
                "is a negative case."
                if settings.expired == stream_pb2.EXPIRY_POLICY_NEGATIVE
                else "is left out."
            )
            + " If labels that are late differ from the present ones, the figures will change."
        )
        yield (
            "A label without a prediction is a reference that was never scored: it counts as "
            "missed."
            if settings.orphans == stream_pb2.ORPHAN_POLICY_MISS
            else "A label without a prediction is left out."
        )
    misses = snapshot.num_misses + snapshot.num_negative_misses
    if misses:
        yield (
            f"{count(misses)} references were never scored; no finite threshold calls them "
            f"positive."
        )
    if snapshot.HasField("weights"):
        yield "Cases have weights: figures are of sums of weights, and counts are of cases."


def _of_scores(found: Contents) -> Iterator[str]:
    snapshot, settings = found.snapshot, found.stream.settings
    if snapshot.HasField("resolution"):
        yield (
            f"Scores keep {snapshot.resolution} significant bits; scores that agree in them "
            f"are tied."
        )
    else:
        yield "Scores are kept exactly."
    if settings.HasField("threshold"):
        yield (
            f"Cases are called positive at scores of {score(settings.threshold)} and above, the "
            "declared threshold. The intervals of its rates hold if it was chosen on other cases."
        )
    if settings.HasField("cost_fp"):
        yield (
            f"A false positive costs {cost(settings.cost_fp)}, a false negative "
            f"{cost(settings.cost_fn)}, as the stream declares; the cost per case is the mean over "
            "all labelled cases, and correct ones cost nothing."
        )
    yield f"The prevalence is taken from the labelled cases{_prevalence(found)}."


def _prevalence(found: Contents) -> str:
    snapshot = found.snapshot
    positives, negatives = (
        (snapshot.weights.positives, snapshot.weights.negatives)
        if snapshot.HasField("weights")
        else (snapshot.num_positive_ref, snapshot.num_negative_ref)
    )
    return f", {percent(positives / (positives + negatives))}" if positives + negatives else ""


def _of_intervals(found: Contents, level: float) -> Iterator[str]:
    settings = found.stream.settings
    effects = [
        each.interval.design_effect
        for each in found.snapshot.metrics
        if each.interval.HasField("design_effect")
    ]
    dependence = "assume that cases are independent of each other"
    if settings.cluster_groups:
        key = f" by {settings.cluster_key}" if settings.cluster_key else ""
        dependence = f"account for clusters of cases{key}"
    elif effects:
        dependence = "account for the weights, and assume that cases are independent of each other"
    yield (
        f"Intervals have a nominal coverage of {percent(level)} each, and {dependence}. They "
        f"are for "
        "one look at one window, not for the worst of many."
    )


def settings_words(found: Contents) -> Iterator[tuple[str, str]]:
    """Yield the settings of the stream that matter to its figures, as names and values."""
    settings = found.stream.settings
    yield "Pane", span(settings.pane)
    yield "Retention of panes", span(settings.retention)
    is_probability = settings.scale == stream_pb2.SCALE_PROBABILITY
    yield "Scale of scores", "probability" if is_probability else "plain"
    yield (
        "Declared threshold",
        score(settings.threshold) if settings.HasField("threshold") else "none",
    )
    yield "Cost of a false positive", _declared_cost(settings, "cost_fp")
    yield "Cost of a false negative", _declared_cost(settings, "cost_fn")
    yield "Labels are awaited", span(settings.label_ttl)
    keys = list(settings.segment_keys)
    yield "Segment keys", listed(keys) if keys else "none"


def _declared_cost(settings: stream_pb2.StreamSettings, name: str) -> str:
    return cost(getattr(settings, name)) if settings.HasField(name) else "none"  # type: ignore[arg-type]  # a field's name
