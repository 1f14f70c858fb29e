"""One writer, many readers: every answer is that of one complete revision."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from streameval import Evaluator


@pytest.fixture
def _eager_switching():
    """Let threads interrupt each other as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


LOOKS = 1_000
"""Reads of each reader before the writer stops."""


def _read_until(done, errors, look, seen) -> None:
    try:
        while not done.is_set():
            look()
            seen.append(None)
    except BaseException as error:  # noqa: BLE001 - passed to the test, which fails with it
        errors.append(error)


def _with_readers(look, write, readers: int = 3) -> None:
    """Repeat `write` while threads repeat `look`; fail with any exception of theirs."""
    done, errors = threading.Event(), []
    seen: list[list[None]] = [[] for _ in range(readers)]
    threads = [
        threading.Thread(target=_read_until, args=(done, errors, look, each)) for each in seen
    ]
    for thread in threads:
        thread.start()
    try:
        while not errors and min(map(len, seen)) < LOOKS:
            write()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not errors, errors


@pytest.mark.usefixtures("_eager_switching")
def test_readers_see_prefixes_of_a_scalar_stream():
    """The writer alternates classes: no reader ever sees a negative before its positive."""
    ev = Evaluator()

    def look() -> None:
        before = ev.revision
        state = ev._view()
        assert state.revision >= before, "what was there once is gone"
        assert 0 <= state.P - state.N <= 1, (state.P, state.N)
        assert state.revision == state.P + state.N
        snapshot = ev.snapshot()
        assert snapshot.num_positive_ref + snapshot.num_negative_ref == snapshot.revision
        assert snapshot.revision == 0 or snapshot.prevalence >= 0.5
        # Two separate queries may read two revisions.
        negatives = ev.num_negative_ref
        assert negatives <= ev.num_positive_ref

    def write() -> None:
        for i in range(500):
            ev.add_case(True, float(i % 97))
            ev.add_case(False, float(i % 89))

    _with_readers(look, write)
    assert ev.num_cases == ev.revision
    assert ev.num_positive_ref == ev.num_negative_ref
    ev._check()


@pytest.mark.usefixtures("_eager_switching")
def test_readers_see_whole_batches_and_removals():
    """Batches, removals, misses and merges are visible completely or not at all."""
    ev = Evaluator()
    rng = np.random.default_rng(0)
    other = Evaluator()
    other.add_cases(labels=[1, 0], scores=[0.5, 0.5])

    def look() -> None:
        state = ev._view()
        # Every step adds or removes as many positives as negatives.
        assert state.counts.positives.total == state.counts.negatives.total
        state.counts.positives._check()

    def write() -> None:
        for _ in range(5):
            scores = rng.normal(size=20)
            labels = np.arange(20) % 2 == 0
            ev.add_cases(labels=labels, scores=scores)
            ev.add_misses(1)
            ev.merge(other)
            ev.remove_cases(labels=labels, scores=scores)

    _with_readers(look, write)
    assert ev.num_scored == 2 * ev.num_misses
    ev._check()


def test_lengths_of_one_moment():
    """A positive that is added while negatives are counted restarts the count."""
    accumulator = Evaluator()._accumulator

    class Busy(list):
        """While its length is taken, the writer adds a positive and then a negative."""

        left = 3

        def __len__(self) -> int:
            if self.left:
                self.left -= 1
                accumulator.positives.append(0.5)
                self.append(0.5)
            return super().__len__()

    accumulator.negatives = Busy()
    assert accumulator._lengths() == (3, 3)


def test_the_new_state_stands_before_the_buffers_are_emptied(monkeypatch):
    """A reader that finds all buffers empty, without the lock, must find the complete state."""
    ev = Evaluator()
    accumulator, put, waiting = ev._accumulator, ev._accumulator._set, []

    def watched(*arguments) -> None:
        waiting.append(accumulator._has_additions())
        put(*arguments)

    class Emptied(list):
        """Records what a reader would see while it is being emptied."""

        def __delitem__(self, where) -> None:
            super().__delitem__(where)
            waiting.append(accumulator._has_additions())

    monkeypatch.setattr(accumulator, "_set", watched)
    accumulator.positives = Emptied()
    accumulator.positives.append(0.5)
    ev._view()
    ev.add_cases(labels=[0], scores=[0.5])
    ev._view()
    assert waiting == [True, True, True]


def test_a_state_outlives_its_revision():
    """A reader's state does not change."""
    ev = Evaluator()
    ev.add_cases(labels=[1, 0], scores=[0.9, 0.1])
    held, snapshot = ev._view(), ev.snapshot()
    ev.add_cases(labels=[0, 0], scores=[0.95, 0.99])
    assert held.N == 1
    assert held.groups.fp.tolist() == [0]
    assert snapshot.auc_roc == 1.0
    assert snapshot.intervals["auc_roc"].estimate == 1.0
    with pytest.raises(ValueError, match="read-only"):
        held.counts.positives.scores[0] = 3.0
