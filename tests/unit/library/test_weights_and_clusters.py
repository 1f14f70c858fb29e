"""Weights and clusters beside each other: each keeps its format, and no evaluator has both."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from streameval import CorruptStateError, Evaluator, InvalidInputError, WindowedEvaluator

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SENTENCE = "an evaluator that declares clusters takes no weights"


def rows(size: int = 2_000, seed: int = 3) -> dict[str, np.ndarray]:
    """Return rows in clusters of 10 of one class, which share half of their variance."""
    rng = np.random.default_rng(seed)
    cluster = np.arange(size) // 10
    labels = (rng.random(size // 10) < 0.3)[cluster]
    scores = labels + rng.normal(size=size // 10)[cluster] + rng.normal(size=size)
    return {"labels": labels, "scores": scores, "clusters": cluster}


def clustered() -> Evaluator:
    """Return an evaluator with clusters."""
    evaluator = Evaluator(cluster_groups=32)
    evaluator.add_cases(**rows())
    return evaluator


def weighted() -> Evaluator:
    """Return an evaluator with the same cases and weights, without clusters."""
    evaluator, given = Evaluator(), rows()
    weights = np.random.default_rng(4).integers(1, 9, given["labels"].size) / 2
    evaluator.add_cases(labels=given["labels"], scores=given["scores"], weights=weights)
    return evaluator


@pytest.mark.parametrize("clusters", [None, ["a", "b"]])
@pytest.mark.parametrize("verb", ["add_cases", "remove_cases"])
@pytest.mark.parametrize("given", [{"weights": [1, 2]}, {"label_probability": 0.5}])
def test_columns_of_weights_are_refused_where_clusters_are_declared(clusters, verb, given):
    """One line says it, whether or not the rows have clusters, and nothing has changed."""
    evaluator = clustered()
    before = evaluator.to_bytes(), evaluator.revision
    with pytest.raises(InvalidInputError, match=SENTENCE) as caught:
        getattr(evaluator, verb)(labels=[1, 0], scores=[0.5, 0.5], clusters=clusters, **given)
    assert caught.value.field == "weights"
    assert "\n" not in str(caught.value)
    assert (evaluator.to_bytes(), evaluator.revision) == before


@pytest.mark.parametrize("verb", ["add_case", "remove_case"])
@pytest.mark.parametrize("given", [{"weight": 2.0}, {"weight": 0.0}, {"label_probability": 0.5}])
def test_single_weights_are_refused_where_clusters_are_declared(verb, given):
    """Also a weight of 0, which would change nothing."""
    evaluator = clustered()
    before = evaluator.to_bytes(), evaluator.revision
    with pytest.raises(InvalidInputError, match=SENTENCE):
        getattr(evaluator, verb)(True, 0.5, cluster="a", **given)
    assert (evaluator.to_bytes(), evaluator.revision) == before


def test_a_cluster_is_refused_beside_a_weight_where_none_is_declared():
    """The cluster is not dropped silently."""
    evaluator = weighted()
    before = evaluator.to_bytes(), evaluator.revision
    with pytest.raises(InvalidInputError, match="clusters needs an evaluator that declares"):
        evaluator.add_cases(labels=[1], scores=[0.5], weights=[2], clusters=["a"])
    for verb in (evaluator.add_case, evaluator.remove_case):
        with pytest.raises(InvalidInputError, match="needs an evaluator that declares clusters"):
            verb(True, 0.5, weight=2.0, cluster="a")
    assert (evaluator.to_bytes(), evaluator.revision) == before


@pytest.mark.parametrize("swapped", [False, True])
def test_an_evaluator_of_the_one_merges_with_none_of_the_other(swapped):
    """Either way round; both stay as they were."""
    pair = [clustered(), weighted()][:: -1 if swapped else 1]
    before = [each.to_bytes() for each in pair]
    with pytest.raises(InvalidInputError, match="the same cluster_groups to merge"):
        pair[0].merge(pair[1])
    assert [each.to_bytes() for each in pair] == before


def test_each_has_its_columns():
    """One format, with a flag of clusters (8) or weights (4); each is read as it was."""
    plain, given = Evaluator(), rows()
    plain.add_cases(labels=given["labels"], scores=given["scores"])
    for flags, evaluator in ((0, plain), (8, clustered()), (4, weighted())):
        data = evaluator.to_bytes()
        assert data[:7] == b"SVEE\x01\x00" + bytes([flags])
        assert Evaluator.from_bytes(data) == evaluator
    with pytest.raises(CorruptStateError, match=r"format 4 is unknown.*reads format 1"):
        Evaluator.from_bytes(b"SVEE\x04\x00" + plain.to_bytes()[6:])


def test_panes_with_clusters_are_read_again():
    """Panes hold tables of clusters."""
    windows, given = WindowedEvaluator(cluster_groups=32), rows()
    windows.add_cases(**given, at=NOON)
    again = WindowedEvaluator.from_bytes(windows.to_bytes())
    window = again.last_cases(1)
    assert window.num_cases == given["labels"].size
    assert window.interval("auc_roc").design_effect > 3.0


def test_design_effect_is_one_field_of_both():
    """The variance over that of independent cases of equal weight, which limits allow for."""
    plain, given = Evaluator(), rows()
    plain.add_cases(labels=given["labels"], scores=given["scores"])
    narrow = plain.interval("auc_roc")
    assert narrow.design_effect == 1.0
    for evaluator, least in ((clustered(), 3.0), (weighted(), 1.1)):
        interval = evaluator.interval("auc_roc")
        assert interval.design_effect > least
        # Student's t, the weights' other estimate and the small-sample shape move it a little.
        widening = interval.width / narrow.width
        assert widening == pytest.approx(interval.design_effect**0.5, rel=0.1)


def test_snapshots_say_what_intervals_assume():
    """Independent clusters where they are declared, else independent cases."""
    assert "if clusters are independent; design effect up to" in str(clustered().snapshot())
    assert "if cases are independent; design effect up to" in str(weighted().snapshot())
