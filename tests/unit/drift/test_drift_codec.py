"""The bytes of a detector: the same after a round trip at every step, small, and checked."""

from __future__ import annotations

import struct
import zlib
from datetime import timedelta

import numpy as np
import pytest

from streameval import CorruptStateError, DriftDetector, Evaluator

from .streams import YEAR, Columns, cases, detector, feed, reference

ALL = ("ranking", "auc_roc", "precision", "recall", "flagged", "calibration")


def test_a_round_trip_at_every_step() -> None:
    """One detector goes through bytes after each batch, one never does."""
    segments = {"half": {0: reference(5), 1: reference(6)}}
    kept, moved = (
        detector(
            ALL, threshold=0.5, clusters=True, segments=segments, maturity=timedelta(minutes=25)
        )
        for _ in range(2)
    )
    good, bad = cases(4, 24), cases(3, 24, distance=0.0, shift=0.5)
    size = good.labels.size
    is_bad = np.arange(size) % 2 == 1
    columns = Columns(
        *(np.where(is_bad, *each) for each in zip(bad[:2], good[:2], strict=True)), good.at
    )
    for step in range(0, size, 100):
        rows = slice(step, step + 100)
        for each in (kept, moved):
            feed(
                each,
                Columns(*(column[rows] for column in columns)),
                clusters=np.arange(size)[rows] % 40,
                segments={"half": np.arange(size)[rows] % 2},
            )
        if step == 1500:
            kept.acknowledge(1, at=kept.now)
            moved.acknowledge(1, at=moved.now)
        data = moved.to_bytes()
        assert data == kept.to_bytes()
        moved = DriftDetector.from_bytes(data)
        assert moved.to_bytes() == data
        assert moved.alarms == kept.alarms
        assert moved.evidence == kept.evidence
    assert len(kept.alarms) > 3
    assert any(each.segments for each in kept.alarms)


@pytest.mark.parametrize("watch", ALL)
@pytest.mark.slow
def test_a_process_takes_at_most_two_kilobytes(watch: str) -> None:
    """After a month of rows, beside the reference's bands; from the sizes with and without it."""
    other = "calibration" if watch != "calibration" else "ranking"
    sizes = []
    for names in ((other,), (other, watch)):
        needing = {"precision", "recall", "flagged"} & set(names)
        made = detector(names, threshold=0.5 if needing else None)
        feed(made, cases(3, 720, an_hour=20))
        sizes.append(len(made.to_bytes()))
    assert sizes[1] - sizes[0] <= 2048
    assert sizes[0] <= 2048 + 1536


def test_a_segment_takes_little() -> None:
    """0.1 KB for each of its means."""
    one = Evaluator(scale="probability", resolution=12)
    columns = cases(8, 50)
    one.add_cases(labels=columns.labels, scores=columns.scores)
    few, many = (
        detector("auc_roc", segments={"key": dict.fromkeys(range(number), one)})
        for number in (1, 11)
    )
    assert (len(many.to_bytes()) - len(few.to_bytes())) / 10 <= 6 * 100


def sample() -> bytes:
    made = detector(("auc_roc", "flagged"), threshold=0.5)
    feed(made, cases(3, 9, distance=0.3))
    assert made.alarms
    return made.to_bytes()


def test_altered_bytes_are_refused() -> None:
    """Every truncation, and any byte changed."""
    data = sample()
    for size in range(0, len(data), 97):
        with pytest.raises(CorruptStateError):
            DriftDetector.from_bytes(data[:size])
    for place in range(0, len(data), 89):
        altered = bytearray(data)
        altered[place] ^= 0x40
        with pytest.raises(CorruptStateError):
            DriftDetector.from_bytes(altered)


def test_altered_bytes_with_a_right_checksum_do_no_harm() -> None:
    """They are refused, or are a detector that counts and writes bytes again."""
    data = sample()
    rng = np.random.default_rng(4)
    columns = cases(9, 1)
    refused = 0
    for _ in range(400):
        body = bytearray(data[:-4])
        body[int(rng.integers(6, len(body)))] = int(rng.integers(256))
        whole = bytes(body) + struct.pack("<I", zlib.crc32(body))
        try:
            made = DriftDetector.from_bytes(whole)
        except CorruptStateError:
            refused += 1
            continue
        assert len(made.to_bytes()) > 0
    assert refused > 20
    feed(DriftDetector.from_bytes(data), columns)


def test_equal_detectors_have_equal_bytes() -> None:
    """Whatever the order of names, and of a mapping."""
    first = detector(("precision", "ranking"), threshold=0.5)
    second = detector(("ranking", "precision"), threshold=0.5, mean_time_to_false_alarm=YEAR)
    assert first.to_bytes() == second.to_bytes()
