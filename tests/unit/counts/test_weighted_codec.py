"""Bytes of weighted states: what a reader refuses, and what unweighted readers say."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from streameval import CorruptStateError, Evaluator, InvalidInputError


def sample() -> Evaluator:
    """Return an evaluator with ties, lone cases, misses and large weights."""
    evaluator = Evaluator()
    evaluator.add_cases(
        labels=[1, 1, 1, 0, 0], scores=[0.5, 0.5, 2.0, 0.5, -1], weights=[0.5, 2**31, 3, 2, 7]
    )
    evaluator.add_misses(2)
    return evaluator


def sealed(data: bytes) -> bytes:
    """Return altered bytes with the checksum that fits them."""
    return data[:-4] + struct.pack("<I", zlib.crc32(data[:-4]))


def test_format_number() -> None:
    """States with weights have a flag more than others."""
    assert struct.unpack_from("<4sHB", sample().to_bytes()) == (b"SVEE", 1, 4)
    assert struct.unpack_from("<4sHB", Evaluator().to_bytes()) == (b"SVEE", 1, 0)


def test_every_altered_byte_is_refused() -> None:
    """A changed byte or a missing end is refused by the checksum or the length."""
    data = sample().to_bytes()
    for at in range(len(data)):
        altered = bytearray(data)
        altered[at] ^= 0x40
        with pytest.raises(CorruptStateError):
            Evaluator.from_bytes(bytes(altered))
        with pytest.raises(CorruptStateError):
            Evaluator.from_bytes(data[:at])


def test_altered_bytes_with_a_fitting_checksum_are_consistent_or_refused() -> None:
    """Whatever the bytes say, they are refused or are a consistent evaluator."""
    data = sample().to_bytes()
    rng = np.random.default_rng(0)
    read = 0
    for _ in range(2_000):
        altered = bytearray(data)
        for at in rng.integers(6, len(data) - 4, size=rng.integers(1, 3)):
            altered[at] = rng.integers(0, 256)
        try:
            evaluator = Evaluator.from_bytes(sealed(bytes(altered)))
        except CorruptStateError:
            continue
        read += 1
        evaluator._check()
        evaluator.snapshot()
    assert read > 0


def test_plain_content_in_the_weighted_format_is_refused() -> None:
    """Weights that are all 1 have one form, so equal evaluators have equal bytes."""
    evaluator = Evaluator()
    evaluator.add_cases(labels=[1, 0], scores=[0.5, 0.25], weights=[2, 1])
    data = evaluator.to_bytes()
    two, one = struct.pack("<I", 2 << 16)[:4], struct.pack("<I", 1 << 16)[:4]
    assert data.count(two) == 1
    with pytest.raises(CorruptStateError, match="contradict"):
        Evaluator.from_bytes(sealed(data.replace(two, one)))


def test_the_declared_label_probability_is_kept() -> None:
    """With a flag of its own, merges with the least of both, and changes no count."""
    known, wider = Evaluator(min_label_probability=0.25), Evaluator(min_label_probability=0.1)
    for ev in (known, wider):
        ev.add_cases(labels=[1, 0, 1], scores=[0.9, 0.4, 0.2], label_probability=[0.25, 1, 0.5])
    data = known.to_bytes()
    assert struct.unpack_from("<4sHB", data) == (b"SVEE", 1, 4 | 32)
    back = Evaluator.from_bytes(data)
    assert (back, back.min_label_probability) == (known, 0.25)
    assert "min_label_probability=0.25" in repr(back)
    back.merge(wider)
    assert back.min_label_probability == 0.1
    assert back.weights.positives == 12.0
    back.reset()
    assert back.min_label_probability == 0.1
    for wrong in (0.0, 1e-300, -1.0, 1.5, float("nan")):
        with pytest.raises(CorruptStateError):
            Evaluator.from_bytes(
                sealed(data.replace(struct.pack("<d", 0.25), struct.pack("<d", wrong)))
            )
        with pytest.raises(InvalidInputError, match="min_label_probability must be from 2"):
            Evaluator(min_label_probability=wrong)
