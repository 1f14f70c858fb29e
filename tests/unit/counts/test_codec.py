"""Evaluators as bytes: the round trip is exact, and altered bytes are refused."""

from __future__ import annotations

import itertools
import math
import struct
import tracemalloc
import zlib

import numpy as np
import pytest

from streameval import CorruptStateError, Evaluator
from streameval._counts import codec, state_head


def small_evaluator() -> Evaluator:
    """Return an evaluator with both widths of scores, counts, misses and settings."""
    ev = Evaluator(resolution=50, max_cells=40)
    ev.add_cases(
        labels=[1, 1, 0, 0, 0], scores=[0.1, 2.0, 0.5, 0.25, -3.0], counts=[1, 300, 1, 1, 1]
    )
    ev.add_misses(2)
    ev.add_negative_misses(1)
    return ev


EVALUATORS = {
    "empty": Evaluator(),
    "small": small_evaluator(),
    "misses": Evaluator(),
    "exact": Evaluator(),
    "probability": Evaluator(resolution=9, scale="probability"),
    "one cell": Evaluator(max_cells=1),
    "huge counts": Evaluator(),
    "extremes": Evaluator(),
}
EVALUATORS["misses"].add_misses(5)
for name in ("exact", "probability", "one cell"):
    rng = np.random.default_rng(1)
    EVALUATORS[name].add_cases(labels=rng.random(300) < 0.2, scores=rng.random(300))
EVALUATORS["huge counts"].add_cases(labels=[1, 0], scores=[1, 2], counts=[2**40, 2**61])
EVALUATORS["extremes"].add_cases(
    labels=[1, 0, 1, 0], scores=[5e-324, -5e-324, 1.7976931348623157e308, -0.0]
)


@pytest.mark.parametrize("name", EVALUATORS)
def test_what_comes_back_is_the_same(name):
    """Content, settings and bytes survive the round trip, from any kind of buffer."""
    ev = EVALUATORS[name]
    data = ev.to_bytes()
    for buffer in (data, bytearray(data), memoryview(data), np.frombuffer(data, dtype=np.uint8)):
        back = Evaluator.from_bytes(buffer)
        back._check()
        assert back == ev
        assert back.to_bytes() == data
        assert (back.resolution, back.scale, back.max_cells) == (
            ev.resolution,
            ev.scale,
            ev.max_cells,
        )


def test_the_bytes_belong_to_nobody_else():
    """A decoded evaluator keeps no reference to the buffer it was read from."""
    data = bytearray(EVALUATORS["exact"].to_bytes())
    back = Evaluator.from_bytes(data)
    data[:] = bytes(len(data))
    assert back == EVALUATORS["exact"]
    back.add_case(True, 0.5)


def test_the_bytes_are_compact():
    """float32 scores take 4 bytes, small counts 1, and counts that are all 1 none."""
    overhead = len(Evaluator().to_bytes())
    ev = Evaluator()
    ev.add_cases(labels=[1] * 100, scores=np.arange(100))
    assert len(ev.to_bytes()) == overhead + 400
    ev.add_cases(labels=[1] * 100, scores=np.arange(100))
    assert len(ev.to_bytes()) == overhead + 500
    ev.add_case(True, 0.1)
    assert len(ev.to_bytes()) == overhead + 101 * 9


def test_every_truncation_is_an_error():
    """No prefix and no extension of valid bytes is accepted."""
    data = small_evaluator().to_bytes()
    for length in range(len(data)):
        with pytest.raises(CorruptStateError):
            Evaluator.from_bytes(data[:length])
    with pytest.raises(CorruptStateError, match="is announced, got"):
        Evaluator.from_bytes(data + b"\0")


def test_every_flipped_byte_is_an_error():
    """A change of any byte to any value is detected."""
    data = small_evaluator().to_bytes()
    for position in range(len(data)):
        for mask in (0x01, 0x80, 0xFF, 0x55):
            altered = bytearray(data)
            altered[position] ^= mask
            with pytest.raises(CorruptStateError):
                Evaluator.from_bytes(altered)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes are too few for an evaluator: truncated?"),
        (b"x" * 100, "not an evaluator: the bytes begin with b'xxxx', not with b'SVEE'"),
        (
            b"SVEE\x04\x00" + bytes(100),
            "evaluator format 4 is unknown; this version reads format 1",
        ),
    ],
)
def test_refusals_say_what_is_wrong(data, message):
    """The message distinguishes truncation, another format and another version."""
    with pytest.raises(CorruptStateError) as caught:
        Evaluator.from_bytes(data)
    assert str(caught.value) == message


