"""The reader of answers: what is absent, and what a newer server says."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from streameval._common.plain_values import plain_values
from streameval.client import StreamSettings
from streameval.client._wire.decode import read_comparison
from streameval.client._wire.reader import label, read
from streameval.v1 import query_pb2, stream_pb2, types_pb2


@dataclass
class Ranking:
    """Fields of every kind; one that the message does not have."""

    revision: int
    window: tuple[datetime, datetime] | None
    warnings: tuple[str, ...]
    prevalence: float | None
    note: str = field(default="as declared")


def test_fields_of_the_same_name_are_read_and_others_keep_their_default() -> None:
    message = query_pb2.RankSegmentsResponse(revision=7, warnings=["few labels"], prevalence=0.25)
    message.window.end_time.FromMicroseconds(1_500_000)
    window = (datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC))

    assert read(message, Ranking) == Ranking(7, window, ("few labels",), 0.25)
    assert read(message, Ranking, revision=8, note="given").revision == 8


def test_what_is_absent_is_none_where_it_may_be_and_else_nan_or_empty() -> None:
    @dataclass
    class Limits:
        lower: float
        design_effect: float | None

    empty = read(types_pb2.Interval(), Limits)
    assert math.isnan(empty.lower)
    assert empty.design_effect is None
    assert read(query_pb2.RankSegmentsResponse(), Ranking).window is None
    settings = read(stream_pb2.StreamSettings(), StreamSettings)
    assert settings.pane == timedelta(0)
    assert settings.alarms is None


def test_a_value_of_a_newer_server_is_unknown_and_not_taken_for_another() -> None:
    settings = read(stream_pb2.StreamSettings(scale=2, orphans=9), StreamSettings)  # type: ignore[arg-type]

    assert settings.scale == "probability"
    assert str(settings.orphans) == "unknown"
    assert label(types_pb2.UndefinedReason.DESCRIPTOR, 3) == "NO_NEGATIVES"
    assert label(types_pb2.UndefinedReason.DESCRIPTOR, 99) == "UNKNOWN"


def test_a_comparison_of_sides_with_delays_is_json() -> None:
    """As `streameval compare --json` prints it: delays are seconds, and nan is None."""
    message = types_pb2.Comparison()
    delay = message.coverage_a.delays.add(quantile=0.5).delay
    delay.FromMicroseconds(1_500_000)
    found = json.loads(json.dumps(plain_values(read_comparison(message)), allow_nan=False))

    assert found["coverage_a"]["delays"] == {"0.5": 1.5}
    assert found["coverage_b"] is None
    assert found["p_value"] is None
