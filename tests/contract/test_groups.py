"""Groups of columns and segments of a stream are ranked alike."""

from __future__ import annotations

import numpy as np
import pytest

from streameval import evaluate_by
from streameval.client import Client
from streameval_server.testing import running_server


@pytest.mark.parametrize("metric", ["auc_pr", "auc_roc"])
def test_groups_are_ranked_as_segments_are(metric: str) -> None:
    """`evaluate_by` of the rows that a stream got: the same order and the same values."""
    rng = np.random.default_rng(12)
    country = rng.choice(["DE", "FR", "US"], size=400)
    labels = rng.random(400) < 0.3
    scores = rng.integers(0, 40, size=400) / 8 + labels * np.where(country == "FR", 0.5, 2.0)
    expected = evaluate_by(labels=labels, scores=scores, by=country, metric=metric)
    with running_server() as address, Client(address) as client:
        client.create_stream("groups", segment_keys=["country"])
        stream = client.stream("groups")
        stream.add_cases(labels=labels, scores=scores, segments={"country": country})
        stream.flush()
        found = stream.rank_segments("country", metric=metric)
    assert [each.segment[1] for each in found] == [each.group for each in expected]
    for theirs, ours in zip(found, expected, strict=True):
        assert theirs.difference == pytest.approx(ours.difference, rel=1e-12)
        assert theirs.value.estimate == pytest.approx(ours.value.estimate, rel=1e-12)
        # A segment keeps few bits of a score, so its intervals enclose those of exact counts.
        assert theirs.lower <= ours.lower < ours.upper <= theirs.upper
        assert theirs.p_value >= ours.p_value
