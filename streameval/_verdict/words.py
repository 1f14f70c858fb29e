"""The sentence of a verdict, which a person reads first, and the line of it in a list."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from streameval._metric_registry import BY_NAME

if TYPE_CHECKING:
    from datetime import datetime

    from streameval._verdict.verdict import Moved, Since, Verdict, VerdictFigure

_NAMED_SEGMENTS: Final = 3
_LISTED_SEGMENTS: Final = 2
_MONTHS: Final = [
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
]
_NOUNS: Final = {
    "prevalence": "prevalence",
    "scores": "the distribution of scores",
    "labelled_share": "the labelled share",
}


def sentence_of(
    verdict: Verdict,
    *,
    is_called: bool = True,
    labelled: float = math.nan,
    reason: str = "",
    last_row: datetime | None = None,
) -> str:
    """Return the sentence of a verdict, from its other fields. O(1).

    Parameters
    ----------
    verdict : Verdict
    is_called : bool
        Whether evidence calls it worse or better; else an alarm alone does.
    labelled : float
        Of one that is immature: the share of labels that are in.
    reason : str
        Of one without a base: why there is none.
    last_row : datetime
        Of one that is silent: when its last rows came.

    Examples
    --------
    >>> from datetime import datetime, timezone
    >>> from streameval._verdict.verdict import Verdict
    >>> noon = datetime(2026, 11, 27, 12, tzinfo=timezone.utc)
    >>> steady = Verdict(quality="steady", at=noon, valid_until=noon, sentence="", excluded=0.03)
    >>> sentence_of(steady)
    'Steady: a fall of more than 0.03 would have been seen.'
    """
    if verdict.quality == "immature":
        said = [_immature(verdict, labelled, reason)]
    elif not is_called and verdict.alarm is not None:
        said = []
    elif verdict.quality in {"worse", "better", "recovered"}:
        said = [_changed(verdict), *_explained(verdict)]
    else:
        said = [_unchanged(verdict)]
    return " ".join([*said, *_alarm(verdict), *_annotations(verdict), *_flow(verdict, last_row)])


def happened_of(
    verdict: Verdict,
    *,
    is_called: bool = True,
    labelled: float = math.nan,
    reason: str = "",
    last_row: datetime | None = None,
) -> str:
    """Return what happened, in a line; parameters as of `sentence_of`. O(1).

    What changed comes first, then that it is silent; what is not known of a change gives way to it.

    Examples
    --------
    >>> from datetime import datetime, timezone
    >>> from streameval._verdict.verdict import Verdict
    >>> noon = datetime(2026, 11, 27, 12, tzinfo=timezone.utc)
    >>> steady = Verdict(quality="steady", at=noon, valid_until=noon, sentence="", excluded=0.03)
    >>> happened_of(steady)
    'no fall above 0.03'
    """
    is_change = verdict.quality in {"worse", "better", "recovered"}
    if is_change:
        parts = _parts(verdict) if is_called or verdict.alarm is None else []
    else:
        parts = [_quiet(verdict, labelled, reason)]
    if verdict.flow == "silent" and last_row is not None:
        kept = parts if is_change or verdict.moved else []
        parts = [*kept, f"no rows since {time_words(last_row, verdict.at)}"]
    return " · ".join(filter(None, parts))


def _quiet(verdict: Verdict, labelled: float, reason: str) -> str:
    """Return what is known where no change is called."""
    if verdict.quality == "immature":
        if verdict.base is None:
            return reason or "no base yet"
        few = "fewer than 30 labels of a class since the base"
        return few if math.isnan(labelled) else _in_words(labelled)
    if verdict.moved or math.isnan(verdict.excluded):
        return "; ".join(_moved(each) for each in verdict.moved)
    fall = _up(verdict.excluded)
    is_steady = verdict.quality == "steady"
    return f"no fall above {fall}" if is_steady else f"a fall of {fall} is not excluded"


def _parts(verdict: Verdict) -> list[str]:
    """Return by how much it changed, since when, and the segments that explain it."""
    parts = []
    if verdict.quality != "recovered":
        figure, verb = _told(verdict), "rose" if verdict.quality == "better" else "fell"
        if figure is None:
            parts = [f"{_title(figure)} became {verdict.quality}"]
        else:
            named = "" if figure is verdict.figures[0] else f"{_title(figure)} "
            parts = [f"{named}{verb} {_numbers(figure)[2]}"]
        if verdict.since is not None:
            parts.append(f"since {day_words(verdict.since.likeliest, verdict.at)}")
    if verdict.returned is not None:
        parts.append(f"back since {day_words(verdict.returned.likeliest, verdict.at)}")
    return [*parts, *(each.segment for each in verdict.because[:_LISTED_SEGMENTS])]


def day_words(at: datetime, now: datetime) -> str:
    """Return a day, with the year where it is another one than now's."""
    year = "" if at.year == now.year else f" {at.year}"
    return f"{_MONTHS[at.month - 1]} {at.day}{year}"


def time_words(at: datetime, now: datetime) -> str:
    """Return a time to the minute, with the year where it is another one than now's.

    >>> from datetime import datetime
    >>> time_words(datetime(2026, 11, 20, 22), datetime(2026, 11, 27))
    'Nov 20, 22:00'
    """
    return f"{day_words(at, now)}, {at:%H:%M}"


def change_words(before: float, now: float, difference: float) -> tuple[str, str, str]:
    """Return two numbers and the size of the difference between them as they are said.

    They have two digits, or as many more, up to four, as it takes for the size not to be 0, and
    to be the difference as it is said alone.

    >>> change_words(0.65, 0.07, -0.58), change_words(0.7012, 0.5561, -0.1451)
    (('0.65', '0.07', '0.58'), ('0.701', '0.556', '0.145'))
    """
    for digits in (2, 3, 4):
        first, second = (f"{each:.{digits}f}" for each in (before, now))
        size = f"{abs(float(second) - float(first)):.{digits}f}"
        if float(size) and size == f"{abs(difference):.{digits}f}":
            break
    return first, second, size


