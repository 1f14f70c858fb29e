"""Windows, joiners and coverage as bytes: round trips are exact, other bytes are refused."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
import pytest

from streameval import CorruptStateError, Evaluator, LabelJoiner, WindowedEvaluator
from streameval._joining import codec
from streameval._time.evaluator_panes import EvaluatorPanes
from streameval.kernel import CoverageCell, Joiner, JoinSettings

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def windowed() -> WindowedEvaluator:
    """Return panes of every width, with misses, one of them emptied again."""
    ev = WindowedEvaluator(resolution=9, scale="probability", max_cells=50)
    for number, age in enumerate([0, 1, 200, 201, 9_000, 20_000]):
        ev.add_case(number % 2 == 0, number / 7, at=NOON - age * MINUTE)
    ev.add_misses(2, at=NOON)
    ev.add_case(True, 0.5, at=NOON - 30 * MINUTE)
    ev.remove_case(True, 0.5, at=NOON - 30 * MINUTE)
    return ev


def joiner() -> Joiner:
    """Return ids in every state, with segment codes."""
    joined = Joiner(JoinSettings(3_600_000_000, orphans="miss"), keys=2)
    ids = [b"pending", b"positive", b"negative", bytes(range(128))]
    joined.predict(
        ids,
        scores=np.array([0.5, -0.0, 1e300, -3.5]),
        event_us=np.arange(4) + 10**15,
        now_us=10**15,
        codes=np.arange(8, dtype=np.uint16).reshape(4, 2),
    )
    labelled = [b"positive", b"negative", b"early+", b"early-", b"positive"]
    joined.label(labelled, positives=np.array([1, 0, 1, 0, 1], dtype=bool), now_us=10**15 + 5)
    return joined


def label_joiner(into: WindowedEvaluator | Evaluator) -> LabelJoiner:
    """Return a joiner with coverage in several panes."""
    joined = LabelJoiner(into, ttl=DAY)
    ids = [f"id-{number}" for number in range(20)]
    times = [NOON + number * 3 * MINUTE for number in range(20)]
    joined.log_cases(ids=ids, scores=np.arange(20) / 20, at=times)
    joined.label_cases(ids=[*ids[::3], "orphan"], labels=[1, 0, 0, 1, 0, 1, 1, 0], at=times[-1])
    return joined


CELL = CoverageCell("plain")
CELL.add(np.array([0, 0, 2, 8], np.uint8), np.array([0.3, -7.0, 0.3, np.nan]))

FORMS = {
    "windowed": (windowed, WindowedEvaluator.to_bytes, WindowedEvaluator.from_bytes),
    "empty windowed": (
        WindowedEvaluator,
        WindowedEvaluator.to_bytes,
        WindowedEvaluator.from_bytes,
    ),
    "joiner": (joiner, codec.encode_joiner, partial(codec.decode_joiner, keys=2)),
    "empty joiner": (lambda: Joiner(JoinSettings(1)), codec.encode_joiner, codec.decode_joiner),
    "label joiner": (
        lambda: label_joiner(Evaluator()),
        LabelJoiner.to_bytes,
        LabelJoiner.from_bytes,
    ),
    "windowed label joiner": (
        lambda: label_joiner(WindowedEvaluator()),
        LabelJoiner.to_bytes,
        LabelJoiner.from_bytes,
    ),
    "coverage": (lambda: CELL, CoverageCell.to_bytes, CoverageCell.from_bytes),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_comes_back_is_the_same(name: str) -> None:
    """Content and bytes survive the round trip, from any kind of buffer."""
    make, encode, decode = FORMS[name]
    data = encode(make())
    for buffer in (data, bytearray(data), memoryview(data), np.frombuffer(data, dtype=np.uint8)):
        back = decode(buffer)
        back._check()
        assert encode(back) == data
    if not name.endswith("joiner") or "label" in name:
        assert decode(data) == make()


@pytest.mark.parametrize("name", FORMS)
def test_no_other_bytes_are_taken(name: str) -> None:
    """Any prefix, extension or change of one byte is refused."""
    make, encode, decode = FORMS[name]
    data = encode(make())
    for length in range(len(data)):
        with pytest.raises(CorruptStateError):
            decode(data[:length])
    with pytest.raises(CorruptStateError):
        decode(data + b"\0")
    for position in range(len(data)):
        altered = bytearray(data)
        altered[position] ^= 1 << position % 8
        with pytest.raises(CorruptStateError):
            decode(altered)


def sealed(data: bytes) -> bytes:
    """Append a valid checksum."""
    return data + struct.pack("<I", zlib.crc32(data))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.slow
def test_a_wrong_writer_is_refused_or_sound(name: str) -> None:
    """With a valid checksum, an altered byte is refused or gives a sound state."""
    make, encode, decode = FORMS[name]
    body = encode(make())[:-4]
    for position in range(6, len(body)):
        mask = 1 << position % 8
        altered = sealed(body[:position] + bytes([body[position] ^ mask]) + body[position + 1 :])
        try:
            back = decode(altered)
        except CorruptStateError:
            continue
        back._check()
        assert encode(back) == altered


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.slow
def test_announced_lengths_take_no_memory(name: str) -> None:
    """An announced length never makes decoding allocate much more than the bytes."""
    make, encode, decode = FORMS[name]
    body = encode(make())[:-4]
    tracemalloc.start()
    try:
        for position in range(6, min(len(body), 160) - 8):
            for number in (-1, 2**20, 2**31 - 1, 2**40, 2**62):
                altered = sealed(body[:position] + struct.pack("<q", number) + body[position + 8 :])
                try:
                    decode(altered)
                except CorruptStateError:
                    continue
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_messages() -> None:
    """The error names the expected kind of bytes."""
    with pytest.raises(CorruptStateError, match="not a windowed evaluator: the bytes begin with"):
        WindowedEvaluator.from_bytes(Evaluator().to_bytes())
    with pytest.raises(CorruptStateError, match="0 bytes are too few for a label joiner"):
        LabelJoiner.from_bytes(b"")
    with pytest.raises(CorruptStateError, match="joiner format 4 is unknown"):
        codec.decode_joiner(sealed(b"SVEJ\x04\x00" + bytes(200)))


def test_segment_keys_take_no_memory_before_they_are_expected() -> None:
    """A label joiner has no keys; bytes that announce many are refused before a table is made."""
    keys = 2**16 - 1
    made = Joiner(JoinSettings(3_600_000_000), keys)
    made.predict(
        [b"a"],
        scores=np.array([0.5]),
        event_us=np.array([10**15]),
        now_us=10**15,
        codes=np.zeros((1, keys), dtype=np.uint16),
    )
    inner = codec.encode_joiner(made)
    whole = label_joiner(Evaluator()).to_bytes()
    # After the outer frame's head: the joiner's length, and the joiner.
    head = 7
    (size,) = struct.unpack_from("<q", whole, head)
    rest = whole[head + 8 + size : -4]
    data = sealed(whole[:head] + struct.pack("<q", len(inner)) + inner + rest)
    del made
    tracemalloc.start()
    try:
        with pytest.raises(CorruptStateError, match=f"the joiner has {keys} segment keys, not 0"):
            LabelJoiner.from_bytes(data)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    with pytest.raises(CorruptStateError, match="the joiner has 2 segment keys, not 3"):
        codec.decode_joiner(codec.encode_joiner(joiner()), keys=3)


def test_equal_joiners_have_equal_bytes() -> None:
    """The slots that ids stand in, and those that are free, make no difference."""
    settings = JoinSettings(10**9)
    one, other = Joiner(settings), Joiner(settings)
    ids = [b"%d" % number for number in range(50)]
    times = {"event_us": np.arange(50) + 10**15, "now_us": 10**15 + 50}
    one.predict(ids, scores=np.arange(50.0), **times)
    gone = [b"x", b"y", b"z"]
    other.predict(gone, scores=np.zeros(3), event_us=times["event_us"][:3], now_us=10**15)
    other.retract(gone[:2], now_us=10**15)
    other.predict(
        ids[::-1], scores=np.arange(50.0)[::-1], event_us=times["event_us"][::-1], now_us=10**15
    )
    other.retract(gone[2:], now_us=10**15 + 50)
    assert codec.encode_joiner(one) == codec.encode_joiner(other)


def test_panes_that_were_emptied_are_not_written() -> None:
    """An evaluator whose cases were all removed has the bytes of an empty one."""
    ev, empty = WindowedEvaluator(), WindowedEvaluator()
    ev.add_case(True, 0.5, at=NOON)
    ev.remove_case(True, 0.5, at=NOON)
    empty.advance(NOON)
    assert ev == empty
    assert ev.to_bytes() == empty.to_bytes()
    assert isinstance(EvaluatorPanes.from_bytes(ev.to_bytes()), EvaluatorPanes)
