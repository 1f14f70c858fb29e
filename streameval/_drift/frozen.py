"""A reference frozen for a detector: bands, means and thetas of the whole and of segments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.spans import format_span
from streameval._drift.processes import HOUR_US
from streameval._drift.reference import (
    MIN_CASES,
    bands_of,
    blocks_of,
    check_reference,
    side_mean,
    theta_of,
)
from streameval._drift.watches import COMPANIONS
from streameval._uncertainty.interval import MAX_SILENT_EFFECT
from streameval._uncertainty.intervals import gradient_function
from streameval._uncertainty.pane_blocks import pane_effect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streameval._common.arrays import FloatArray
    from streameval._drift.reference import Bands, Mean, ReferenceCases
    from streameval._drift.settings import DriftSettings


@dataclass(frozen=True, slots=True, eq=False)
class FrozenReference:
    """What a detector keeps of its reference.

    Attributes
    ----------
    bands : Bands
    means, errors : float64[sides]
        Of the whole, from 0 to 1, and standard errors.
    thetas : float64[parts, sides]
        Of the whole, then of the segments; 0 where no fall could be seen.
    segments : tuple of str
        ``"key=value"``, sorted.
    warnings : tuple of str
        What panes of the whole showed of dependence over hours.
    """

    bands: Bands
    means: FloatArray
    errors: FloatArray
    thetas: FloatArray
    segments: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        reference: ReferenceCases,
        segments: Mapping[str, ReferenceCases],
        settings: DriftSettings,
    ) -> FrozenReference:
        """Return the frozen reference, or refuse it. O(n) for each side and segment."""
        found = cls.unwatched(reference, segments, settings)
        for index in range(len(settings.watches)):
            if not found.thetas[0][settings.sides_of(index)].any():
                mean = _means(reference, found.bands, settings)[settings.sides_of(index).start]
                raise _unseen_error(index, mean, settings)
        return found

    @classmethod
    def unwatched(
        cls,
        reference: ReferenceCases,
        segments: Mapping[str, ReferenceCases],
        settings: DriftSettings,
    ) -> FrozenReference:
        """Return it, also where no change of a mean could be seen: its theta is 0."""
        cells = check_reference(reference.state)
        probabilities = any(each.name == "calibration" for each in settings.watches)
        if probabilities and not (cells.scores.min() >= 0 and cells.scores.max() <= 1):
            message = "calibration is of probabilities, and the reference has scores outside 0 to 1"
            raise InvalidInputError(message, field="watch")
        bands = bands_of(cells, settings.flagged_from)
        means = _means(reference, bands, settings)
        tolerances = _tolerances(settings)
        thetas = [_thetas(means, tolerances)]
        for each in segments.values():
            if each.state.weighted is not None:
                check_reference(each.state, "a segment's reference")
            thetas.append(_thetas(_means(each, bands, settings), tolerances))
        return cls(
            bands,
            np.array([each.value for each in means]),
            np.array([each.error for each in means]),
            np.array(thetas),
            tuple(segments),
            (*_dependence_warnings(reference, settings), *_slow_warnings(means)),
        )


def _slow_warnings(means: Sequence[Mean]) -> tuple[str, ...]:
    """Return how cases depend on one another over hours, of the mean where it is greatest."""
    known = [each.slow for each in means if each.slow is not None]
    return (max(known, key=attrgetter("ratio")).warning,) if known else ()


def _dependence_warnings(reference: ReferenceCases, settings: DriftSettings) -> tuple[str, ...]:
    """Return why false alarms may be more frequent than stated; nothing if it is not known.

    Retries, sessions and users have rows in several panes of the bets, which then are not
    independent. The reference's panes are of an hour once they are old. AUC-ROC shows what their
    rows have in common, because a cycle of the prevalence does not move it.
    """
    if settings.pane_us >= HOUR_US:
        return ()
    effect = pane_effect(reference.state, reference.panes, gradient_function("auc_roc", ()))
    if not effect > MAX_SILENT_EFFECT:
        return ()
    pane = format_span(timedelta(microseconds=settings.pane_us))
    declare = " and declare clusters (clusters=, of a stream cluster_key)"
    text = (
        "rows of one hour of the reference depend on one another: the variance is at least "
        f"{effect:.2g} times as large as with independent rows. Where an id that is sent "
        f"again, or a cluster such as a session, has rows in several panes of {pane}, false "
        "alarms are more frequent than stated: take panes (pane=) that are longer than that "
        f"lasts{'' if settings.has_clusters else declare}"
    )
    return (text,)


def _unseen_error(index: int, mean: Mean, settings: DriftSettings) -> InvalidInputError:
    """Return the error of a watch of which no change could be seen."""
    watch = settings.watches[index]
    if mean.cases < MIN_CASES:  # of the threshold: of classes there are enough
        message = (
            f"{watch.name} is of {mean.cases} cases of the reference at the threshold "
            f"{settings.flagged_from:g}, at least {MIN_CASES} are needed: take a lower "
            "threshold or a longer window"
        )
        return InvalidInputError(message, field="threshold")
    message = (
        f"no change of {watch.name} could be seen: its mean in the reference is "
        f"{mean.value:.4g} with a standard error of {mean.error:.2g} of {mean.cases} "
        f"cases, and tolerance is {settings.tolerances[index]:.4g}: take a smaller one"
    )
    return InvalidInputError(message, field="tolerance")


def _means(reference: ReferenceCases, bands: Bands, settings: DriftSettings) -> list[Mean]:
    cells, blocks = reference.cells(), blocks_of(reference)
    return [side_mean(side, cells, blocks, bands, settings.flagged_from) for side in settings.sides]


def _tolerances(settings: DriftSettings) -> list[float]:
    watched = [
        tolerance / side.unit
        for watch, tolerance in zip(settings.watches, settings.tolerances, strict=True)
        for side in watch.sides
    ]
    return [*watched, *[min(settings.tolerances)] * len(COMPANIONS)]


def _thetas(means: Sequence[Mean], tolerances: Sequence[float]) -> FloatArray:
    return np.array(
        [theta_of(mean, tolerance) for mean, tolerance in zip(means, tolerances, strict=True)]
    )
