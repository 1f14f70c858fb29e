"""Many states read together: the same content and the same refusals as each alone."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import CorruptStateError, Evaluator
from streameval._counts.codec import encode_evaluator
from streameval.kernel import State, StoredCounts, decode_evaluator, merge_states

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


def read(blobs: list[bytes]) -> list[State]:
    """Return states as a start reads them: closed where that is possible, verified together."""
    stored = [StoredCounts.of(blob) for blob in blobs]
    StoredCounts.verify([each for each in stored if each is not None])
    return [
        decode_evaluator(blob) if each is None else each.closed()
        for each, blob in zip(stored, blobs, strict=True)
    ]


@given(st.lists(KINDS, max_size=12))
@pytest.mark.slow
def test_states_are_the_same_as_decoded_one_by_one(kinds: list[tuple]) -> None:
    """Every kind of state, in both forms, closed again and merged, to the byte."""
    plain = [evaluator(*kind).to_bytes() for kind in kinds]
    blobs = [StoredCounts.bytes_of(decode_evaluator(blob)) for blob in plain]
    for state, blob, as_floats in zip(read(blobs), blobs, plain, strict=True):
        alone = decode_evaluator(blob)
        assert (state.P, state.N, state.num_scores) == (alone.P, alone.N, len(alone.counts))
        assert state.same_content(alone)
        assert StoredCounts.bytes_of(alone) == blob
        state._check()
        assert encode_evaluator(state) == encode_evaluator(alone) == as_floats
        assert StoredCounts.bytes_of(state) == blob


def small_states() -> list[bytes]:
    """Return states that all stay bytes until they are asked for."""
    rng = np.random.default_rng(3)
    made = []
    for settings in (
        {"resolution": 12},
        {"resolution": 6, "max_cells": 64},
        {"resolution": 9, "scale": "probability"},
        {"resolution": 53, "max_cells": 90, "scale": "probability"},
        {"resolution": 30},
    ):
        each = Evaluator(**settings)
        counts = rng.choice([1, 1, 2, 300], 20)
        each.add_cases(labels=rng.random(20) < 0.3, scores=rng.random(20), counts=counts)
        each.add_misses(2)
        made.append(StoredCounts.bytes_of(each._view()))
    return made


def refusal(data: bytes) -> str | None:
    """Return what decoding alone says; None for a state."""
    try:
        decode_evaluator(data)
    except CorruptStateError as error:
        return str(error)
    return None


def refusal_among(data: bytes, others: list[bytes]) -> str | None:
    """Return what a start says where other states are read before and after."""
    try:
        read([*others[:2], data, *others[2:]])
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


def test_large_states_and_other_kinds_are_decoded_at_once() -> None:
    """Cells of small and middle states stay bytes; a bytes' own reader opens all the same sum."""
    rng = np.random.default_rng(4)
    blobs = []
    for size, settings in ((10, {}), (3_000, {}), (60_000, {}), (10, {"cluster_groups": 8})):
        ev = Evaluator(resolution=12, **settings)
        extra = {"clusters": ["a"] * size} if settings else {}
        ev.add_cases(labels=rng.random(size) < 0.3, scores=rng.normal(size=size), **extra)
        extra = {} if settings else {"scores": rng.lognormal(0, 9, size=size)}
        if extra:
            ev.add_cases(labels=rng.random(size) < 0.3, **extra)
        blobs.append(StoredCounts.bytes_of(ev._view()))
    found = read(blobs)
    kinds = [isinstance(state.counts.stored, StoredCounts) for state in found]
    assert kinds == [True, True, len(blobs[2]) <= 1 << 16, False]
    assert merge_states(found[:3], revision=0).total == 2 * (10 + 3_000 + 60_000)
