"""Counts that are cut into shards anywhere, and merged in any grouping, are the whole."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from streameval import Evaluator, InvalidInputError
from streameval._metrics.hull import hull_vertices
from streameval._metrics.shards import shard_of, shard_positions
from streameval._uncertainty.estimates import figure_of
from streameval._uncertainty.shard_variance import shard_variance

AREAS = ("auc_roc", "auc_pr", "average_precision")
INTEGER = ("auc_roc", "auc_roc_hull", "auc_pr_hull", "prevalence")

# Few distinct scores, so that ties and shards of one class are common.
CASES = st.lists(
    st.tuples(st.booleans(), st.integers(-6, 6).map(float), st.sampled_from([1, 1, 2, 2**40])),
    min_size=1,
    max_size=60,
)
CUTS = st.lists(st.floats(-7, 7, allow_nan=False), max_size=8)


def evaluator(cases):
    """Return the evaluator of (label, score, count)."""
    ev = Evaluator()
    labels, scores, counts = zip(*cases, strict=True)
    ev.add_cases(labels=labels, scores=scores, counts=counts)
    return ev


def cut(cases, cuts):
    """Return the evaluators of the ranges between cuts, from high to low, without empty ones."""
    ranges = {}
    for case in cases:
        ranges.setdefault(sum(c <= case[1] for c in set(cuts)), []).append(case)
    return [evaluator(ranges[key]) for key in sorted(ranges, reverse=True)]


def shards(evaluators):
    """Return the shard of each evaluator, at its place."""
    counts = [(ev.num_positive_ref, ev.num_negative_ref) for ev in evaluators]
    return [shard_of(ev._view(), above) for ev, above in zip(evaluators, shard_positions(counts))]


def fold(parts, seed):
    """Merge neighbours in a random order."""
    parts, rng = list(parts), np.random.default_rng(seed)
    while len(parts) > 1:
        at = int(rng.integers(len(parts) - 1))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts[0]


def check(cases, cuts, seed):
    """Assert that the shards' figures, hull and variances are those of the whole."""
    whole = evaluator(cases)
    view, pieces = whole._view(), cut(cases, cuts)
    together = fold(shards(pieces), seed)
    snapshot = whole.snapshot()
    for name, value in together.metrics().items():
        expected = getattr(snapshot, name)
        if name in INTEGER:
            assert value == expected or (math.isnan(value) and math.isnan(expected)), name
        else:
            assert value == pytest.approx(expected, rel=1e-12, nan_ok=True), name
    hull = hull_vertices(view.groups)
    for column in ("fp", "tp", "thresholds"):
        assert_array_equal(getattr(together.hull, column), getattr(hull, column))
    if min(view.P, view.N) < 2:
        return
    for name in AREAS:
        parts = [
            shard_variance(piece._view().groups, shard.position, name)
            for piece, shard in zip(pieces, shards(pieces))
        ]
        expected = figure_of(view.groups, name)
        found = fold(parts, seed).figure(name, expected.estimate)
        assert found.variance == pytest.approx(expected.variance, rel=1e-10, abs=1e-26), name
        assert found.unseen == pytest.approx(expected.unseen, rel=1e-10, abs=1e-12)
        if expected.freedom is not None:
            assert found.freedom == pytest.approx(expected.freedom, rel=1e-6), name


class TestCutAnywhere:
    """Merged shards have the figures of the whole."""

    @given(cases=CASES, cuts=CUTS, seed=st.integers(0, 2**32))
    def test_small(self, cases, cuts, seed):
        """Few scores, many ties, counts up to 2^40."""
        check(cases, cuts, seed)

    @pytest.mark.parametrize("cuts", [1, 2, 7, 40, 400])
    def test_smooth_scores(self, cuts):
        """Scores of a binormal model, some of them rounded so that they tie."""
        rng = np.random.default_rng(cuts)
        labels = rng.random(4_000) < 0.1
        scores = np.round(rng.normal(size=4_000) + 1.5 * labels, rng.integers(0, 5, 4_000)[0] + 1)
        cases = [(bool(y), float(s), 1) for y, s in zip(labels, scores, strict=True)]
        check(cases, rng.choice(scores, cuts).tolist(), cuts)

    def test_one_score_for_each_shard(self):
        """One shard for each score."""
        rng = np.random.default_rng(5)
        cases = [(bool(rng.random() < 0.4), float(rng.integers(30)), 1) for _ in range(300)]
        check(cases, list(range(31)), 0)

    @pytest.mark.parametrize("label", [True, False])
    def test_one_class(self, label):
        """With one class figures of ranks are undefined, or 1, as those of the whole."""
        check([(label, float(score), 1) for score in range(9)], [2.0, 5.0], 1)

    def test_counts_beyond_int64_products(self):
        """The pair count of 2^61 cases is exact."""
        cases = [(True, 3.0, 2**58), (False, 2.0, 2**58 + 1), (True, 1.0, 7), (False, 1.0, 2**57)]
        check(cases, [1.5, 2.5], 0)


class TestRefusals:
    """Shards that do not follow one another."""

    def test_gap(self):
        """A missing shard is detected by the counts above the next one."""
        first, _, third = shards(cut([(True, float(s), 1) for s in range(3)], [1.0, 2.0]))
        with pytest.raises(InvalidInputError, match="shards must be adjacent"):
            first + third

    def test_missing_end(self):
        """Figures need the whole."""
        first, second, _ = shards(cut([(True, float(s), 1) for s in range(3)], [1.0, 2.0]))
        with pytest.raises(InvalidInputError, match=r"2 of 3 positives.*some are missing"):
            (first + second).metrics()

    def test_shared_score(self):
        """A score on both sides of a cut would be two groups instead of one."""
        pieces = [evaluator([(True, 2.0, 1), (False, 1.0, 1)]), evaluator([(True, 1.0, 1)])]
        with pytest.raises(InvalidInputError, match=r"share no score.*ends at 1.0.*begins at 1.0"):
            functools.reduce(lambda a, b: a + b, shards(pieces))
