"""The declared costs, by the client, against a real server."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from streameval.client import Client, InvalidRequestError, PreconditionError
from streameval.statistics import Place
from streameval_server import Limits, Settings
from streameval_server.maintenance import LOG_NAME, verify
from streameval_server.testing import running_server

from ..commands import report_of
from .test_threshold import cases, local

if TYPE_CHECKING:
    from pathlib import Path

NAME = "expected_cost"
POINT_NAMES = Place.POINT.names(["threshold"])
COSTS = {"cost_fp": 2.0, "cost_fn": 30.0}


def test_a_snapshot_has_the_cost(client: Client) -> None:
    """Value and interval equal the library's, in the object, in its dict, row and text."""
    made = client.create_stream("costs/v1", scale="probability", threshold=0.6, **COSTS)
    assert (made.settings.cost_fp, made.settings.cost_fn) == (2.0, 30.0)
    stream = client.stream("costs/v1")
    labels, scores = cases()
    stream.add_cases(labels=labels, scores=scores)
    stream.flush()
    expected = local(labels, scores).interval(NAME, threshold=0.6, **COSTS)
    for window in (None, timedelta(hours=1)):
        found = stream.snapshot(window=window)
        assert list(found.figures) == [*Place.SNAPSHOT.names(), *POINT_NAMES, NAME]
        row, plain = found.to_row(), found.to_dict()
        assert found.figures[NAME] == row[NAME] == plain[NAME] == expected.estimate
        assert tuple(found.intervals[NAME]) == pytest.approx(tuple(expected), rel=1e-12)
        assert found.intervals[NAME].method == "square-and-add"
        limits = row[f"{NAME}_lower"], row[f"{NAME}_upper"]
        assert limits == tuple(found.intervals[NAME])
        assert f"Cost per case        {expected.estimate:.6f}" in str(found)
    (last,) = stream.snapshot(metrics=[NAME], level=0.9).intervals.values()
    narrow = local(labels, scores).interval(NAME, threshold=0.6, level=0.9, **COSTS)
    assert tuple(last) == pytest.approx(tuple(narrow), rel=1e-12)


def test_costs_can_change_and_go(client: Client) -> None:
    """Past windows are answered at the new ones; a watch sees the change without a new case."""
    client.create_stream("costs/v2", threshold=0.6)
    stream = client.stream("costs/v2")
    labels, scores = cases()
    now = datetime.now(UTC)
    stream.add_cases(labels=labels, scores=scores, at=now - timedelta(hours=2))
    stream.flush()
    ev = local(labels, scores)
    watching = stream.watch(metrics=[NAME])
    assert next(watching).reasons == {NAME: "NO_COSTS"}
    for cost_fn in (5.0, 50.0):
        client.update_stream("costs/v2", cost_fp=1.0, cost_fn=cost_fn)
        expected = ev.expected_cost(0.6, cost_fp=1.0, cost_fn=cost_fn)
        assert next(watching).figures[NAME] == expected
        rows = stream.series(now - timedelta(hours=3), now, timedelta(hours=1))
        (row,) = (each for each in rows if each.num_cases)
        assert row.figures[NAME] == expected
    assert client.update_stream("costs/v2", cost_fn=7).settings.cost_fp == 1.0
    watching.close()
    for gone in ({"cost_fp": None}, {"threshold": None}):
        with pytest.raises(InvalidRequestError, match=r"cost_f[pn]"):
            client.update_stream("costs/v2", **gone)
    assert client.get_stream("costs/v2").settings.cost_fn == 7.0
    after = client.update_stream("costs/v2", cost_fp=None, cost_fn=None).settings
    assert (after.threshold, after.cost_fp, after.cost_fn) == (0.6, None, None)
    assert list(stream.snapshot().figures) == [*Place.SNAPSHOT.names(), *POINT_NAMES]
    assert math.isnan(stream.snapshot(metrics=[NAME]).figures[NAME])
    with pytest.raises(PreconditionError, match=r"costs/v2 declares no costs, and expected_cost"):
        client.compare(stream.select(), "costs/v1", metric=NAME)