def percent_words(share: float) -> str:
    """Return a share as a percentage.

    >>> percent_words(0.9), percent_words(0.004), percent_words(0.0112)
    ('90 %', '0.4 %', '1.1 %')
    """
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 9.95 or not percent else f"{percent:.2g} %"


def _numbers(figure: VerdictFigure) -> tuple[str, str, str]:
    numbers = figure.before, figure.now, figure.difference
    return change_words(*(each.estimate for each in numbers))


def _title(figure: VerdictFigure | None) -> str:
    return BY_NAME[figure.metric].title if figure is not None else "the order of cases"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _told(verdict: Verdict) -> VerdictFigure | None:
    """Return the first figure that moved as the quality says; None if none did."""
    sign = 1.0 if verdict.quality == "better" else -1.0
    return next((each for each in verdict.figures if sign * each.difference.estimate > 0), None)


def _changed(verdict: Verdict) -> str:
    if verdict.quality == "recovered":
        return _recovered(verdict)
    figure, verb = _told(verdict), "rose" if verdict.quality == "better" else "fell"
    if figure is None:
        text = f"The ranking of cases became {verdict.quality}"
    else:
        before, now, _ = _numbers(figure)
        text = f"{_capital(_title(figure))} {verb} from {before} to {now}"
    text += _since_words(verdict.since, verdict.at)
    if verdict.returned is not None:
        text += f" and is back since {time_words(verdict.returned.likeliest, verdict.at)}"
    return f"{text}."


def _recovered(verdict: Verdict) -> str:
    text = "Recovered"
    if verdict.since is not None and verdict.returned is not None:
        began, ended = verdict.since.likeliest, verdict.returned.likeliest
        text = f"Recovered: worse from {time_words(began, verdict.at)} to "
        text += time_words(ended, verdict.at)
    if verdict.figures:
        figure = verdict.figures[0]
        before, now = (f"{each.estimate:.2f}" for each in (figure.before, figure.now))
        text += f"; {_title(figure)} is {now}, {before} in the base"
    return f"{text}."


def _since_words(since: Since | None, now: datetime) -> str:
    return "" if since is None else f" since {time_words(since.likeliest, now)}"


def _explained(verdict: Verdict) -> list[str]:
    """Return which segments explain it, each with its share where there is one."""
    named = verdict.because[:_NAMED_SEGMENTS]
    if not named:
        return []
    shares = [(each.segment, each.share) for each in named if each.share]
    if not shares:
        return [f"It is seen in {_listed([each.segment for each in named])}."]
    (segment, share), *rest = shares
    first = f"{segment} explains {percent_words(share)} of it"
    return [f"{', '.join((first, *(f'{name} {percent_words(of)}' for name, of in rest)))}."]


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _unchanged(verdict: Verdict) -> str:
    if verdict.moved:
        what = "; ".join(
            _moved(each) + _since_words(each.since, verdict.at) for each in verdict.moved
        )
        end = "ranking is steady"
        if verdict.quality == "unsure":
            end = f"whether ranking changed is not known: {_not_excluded(verdict)}"
        return f"{_capital(what)}; {end}."
    if verdict.quality == "steady":
        return f"Steady: a fall of more than {_up(verdict.excluded)} would have been seen."
    return f"Unsure: no change is known, and {_not_excluded(verdict)}."


def _not_excluded(verdict: Verdict) -> str:
    if math.isnan(verdict.excluded):
        return "how large a fall would have been seen cannot be said yet"
    figure = verdict.figures[0] if verdict.figures else None
    return f"a fall of up to {_up(verdict.excluded)} of {_title(figure)} is not excluded"


def _up(fall: float) -> str:
    """Return a fall rounded up, so that what is said to be excluded is."""
    return f"{max(math.ceil(fall * 100 - 1e-9), 1) / 100:.2f}"


def _moved(moved: Moved) -> str:
    if moved.name == "scores":
        return f"{_NOUNS[moved.name]} moved {'up' if moved.now > moved.before else 'down'}"
    verb = "rose" if moved.now > moved.before else "fell"
    before, after = percent_words(moved.before), percent_words(moved.now)
    return f"{_NOUNS[moved.name]} {verb} from {before} to {after}"


def _immature(verdict: Verdict, labelled: float, reason: str) -> str:
    if verdict.base is None:
        said = f"Too early: {reason or 'there is no base to compare with yet'}"
    elif math.isnan(labelled):
        said = "Too early: fewer than 30 labels of a class have come since the base"
    else:
        said = f"Too early: {_in_words(labelled)}"
    return (
        f"{said}." if verdict.projected is None else f"{said}; projected {verdict.projected:.2f}."
    )


def _in_words(labelled: float) -> str:
    return f"{percent_words(labelled)} of the labels are in"


def _alarm(verdict: Verdict) -> list[str]:
    return [] if verdict.alarm is None else [f"Alarm {verdict.alarm} is open."]


def _annotations(verdict: Verdict) -> list[str]:
    if verdict.since is None or not verdict.since.annotations:
        return []
    noted = ", ".join(verdict.since.annotations)
    return [f"Noted then: {noted}."]


def _flow(verdict: Verdict, last_row: datetime | None) -> list[str]:
    if verdict.flow == "silent" and last_row is not None:
        return [f"No rows have come since {time_words(last_row, verdict.at)}."]
    said = {
        "no_labels": "Rows come without labels.",
        "late": "Labels come later than they did.",
    }
    return [said[verdict.flow]] if verdict.flow in said else []