def sealed(body: bytes) -> bytes:
    """Append a correct checksum to any bytes."""
    return body + struct.pack("<I", zlib.crc32(body))


def header(**changes) -> bytes:
    """Return a header of an empty evaluator with some fields changed."""
    fields = {
        "magic": b"SVEE",
        "form": 1,
        "flags": 0,
        "bits": 0,
        "max_cells": 0,
        "missed_p": 0,
        "missed_n": 0,
        "size_p": 0,
        "total_p": changes.get("size_p", 0),
        "score_width_p": 8,
        "count_width_p": 0,
        "units_p": 0,
        "high_p": 0,
        "size_n": 0,
        "total_n": changes.get("size_n", 0),
        "score_width_n": 8,
        "count_width_n": 0,
        "units_n": 0,
        "high_n": 0,
    } | changes
    magic, form, flags, *rest = fields.values()
    return struct.pack("<4sHB", magic, form, flags | 16) + state_head.WIDE.pack(*rest)


def doubles(*values: float) -> bytes:
    """Return little-endian float64."""
    return np.array(values, dtype="<f8").tobytes()


@pytest.mark.parametrize(
    "body",
    [
        header(size_p=2**40),
        header(size_p=2**62),
        header(size_p=-1, size_n=1),
        header(size_p=2**61, score_width_p=0),
        header(flags=32),
        header(flags=4),
        header(flags=8) + struct.pack("<HqB", 8, -1, 1),
        header(flags=8) + struct.pack("<HqB", 7, 0, 1),
        header(flags=8) + struct.pack("<HqB", 8, 0, 3),
        header(units_p=1),
        header(high_n=1),
        header(score_width_p=17),
        header(size_p=1, total_p=2) + doubles(1.0),
        header(bits=3),
        header(flags=1, bits=54),
        header(flags=1, bits=-12),
        header(flags=2),
        header(max_cells=-1),
        header(missed_p=-1),
        header(missed_p=2**62),
        header(missed_p=2**61, missed_n=2**61),
        header(score_width_p=2),
        header(count_width_n=3),
        header(size_p=1) + doubles(np.nan),
        header(size_p=1) + doubles(np.inf),
        header(size_p=1) + doubles(-0.0),
        header(size_p=2) + doubles(2.0, 1.0),
        header(size_p=2) + doubles(1.0, 1.0),
        header(size_p=1, count_width_p=1) + doubles(1.0) + b"\0",
        header(size_p=1, count_width_p=8) + doubles(1.0) + b"\xff" * 8,
        header(size_p=2, count_width_p=8) + doubles(1.0, 2.0) + struct.pack("<QQ", 2**61, 2**61),
        header(flags=1, bits=2, size_p=1) + doubles(1.1),
        header(flags=3, bits=2, size_p=1) + doubles(2.0),
        header(flags=2, max_cells=5, size_p=1) + doubles(-1.0),
        header(max_cells=1, size_p=2) + doubles(1.0, 2.0),
    ],
)
def test_a_wrong_writer_is_found_behind_a_right_checksum(body):
    """Impossible evaluators are refused without allocating the memory that they announce."""
    tracemalloc.start()
    try:
        with pytest.raises(CorruptStateError):
            Evaluator.from_bytes(sealed(body))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_ascending_scores_are_told_from_all_others(length):
    """Finite, distinct, ascending, no -0.0: by comparing each pair, for all short columns."""
    values = (-np.inf, -2.0, -0.0, 0.0, 1.5, np.inf, np.nan)
    for scores in itertools.product(values, repeat=length):
        is_plain = all(math.isfinite(each) and str(each) != "-0.0" for each in scores)
        expected = is_plain and all(a < b for a, b in itertools.pairwise(scores))
        assert codec.is_ascending(np.array(scores, dtype=np.float64)) == expected, scores


@pytest.mark.parametrize("data", [None, "SVEL", 5, [1, 2]])
def test_what_is_no_bytes_is_refused(data):
    """A value of another type is no state, and the message names its type."""
    text = f"^an evaluator is read from bytes, got {type(data).__name__}$"
    with pytest.raises(CorruptStateError, match=text):
        Evaluator.from_bytes(data)


def test_the_helpers_make_what_is_accepted():
    """The headers above are refused for the changed fields, not for the frame."""
    assert Evaluator.from_bytes(sealed(header())) == Evaluator()
    two = Evaluator.from_bytes(sealed(header(size_p=2) + doubles(1.0, 2.0)))
    assert two.num_positive_ref == 2
