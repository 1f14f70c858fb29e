"""Rows that are appended between two steps of a thread that revokes a grant."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

import pytest

from streameval.client import ClosedError
from streameval.client._buffer.buffer import Buffer
from streameval.client._buffer.unlocked_rows import UnlockedList

from .unlocked_rows import Verbs, add_burst, buffer, stop_ticks, taken

if TYPE_CHECKING:
    pass


@pytest.fixture
def no_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock, and let no ticker revoke grants."""
    stop_ticks(monkeypatch)


class RacingList(UnlockedList):
    """Runs `before`, as another thread would, right before a row is appended."""

    __slots__ = ("before",)

    def append(self, value: float) -> None:
        """Run `before` once, then append."""
        happens, self.before = self.before, lambda: None
        happens()
        super().append(value)

    def __iadd__(self, values: object) -> Self:
        """Run `before` once, then extend."""
        happens, self.before = self.before, lambda: None
        happens()
        return super().__iadd__(values)


def racing_stream(box: Buffer) -> tuple[Verbs, RacingList, RacingList, RacingList]:
    """Return a stream with grants, and its lists of positives, negatives and rows by id."""
    stream_buffer = box.stream_buffer("s")
    positives, negatives, triples = RacingList(), RacingList(), RacingList()
    positives.before = negatives.before = triples.before = lambda: None
    stream_buffer.unlocked_cases.positives, stream_buffer.unlocked_cases.negatives = (
        positives,
        negatives,
    )
    stream_buffer.unlocked_ids.triples = triples
    stream = Verbs(box, "s")
    add_burst(stream)
    return stream, positives, negatives, triples


@pytest.mark.usefixtures("no_ticks")
def test_a_row_appended_after_the_buffer_was_drained_is_kept() -> None:
    """The caller checks `allowed` again after appending and reports its row."""
    box = buffer()
    stream, positives, negatives, triples = racing_stream(box)
    for scores, positive in ((positives, True), (negatives, False)):
        scores.before = lambda: taken(box)
        stream.add_case(positive, 7.0)
        assert taken(box) == ([(7.0, positive)], [])
        add_burst(stream)
        taken(box)
    add_burst(stream)
    triples.before = lambda: taken(box)
    stream.log("late", 7.0)
    assert taken(box) == ([], ["late"])


@pytest.mark.usefixtures("no_ticks")
@pytest.mark.parametrize("closed", [True, False])
def test_a_row_appended_while_its_client_closes_is_refused(closed: bool) -> None:
    """Its caller gets ClosedError, as every later caller does; or the row counts as dropped."""
    end = (lambda box: box.close("the client is closed")) if closed else Buffer.discard
    for late in (0, 1, 2):
        box = buffer()
        stream, *lists = racing_stream(box)
        lists[late].before = lambda box=box: end(box)
        calls = [
            lambda stream=stream: stream.add_case(True, 7.0),
            lambda stream=stream: stream.add_case(False, 7.0),
            lambda stream=stream: stream.log("late", 7.0),
        ]
        for dropped, call in enumerate(calls[late:] + calls[:late], 1):
            if closed:
                with pytest.raises(ClosedError, match="the client is closed"):
                    call()
            assert box.dropped == (0 if closed else dropped - 1)
            if not closed:
                call()
        assert 7.0 not in [score for score, _ in taken(box)[0]]
        assert not any(lists)


class WatchedList(UnlockedList):
    """Records `allowed` when its length is read; a value is appended while it is sliced."""

    __slots__ = ("allowed_then", "late")

    def __len__(self) -> int:
        self.allowed_then = self.allowed
        return super().__len__()

    def __getitem__(self, place: object) -> object:
        values = super().__getitem__(place)
        self.append(self.late)
        return values


def test_a_list_is_revoked_before_it_is_read_and_keeps_late_values() -> None:
    """A caller's row is either taken, or its caller finds the grant revoked."""
    rows = WatchedList()
    rows += [1.0, 2.0]
    rows.allow(4)
    rows.late = 3.0
    assert rows.take() == [1.0, 2.0]
    assert (rows.allowed, rows.allowed_then) == (0, 0)
    assert list(rows) == [3.0]


@pytest.mark.usefixtures("no_ticks")
def test_late_rows_count_in_the_next_grant() -> None:
    """A late row left in the list uses room of the next grant."""
    box = buffer(capacity=600)
    stream = Verbs(box, "s")
    add_burst(stream)
    box.collect_unlocked()
    late = stream._stream_buffer.unlocked_cases.negatives
    late.append(5.0)
    for i in range(1000):
        stream.add_case(False, float(i))
    box.collect_unlocked()
    assert box.accepted == 600
    assert not late


@pytest.mark.usefixtures("no_ticks")
def test_late_rows_have_a_time_of_their_own() -> None:
    """A late row keeps its stamp although a dated row was added in between."""
    box = buffer()
    stream, positives, _, triples = racing_stream(box)
    box.take()
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    add_burst(stream)
    triples.before = lambda: stream.log("dated", 0.5, at=noon, segments={"k": "v"})
    stream.log("late", 0.5)
    positives.before = lambda: (box.collect_unlocked(), stream.add_case(True, 8.0, at=noon))
    stream.add_case(True, 9.0)
    stream.add_case(True, 10.0)
    cases, predictions = box.take()
    when = dict(zip(predictions.ids, predictions.times.tolist(), strict=True))
    assert when["dated"] > 0 > when["late"]
    when = dict(zip(cases.scores.tolist(), cases.times.tolist(), strict=True))
    assert when[8.0] > 0 > when[9.0]
    assert when[10.0] < 0
