"""The merges of one `merge_many` that are not settled: order, new calls, refusals."""

from __future__ import annotations

import pytest

from streameval import Evaluator
from streameval.client._delivery import merge_window
from streameval.client._delivery.merge_upload import Upload
from streameval.client._delivery.merge_window import MergeWindow
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import status_pb2


def upload(source: str, epoch: int) -> Upload:
    """Return a merge of nothing."""
    return Upload("s", Evaluator(), source=source, epoch=epoch, at=None, segments=None)


def taken(window: MergeWindow) -> list[tuple[str, int]]:
    """Take what may be sent now."""
    found = []
    while (each := window.take()) is not None:
        found.append((each.source, each.epoch))
    return found


def refused(number: int) -> pb.MergeRefused:
    """Return the refusal of a merge."""
    refusal = status_pb2.Refusal(code=3, message="bad")
    return pb.MergeRefused(number=number, refusal=refusal, reason="INVALID_MERGE")


def test_answers_settle_merges_in_order() -> None:
    """Cumulatively; the window is empty when all are settled."""
    window = MergeWindow()
    for epoch in (1, 2, 3):
        window.add(upload("a", epoch))
    assert taken(window) == [("a", 1), ("a", 2), ("a", 3)]
    assert not window.must_wait
    window.receive(pb.MergeManyResponse(num_settled=2, revision=7))
    window.receive(pb.MergeManyResponse(num_settled=2, revision=6))
    assert (window.revision, window.is_empty) == (7, False)
    window.receive(pb.MergeManyResponse(num_settled=3, revision=8))
    assert (window.revision, window.is_empty, window.num_refused) == (8, True, 0)


def test_a_new_call_begins_with_one_merge_and_doubles() -> None:
    """It sends what no answer has settled, in the same order."""
    window = MergeWindow()
    for epoch in range(1, 9):
        window.add(upload("a", epoch))
    assert len(taken(window)) == 8
    window.receive(pb.MergeManyResponse(num_settled=1, revision=1))
    window.restart()
    assert window.must_wait
    assert taken(window) == [("a", 2)]
    window.receive(pb.MergeManyResponse(num_settled=1, revision=2))
    assert taken(window) == [("a", 3), ("a", 4)]
    window.receive(pb.MergeManyResponse(num_settled=2, revision=3))
    assert window.must_wait
    assert taken(window) == [("a", 5), ("a", 6), ("a", 7)]
    window.receive(pb.MergeManyResponse(num_settled=4, revision=4))
    assert taken(window) == [("a", 8)]
    assert not window.must_wait


def test_nothing_of_a_refused_source_is_sent_by_a_new_call() -> None:
    """Nor is what is added later: if it counted, the refused merge would be a duplicate."""
    window = MergeWindow()
    for source, epoch in (("a", 1), ("b", 1), ("a", 2), ("b", 2)):
        window.add(upload(source, epoch))
    taken(window)
    window.receive(pb.MergeManyResponse(num_settled=1, refused=[refused(1)]))
    window.restart()
    assert taken(window) == [("b", 1)]
    window.add(upload("a", 3))
    window.receive(pb.MergeManyResponse(num_settled=1, revision=5))
    assert taken(window) == [("b", 2)]
    window.receive(pb.MergeManyResponse(num_settled=2, revision=6))
    assert window.is_empty
    found = [(each.index, each.epoch, each.code, each.reason) for each in window.refused]
    assert found == [
        (0, 1, "INVALID_ARGUMENT", "INVALID_MERGE"),
        (2, 2, "FAILED_PRECONDITION", "SOURCE_STOPPED"),
        (4, 3, "FAILED_PRECONDITION", "SOURCE_STOPPED"),
    ]
    assert window.num_refused == 3


def test_a_window_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In merges and in bytes; and so are the refusals that it keeps."""
    monkeypatch.setattr(merge_window, "MAX_WINDOW_MERGES", 2)
    monkeypatch.setattr(merge_window, "MAX_REFUSALS", 1)
    window = MergeWindow()
    window.add(upload("a", 1))
    assert taken(window) == [("a", 1)]
    assert not window.must_wait
    window.add(upload("b", 2))
    taken(window)
    assert window.must_wait
    window.receive(pb.MergeManyResponse(num_settled=2, refused=[refused(1), refused(2)]))
    assert not window.must_wait
    assert (window.num_refused, len(window.refused)) == (2, 1)
    monkeypatch.setattr(merge_window, "MAX_WINDOW_BYTES", 1)
    window.add(upload("c", 1))
    taken(window)
    assert window.must_wait
