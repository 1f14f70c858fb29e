"""The declared threshold, by the client, against a real server."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streameval import Evaluator
from streameval.client import Client, InvalidRequestError, PreconditionError
from streameval.statistics import Place
from streameval_server import Limits, Settings
from streameval_server.maintenance import LOG_NAME, verify
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from pathlib import Path

POINT_NAMES = Place.POINT.names(["threshold"])


def cases(rows: int = 600, seed: int = 3):
    """Return labels and scores in hundredths, so that some equal any threshold."""
    rng = np.random.default_rng(seed)
    labels = rng.random(rows) < 0.3
    return labels, np.round(rng.beta(1 + 3 * labels, 3), 2)


def local(labels, scores) -> Evaluator:
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores)
    return ev


def test_a_snapshot_has_the_declared_point(client: Client) -> None:
    """Rates and intervals equal the library's, in the object, in its dict, row and text."""
    made = client.create_stream("point/v1", scale="probability", threshold=0.6)
    assert made.settings.threshold == 0.6
    stream = client.stream("point/v1")
    labels, scores = cases()
    stream.add_cases(labels=labels, scores=scores)
    stream.flush()
    ev = local(labels, scores)
    for window in (None, timedelta(hours=1)):
        found = stream.snapshot(window=window)
        assert list(found.figures) == [*Place.SNAPSHOT.names(), *POINT_NAMES]
        assert found.operating_point == ev.confusion_at(0.6)
        assert isinstance(found.operating_point.tp, int)
        row, plain = found.to_row(), found.to_dict()
        assert row["threshold"] == plain["operating_point"]["threshold"] == 0.6
        assert plain["operating_point"]["fp"] == ev.confusion_at(0.6).fp
        for name in POINT_NAMES:
            expected = ev.interval(name, threshold=0.6)
            assert found.figures[name] == row[name] == plain[name] == expected.estimate
            assert tuple(found.intervals[name]) == tuple(expected)
            assert found.intervals[name].method == expected.method
            assert (row[f"{name}_lower"], row[f"{name}_upper"]) == tuple(expected)
        text = str(found)
        assert f"Precision            {ev.confusion_at(0.6).precision:.6f}" in text
        assert "at the declared threshold 0.6: " in text
    (last,) = stream.snapshot(metrics=["recall"], level=0.9).intervals.values()
    assert tuple(last) == tuple(ev.interval("recall", threshold=0.6, level=0.9))
    anytime = stream.snapshot(metrics=["recall"], anytime=True).intervals["recall"]
    assert tuple(anytime) == tuple(ev.interval("recall", threshold=0.6, anytime=True))


def test_a_threshold_can_change_and_go(client: Client) -> None:
    """Past windows are answered at the new one; without one, rates say why they are absent."""
    client.create_stream("point/v2", threshold=0.6)
    stream = client.stream("point/v2")
    labels, scores = cases()
    now = datetime.now(UTC)
    stream.add_cases(labels=labels, scores=scores, at=now - timedelta(hours=2))
    stream.flush()
    start, end = now - timedelta(hours=3), now
    for threshold in (0.6, 0.25):
        client.update_stream("point/v2", threshold=threshold)
        rows = stream.series(start, end, timedelta(hours=1))
        (row,) = (each for each in rows if each.num_cases)
        assert row.operating_point == local(labels, scores).confusion_at(threshold)
        assert set(POINT_NAMES) < set(row.figures)
    assert client.update_stream("point/v2", threshold=None).settings.threshold is None
    found = stream.snapshot()
    assert (found.operating_point, list(found.figures)) == (None, list(Place.SNAPSHOT.names()))
    assert found.to_row()["threshold"] is None
    named = stream.snapshot(metrics=["precision"])
    assert math.isnan(named.figures["precision"])
    assert named.reasons == {"precision": "NO_THRESHOLD"}
    with pytest.raises(PreconditionError, match=r"point/v2 declares no threshold, and recall is"):
        client.compare(stream.select(), "point/v1", metric="recall")


def test_watching_sees_a_changed_threshold(client: Client) -> None:
    """The next snapshot comes without a new case."""
    client.create_stream("point/v3", threshold=0.6)
    stream = client.stream("point/v3")
    stream.add_case(True, 0.7)
    stream.flush()
    watching = stream.watch(metrics=["recall"])
    assert next(watching).operating_point.tp == 1
    client.update_stream("point/v3", threshold=0.8)
    after = next(watching)
    assert (after.operating_point.threshold, after.figures["recall"]) == (0.8, 0.0)
    watching.close()


def test_segments_are_ranked_at_the_declared_threshold(client: Client) -> None:
    """The country that fell is the worst by precision."""
    client.create_stream("point/v4", threshold=0.6, segment_keys=["country"])
    stream = client.stream("point/v4")
    for seed, country in enumerate(("DE", "FR", "US")):
        labels, scores = cases(seed=seed)
        if country == "FR":
            labels = np.roll(labels, 1)
        stream.add_cases(labels=labels, scores=scores, segments={"country": country})
    stream.flush()
    first, *rest = stream.rank_segments("country", metric="precision")
    assert (first.segment, len(rest)) == (("country", "FR"), 2)
    assert first.upper < 0
    assert first.p_value < 0.001
    assert min(each.difference for each in rest) > 0


@pytest.mark.parametrize(
    ("threshold", "scale", "text"),
    [
        (math.nan, "plain", "threshold must be finite, got nan"),
        (math.inf, "plain", "threshold must be finite, got inf"),
        (-0.5, "probability", "threshold must be from 0 to 1 on the probability scale, got -0.5"),
        (1.01, "probability", "threshold must be from 0 to 1 on the probability scale, got 1.01"),
    ],
)
def test_bad_thresholds_are_refused(
    client: Client, threshold: float, scale: str, text: str, fresh: str
) -> None:
    """When a stream is made, and later; nothing changes."""
    with pytest.raises(InvalidRequestError, match=text):
        client.create_stream(fresh, threshold=threshold, scale=scale)
    client.create_stream(fresh, scale=scale, threshold=0.5)
    with pytest.raises(InvalidRequestError, match=text):
        client.update_stream(fresh, threshold=threshold)
    assert client.get_stream(fresh).settings.threshold == 0.5


def test_a_threshold_survives_restarts(tmp_path: Path, free_address: str) -> None:
    """From the log, and from a checkpoint that compaction has made the only source."""
    settings = Settings(listen=free_address, data=tmp_path)
    with running_server(settings) as address, Client(address) as client:
        client.create_stream("kept/v1", threshold=0.6)
        client.create_stream("kept/v2")
        client.update_stream("kept/v2", threshold=-3.5)
        client.stream("kept/v1").add_case(True, 0.7)
        client.flush()
    for _ in range(2):
        assert verify(tmp_path / LOG_NAME, Limits()).ok
        with running_server(settings) as address, Client(address) as client:
            kept = [client.get_stream(f"kept/v{i}").settings.threshold for i in (1, 2)]
            assert kept == [0.6, -3.5]
            assert client.stream("kept/v1").snapshot().operating_point.tp == 1
