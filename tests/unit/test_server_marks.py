"""Producer marks: how far each producer has come, and when it is forgotten."""

from __future__ import annotations

import pytest

from streameval_server._errors import CorruptLogError
from streameval_server._marks import Mark, Marks, Verdict, judge


@pytest.mark.parametrize(
    ("mark", "epoch", "sequence", "verdict"),
    [
        (None, 9, 1, Verdict.NEXT),
        (None, 9, 2, Verdict.GAP),
        (None, 9, 0, Verdict.DUPLICATE),
        (Mark(5, 3, 0), 5, 3, Verdict.DUPLICATE),
        (Mark(5, 3, 0), 5, 1, Verdict.DUPLICATE),
        (Mark(5, 3, 0), 5, 4, Verdict.NEXT),
        (Mark(5, 3, 0), 5, 5, Verdict.GAP),
        (Mark(5, 3, 0), 4, 4, Verdict.FENCED),
        (Mark(5, 3, 0), 6, 1, Verdict.NEXT),
        (Mark(5, 3, 0), 6, 4, Verdict.GAP),
    ],
)
def test_judge(mark, epoch, sequence, verdict):
    """Sequences count from 1 for each epoch; lower epochs are fenced."""
    assert judge(mark, epoch, sequence) is verdict


def test_idle_producers_are_forgotten_in_the_logs_time():
    """Only a later entry forgets, and being seen again starts the time anew."""
    marks = Marks(ttl_us=100)
    marks.record("a", 1, 1, at_us=0)
    marks.record("b", 1, 1, at_us=50)
    marks.record("a", 1, 2, at_us=80)
    marks.record("", 0, 0, at_us=150)
    assert (marks.get("a"), marks.get("b")) == (Mark(1, 2, 80), Mark(1, 1, 50))
    marks.record("c", 1, 1, at_us=151)
    assert marks.get("b") is None
    assert marks.last_sequence("a", 1) == 2
    assert marks.last_sequence("a", 2) == 0
    assert len(marks) == 2


def test_copies_go_their_own_way():
    """The engine's marks do not follow the committer's."""
    marks = Marks(ttl_us=100)
    marks.record("a", 1, 1, at_us=0)
    other = marks.copy()
    other.record("a", 1, 2, at_us=0)
    assert (marks.last_sequence("a", 1), other.last_sequence("a", 1)) == (1, 2)


def test_bytes_keep_marks_and_their_order():
    """What was restored forgets in the same order."""
    marks = Marks(ttl_us=100)
    for at, name in enumerate(["x", "ü" * 64, "x", "y\0z"]):
        marks.record(name, 2**63 - 1, at + 1, at_us=at)
    data = marks.to_bytes()
    again = Marks.from_bytes(data, 100)
    assert again.to_bytes() == data
    again.record("", 0, 0, at_us=102)
    assert [again.get(name) is None for name in ("ü" * 64, "x", "y\0z")] == [True, False, False]


@pytest.mark.parametrize("cut", [1, 27, 28, 29])
def test_truncated_bytes_are_refused(cut):
    """Bytes that end too soon are not fewer marks."""
    marks = Marks(ttl_us=100)
    marks.record("ab", 1, 1, at_us=0)
    with pytest.raises(CorruptLogError):
        Marks.from_bytes(marks.to_bytes()[:cut], 100)
