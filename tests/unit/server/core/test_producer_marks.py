"""Producer marks: how far each producer has come, and when it is forgotten."""

from __future__ import annotations

import struct

import pytest

from streameval_server._core.producer_marks import (
    MAX_PRODUCER_CHECKSUMS,
    MAX_PRODUCER_REFUSALS,
    Marks,
    ProducerMark,
    RefusedSequence,
    SequenceStatus,
    sequence_status,
)
from streameval_server._model.errors import Code, CorruptLogError, Refused

REFUSED = Refused(Code.INVALID_ARGUMENT, "no ü", (("cases.scores[0]", "no ü"),))


@pytest.mark.parametrize(
    ("mark", "epoch", "sequence", "status"),
    [
        (None, 9, 1, SequenceStatus.NEXT),
        (None, 9, 2, SequenceStatus.GAP),
        (None, 9, 0, SequenceStatus.DUPLICATE),
        (ProducerMark(5, 3, 0), 5, 3, SequenceStatus.DUPLICATE),
        (ProducerMark(5, 3, 0), 5, 1, SequenceStatus.DUPLICATE),
        (ProducerMark(5, 3, 0), 5, 4, SequenceStatus.NEXT),
        (ProducerMark(5, 3, 0), 5, 5, SequenceStatus.GAP),
        (ProducerMark(5, 3, 0), 4, 4, SequenceStatus.FENCED),
        (ProducerMark(5, 3, 0), 6, 1, SequenceStatus.NEXT),
        (ProducerMark(5, 3, 0), 6, 4, SequenceStatus.GAP),
    ],
)
def test_sequence_status(mark, epoch, sequence, status):
    """Sequences count from 1 for each epoch; lower epochs are fenced."""
    assert sequence_status(mark, epoch, sequence) is status


def test_idle_producers_are_forgotten_in_the_logs_time():
    """Only a later entry makes a producer be forgotten; each of its own restarts the time."""
    marks = Marks(ttl_us=100)
    marks.record("a", 1, 1, at_us=0)
    marks.record("b", 1, 1, at_us=50)
    marks.record("a", 1, 2, at_us=80)
    marks.record("", 0, 0, at_us=150)
    assert (marks.get("a"), marks.get("b")) == (ProducerMark(1, 2, 80), ProducerMark(1, 1, 50))
    marks.record("c", 1, 1, at_us=151)
    assert marks.get("b") is None
    assert marks.last_sequence("a", 1) == 2
    assert marks.last_sequence("a", 2) == 0
    assert len(marks) == 2


def test_copies_are_independent():
    """The engine's marks do not change with the committer's."""
    marks = Marks(ttl_us=100)
    marks.record("a", 1, 1, at_us=0)
    other = marks.copy()
    other.record("a", 1, 2, at_us=0)
    assert (marks.last_sequence("a", 1), other.last_sequence("a", 1)) == (1, 2)


def test_bytes_keep_marks_and_their_order():
    """Restored marks forget producers in the same order."""
    marks = Marks(ttl_us=100)
    for at, name in enumerate(["x", "ü" * 64, "x", "y\0z"]):
        marks.record(name, 2**63 - 1, at + 1, at_us=at)
    data = marks.to_bytes()
    again = Marks.from_bytes(data, 100)
    assert again.to_bytes() == data
    again.record("", 0, 0, at_us=102)
    assert [again.get(name) is None for name in ("ü" * 64, "x", "y\0z")] == [True, False, False]


def test_the_newest_refusals_of_an_epoch_are_remembered():
    """Up to a limit. Later sequences of the epoch keep them, another epoch does not."""
    marks = Marks(ttl_us=100)
    for sequence in range(1, 101):
        marks.record("a", 1, sequence, at_us=0, revision=sequence + 7, refused=REFUSED)
    marks.record("a", 1, 101, at_us=0)
    mark = marks.get("a")
    assert [each.sequence for each in mark.refusals] == list(
        range(101 - MAX_PRODUCER_REFUSALS, 101)
    )
    assert mark.refusal(100) == RefusedSequence(100, 107, REFUSED)
    assert (mark.refusal(1), mark.refusal(101)) == (None, None)
    marks.record("a", 2, 1, at_us=0)
    assert marks.get("a").refusals == ()


def test_a_remembered_refusal_is_bounded():
    """All refusals that are kept of a producer fit in one message."""
    text = "ü" * 100_000
    marks = Marks(ttl_us=100)
    marks.record("a", 1, 1, at_us=0, refused=Refused(Code.NOT_FOUND, text, ((text, text),) * 9))
    (refusal,) = marks.get("a").refusals
    assert refusal.refused.message == "ü" * 512
    assert refusal.to_message().ByteSize() * MAX_PRODUCER_REFUSALS < 1 << 20


