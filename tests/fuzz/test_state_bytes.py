"""Altered states with correct checksums: refused, or a valid state; never a crash.

A checksum detects damage by a disk; these bytes are what an attacker or a version with a
bug might write. The checksums of the outer and of all nested states are corrected after
each change, so that the code behind them is reached.
"""

from __future__ import annotations

import struct
import tracemalloc
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from streameval import CorruptStateError, Evaluator, LabelJoiner, WindowedEvaluator

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KINDS = {b"SVEE": Evaluator, b"SVEW": WindowedEvaluator, b"SVET": LabelJoiner}
ENDS = (0, 1, -1, 2, 53, 127, 2**31, 2**62, 2**63 - 1, -(2**63), 2**16)


def states() -> dict[str, bytes]:
    """Return bytes of every kind of state."""
    rng = np.random.default_rng(5)
    exact = Evaluator()
    exact.add_cases(labels=[1, 0, 1, 0], scores=[0.1, 0.2, 0.3, -7.7], counts=[1, 300, 2, 70_000])
    exact.add_misses(3)
    narrow = Evaluator(resolution=6, scale="probability", max_cells=64)
    narrow.add_cases(labels=rng.random(50) < 0.3, scores=rng.random(50))
    windowed = WindowedEvaluator(resolution=8)
    for minute in range(4):
        at = NOON + timedelta(minutes=minute)
        windowed.add_case(minute % 2 == 0, 0.25 * minute, at=at)
    plain = LabelJoiner(Evaluator(), ttl=timedelta(days=7))
    timed = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7), orphans="miss")
    for joiner in (plain, timed):
        ids = ["a", "b", "c" * 100, "\N{PILE OF POO}", "e\0"]
        joiner.log_cases(ids=ids, scores=[0.1, 0.2, 0.3, 0.4, 0.5], at=NOON)
        joiner.label("a", True, at=NOON)
        joiner.label("b", False, at=NOON)
        joiner.label("early", True, at=NOON)
    return {
        "empty": Evaluator().to_bytes(),
        "exact": exact.to_bytes(),
        "bounded": narrow.to_bytes(),
        "windowed": windowed.to_bytes(),
        "joiner": plain.to_bytes(),
        "windowed joiner": timed.to_bytes(),
    }


STATES = states()


def read(data: bytes) -> object | None:
    """Read a state and use it; None when it is refused."""
    kind = KINDS.get(data[:4], Evaluator)
    try:
        state = kind.from_bytes(data)
    except CorruptStateError as error:
        message = str(error)
        state = None
    if state is None:
        assert 10 < len(message) < 300
        return None
    use(state)
    assert kind.from_bytes(state.to_bytes()) == state
    return state


def use(state: Evaluator | WindowedEvaluator | LabelJoiner) -> None:
    """Compute figures, and add to the state."""
    if isinstance(state, Evaluator):
        state._view().counts._check()
        evaluator = state
    elif isinstance(state, WindowedEvaluator):
        evaluator = state.last(timedelta(hours=1)).evaluator()
        state.last_cases(2)
    else:
        state.coverage()
        state.coverage_by_score()
        state.log("another", 0.5, at=NOON + timedelta(days=1))
        state.label("another", True, at=NOON + timedelta(days=1))
        evaluator = Evaluator()
    evaluator.snapshot()
    if evaluator.num_positive_ref + evaluator.num_negative_ref < 2**61:
        evaluator.add_case(True, 0.5)


def assault(hostile, name: str, times: int) -> tuple[int, int]:
    """Read altered bytes; return how many were refused and how many read."""
    data, rng = STATES[name], hostile.rng
    refused = 0
    for _ in range(times):
        if rng.random() < 0.5:
            altered = hostile.resealed(hostile.mutated(data))
        else:  # a number in one of the headers
            out = bytearray(data)
            layout = rng.choice(("<q", "<q", "<i", "<h", "<b"))
            at = rng.randrange(6, min(len(out) - 12, 400))
            value = rng.choice(ENDS)
            size = 8 * struct.calcsize(layout)
            value = (value + (1 << (size - 1))) % (1 << size) - (1 << (size - 1))
            struct.pack_into(layout, out, at, value)
            altered = hostile.resealed(bytes(out))
        try:
            refused += read(altered) is None
        except Exception:
            print(repr(altered))
            raise
    return refused, times - refused


@pytest.mark.parametrize("name", STATES)
def test_altered_states_are_refused_or_sound(hostile, name):
    """A few hundred of each kind, with corrected checksums."""
    refused, _ = assault(hostile, name, 300)
    assert refused > 100


@pytest.mark.nightly
@pytest.mark.parametrize("name", STATES)
def test_many_more_altered_states(hostile, name):
    """The same with many more states."""
    assault(hostile, name, 40_000)


@pytest.mark.parametrize("name", STATES)
def test_states_cut_anywhere_are_refused(hostile, name):
    """The checksum matches the remaining bytes."""
    data = STATES[name]
    for size in range(len(data)):
        assert read(data[:size]) is None
        assert read(hostile.resealed(data[:size])) is None


@pytest.mark.parametrize("name", STATES)
def test_announced_lengths_allocate_nothing(hostile, name):
    """A length of 2**62 in any place is refused before memory is allocated."""
    data = STATES[name]
    tracemalloc.start()
    try:
        for at in range(6, min(len(data) - 12, 300)):
            out = bytearray(data)
            struct.pack_into("<q", out, at, 2**40)
            read(hostile.resealed(bytes(out)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


@pytest.mark.parametrize("data", [b"", b"SVEE", b"\0" * 100, b"SVEE" * 50, bytes(range(256)) * 4])
@pytest.mark.parametrize("kind", KINDS.values())
def test_bytes_of_nothing(kind, data):
    """Bytes that no version writes are refused."""
    with pytest.raises(CorruptStateError):
        kind.from_bytes(data)
