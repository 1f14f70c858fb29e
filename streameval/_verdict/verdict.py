"""The verdict on a stream as a value: what it says, in fields, as JSON and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from typing import Any, Final, Literal

from streameval._common.result import Result
from streameval._common.tables import Table
from streameval._metric_registry import title_of
from streameval._uncertainty.interval import Interval

Quality = Literal["worse", "better", "recovered", "steady", "unsure", "immature"]
Flow = Literal["ok", "silent", "no_labels", "late"]
MovedName = Literal["scores", "prevalence", "labelled_share"]
FirstChanged = Literal["scores", "prevalence", "labelled_share", "same_time"]

MARGIN: Final = 0.05
"""A fall that is not larger than this does not keep a stream from being called steady."""
_SHOWN_CALLED: Final = 5
"""Of the history in print; `to_dict` has all of it."""
SURE: Final = "a healthy stream is called worse less than once in 100 years on average"


@dataclass(frozen=True, slots=True, eq=False)
class VerdictFigure(Result):
    """One metric in the base and now.

    Attributes
    ----------
    metric : str
        For instance ``"auc_pr"``.
    prevalence : float or None
        At which both values of an area in precision-recall space are: the greater one of base
        and now. None for other metrics.
    before, now, difference : Interval
        In the base, since the change (without one: now), and now minus base.
    """

    metric: str
    prevalence: float | None
    before: Interval
    now: Interval
    difference: Interval


@dataclass(frozen=True, slots=True, eq=False)
class Since(Result):
    """When a change began, in event time.

    Attributes
    ----------
    earliest, likeliest, latest : datetime
    annotations : tuple of str
        What was noted between `earliest` and `latest`, for instance ``"model v4"``.
    """

    earliest: datetime
    likeliest: datetime
    latest: datetime
    annotations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Because(Result):
    """A segment with evidence of its own.

    Attributes
    ----------
    segment : str
        ``"key=value"``.
    share : float or None
        Of the fall, what goes away with the segment's cases of the base in the place of its
        cases since; to the nearest 0.1. None where it was not computed. Shares of segments that
        overlap need not add up to 1.
    e_value : float
        How many times the stake its bets have won: at most 1 on average for a segment that has
        not changed.
    """

    segment: str
    share: float | None
    e_value: float


@dataclass(frozen=True, slots=True, eq=False)
class Moved(Result):
    """Something that changed and is not by itself a fall of the model.

    Attributes
    ----------
    name : {"scores", "prevalence", "labelled_share"}
    before, now : float
        Of the prevalence and of the share of predictions that have a label, the share; of
        scores the share of the base's cases that a case outranks on average, 0.5 in the base.
    since : Since or None
        When it began; None where it was not searched.
    """

    name: MovedName
    before: float
    now: float
    since: Since | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Base(Result):
    """What now is compared with.

    Attributes
    ----------
    start, end : datetime
        In event time; `end` is not part of it.
    positives, negatives : int
    is_declared : bool
        Whether it was declared or accepted, instead of chosen.
    """

    start: datetime
    end: datetime
    positives: int
    negatives: int
    is_declared: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Called(Result):
    """What a stream was called from a time on.

    Attributes
    ----------
    quality : str
        As of `Verdict`.
    called : datetime
        When it was called so, by the server's clock.
    since : datetime or None
        Since when it was so, in event time, as it was known then.
    is_accepted : bool
        Whether what was then was accepted as the new normal: from then on it was too early.
    """

    quality: Quality
    called: datetime
    since: datetime | None = None
    is_accepted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Verdict(Result):
    """What is known of a stream's quality at a time, against its base.

    Attributes
    ----------
    quality : str
        ``"worse"`` or ``"better"``: evidence says so, at any number of looks; ``"recovered"``:
        was called worse and is back; ``"steady"``: a fall of more than `margin` is excluded;
        ``"unsure"``: neither; ``"immature"``: no base yet, or too few labels since.
    flow : str
        ``"ok"``; ``"silent"``: no row for twice the longest gap of the base, an hour at least;
        ``"no_labels"``: rows come and labels do not; ``"late"``: labels come later than in
        the base.
    figures : tuple of VerdictFigure
        The headline first: AUC-PR at one prevalence; then AUC-ROC; at a declared threshold
        precision, recall and expected cost. Empty without a base.
    since : Since or None
        When the fall or rise began.
    returned : Since or None
        Of ``"recovered"``: when it was back.
    because : tuple of Because
        Segments that explain it, the largest share first.
    first : str or None
        What changed first: ``"scores"``, ``"prevalence"``, ``"labelled_share"``, or
        ``"same_time"`` where the intervals of their beginnings overlap; None if none of
        them changed.
    moved : tuple of Moved
    alarm : int or None
        Number of the declared alarm that is open.
    base : Base or None
    excluded : float
        The least fall of the headline that is excluded, valid at every look: minus the lower
        limit of now minus base, at least 0. nan where there is none.
    projected : Interval or None
        Of ``"immature"``: AUC-PR since the base, at its own prevalence, once its labels are in;
        None where it is not projected.
    margin : float
    at, valid_until : datetime
        When it was asked for, and until when it stays the same if nothing comes.
    could_be_wrong : tuple of str
        At most two reasons, each with what to do.
    sure : str
        The rate of wrong calls that holds, in words.
    history : tuple of Called
        What it was called until now, the oldest first; at most 24. A server's alone.
    sentence : str
        All of it in one or two sentences.
    happened : str
        What happened, in a line: ``"fell 0.20 · since Nov 20 · country=IT"``.

    Examples
    --------
    `to_dict` gives values that JSON has, `print` a few lines:

    >>> from datetime import timezone
    >>> noon = datetime(2026, 11, 27, 12, tzinfo=timezone.utc)
    >>> verdict = Verdict(quality="immature", at=noon, valid_until=noon,
    ...                   sentence="Too early: there is no base to compare with yet.")
    >>> print(verdict)
    Too early: there is no base to compare with yet.
    >>> verdict.to_dict()["at"], verdict.to_dict()["since"]
    ('2026-11-27T12:00:00+00:00', None)
    """

    quality: Quality
    at: datetime
    valid_until: datetime
    sentence: str
    flow: Flow = "ok"
    figures: tuple[VerdictFigure, ...] = ()
    since: Since | None = None
    returned: Since | None = None
    because: tuple[Because, ...] = ()
    first: FirstChanged | None = None
    moved: tuple[Moved, ...] = ()
    alarm: int | None = None
    base: Base | None = None
    excluded: float = math.nan
    projected: Interval | None = None
    margin: float = MARGIN
    could_be_wrong: tuple[str, ...] = ()
    sure: str = SURE
    happened: str = ""
    history: tuple[Called, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that JSON has.

        Times are ISO 8601, an interval is its estimate, limits and level, and a number that is
        not there is None.
        """
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat row for each metric: in the base, now, and the difference. O(1)."""
        told = {"quality": self.quality, "flow": self.flow, "at": self.at}
        return [told | row for figure in self.figures for row in figure.to_rows()] or [told]

    def __str__(self) -> str:
        return self._as_table().as_text()

    def _as_table(self) -> Table:
        """Return the sentence, the figures, and what they rest on."""
        rows = [
            [_name_of(each), f"{each.before:.4f}", f"{each.now:.4f}", f"{each.difference:+.4f}"]
            for each in self.figures
        ]
        return Table(
            self.sentence,
            ["", "base", "now", "now minus base"] if rows else (),
            rows,
            self._notes(),
        )

    def _notes(self) -> list[str]:
        notes = []
        if self.base is not None:
            notes.append(f"base: {_minute(self.base.start)} to {_minute(self.base.end)} UTC")
        for label, since in (("since", self.since), ("back", self.returned)):
            if since is not None:
                limits = f"{_minute(since.earliest)} to {_minute(since.latest)}"
                notes.append(f"{label}: {_minute(since.likeliest)} ({limits}) UTC")
        notes += [f"called: {_called(each)}" for each in self.history[-_SHOWN_CALLED:]]
        notes += [f"could be wrong: {text}" for text in self.could_be_wrong]
        if self.quality in {"worse", "better", "recovered", "steady", "unsure"}:
            notes.append(f"sure: {self.sure}")
        return notes


def _name_of(figure: VerdictFigure) -> str:
    at = "" if figure.prevalence is None else f" at a prevalence of {figure.prevalence:.4g}"
    return f"{title_of(figure.metric)}{at}"


def _called(former: Called) -> str:
    if former.is_accepted:
        return f"{_minute(former.called)} UTC: accepted as the new normal"
    since = "" if former.since is None else f" since {_minute(former.since)}"
    return f"{_minute(former.called)} UTC: {former.quality}{since}"


def _plain(value: Any) -> Any:
    if isinstance(value, Interval):
        numbers = (value.estimate, value.lower, value.upper, value.level)
        return dict(zip(("estimate", "lower", "upper", "level"), map(_plain, numbers), strict=True))
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return None if isinstance(value, float) and math.isnan(value) else value


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"
