"""Order does not matter, merging adds, removing undoes: for any cases and settings."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from streameval import Evaluator, InvalidInputError

finite = st.floats(allow_nan=False, allow_infinity=False)
tied = st.sampled_from([-2.0, -0.0, 0.0, 0.25, 0.5, 0.75, 1.0])
probabilities = st.floats(0.0, 1.0)


def cases(scores) -> st.SearchStrategy:
    """Return lists of labelled scores."""
    return st.lists(st.tuples(st.booleans(), scores), max_size=40)


anything = cases(st.one_of(tied, finite))
kinds = st.one_of(
    st.tuples(st.just({}), anything),
    st.tuples(st.fixed_dictionaries({"resolution": st.integers(1, 53)}), anything),
    st.tuples(st.fixed_dictionaries({"max_cells": st.integers(1, 12)}), anything),
    st.tuples(
        st.fixed_dictionaries({"resolution": st.integers(1, 12), "max_cells": st.integers(1, 12)}),
        anything,
    ),
    st.tuples(
        st.fixed_dictionaries({"scale": st.just("probability"), "max_cells": st.integers(1, 12)}),
        cases(probabilities),
    ),
)


def filled(kind: dict, rows: list, asked_every: int = 0) -> Evaluator:
    """Add rows one by one, with a query after every `asked_every` rows."""
    ev = Evaluator(**kind)
    for number, (label, score) in enumerate(rows):
        ev.add_case(label, score)
        if asked_every and number % asked_every == 0:
            ev.average_precision()
    return ev


@given(kinds, st.randoms(use_true_random=False), st.integers(0, 5))
def test_order_does_not_matter(kind_and_rows, random, asked_every):
    """Any order, any grouping and any queries in between give the same bytes."""
    kind, rows = kind_and_rows
    ordered = filled(kind, rows)
    ordered._check()
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert filled(kind, shuffled, asked_every).to_bytes() == ordered.to_bytes()
    columns = Evaluator(**kind)
    counts = Counter((label, score + 0.0) for label, score in rows)
    columns.add_cases(
        labels=[label for label, _ in counts],
        scores=[score for _, score in counts],
        counts=list(counts.values()),
    )
    assert columns.to_bytes() == ordered.to_bytes()


@given(kinds, st.lists(st.integers(0, 40), max_size=4), st.booleans())
def test_merging_parts_equals_the_whole(kind_and_rows, cuts, at_once):
    """However the rows are cut, the merged parts have the bytes of the whole."""
    kind, rows = kind_and_rows
    ends = [0, *sorted(cuts), len(rows)]
    parts = [filled(kind, rows[a:b]) for a, b in pairwise(ends)]
    merged = Evaluator(**kind)
    if at_once:
        merged.merge(*parts)
    else:
        for part in reversed(parts):
            merged.merge(part)
    merged._check()
    assert merged.to_bytes() == filled(kind, rows).to_bytes()


@given(st.lists(kinds, min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_merging_different_settings_is_order_free(sources, random):
    """The lowest resolution and the smallest cap win, in any order of merging."""
    plain = [filled(kind, rows) for kind, rows in sources if kind.get("scale") is None]
    total, backwards = Evaluator(), Evaluator()
    total.merge(*plain)
    shuffled = list(plain)
    random.shuffle(shuffled)
    for each in shuffled:
        backwards.merge(each)
    total._check()
    assert total.to_bytes() == backwards.to_bytes()


@given(anything, anything, st.sampled_from([None, 3, 20]), st.booleans())
def test_removing_undoes_adding(kept, gone, resolution, asked):
    """Cases that were added and removed leave no trace, one by one or as columns."""
    kind = {"resolution": resolution}
    want = filled(kind, kept)
    one = filled(kind, kept + gone, asked_every=3 if asked else 0)
    columns = one.copy()
    for label, score in gone:
        one.remove_case(label, score)
    columns.remove_cases(labels=[label for label, _ in gone], scores=[s for _, s in gone])
    one._check()
    assert one == columns == want
    assert one.num_cases == len(kept)


@given(kinds, st.integers(0, 2**40), st.integers(0, 3))
def test_bytes_bring_the_same_back(kind_and_rows, misses, negative_misses):
    """Serialising loses nothing and is one-to-one."""
    kind, rows = kind_and_rows
    ev = filled(kind, rows)
    ev.add_misses(misses)
    ev.add_negative_misses(negative_misses)
    back = Evaluator.from_bytes(ev.to_bytes())
    back._check()
    assert back == ev
    assert back.to_bytes() == ev.to_bytes()


class EvaluatorMachine(RuleBasedStateMachine):
    """Any sequence of operations: the evaluator has the counts of two Counters."""

    @initialize(resolution=st.sampled_from([None, 4]))
    def begin(self, resolution: int | None) -> None:
        self.kind = {"resolution": resolution}
        self.ev = Evaluator(**self.kind)
        self.held = {True: Counter(), False: Counter()}
        self.missed = {True: 0, False: 0}

    @rule(label=st.booleans(), score=tied)
    def add_case(self, label: bool, score: float) -> None:
        self.ev.add_case(label, score)
        self.held[label][score + 0.0] += 1

    @rule(rows=cases(tied), count=st.integers(0, 3))
    def add_cases(self, rows: list, count: int) -> None:
        self.ev.add_cases(
            labels=[label for label, _ in rows],
            scores=[score for _, score in rows],
            counts=[count] * len(rows),
        )
        for label, score in rows:
            self.held[label][score + 0.0] += count

    @rule(rows=cases(tied))
    def merge(self, rows: list) -> None:
        self.ev.merge(filled(self.kind, rows))
        for label, score in rows:
            self.held[label][score + 0.0] += 1

    @rule(label=st.booleans(), score=tied)
    def remove_case(self, label: bool, score: float) -> None:
        if self.held[label][score + 0.0]:
            self.ev.remove_case(label, score)
            self.held[label][score + 0.0] -= 1
        else:
            with pytest.raises(InvalidInputError):
                self.ev.remove_case(label, score)

    @rule(rows=cases(tied))
    def remove_cases(self, rows: list) -> None:
        wanted = Counter((label, score + 0.0) for label, score in rows)
        columns = {"labels": [label for label, _ in rows], "scores": [s for _, s in rows]}
        if all(self.held[label][score] >= n for (label, score), n in wanted.items()):
            self.ev.remove_cases(**columns)
            for (label, score), n in wanted.items():
                self.held[label][score] -= n
        else:
            with pytest.raises(InvalidInputError):
                self.ev.remove_cases(**columns)

    @rule(label=st.booleans(), count=st.integers(0, 5))
    def miss(self, label: bool, count: int) -> None:
        (self.ev.add_misses if label else self.ev.add_negative_misses)(count)
        self.missed[label] += count

    @rule()
    def ask(self) -> None:
        got, want = self.ev.auc_roc(), brute_auc(self.held, self.missed)
        assert np.isnan(got) if want is None else abs(got - float(want)) < 1e-12

    @rule()
    def through_bytes(self) -> None:
        self.ev = Evaluator.from_bytes(self.ev.to_bytes())

    @invariant()
    def same_totals(self) -> None:
        scored = {label: self.held[label].total() for label in (True, False)}
        assert self.ev.num_scored == sum(scored.values())
        assert self.ev.num_positive_ref == scored[True] + self.missed[True]
        assert self.ev.num_negative_ref == scored[False] + self.missed[False]

    def teardown(self) -> None:
        self.ev._check()
        for label in (True, False):
            run = self.ev._view().run(label)
            counts = np.ones(len(run), dtype=int) if run.counts is None else run.counts
            held = Counter(dict(zip(run.scores.tolist(), counts.tolist())))
            assert held == +self.held[label]


def brute_auc(held: dict, missed: dict) -> Fraction | None:
    """Count the pairs, ties at half, misses as one tie below."""
    groups = {label: [*held[label].items(), (-np.inf, missed[label])] for label in (True, False)}
    pairs = won = 0
    for score, n in groups[True]:
        for other, m in groups[False]:
            pairs += n * m
            won += n * m * (2 if score > other else 1 if score == other else 0)
    return Fraction(won, 2 * pairs) if pairs else None


TestEvaluatorMachine = EvaluatorMachine.TestCase
TestEvaluatorMachine.settings = settings(max_examples=60, stateful_step_count=30)