def test_of_all_producers_refusals_the_newest_are_remembered():
    """Of any producers; those of an older epoch or of a forgotten producer make room."""
    marks = Marks(ttl_us=100, max_refusals=4)

    def refuse(producer, epoch, sequence, revision, at_us=0):
        marks.record(producer, epoch, sequence, at_us, revision=revision, refused=REFUSED)

    def kept():
        names = ("a", "b", "c")
        found = {name: marks.get(name) for name in names}
        return {
            name: [each.revision for each in mark.refusals]
            for name, mark in found.items()
            if mark is not None
        }

    for revision, producer in enumerate("aabba", start=1):
        refuse(producer, 1, revision, revision)
    assert kept() == {"a": [2, 5], "b": [3, 4]}
    assert Marks.from_bytes(marks.to_bytes(), 100).to_bytes() == marks.to_bytes()
    refuse("a", 2, 1, 6, at_us=90)  # a new epoch: the two of the old one are dropped
    refuse("c", 1, 1, 7, at_us=90)
    assert kept() == {"a": [6], "b": [3, 4], "c": [7]}
    refuse("c", 1, 2, 8, at_us=90)
    assert kept() == {"a": [6], "b": [4], "c": [7, 8]}
    other = marks.copy()
    marks.record("c", 1, 3, at_us=101)  # b was idle: its one is dropped
    refuse("c", 1, 4, 9, at_us=101)
    assert kept() == {"a": [6], "c": [7, 8, 9]}
    assert len(other.get("b").refusals) == 1
    assert Marks.from_bytes(marks.to_bytes(), 100).to_bytes() == marks.to_bytes()


def test_checksums_of_the_newest_batches_are_kept():
    """Of this epoch, up to a number; what is not known may be the same."""
    marks = Marks(ttl_us=100)
    last = MAX_PRODUCER_CHECKSUMS + 2
    for sequence in range(1, last + 1):
        marks.record("a", 5, sequence, 0, content=1000 + sequence)
    mark = marks.get("a")
    for sequence in range(1, last + 1):
        assert mark.agrees(sequence, 1000 + sequence)
        assert mark.agrees(sequence, 7) == (sequence <= 2), sequence
        assert mark.agrees(sequence, 0)
    marks.record("a", 5, last + 1, 0, revision=1, refused=REFUSED)
    marks.record("a", 5, last + 2, 0, content=7)
    mark = marks.get("a")
    assert [mark.agrees(last + n, 7) for n in range(3)] == [False, True, True]
    again = Marks.from_bytes(marks.to_bytes(), 100)
    assert again.get("a") == mark
    marks.record("a", 6, 0, 0)
    assert marks.get("a") == ProducerMark(6, 0, 0)


def test_of_all_producers_checksums_those_of_idle_ones_go_first():
    """In the order of their last entries, so that a checkpoint and the log agree."""
    marks = Marks(ttl_us=100, max_checksums=3)
    marks.record("a", 1, 1, 0, content=1)
    marks.record("b", 1, 1, 0, content=1)
    marks.record("c", 1, 1, 0)  # of an older format
    marks.record("a", 1, 2, 0, content=1)
    copies = [marks.copy(), Marks.from_bytes(marks.to_bytes(), 100, max_checksums=3), marks]
    for each in copies:
        each.record("d", 1, 1, 0, content=1)
        lengths = {name: len(each.get(name).checksums) // 4 for name in "abcd"}
        assert lengths == {"a": 2, "b": 0, "c": 0, "d": 1}
        each.record("e", 1, 1, at_us=101, content=1)  # forgets the others
        assert len(each) == 1
        assert len(each.get("e").checksums) == 4
    assert len({each.to_bytes() for each in copies}) == 1


def test_bytes_with_more_refusals_than_are_remembered_keep_the_newest():
    """An older version may have written them."""
    marks = Marks(ttl_us=100)
    for revision, producer in enumerate("abab", start=1):
        marks.record(producer, 1, revision, at_us=0, revision=revision, refused=REFUSED)
    data = marks.to_bytes()
    again = Marks.from_bytes(data, 100, max_refusals=1)
    assert again.get("a").refusals == ()
    assert [each.revision for each in again.get("b").refusals] == [4]


def test_bytes_keep_refusals():
    """Sequence, revision, code and texts, beside producers without refusals."""
    marks = Marks(ttl_us=100)
    marks.record("a", 1, 1, at_us=0, revision=1, refused=REFUSED)
    marks.record("b", 1, 1, at_us=1, revision=2)
    marks.record("a", 1, 2, at_us=1, revision=3, refused=Refused(Code.NOT_FOUND, ""))
    again = Marks.from_bytes(marks.to_bytes(), 100)
    assert [again.get(name) for name in "ab"] == [marks.get(name) for name in "ab"]
    assert again.to_bytes() == marks.to_bytes()


def test_bytes_of_another_format_are_refused():
    """An unknown format is an error."""
    with pytest.raises(CorruptLogError, match="unknown format"):
        Marks.from_bytes(struct.pack("<q", -4), 100)


@pytest.mark.parametrize("cut", [1, 7, 9, 39, 40, 41, 42, 61, 62, -1])
def test_truncated_bytes_are_refused(cut):
    """Truncated bytes must not be read as fewer marks."""
    marks = Marks(ttl_us=100)
    marks.record("ab", 1, 1, at_us=0, refused=REFUSED)
    with pytest.raises(CorruptLogError):
        Marks.from_bytes(marks.to_bytes()[:cut], 100)
