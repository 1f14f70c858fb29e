"""Rows become batches within the server's limits, and decode to equal rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.client._buffer.buffer import Buffer
from streameval.client._buffer.columns import BufferedCases, BufferedMisses, Rows, coalesce_cases
from streameval.client._buffer.id_columns import BufferedPredictions
from streameval_server import Limits
from streameval_server._batch.decode import decode

finite = st.floats(allow_nan=False, allow_infinity=False)


def all_batches(rows: Rows, max_rows: int, max_bytes: int) -> list[Rows]:
    """Split rows into pieces within the limits."""
    pieces = []
    rest: Rows | None = rows
    while rest is not None:
        head, rest = rest.split(max_rows, max_bytes)
        pieces.append(head)
    return pieces


@given(
    cases=st.lists(st.tuples(st.booleans(), finite, st.integers(1, 2**50)), min_size=1),
    counted=st.booleans(),
    max_rows=st.integers(1, 30),
    max_bytes=st.integers(600, 2000),
)
def test_cases_arrive_as_they_were(
    cases: list[tuple[bool, float, int]], counted: bool, max_rows: int, max_bytes: int
) -> None:
    """The server decodes equal labels, scores and counts from batches within its limits."""
    labels, scores, counts = (np.array(column) for column in zip(*cases))
    rows = BufferedCases("s", labels, scores, counts if counted else None)
    limits = Limits(max_batch_rows=max_rows, max_batch_bytes=max_bytes)
    decoded = []
    for sequence, piece in enumerate(all_batches(rows, max_rows, max_bytes), 1):
        batch = piece.batch(sequence)
        assert batch.sequence == sequence
        assert batch == piece.batch(sequence)
        assert batch.ByteSize() <= piece.wire_bytes <= max_bytes
        decoded.append(decode(batch, batch.ByteSize(), 0, limits))
    np.testing.assert_array_equal(np.concatenate([piece.labels for piece in decoded]), labels)
    np.testing.assert_array_equal(np.concatenate([piece.scores for piece in decoded]), scores)
    if counted:
        np.testing.assert_array_equal(np.concatenate([p.counts for p in decoded]), counts)


def test_misses_arrive_as_they_were() -> None:
    """Misses are one row and cannot be split."""
    rows = BufferedMisses("s", 3, 4)
    assert rows.split(1, 1) == (rows, None)
    decoded = decode(rows.batch(1), 10, 0, Limits())
    assert (decoded.positives, decoded.negatives) == (3, 4)


def test_rows_join_where_that_changes_nothing() -> None:
    """Plain cases are joined, and so are misses; counted cases and huge misses are not."""
    plain = BufferedCases("s", np.array([True]), np.array([1.0]))
    counted = BufferedCases("s", np.array([True]), np.array([1.0]), np.array([2**61]))
    huge = BufferedMisses("s", 2**61, 0)
    assert coalesce_cases([plain]) == [plain]
    pieces = coalesce_cases(
        [plain, BufferedMisses("s", 1, 0), counted, plain, BufferedMisses("s", 0, 2), counted]
    )
    assert sum(piece.size for piece in pieces) == 6
    assert [piece for piece in pieces if piece is counted] == [counted, counted]
    assert BufferedMisses("s", 1, 2, size=2) in pieces
    assert max(piece.size for piece in pieces if isinstance(piece, BufferedCases)) == 2
    assert coalesce_cases([huge, huge, BufferedMisses("s", 1, 1)]) == [
        huge,
        BufferedMisses("s", 2**61, 0),
        BufferedMisses("s", 1, 1),
    ]
    apart = [
        BufferedMisses("s", 1, 0, 1, 5),
        BufferedMisses("s", 1, 0, 1, 6),
        BufferedMisses("s", 1, 0, 1, 5),
    ]
    assert coalesce_cases(apart) == [
        BufferedMisses("s", 2, 0, 2, 5),
        BufferedMisses("s", 1, 0, 1, 6),
    ]


def buffer(capacity: int = 100, starts: list[int] | None = None) -> Buffer:
    """Return a buffer that drops rows when full, and records when it starts a sender."""
    started = [] if starts is None else starts

    def start() -> bool:
        started.append(1)
        return True

    return Buffer(capacity=capacity, batch_rows=10, when_full="drop", start=start)


def test_a_buffer_is_drained_at_once() -> None:
    """Each added row is drained once."""
    starts: list[int] = []
    box = buffer(starts=starts)
    stream = box.stream_buffer("a")
    assert box.stream_buffer("a") is stream
    assert box.take() == []
    assert not starts
    box.add_case(stream, True, 1.0)
    box.add_case(stream, False, 2.0)
    box.add_rows(
        stream, BufferedCases("a", np.array([True]), np.array([3.0]), None, stream.stamps.now())
    )
    assert starts == [1]
    (cases,) = box.take()
    assert isinstance(cases, BufferedCases)
    assert sorted(zip(cases.scores, cases.positives)) == [(1.0, True), (2.0, False), (3.0, True)]
    assert box.take() == []


def test_a_sender_that_cannot_start_yet_is_asked_again() -> None:
    """Each row calls `start` until it returns True."""
    asked: list[int] = []

    def start() -> bool:
        asked.append(1)
        return len(asked) == 2

    box = Buffer(capacity=9, batch_rows=10, when_full="drop", start=start, wake=lambda: None)
    for score in range(4):
        box.add_case(box.stream_buffer("a"), True, float(score))
    assert len(asked) == 2


def test_kinds_of_rows_come_out_together() -> None:
    """Misses and cases of several streams are drained at once."""
    box = buffer()
    stream, other = box.stream_buffer("a"), box.stream_buffer("b")
    box.add_case(stream, True, 1.0)
    box.add_rows(other, BufferedMisses("b", 1, 0))
    _, misses = box.take()
    assert misses == BufferedMisses("b", 1, 0)
    assert box.take() == []


def test_room_comes_back_when_rows_are_settled() -> None:
    """Drained rows occupy the buffer until they are settled."""
    box = buffer(capacity=3)
    stream = box.stream_buffer("a")
    box.add_rows(stream, BufferedCases("a", np.ones(5, bool), np.arange(5.0)))
    assert (box.accepted, box.dropped) == (3, 2)
    (taken,) = box.take()
    assert taken.size == 3
    box.add_case(stream, True, 9.0)
    assert (box.accepted, box.dropped) == (3, 3)
    box.settled(2)
    for _ in range(3):
        box.add_case(stream, True, 9.0)
    assert (box.accepted, box.dropped) == (5, 4)


def test_a_discarding_buffer_counts_what_it_drops() -> None:
    """After `discard` no row is accepted, even when rows are settled."""
    box = buffer()
    box.discard()
    box.settled(0)
    box.add_case(box.stream_buffer("a"), True, 1.0)
    assert (box.accepted, box.dropped) == (0, 1)


def test_a_waiting_sender_is_woken() -> None:
    """`wait` returns for a full batch, after the linger time, or when `ready` returns True."""
    box = buffer()
    stream = box.stream_buffer("a")
    box.wait(lambda: True, linger_s=60)
    for score in range(10):
        box.add_case(stream, True, float(score))
    box.wait(lambda: False, linger_s=60)
    box.take()
    box.add_case(stream, True, 1.0)
    box.wait(lambda: False, linger_s=0.001)
    assert box.has_rows()


@pytest.mark.parametrize(
    "rows", [BufferedMisses("a", 1, 1), BufferedCases("a", np.ones(1, bool), np.ones(1))]
)
def test_a_reset_buffer_is_empty(rows: Rows) -> None:
    """A forked child starts empty, with the stream buffers that its streams refer to."""
    box = buffer()
    stream = box.stream_buffer("a")
    box.add_rows(stream, rows)
    box.add_case(stream, True, 1.0)
    box.reset()
    assert box.take() == []
    box.add_case(stream, True, 2.0)
    (taken,) = box.take()
    assert taken.size == 1


def test_two_rows_that_do_not_fit_together_are_split() -> None:
    """Also where the share of one row rounds down to nothing."""
    rows = BufferedPredictions("s", ["a" * 500, "b" * 500], np.zeros(2))
    head, rest = rows.split(1_000, rows.wire_bytes - 1)
    assert rest is not None
    assert (head.ids, rest.ids) == ([rows.ids[0]], [rows.ids[1]])
