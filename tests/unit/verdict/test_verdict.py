"""The result: its fields as JSON, and its sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from streameval import Interval, Verdict, VerdictFigure
from streameval._verdict.verdict import Base, Because, Called, Moved, Since
from streameval._verdict.words import happened_of, sentence_of

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
FALL = datetime(2026, 11, 20, 22, tzinfo=UTC)
HOUR = timedelta(hours=1)


def interval(estimate: float) -> Interval:
    return Interval(estimate - 0.02, estimate + 0.02, 0.95, "influence-logit", estimate)


def figure(before: float, now: float, metric: str = "auc_pr") -> VerdictFigure:
    prevalence = 0.04 if metric == "auc_pr" else None
    return VerdictFigure(
        metric, prevalence, interval(before), interval(now), interval(now - before)
    )


def verdict(quality: str, **given: object) -> Verdict:
    return Verdict(quality=quality, at=NOW, valid_until=NOW + HOUR, sentence="", **given)


BASE = Base(FALL - 300 * HOUR, FALL - 100 * HOUR, 400, 9_600)
WORSE = verdict(
    "worse",
    figures=(figure(0.65, 0.07), figure(0.97, 0.55, "auc_roc")),
    since=Since(FALL - HOUR, FALL, FALL + HOUR, ("model v4",)),
    because=(Because("country=IT", 0.9, 800.0),),
    base=BASE,
    alarm=3,
)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            replace(WORSE, alarm=None, since=Since(FALL, FALL, FALL)),
            "AUC-PR fell from 0.65 to 0.07 since Nov 20, 22:00. country=IT explains 90 % of it.",
        ),
        (
            WORSE,
            (
                "AUC-PR fell from 0.65 to 0.07 since Nov 20, 22:00. "
                "country=IT explains 90 % of it. "
                "Alarm 3 is open. Noted then: model v4."
            ),
        ),
        (
            # The headline rose by chance, and AUC-ROC fell.
            verdict("worse", figures=(figure(0.6, 0.61), figure(0.97, 0.9, "auc_roc"))),
            "AUC-ROC fell from 0.97 to 0.90.",
        ),
        (
            verdict("better", figures=(figure(0.6, 0.604),), since=Since(FALL, FALL, FALL)),
            "AUC-PR rose from 0.600 to 0.604 since Nov 20, 22:00.",
        ),
        (
            verdict(
                "worse",
                figures=(figure(0.6, 0.5),),
                because=(Because("country=IT", None, 90.0), Because("app=web", None, 80.0)),
            ),
            "AUC-PR fell from 0.60 to 0.50. It is seen in country=IT and app=web.",
        ),
        (
            verdict(
                "recovered",
                figures=(figure(0.65, 0.64),),
                since=Since(FALL, FALL, FALL),
                returned=Since(FALL, FALL + 50 * HOUR, NOW),
            ),
            (
                "Recovered: worse from Nov 20, 22:00 to Nov 23, 00:00; "
                "AUC-PR is 0.64, 0.65 in the base."
            ),
        ),
        (
            verdict("steady", excluded=0.0291),
            "Steady: a fall of more than 0.03 would have been seen.",
        ),
        (
            verdict("steady", excluded=0.02, moved=(Moved("prevalence", 0.04, 0.01),)),
            "Prevalence fell from 4 % to 1 %; ranking is steady.",
        ),
        (
            verdict("unsure", excluded=0.123, figures=(figure(0.6, 0.6),)),
            "Unsure: no change is known, and a fall of up to 0.13 of AUC-PR is not excluded.",
        ),
        (verdict("immature"), "Too early: there is no base to compare with yet."),
        (
            verdict("steady", excluded=0.03, flow="silent"),
            (
                "Steady: a fall of more than 0.03 would have been seen. "
                "No rows have come since Nov 20, 22:00."
            ),
        ),
    ],
)
def test_the_sentence(given: Verdict, said: str) -> None:
    """It says the conclusion, since when, because of whom, and what else there is to know."""
    assert sentence_of(given, last_row=FALL) == said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            replace(WORSE, alarm=None),
            "fell 0.58 · since Nov 20 · country=IT · no rows since Nov 20, 22:00",
        ),
        (
            verdict(
                "recovered",
                since=Since(FALL, FALL, FALL),
                returned=Since(FALL, FALL + 50 * HOUR, NOW),
            ),
            "back since Nov 23 · no rows since Nov 20, 22:00",
        ),
        (verdict("worse", alarm=3), "no rows since Nov 20, 22:00"),
        (verdict("steady", excluded=0.03), "no rows since Nov 20, 22:00"),
        (
            verdict("unsure", moved=(Moved("prevalence", 0.04, 0.01),)),
            "prevalence fell from 4 % to 1 % · no rows since Nov 20, 22:00",
        ),
        (verdict("immature", base=BASE), "no rows since Nov 20, 22:00"),
    ],
)
def test_the_line_of_a_silent_stream_says_since_when(given: Verdict, said: str) -> None:
    """After what changed, and in place of what is not known; where rows come it says nothing."""
    known = {"is_called": given.alarm is None, "last_row": FALL}
    assert happened_of(replace(given, flow="silent"), **known) == said
    assert "no rows" not in happened_of(given, **known)


@pytest.mark.parametrize(
    ("before", "now", "numbers", "size"),
    [
        (0.65, 0.07, ("0.65", "0.07"), "0.58"),
        (0.7012, 0.5561, ("0.701", "0.556"), "0.145"),  # 0.70, 0.56, and 0.15 contradict
        (0.8577, 0.8514, ("0.86", "0.85"), "0.01"),
        (0.6, 0.5962, ("0.600", "0.596"), "0.004"),
        (0.8574, 0.03359, ("0.8574", "0.0336"), "0.8238"),
        (0.89473, 0.04827, ("0.8947", "0.0483"), "0.8464"),  # 0.84646, and not five digits
    ],
)
def test_the_line_says_the_difference_of_what_the_sentence_says(
    before: float, now: float, numbers: tuple[str, str], size: str
) -> None:
    """Who subtracts the numbers of the sentence gets the number of the list."""
    fallen, risen = (
        verdict(quality, figures=(figure(*both),))
        for quality, both in (("worse", (before, now)), ("better", (now, before)))
    )
    assert sentence_of(fallen) == f"AUC-PR fell from {numbers[0]} to {numbers[1]}."
    assert happened_of(fallen) == f"fell {size}"
    assert sentence_of(risen) == f"AUC-PR rose from {numbers[1]} to {numbers[0]}."
    assert happened_of(risen) == f"rose {size}"


def test_the_sentence_of_too_early() -> None:
    """It says how many labels are in, and what the headline is projected to be."""
    projected = Interval(0.66, 0.75, 0.95, "projected", 0.71)
    early = verdict("immature", base=BASE, projected=projected)
    said = sentence_of(early, labelled=0.12)
    assert said == "Too early: 12 % of the labels are in; projected 0.71 (0.66 to 0.75)."
    refused = sentence_of(replace(early, projected=None), labelled=0.12)
    assert refused == "Too early: 12 % of the labels are in."
    first = sentence_of(replace(early, base=None), reason="its first week is not over yet")
    assert first == "Too early: its first week is not over yet; projected 0.71 (0.66 to 0.75)."


def test_another_year_is_named() -> None:
    """A change of last year does not read as one of this year."""
    before = datetime(2025, 12, 31, 23, tzinfo=UTC)
    changed = replace(WORSE, since=Since(before, before, before), alarm=None)
    assert "since Dec 31 2025, 23:00" in sentence_of(changed)


def test_to_dict_is_json() -> None:
    """Every field is there, numbers that are missing are null, and the rest is as given."""
    found = json.loads(json.dumps(WORSE.to_dict(), allow_nan=False))
    assert found["figures"][0]["now"] == {
        "estimate": 0.07,
        "lower": 0.07 - 0.02,
        "upper": 0.07 + 0.02,
        "level": 0.95,
    }
    assert found["since"]["likeliest"] == "2026-11-20T22:00:00+00:00"
    assert found["since"]["annotations"] == ["model v4"]
    assert found["because"] == [{"segment": "country=IT", "share": 0.9, "e_value": 800.0}]
    assert found["excluded"] is None
    assert (found["alarm"], found["returned"], found["first"]) == (3, None, None)


def test_print_says_what_it_was_called() -> None:
    """The newest five, and what was accepted; JSON has all."""
    hours = [datetime(2026, 11, 20, hour, tzinfo=UTC) for hour in range(7)]
    called = [Called("unsure", hour) for hour in hours]
    called[-2:] = [
        Called("worse", hours[5], since=hours[2]),
        Called("immature", hours[6], since=hours[5], is_accepted=True),
    ]
    shown = replace(WORSE, history=tuple(called))
    lines = [each.strip() for each in str(shown).splitlines() if "called:" in each]
    assert len(lines) == 5
    assert lines[-2:] == [
        "called: 2026-11-20 05:00 UTC: worse since 2026-11-20 02:00",
        "called: 2026-11-20 06:00 UTC: accepted as the new normal",
    ]
    assert shown.to_dict()["history"][5] == {
        "quality": "worse",
        "called": "2026-11-20T05:00:00+00:00",
        "since": "2026-11-20T02:00:00+00:00",
        "is_accepted": False,
    }


def test_print_says_what_the_sentence_rests_on() -> None:
    """Figures with their intervals, the base, the limits of the beginning, and the doubts."""
    shown = replace(WORSE, sentence=sentence_of(WORSE), could_be_wrong=("a cycle: wait two weeks",))
    lines = str(shown).splitlines()
    assert lines[0] == shown.sentence
    assert lines[1].split() == ["base", "now", "now", "minus", "base"]
    assert lines[2].startswith("  AUC-PR at a prevalence of 0.04  0.6500 (0.6300 to 0.6700)  0.07")
    assert "  base: 2026-11-08 10:00 to 2026-11-16 18:00 UTC" in lines
    assert "  since: 2026-11-20 22:00 (2026-11-20 21:00 to 2026-11-20 23:00) UTC" in lines
    assert "  could be wrong: a cycle: wait two weeks" in lines
    assert lines[-1].endswith("less than once in 100 years on average")
    page = shown._repr_html_()
    assert page.startswith(f'<div style="font-size:12px">{shown.sentence}</div><table')
    for figure in shown.figures:
        for each in (figure.before, figure.now):
            assert f"{each:.4f}</td>" in page
    rows = shown.to_rows()
    assert [row["metric"] for row in rows] == [each.metric for each in shown.figures]
    assert rows[0]["before_lower"] == shown.figures[0].before.lower
    assert replace(shown, figures=()).to_rows() == [
        {"quality": "worse", "flow": "ok", "at": shown.at}
    ]
