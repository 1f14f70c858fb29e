"""The annotations of a stream: what a change does, and their bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval import CorruptStateError
from streameval.v1 import mark_pb2
from streameval_server._model.mark import MAX_MARKS, Mark, MarkChange, mark_problem
from streameval_server._state.observer import Restoring
from streameval_server._state.stream_marks import StreamMarks

MINUTE = 60_000_000
CHANGES = st.lists(
    st.one_of(
        st.builds(MarkChange, st.integers(1, 5), st.sampled_from(("a", "b c", "ü"))),
        st.builds(lambda number: MarkChange(deleted=number), st.integers(1, 9)),
    ),
    max_size=30,
)


def read(data: bytes) -> StreamMarks:
    marks = StreamMarks()
    marks.from_part("annotations", 0, data, Restoring(1, dict, None))
    return marks


@settings(max_examples=100)
@given(CHANGES)
def test_changes_are_those_of_a_list(changes: list[MarkChange]) -> None:
    """As a plain list of what was made and deleted has it; bytes restore everything."""
    marks, plain, last = StreamMarks(), [], 0
    for at, change in enumerate(changes):
        before = list(plain)
        if change.deleted:
            plain = [each for each in plain if each[0] != change.deleted]
        elif (change.time_us, change.text) not in [each[1:3] for each in plain]:
            last += 1
            plain.append((last, change.time_us, change.text, at))
        assert marks.change(change, at) is (plain != before)
        assert [(m.number, m.time_us, m.text, m.create_us) for m in marks.marks] == plain
        again = read(marks.to_bytes())
        assert (again.marks, again.last_number) == (marks.marks, last)
        assert MarkChange.from_bytes(change.to_bytes()) == change
        assert again.memory_bytes >= len(marks.to_bytes()) - 60


def test_a_stream_keeps_the_newest() -> None:
    """One more than the most drops the one that was made first; numbers are not used again."""
    marks = StreamMarks()
    for number in range(MAX_MARKS + 2):
        assert marks.change(MarkChange(number * MINUTE + 1, "deployed"), number)
    assert len(marks.marks) == MAX_MARKS
    assert [marks.marks[0].number, marks.marks[-1].number] == [3, MAX_MARKS + 2]
    assert read(marks.to_bytes()).marks == marks.marks


@pytest.mark.parametrize("text", ["", " ", "a\nb", "x" * 201, "\x07"])
def test_a_text_that_is_no_line(text: str) -> None:
    """Empty, blank, too long, several lines, control characters: said, and not read from a log."""
    assert mark_problem(text) is not None
    damaged = mark_pb2.MarkChange()
    damaged.created.text = text
    with pytest.raises(CorruptStateError, match="a change of a mark"):
        MarkChange.from_bytes(damaged.SerializeToString())


def test_damaged_marks_are_refused() -> None:
    """Other types, numbers that do not ascend, too many."""
    good = json.loads(read(b'{"last_number":2,"marks":[[1,5,"a",6],[2,5,"b",6]]}').to_bytes())
    assert good["marks"] == [[1, 5, "a", 6], [2, 5, "b", 6]]
    for damage in (
        {"marks": [[2, 5, "b", 6], [1, 5, "a", 6]]},
        {"marks": [[3, 5, "a", 6]]},
        {"marks": [["1", 5, "a", 6]]},
        {"marks": [[1, 5, "", 6]]},
        {"marks": [[1, 5]]},
        {"last_number": -1},
        {"last_number": 9_999, "marks": [[n, n, "a", 6] for n in range(1, MAX_MARKS + 2)]},
    ):
        with pytest.raises(CorruptStateError):
            read(json.dumps(good | damage).encode())
    with pytest.raises(CorruptStateError):
        read(b"[")
    for data in (b"", b"\xff", b"\x10\x00"):
        with pytest.raises(CorruptStateError):
            MarkChange.from_bytes(data)


def test_a_mark_is_a_message_and_back() -> None:
    """To the microsecond."""
    mark = Mark(7, 1_700_000_000_123_456, "v4 deployed", 1_700_000_001_000_000)
    assert Mark.of_message(mark.to_message()) == mark
