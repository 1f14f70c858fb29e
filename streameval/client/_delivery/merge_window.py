"""The merges of one `merge_many` that are sent and not settled, without I/O.

A call settles merges in the order in which it received them. After it breaks, another one
receives everything that waits, in the same order; the server answers with duplicates for
those that had become durable. A new call begins with one merge and sends twice as many with
each answer: connections that break after fewer bytes than wait would else never settle any.

After a merge that was refused, later ones of its source are refused too: by the server within
a call, and here before a new one. If a later epoch counted, the refused merge could not be
sent again, corrected: it would be a duplicate.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from google.rpc import code_pb2

from streameval.client._errors import RefusedMerge, Violation

if TYPE_CHECKING:
    from streameval.client._delivery.merge_upload import Upload
    from streameval.v1 import ingest_pb2

MAX_WINDOW_BYTES = 8 << 20
"""Encoded merges that may wait for their answer."""

MAX_WINDOW_MERGES = 512
"""Merges that may wait for their answer; the server reads 1,024 ahead of its answers."""

MAX_REFUSALS = 1_000
"""Refusals that are kept, the first; all are counted."""


class _Waiting(NamedTuple):
    number: int
    upload: Upload


class MergeWindow:
    """Merges in order, from the first that is not settled.

    Attributes
    ----------
    revision : int
        Log revision that includes those that are settled.
    num_refused : int
        How many were refused.
    refused : list of RefusedMerge
        The first of them.
    """

    def __init__(self) -> None:
        self.revision = 0
        self.num_refused = 0
        self.refused: list[RefusedMerge] = []
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._num_added = 0
        self._num_settled = self._num_sent = 0  # by the present call
        self._max_unsettled = MAX_WINDOW_MERGES
        self._stopped: set[str] = set()

    def add(self, upload: Upload) -> None:
        """Append a merge. O(1)."""
        waiting = _Waiting(self._num_added, upload)
        self._num_added += 1
        if not self._is_stopped(waiting):
            self._waiting.append(waiting)
            self._waiting_bytes += upload.nbytes

    def take(self) -> Upload | None:
        """Return the next merge to be sent by the present call; None when there is none now."""
        under_way = self._num_sent - self._num_settled
        if under_way >= min(len(self._waiting), self._max_unsettled):
            return None
        self._num_sent += 1
        return self._waiting[under_way].upload

    @property
    def must_wait(self) -> bool:
        """Whether an answer is to be read before more is added."""
        return (
            self._num_sent - self._num_settled < len(self._waiting)
            or self._waiting_bytes >= MAX_WINDOW_BYTES
            or len(self._waiting) >= MAX_WINDOW_MERGES
        )

    @property
    def is_empty(self) -> bool:
        """Whether everything is settled."""
        return not self._waiting

    def restart(self) -> None:
        """Have a new call send all that are not settled, after one that has failed. O(those)."""
        self._num_settled = self._num_sent = 0
        self._max_unsettled = 1
        self._waiting = deque(each for each in self._waiting if not self._is_stopped(each))
        self._waiting_bytes = sum(each.upload.nbytes for each in self._waiting)

    def receive(self, answer: ingest_pb2.MergeManyResponse) -> None:
        """Remove the merges that an answer settles. O(those)."""
        refused = {each.number: each for each in answer.refused}
        self.revision = max(self.revision, answer.revision)
        self._max_unsettled = min(2 * self._max_unsettled, MAX_WINDOW_MERGES)
        while self._num_settled < answer.num_settled and self._waiting:
            self._num_settled += 1
            number, upload = self._waiting.popleft()
            self._waiting_bytes -= upload.nbytes
            if self._num_settled in refused:
                self._stopped.add(upload.source)
                self._refuse(_refused(number, upload, refused[self._num_settled]))

    def _is_stopped(self, waiting: _Waiting) -> bool:
        """Refuse a merge if an earlier one of its source was refused; return whether it was."""
        number, upload = waiting
        source = upload.source
        if source not in self._stopped:
            return False
        message = (
            f"an earlier merge of source {source} was refused: correct that one, and send this "
            "one again after it"
        )
        code = "FAILED_PRECONDITION"
        self._refuse(RefusedMerge(number, source, upload.epoch, code, "SOURCE_STOPPED", message))
        return True

    def _refuse(self, refused: RefusedMerge) -> None:
        self.num_refused += 1
        if len(self.refused) < MAX_REFUSALS:
            self.refused.append(refused)


def _refused(index: int, upload: Upload, refused: ingest_pb2.MergeRefused) -> RefusedMerge:
    refusal = refused.refusal
    return RefusedMerge(
        index,
        upload.source,
        upload.epoch,
        code_pb2.Code.Name(refusal.code),
        refused.reason,
        refusal.message,
        tuple(Violation(item.field, item.description) for item in refusal.violations),
    )
