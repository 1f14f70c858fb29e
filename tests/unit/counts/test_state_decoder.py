"""Many states read together: the same content and the same refusals as each alone."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import CorruptStateError, Evaluator
from streameval._counts import encoded_states
from streameval._counts.codec import HEADER
from streameval._counts.encoded_counts import EncodedCounts
from streameval._counts.encoded_states import are_valid
from streameval._counts.evaluator_codec import decode_evaluator, encode_evaluator
from streameval._counts.merge import merge_states
from streameval._counts.opened_counts import OpenedCounts
from streameval._counts.packed_counts import PackedCounts
from streameval._counts.state import State
from streameval._counts.state_decoder import StateDecoder

EXTREMES = [0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308]
SCORES = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(EXTREMES))
CASES = st.lists(st.tuples(st.booleans(), SCORES, st.sampled_from([1, 2, 300, 70_000])), max_size=9)
SETTINGS = st.sampled_from(
    [
        {},
        {"max_cells": 40},
        {"max_cells": 3},
        {"resolution": 1},
        {"resolution": 12, "max_cells": 16_384},
        {"resolution": 9, "scale": "probability"},
        {"max_cells": 1, "scale": "probability"},
        {"cluster_groups": 8},
    ]
)
KINDS = st.tuples(CASES, SETTINGS, st.booleans(), st.integers(0, 3))


def evaluator(
    cases: list[tuple[bool, float, int]], settings: dict[str, object], weighted: bool, misses: int
) -> Evaluator:
    """Return an evaluator of any kind that a checkpoint may have."""
    made = Evaluator(**settings)
    extra: dict[str, object] = {}
    if "cluster_groups" in settings:
        extra["clusters"] = [str(index % 3) for index in range(len(cases))]
    elif weighted:
        extra["weights"] = [0.5 + index for index in range(len(cases))]
    if cases:
        labels, scores, counts = zip(*cases, strict=True)
        if settings.get("scale") == "probability":
            scores = [1 / (1 + abs(score)) for score in scores]
        made.add_cases(labels=labels, scores=scores, counts=counts, **extra)
    if not extra:
        made.add_misses(misses)
    return made


@given(st.lists(KINDS, max_size=12))
@pytest.mark.slow
def test_states_are_the_same_as_decoded_one_by_one(kinds: list[tuple]) -> None:
    """Every kind of state, closed again and merged, to the byte."""
    blobs = [evaluator(*kind).to_bytes() for kind in kinds]
    decoder = StateDecoder()
    states = [decoder.decode(blob) for blob in blobs]
    decoder.verify()
    for state, blob in zip(states, blobs, strict=True):
        alone = decode_evaluator(blob)
        assert (state.P, state.N, state.num_scores) == (alone.P, alone.N, len(alone.counts))
        assert state.same_content(alone)
        state._check()
        assert encode_evaluator(state) == blob
        state.close()
        state.pack()
        assert state.same_content(alone)


def small_states() -> list[bytes]:
    """Return states that are all read when they are asked for."""
    rng = np.random.default_rng(3)
    made = []
    for settings in (
        {},
        {"resolution": 6, "max_cells": 64},
        {"resolution": 9, "scale": "probability"},
        {"max_cells": 90, "scale": "probability"},
        {"resolution": 30},
    ):
        each = Evaluator(**settings)
        counts = rng.choice([1, 1, 2, 300], 20)
        each.add_cases(labels=rng.random(20) < 0.3, scores=rng.random(20), counts=counts)
        each.add_misses(2)
        made.append(each.to_bytes())
    return made


def refusal(data: bytes) -> str | None:
    """Return what decoding alone says; None for a state."""
    try:
        decode_evaluator(data)
    except CorruptStateError as error:
        return str(error)
    return None


def refusal_among(data: bytes, others: list[bytes]) -> str | None:
    """Return what decoding says where other states are read before and after."""
    decoder = StateDecoder()
    try:
        for each in (*others[:2], data, *others[2:]):
            decoder.decode(each)
        decoder.verify()
    except CorruptStateError as error:
        return str(error)
    return None


@pytest.mark.parametrize("index", range(5))
@pytest.mark.slow
def test_what_is_refused_alone_is_refused_among_others(index: int) -> None:
    """Behind right checksums, with the same words; and nothing else is refused."""
    rng = np.random.default_rng(index)
    others = small_states()
    valid = others[index]
    refused = 0
    for _ in range(300):
        body = bytearray(valid[:-4])
        width = int(rng.choice([1, 2, 8]))
        at = int(rng.integers(0, len(body) - width))
        body[at : at + width] = rng.choice(
            [
                rng.bytes(width),
                bytes(width),
                b"\xff" * width,
                struct.pack("<d", rng.choice([np.nan, np.inf, -0.0, 0.5, 2.0]))[-width:],
            ]
        )
        data = bytes(body) + struct.pack("<I", zlib.crc32(body))
        alone = refusal(data)
        assert refusal_among(data, others) == alone
        refused += alone is not None
    assert 50 < refused < 300
    for at in range(len(valid)):
        altered = bytearray(valid)
        altered[at] ^= 0x41
        assert refusal_among(bytes(altered), others) == refusal(bytes(altered))
        assert refusal_among(valid[:at], others) == refusal(valid[:at])


def test_no_state_is_valid_that_decoding_refuses() -> None:
    """Whatever is wrong with others; and small states of every kind are found valid together."""
    good = small_states()
    assert encoded_states.HEAD.itemsize == 6 + HEADER.size
    assert are_valid(good).all()
    assert not are_valid([]).size
    rng = np.random.default_rng(8)
    for _ in range(200):
        among = [bytearray(each) for each in good]
        for place in rng.choice(len(among), 2, replace=False).tolist():
            each = among[place]
            each[int(rng.integers(0, len(each)))] ^= 1 << int(rng.integers(0, 8))
        mixed = [bytes(each) for each in among] + [good[0][: int(rng.integers(0, 80))], b""]
        valid = are_valid(mixed).tolist()
        assert not any(ok and refusal(data) is not None for data, ok in zip(mixed, valid))
        assert [ok for data, ok in zip(mixed, valid) if data in good] == [True] * 3


def test_many_states_are_verified_in_pieces() -> None:
    """A refusal comes while states are read, not only at the end of a gigabyte."""
    good = small_states()[0]
    ev = Evaluator()
    ev.add_cases(labels=[True, True], scores=[0.1, 0.2])
    body = ev.to_bytes()[:-20] + struct.pack("<dd", 0.2, 0.1)
    bad = body + struct.pack("<I", zlib.crc32(body))
    decoder = StateDecoder()
    decoder.decode(bad)
    read = []

    def read_all() -> None:
        for _ in range(10_000):
            decoder.decode(good)
            read.append(len(good))

    with pytest.raises(CorruptStateError, match="are not finite and ascending"):
        read_all()
    assert sum(read) < 2 << 20


def test_small_states_stay_bytes_until_they_are_read() -> None:
    """Large ones are decoded at once; those of a middle size are packed in idle time."""
    rng = np.random.default_rng(4)
    found: list[State] = []
    for size in (10, 3_000, 40_000):
        ev = Evaluator(resolution=12)
        ev.add_cases(labels=rng.random(size) < 0.3, scores=rng.normal(size=size))
        ev.add_cases(labels=rng.random(size) < 0.3, scores=rng.lognormal(size=size))
        decoder = StateDecoder()
        found.append(decoder.decode(ev.to_bytes()))
        decoder.verify()
    assert [type(state.stored) for state in found] == [EncodedCounts, EncodedCounts, type(None)]
    assert not found[0].is_open
    for state in found:
        state.pack()
    assert [type(state.stored) for state in found] == [EncodedCounts, PackedCounts, PackedCounts]
    whole = merge_states(found, revision=0)
    assert whole.total == 2 * (10 + 3_000 + 40_000)


def test_open_counts_are_closed_again() -> None:
    """As those of packed states are, when too many are open."""
    decoder = StateDecoder()
    states = [decoder.decode(small_states()[0]) for _ in range(3)]
    decoder.verify()
    opened = OpenedCounts(2 * (states[0].num_scores + 48))
    for state in states:
        opened.add(state.counts, len(state.counts.runs[0]) + len(state.counts.runs[1]))
    assert [state.is_open for state in states] == [False, True, True]
    assert states[0].same_content(states[2])