def test_segments_and_streams_by_their_cost(client: Client) -> None:
    """The country whose errors cost most is the first of its stream."""
    client.create_stream("costs/v4", threshold=0.6, segment_keys=["country"], **COSTS)
    stream = client.stream("costs/v4")
    for seed, country in enumerate(("DE", "FR", "US")):
        labels, scores = cases(seed=seed)
        if country == "FR":
            scores = scores / 2  # more positives are missed
        stream.add_cases(labels=labels, scores=scores, segments={"country": country})
    stream.flush()
    first, *rest = stream.rank_segments("country", metric=NAME)
    assert (first.segment, len(rest)) == (("country", "FR"), 2)
    assert first.lower > 0.5
    assert first.value.lower < first.value.estimate < first.value.upper
    summary = client.list_summaries(prefix="costs/", order_by=NAME)[0]
    assert summary.snapshot.figures[NAME] == stream.snapshot().figures[NAME]
    assert NAME in summary.snapshot.intervals


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"cost_fp": 0, "cost_fn": 1}, "cost_fp must be positive and finite, got 0"),
        ({"cost_fp": 1, "cost_fn": -2}, "cost_fn must be positive and finite, got -2"),
        ({"cost_fp": math.inf, "cost_fn": 1}, "cost_fp must be positive and finite, got inf"),
        ({"cost_fp": 1, "cost_fn": math.nan}, "cost_fn must be positive and finite, got nan"),
        ({"cost_fp": 1}, "cost_fp without cost_fn: declare both costs, or none"),
    ],
)
def test_bad_costs_are_refused(client: Client, given: dict, text: str, fresh: str) -> None:
    """When a stream is made, and later; nothing changes."""
    with pytest.raises(InvalidRequestError, match=text):
        client.create_stream(fresh, threshold=0.5, **given)
    client.create_stream(fresh, threshold=0.5)
    with pytest.raises(InvalidRequestError, match=text):
        client.update_stream(fresh, **given)
    assert client.get_stream(fresh).settings.cost_fp is None
    with pytest.raises(InvalidRequestError, match="need a threshold, at which errors are counted"):
        client.update_stream(fresh, threshold=None, cost_fp=1, cost_fn=1)


def test_costs_survive_restarts(tmp_path: Path, free_address: str) -> None:
    """From the log, and from a checkpoint that compaction has made the only source."""
    settings = Settings(listen=free_address, data=tmp_path)
    with running_server(settings) as address, Client(address) as client:
        client.create_stream("kept/v1", threshold=0.6, **COSTS)
        client.create_stream("kept/v2", threshold=0.6)
        client.update_stream("kept/v2", cost_fp=0.25, cost_fn=0.5)
        client.stream("kept/v1").add_case(False, 0.7)
        client.flush()
    for _ in range(2):
        assert verify(tmp_path / LOG_NAME, Limits()).ok
        with running_server(settings) as address, Client(address) as client:
            kept = [client.get_stream(f"kept/v{i}").settings for i in (1, 2)]
            assert [(each.cost_fp, each.cost_fn) for each in kept] == [(2.0, 30.0), (0.25, 0.5)]
            assert client.stream("kept/v1").snapshot().figures[NAME] == 2.0


def test_the_report_has_the_cost(client: Client, address: str, tmp_path: Path) -> None:
    """Its figure with all digits, its interval, and what is assumed of it."""
    client.create_stream("costs/report", threshold=0.6, **COSTS)
    stream = client.stream("costs/report")
    labels, scores = cases()
    stream.add_cases(labels=labels, scores=scores)
    stream.flush()
    text = report_of(address, stream.name, tmp_path)
    cost = stream.snapshot().figures[NAME]
    assert f'data-name="{NAME}" data-value="{cost!r}"' in text
    assert "A false positive costs 2.00, a false negative 30.0, as the stream declares" in text
