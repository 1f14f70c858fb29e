"""One reader of times: what it reads, and what it refuses with the value and the remedy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streameval import (
    DriftDetector,
    Evaluator,
    InvalidInputError,
    LabelJoiner,
    WindowedEvaluator,
)
from streameval._common.spans import parse_segment
from streameval._common.times import read_time_us


def read(value: Any, unit: str = "") -> str:
    time_us = read_time_us(value, unit, "seen", option="--time-unit {}")
    return datetime.fromtimestamp(time_us // 10**6, UTC).isoformat()[:-6] + f".{time_us % 10**6:06}"


SECOND = "2026-11-26T19:46:00.000000"
FRACTION = "2026-11-26T19:46:00.123456"


@pytest.mark.parametrize(
    ("value", "time"),
    [
        # kotlinx-datetime#158, kendo-ui-core#202: offsets without a colon
        ("2026-11-26T20:46:00.000+0100", SECOND),
        ("2026-11-26T20:46:00+01", SECOND),
        ("2026-11-26T19:46:00.000+0000", SECOND),
        # metricq-python#9, ethlo/itu#3: nanoseconds
        ("2026-11-26T21:46:00.123456789+0200", FRACTION),
        ("2026-11-26T19:46:00.123456789Z", FRACTION),
        ("2026-11-26T19:46:00.123456", FRACTION),
        # NanoDates.jl#27: trailing zeros are dropped
        ("2026-11-26T19:46:00.12345Z", "2026-11-26T19:46:00.123450"),
        # btubbs/datetime#1: `date --iso-8601=ns` writes a comma
        ("2026-11-27T03:46:00,123456789+08:00", FRACTION),
        ("2026-11-27T03:46:00,123456789+0800", FRACTION),
        # hs-hourglass#22, treeform/chrono#7
        ("2026-11-26T19:46:00.000+00:00", SECOND),
        ("2026-11-26T19:46:00.123456Z", FRACTION),
        # ts-date#16: a digit beyond milliseconds
        ("2026-11-26T19:46:00.0001Z", "2026-11-26T19:46:00.000100"),
        # BigQuery, PostgreSQL, pandas
        ("2026-11-26 19:46:00.123456 UTC", FRACTION),
        ("2026-11-26 14:46:00-05", SECOND),
        ("2026-11-26 19:46:00 +0000", SECOND),
        ("2026-11-26 19:46:00 GMT", SECOND),
        ("20261126T194600Z", SECOND),
        ("20261126T204600.123456789+01", FRACTION),
        ("20261126 194600", SECOND),
        (" 2026-11-26t19:46z ", SECOND),
        ("2026-11-26", "2026-11-26T00:00:00.000000"),
        (1795722360, SECOND),
        ("1795722360", SECOND),
        (1795722360.123456, FRACTION),
        ("1795722360,123456", FRACTION),
        ("1.79572236e9", SECOND),
    ],
)
def test_what_is_read(value: object, time: str) -> None:
    """ISO 8601 of many writers, and seconds; what is behind microseconds is cut off."""
    assert read(value) == time


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(
    ("number", "unit"),
    [
        (1795722360, "s"),
        (1795722360123, "ms"),
        (1795722360123456, "us"),
        (1795722360123456789, "ns"),
    ],
)
def test_units(number: int, unit: str, text: bool) -> None:
    """A number is of the declared unit; another unit that it fits is named, and never guessed."""
    value = str(number) if text else number
    assert read(value, unit).startswith("2026-11-26T19:46:00")
    for other in {"", "s", "ms", "us", "ns"} - {unit, "" if unit == "s" else unit}:
        with pytest.raises(
            ValueError, match=f"seen must be .*{number}'?: give --time-unit {unit}$"
        ):
            read(value, other)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (20261126, "seen must be unambiguous, got 20261126: write 2026-11-26, or give"),
        ("20261126", "seen must be unambiguous, got '20261126': write 2026-11-26, or give"),
        ("20261126194600", "seen must be unambiguous, got '20261126194600'"),
        ("202611261946", "seen must be unambiguous, got '202611261946'"),
        (5, "seen must be a likely time in s since 1970, got 5: write ISO 8601"),
        ("1969-12-31T23:59:59Z", "seen must be after 1970, got '1969-12-31T23:59:59Z'"),
        (-5, "seen must be after 1970, got -5"),
        ("0", "seen must be after 1970, got '0'"),
        ("9" * 5000, "seen must be a time, got '999"),
        (10**400, "seen must be a likely time in s"),
        # a zone behind a date; araddon/dateparse#137: a colon before the fraction
        *(
            (value, f"seen must be a time, got {value!r}: write ISO 8601")
            for value in (
                *("2026-11-26-05:00", "2026-11-26T19:46:00:257", "2026-11-26T25:00:00Z"),
                *("2026-11-26T19:46:60Z", "2026-11-26T19:46:00+24:00", "26.11.2026", "11/26/2026"),
                *("2026-02-30", "2026-W48-4", "noon", "", "nan", "1e400", "\uff12026-11-26"),
                *(float("nan"), float("inf"), True, None, [1], "2026-11-26T19:46:00[Europe/Paris]"),
            )
        ),
    ],
)
def test_what_is_refused(value: object, message: str) -> None:
    """With what the caller calls it, the value, and what to do."""
    with pytest.raises(ValueError, match="seen") as caught:
        read(value)
    assert str(caught.value).startswith(message)
    if isinstance(value, str) and value == "20261126":
        assert read(value, "s") == "1970-08-23T12:05:26.000000"


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_span_may_be_a_text_wherever_it_is_a_timedelta() -> None:
    """As the command line reads it, with the same message."""
    ev = WindowedEvaluator(pane="1h", retention="60d")
    ev.add_cases(labels=[1, 0], scores=[0.9, 0.4], at=[NOON, NOON + timedelta(hours=30)])
    assert [ev.last(span).num_cases for span in ("1h", "2d", "1w")] == [1, 2, 2]
    assert ev.decayed("1d").num_cases == ev.decayed(timedelta(days=1)).num_cases
    assert LabelJoiner(ev, ttl="7d", relabel_ttl="90m") == LabelJoiner(
        ev, ttl=timedelta(days=7), relabel_ttl=timedelta(minutes=90)
    )
    reference = Evaluator()
    reference.add_cases(labels=[1, 0] * 40, scores=[0.9, 0.4] * 40)
    detector = [
        DriftDetector(
            reference, watch="auc_roc", tolerance=0.01, mean_time_to_false_alarm=mean, pane=pane
        ).to_bytes()
        for mean, pane in (("1y", "1h"), (timedelta(days=365), timedelta(hours=1)))
    ]
    assert detector[0] == detector[1]


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ("7x", "span '7x': use a span such as 90s, 15m, 1h or 7d"),
        ("", "span '': use a span such as"),
        ("-1h", "span '-1h': use a span such as"),
        ("0d", "span '0d': use a span such as"),
        ("9999999999y", "span '9999999999y': too long"),
        (7, "span must be a timedelta, got 7; or a text such as 1h or 7d"),
        (-timedelta(1), "span must be positive"),
    ],
)
def test_what_is_no_span_is_refused(span: Any, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        WindowedEvaluator().last(span)
    assert message in str(caught.value)
    assert caught.value.field == "span"


@pytest.mark.parametrize("text", ["country", "=US", "country=(other values)", ""])
def test_a_segment_is_read_in_one_way(text: str) -> None:
    """By the library and the command line; an empty value is one."""
    assert parse_segment("country=US") == ("country", "US")
    assert parse_segment("country=") == ("country", "")
    assert parse_segment("note=a=b") == ("note", "a=b")
    with pytest.raises(InvalidInputError) as caught:
        parse_segment(text, "segment")
    assert str(caught.value).startswith(f"segment {text!r}: ")
    assert caught.value.field == "segment"
