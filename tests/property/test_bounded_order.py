"""The state of a bounded evaluator does not depend on order, batches or merging."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from streameval import Evaluator

scores = st.one_of(
    st.floats(0.0, 1.0),
    st.floats(0.0, 1e-6).map(lambda gap: 1.0 - gap),
    st.sampled_from([0.0, 0.5, 1.0, 5e-324, 1 - 2**-53]),
)
cases = st.lists(st.tuples(st.booleans(), scores), min_size=1, max_size=40)
settings_of = st.fixed_dictionaries(
    {
        "resolution": st.sampled_from([None, 2, 6, 12, 53]),
        "max_cells": st.integers(1, 12),
        "scale": st.sampled_from([None, "probability"]),
    }
)


def counted(rows, settings):
    """Return an evaluator with these settings and rows."""
    evaluator = Evaluator(**settings)
    evaluator.add_cases(labels=[row[0] for row in rows], scores=[row[1] for row in rows])
    return evaluator


@given(cases, settings_of, st.randoms(use_true_random=False), st.lists(st.integers(0, 40)))
def test_any_order_any_batches_any_merges_give_the_same_bytes(rows, settings, random, cuts):
    """One batch, many in another order, case by case, and merged parts: bit-identical."""
    whole = counted(rows, settings)
    shuffled = list(rows)
    random.shuffle(shuffled)
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    parts = [shuffled[a:b] for a, b in itertools.pairwise(edges)]

    batches, single, merged = (Evaluator(**settings) for _ in range(3))
    for part in parts:
        batches.add_cases(labels=[row[0] for row in part], scores=[row[1] for row in part])
        # A query makes it merge and drop bits early.
        assert batches.num_cells <= settings["max_cells"]
        merged.merge(counted(part, settings))
    for row in shuffled:
        single.add_case(*row)

    for other in (batches, single, merged):
        assert other == whole
        assert other.resolution == whole.resolution
        assert other.num_cells <= settings["max_cells"]
        for name in ("auc_roc", "auc_pr", "average_precision"):
            assert repr(other.bounds(name)) == repr(whole.bounds(name))
