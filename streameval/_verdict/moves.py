"""What changed besides the order of cases, since when, and what of it changed first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streameval._time.times import to_datetime
from streameval._verdict.level_sums import steps_of
from streameval._verdict.search import find_change
from streameval._verdict.verdict import Moved, Since

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._verdict.evidence import Evidence
    from streameval._verdict.level_sums import LevelName
    from streameval._verdict.search import Beginning, StepSums
    from streameval._verdict.verdict import FirstChanged, MovedName

_MOVED: Final[tuple[MovedName, ...]] = ("scores", "prevalence", "labelled_share")


def moved_of(evidence: Evidence) -> tuple[Moved, ...]:
    """Return what was called and lasts, of the prevalence, the scores and the labelled share."""
    found = []
    for name in _MOVED:
        if evidence.last_called_us(name) < 0:
            continue
        base, steps = base_steps(evidence, name), evidence.levels.sums(name)
        change = find_change(base, steps)
        if change is None or change.returned is not None:
            continue
        after = steps.part(steps.starts_us >= change.since.latest_us)
        if not after.counts.sum():
            after = steps.part(steps.ends_us > change.since.likeliest_us)
        before, now = (float(each.totals.sum() / each.counts.sum()) for each in (base, after))
        found.append(Moved(name, before, now, since_of(change.since)))
    return tuple(found)


def first_of(moved: Sequence[Moved]) -> FirstChanged | None:
    """Return what changed first, where the intervals of the beginnings are apart."""
    known = [(each.since.earliest, each) for each in moved if each.since is not None]
    if not known:
        return None
    ranked = [each for _, each in sorted(known, key=lambda item: (item[0], item[1].name))]
    first = ranked[0]
    is_apart = all(
        first.since is not None
        and other.since is not None
        and first.since.latest < other.since.earliest
        for other in ranked[1:]
    )
    return first.name if is_apart else "same_time"


def since_of(beginning: Beginning, noted: Sequence[tuple[int, str]] = ()) -> Since:
    """Return a beginning as times, with the annotations within it."""
    return Since(
        to_datetime(beginning.earliest_us),
        to_datetime(beginning.likeliest_us),
        to_datetime(beginning.latest_us),
        tuple(
            text
            for time_us, text in noted
            if beginning.earliest_us <= time_us <= beginning.latest_us
        ),
    )


def base_steps(evidence: Evidence, name: LevelName) -> StepSums:
    """Return the base as the one step before all others."""
    span_us = evidence.base.start_us, evidence.base.end_us
    return steps_of(evidence.base_level(), span_us, name)
