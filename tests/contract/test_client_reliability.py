"""The client's reliability table, against the library's."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from streameval import Evaluator, InvalidInputError
from streameval.client import InvalidRequestError, PreconditionError

if TYPE_CHECKING:
    from streameval.client import Client


def cases(rows: int = 500):
    """Return labels and scores in 256ths, which twelve bits keep."""
    rng = np.random.default_rng(6)
    scores = np.round(rng.random(rows) * 256) / 256
    return rng.random(rows) < scores**1.2, scores


@pytest.mark.parametrize("strategy", ["width", "mass"])
def test_the_table_is_the_librarys(client: Client, fresh: str, strategy: str) -> None:
    """All time and windows: bins, limits, totals and intervals, as object, rows and dict."""
    client.create_stream(fresh, scale="probability")
    stream = client.stream(fresh)
    labels, scores = cases()
    stream.add_cases(labels=labels, scores=scores)
    stream.flush()
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores)
    expected = ev.reliability(7, strategy=strategy)
    for window in (None, timedelta(hours=1)):
        found = stream.reliability(7, strategy=strategy, window=window)
        for name in ("lower", "upper", "counts", "positives", "mean_score", "observed_rate"):
            assert getattr(found.table, name).tolist() == getattr(expected, name).tolist()
        assert found.table.counts.dtype == np.int64
        assert tuple(found.calibration_error) == tuple(ev.interval("calibration_error"))
        assert found.calibration_error.method == "binned-gaps"
        assert tuple(found.observed_expected_ratio) == tuple(ev.interval("observed_expected_ratio"))
        assert found.brier_score == ev.brier_score()
        assert found.observed_positives == labels.sum()
        assert found.expected_positives == pytest.approx(scores.sum(), rel=1e-12)
        assert (found.window is None) == (window is None)
        rows = found.to_rows()
        assert [row["counts"] for row in rows] == expected.counts.tolist()
        assert [(row["rate_lower"], row["rate_upper"]) for row in rows] == list(found.limits)
        plain = found.to_dict()
        assert plain["calibration_error"] == ev.calibration_error()
        assert plain["bins"] == rows
    wide = stream.reliability(level=0.99)
    assert wide.level == wide.calibration_error.level == 0.99
    assert wide.calibration_error.upper > found.calibration_error.upper


def test_the_curve_is_that_of_scikit_learn(client: Client, fresh: str) -> None:
    """Observed rates and mean scores are those of `calibration_curve`."""
    stream = client.stream(fresh)
    labels, scores = cases()
    stream.add_cases(labels=labels, scores=scores)
    stream.flush()
    table = stream.reliability(12).table
    rate, mean = calibration_curve(labels, scores, n_bins=12)
    assert table.observed_rate == pytest.approx(rate, rel=1e-12)
    assert table.mean_score == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("half_life", [None, timedelta(hours=6)])
def test_weights_are_counted(client: Client, fresh: str, half_life: timedelta | None) -> None:
    """Sums of weights, and intervals of Kish's effective number; few effective ones have none."""
    stream = client.stream(fresh)
    labels, scores = cases()
    weights = np.where(labels, 2.5, 1.0)
    stream.add_cases(labels=labels, scores=scores, weights=weights)
    stream.flush()
    ev = Evaluator()
    ev.add_cases(labels=labels, scores=scores, weights=weights)
    found = stream.reliability(5, half_life=half_life)
    expected = ev.reliability(5)
    # One pane: its age scales all weights alike.
    scale = found.table.counts.sum() / expected.counts.sum()
    assert found.table.counts == pytest.approx(expected.counts * scale, rel=1e-4)
    assert found.observed_positives == pytest.approx(2.5 * labels.sum() * scale, rel=1e-4)
    assert found.expected_positives == pytest.approx(weights @ scores * scale, rel=1e-4)
    for name in ("calibration_error", "observed_expected_ratio"):
        assert tuple(getattr(found, name)) == pytest.approx(tuple(ev.interval(name)), rel=1e-3)
    limits = np.array(ev._bin_limits(expected, 0.95))
    assert np.array(found.limits) == pytest.approx(limits, rel=1e-3)
    naive = Evaluator()
    naive.add_cases(labels=labels, scores=scores)
    assert found.calibration_error.width > naive.interval("calibration_error").width
    few = client.stream(f"{fresh}/few")
    few.add_cases(labels=labels[:60], scores=scores[:60], weights=1 + 99.0 * (np.arange(60) == 1))
    few.flush()
    bare = few.reliability(5)
    assert bare.calibration_error.reason == "TOO_FEW_EFFECTIVE"
    assert np.isnan(bare.limits).all()
    assert all(row["rate_lower"] is None for row in bare.to_dict()["bins"])


def test_what_is_no_probability_is_refused(client: Client, fresh: str) -> None:
    """By the server, with the score; bad arguments by the client."""
    stream = client.stream(fresh)
    stream.add_cases(labels=[1, 0], scores=[0.5, 2.5])
    stream.flush()
    with pytest.raises(PreconditionError, match=r"are no probabilities: .* got 2\.5"):
        stream.reliability()
    with pytest.raises(InvalidInputError, match="strategy must be 'width' or 'mass', got 'other'"):
        stream.reliability(strategy="other")
    with pytest.raises(InvalidInputError, match="bins must be at least 1, got 0"):
        stream.reliability(0)
    for bins in (101, 2**40):
        with pytest.raises(InvalidRequestError, match="bins must be at most 100"):
            stream.reliability(bins)
