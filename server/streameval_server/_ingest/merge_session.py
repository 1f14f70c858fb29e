"""The server's side of a MergeMany stream, without the network.

Checked merges go in, answers come out: how many of the first merges are settled, which of
them were duplicates, which were refused. Merges of one source into one stream count in the
order in which they were sent or not at all: after one that is refused the others are refused
too. So a client that sends what is not settled again, in the same order, never takes a
refused merge for a duplicate.

A failure that may pass (a full queue, a failed disk) ends the stream: the client sends what
is not settled again. Cost: O(1) a merge, besides its check.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from streameval.v1 import ingest_pb2
from streameval_server._log.entries import Format, Item, Kind, Status
from streameval_server._model.errors import Code, Refused, RequestError, source_stopped
from streameval_server._model.threads import do_nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from streameval_server._batch.merge import MergeInbox
    from streameval_server._core.committer import Committer
    from streameval_server._log.entries import Outcome, Owner
    from streameval_server._model.limits import Limits
    from streameval_server._model.rows import MergeRows

MAX_WAITING_MERGES = 1_024
"""Merges of one stream that are not reported, at most: even an empty one takes memory."""

MAX_UNREPORTED_MERGES = 16
"""Settled merges that wait for one answer while others of the stream are not settled: an answer
costs more of the event loop than reading a small merge."""

MAX_UNREPORTED_BYTES = 1 << 20
"""Settled bytes that wait so: a client of large merges has a window of fewer than 16, and sends
no more before some are answered."""

MAX_STOPPED_SOURCES = 16_384
"""Sources that a stream stops at most; then it ends, and the client begins another."""

_MAX_NAME_CHARACTERS = 1_024
"""More than any valid name of a stream or a source has."""

_PASSING = frozenset({Code.ABORTED, Code.UNAVAILABLE, Code.INTERNAL})


class CheckedMerge(NamedTuple):
    """A merge that has arrived.

    Attributes
    ----------
    inbox : MergeInbox
        The inbox that collected it; it has a header.
    prepared : (MergeRows, bytes) or None
        The result of its `finish`; None when it is a duplicate or refused.
    error : RequestError or None
        Why it is refused.
    """

    inbox: MergeInbox
    prepared: tuple[MergeRows, bytes] | None = None
    error: RequestError | None = None


class _Merge:
    """A merge that was fed and is not reported yet; the owner of its item."""

    __slots__ = ("_session", "error", "is_duplicate", "is_settled", "number")

    def __init__(self, session: MergeSession, number: int) -> None:
        self._session = session
        self.number = number
        self.is_settled = self.is_duplicate = False
        self.error: RequestError | None = None

    def settle(self, outcome: Outcome) -> None:
        """Accept the outcome."""
        self._session.settle(self, outcome)


class MergeSession:
    """One MergeMany stream.

    Parameters
    ----------
    committer, limits
        The server's.
    wake
        Called when replies, room or an error are new, in the thread that calls `feed` or
        delivers outcomes.
    """

    def __init__(
        self, committer: Committer, limits: Limits, wake: Callable[[], None] = do_nothing
    ) -> None:
        self._committer = committer
        self._limits = limits
        self._wake = wake
        # Those that are not reported, in the order in which they were fed.
        self._waiting: deque[_Merge] = deque()
        self._num_fed = self._num_unsettled = self._inflight_bytes = self._unreported_bytes = 0
        self._revision = 0
        self._error: RequestError | None = None
        # Sources that were stopped before a merge was submitted, and those that the
        # committer's thread stopped.
        self._refused: set[tuple[str, str]] = set()
        self._stopped: set[tuple[str, str]] = set()

    def feed(self, checked: CheckedMerge) -> None:
        """Accept the next merge.

        Raises
        ------
        RequestError
            The stream must end with it: this merge and later ones are not settled. Those
            before may still become durable.
        """
        if self._error is not None:
            raise self._error
        header = checked.inbox.header
        assert header is not None
        key, error = (header.stream, header.source), checked.error
        if error is None and key in self._refused:
            error = source_stopped(*key)
        if error is not None and _is_passing(error):
            raise error
        if len(self._refused) + len(self._stopped) >= MAX_STOPPED_SOURCES:
            raise _too_many_refused()
        merge = _Merge(self, self._num_fed + 1)
        if error is not None:
            # A name that is refused itself cannot be that of a later merge that counts.
            if max(len(header.stream), len(header.source)) <= _MAX_NAME_CHARACTERS:
                self._refused.add(key)
            merge.error, merge.is_settled = error, True
        elif checked.prepared is None:
            # A lower or equal epoch is durable.
            merge.is_duplicate = merge.is_settled = True
            self._revision = max(self._revision, self._committer.revision)
        else:
            item = merge_item(merge, checked.inbox, checked.prepared)
            item.stopped = self._stopped
            self._committer.submit(item)
            self._num_unsettled += 1
            self._inflight_bytes += item.nbytes
        self._num_fed += 1
        self._waiting.append(merge)
        if merge.is_settled:
            self._wake()

    def settle(self, merge: _Merge, outcome: Outcome) -> None:
        """Accept the outcome of a merge."""
        self._num_unsettled -= 1
        self._inflight_bytes -= outcome.item.nbytes
        if self._error is None:
            if outcome.error is not None and _is_passing(outcome.error):
                self._error = outcome.error
            else:
                merge.error, merge.is_settled = outcome.error, True
                self._unreported_bytes += outcome.item.nbytes
                merge.is_duplicate = outcome.status is Status.DUPLICATE
                self._revision = max(self._revision, outcome.revision)
        self._wake()

    @property
    def full(self) -> bool:
        """Whether the reader must pause until a merge is settled."""
        return (
            self._inflight_bytes >= self._limits.max_inflight_bytes
            or len(self._waiting) >= MAX_WAITING_MERGES
        )

    @property
    def idle(self) -> bool:
        """Whether all fed merges are settled."""
        return not self._num_unsettled

    @property
    def error(self) -> RequestError | None:
        """Why the stream must end, after a merge met a failure that may pass."""
        return self._error

    def replies(self) -> list[ingest_pb2.MergeManyResponse]:
        """Return one answer, for the first merges that are settled; none without news.

        While others are on their way to the log, none before `MAX_UNREPORTED_MERGES` are settled:
        the commits after this one bring more of them, or the last.
        """
        waiting, last = self._waiting, 0
        num_settled = len(waiting) - self._num_unsettled
        is_few = (
            num_settled < MAX_UNREPORTED_MERGES and self._unreported_bytes < MAX_UNREPORTED_BYTES
        )
        if is_few and not (self.idle or self.full or self._error):
            return []
        duplicates: list[int] = []
        refused: list[ingest_pb2.MergeRefused] = []
        while waiting and waiting[0].is_settled:
            merge = waiting.popleft()
            last = merge.number
            if merge.is_duplicate:
                duplicates.append(last)
            elif merge.error is not None:
                refused.append(_refusal(last, merge.error))
        if not last:
            return []
        self._unreported_bytes = 0
        return [
            ingest_pb2.MergeManyResponse(
                num_settled=last, revision=self._revision, duplicates=duplicates, refused=refused
            )
        ]


def merge_item(owner: Owner, inbox: MergeInbox, prepared: tuple[MergeRows, bytes]) -> Item:
    """Return the item of a complete merge; `prepared` is the result of the inbox's `finish`."""
    rows, payload = prepared
    assert inbox.header is not None
    stream = inbox.header.stream
    return Item(
        owner,
        Kind.MERGE,
        Format.BY_KIND,
        stream,
        producer="",
        epoch=0,
        sequence=0,
        payload=payload,
        rows=rows,
        nbytes=len(payload),
        settings=inbox.settings,
    )


def _is_passing(error: RequestError) -> bool:
    """Whether the same merge may succeed later."""
    return error.retry_after_s is not None or error.code in _PASSING


def _too_many_refused() -> RequestError:
    return RequestError(
        Code.ABORTED,
        f"merges of {MAX_STOPPED_SOURCES} sources were refused in this call: begin another one "
        "and send those that are not settled",
        reason="SOURCES_STOPPED",
        retry_after_s=0.0,
    )


def _refusal(number: int, error: RequestError) -> ingest_pb2.MergeRefused:
    refused = Refused(error.code, error.message, error.violations)
    return ingest_pb2.MergeRefused(number=number, refusal=refused.to_message(), reason=error.reason)
