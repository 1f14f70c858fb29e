"""A stream of merges: settled in order, refused without harm to others, exactly once."""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING

import pytest

from streameval import Evaluator
from streameval.v1 import ingest_pb2 as pb
from streameval_server._batch.merge import MergeInbox
from streameval_server._core.committer import State
from streameval_server._core.recovery import open_core
from streameval_server._ingest import merge_session
from streameval_server._ingest.merge_session import CheckedMerge, MergeSession
from streameval_server._log.storage import MemoryStorage
from streameval_server._model.errors import Code, RequestError, StorageError
from streameval_server._model.limits import Limits
from streameval_server._model.rows import memory_of

if TYPE_CHECKING:
    from streameval_server._core.recovery import ServerCore

NOW = 1_800_000_000_000_000


class FailingStorage(MemoryStorage):
    """Fails the next commit if told to, after or before its rows are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: str | None = None

    def append(self, rows) -> None:
        fails, self.fails = self.fails, None
        if fails == "lost":
            raise StorageError("no disk")
        super().append(rows)
        if fails == "kept":
            raise StorageError("no disk")


def checked(
    core: ServerCore,
    epoch: int,
    *,
    source: str = "edge",
    stream: str = "s",
    is_good: bool = True,
) -> CheckedMerge:
    """Return a merge of one positive whose score is its epoch, checked as the service does."""
    evaluator = Evaluator()
    evaluator.add_case(True, float(epoch))
    at_us = 0 if is_good else NOW + 10 * 24 * 3_600_000_000
    state = pb.PaneState(evaluator=evaluator.to_bytes(), event_time_us=at_us)
    data = pb.MergeStates(states=[state]).SerializeToString()
    inbox = MergeInbox(core.limits)
    header = pb.MergeHeader(
        stream=stream, source=source, epoch=epoch, total_bytes=len(data), crc32=zlib.crc32(data)
    )
    inbox.begin(header)
    inbox.add(data)
    catalog = core.committer.catalog
    if inbox.is_duplicate(catalog):
        return CheckedMerge(inbox)
    try:
        return CheckedMerge(inbox, inbox.finish(NOW, inbox.settings_in(catalog)))
    except RequestError as error:
        return CheckedMerge(inbox, error=error)


def committed(core: ServerCore) -> None:
    """Commit what is queued, deliver the outcomes, and apply."""
    core.committer.step(NOW).deliver()
    core.applier.finish()


def epochs_in(core: ServerCore, stream: str = "s") -> list[int]:
    """Return the epochs that count, each as often as it counts."""
    view = core.engine.view(stream)
    if view is None:
        return []
    points = view.evaluator.operating_points()
    pairs = zip(points.thresholds[1:], points.tp[1:] - points.tp[:-1], strict=True)
    return sorted(int(score) for score, count in pairs for _ in range(int(count)))


def test_one_answer_settles_all_merges_of_a_commit() -> None:
    """Cumulatively, with the duplicates among them; and nothing twice."""
    core = open_core(MemoryStorage(), Limits())
    session = MergeSession(core.committer, core.limits)
    for epoch in (1, 2, 2, 3):
        session.feed(checked(core, epoch))
    assert session.replies() == []
    assert not session.idle
    committed(core)
    assert session.idle
    assert session.replies() == [
        pb.MergeManyResponse(num_settled=4, revision=core.committer.revision, duplicates=[3])
    ]
    assert session.replies() == []
    session.feed(checked(core, 3))  # known as a duplicate before it is submitted
    assert session.replies() == [
        pb.MergeManyResponse(num_settled=5, revision=core.committer.revision, duplicates=[5])
    ]
    assert epochs_in(core) == [1, 2, 3]


def test_few_settled_merges_wait_for_an_answer_while_others_are_on_their_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until 16 are settled, or 1 MiB, or all, or one fails: then it has all that are settled."""
    storage, epoch = FailingStorage(), 0
    core = open_core(storage, Limits())
    session = MergeSession(core.committer, core.limits)

    def fed(number: int) -> None:
        nonlocal epoch
        for _ in range(number):
            epoch += 1
            session.feed(checked(core, epoch))

    def settled_beside_another(number: int) -> list[int]:
        """Settle merges while one more is on its way; return what answers say is settled."""
        fed(number)
        result = core.committer.step(NOW)
        fed(1)
        result.deliver()
        return [answer.num_settled for answer in session.replies()]

    assert settled_beside_another(3) == []
    assert settled_beside_another(2) == []
    committed(core)
    assert [answer.num_settled for answer in session.replies()] == [7]
    assert settled_beside_another(merge_session.MAX_UNREPORTED_MERGES) == [epoch - 1]
    with monkeypatch.context() as patched:
        patched.setattr(merge_session, "MAX_UNREPORTED_BYTES", 1)
        assert settled_beside_another(1) == [epoch - 1]
    assert settled_beside_another(1) == []
    storage.fails = "lost"
    committed(core)
    assert [answer.num_settled for answer in session.replies()] == [epoch - 1]
    assert session.error is not None


def test_a_merge_that_waits_takes_the_memory_of_its_payload() -> None:
    """As a batch does: what was sent and what was decoded of it."""
    core = open_core(MemoryStorage(), Limits())
    merge = checked(core, 1)
    session = MergeSession(core.committer, core.limits)
    item = merge_session.merge_item(session, merge.inbox, merge.prepared)
    assert item.memory_bytes == len(item.payload) + memory_of(item.rows)
    assert len(item.payload) > 0


def test_a_refused_merge_stops_its_source_and_no_other() -> None:
    """So that it can be sent again, corrected: no later epoch of the source has counted."""
    core = open_core(MemoryStorage(), Limits())
    session = MergeSession(core.committer, core.limits)
    session.feed(checked(core, 1, source="a"))
    session.feed(checked(core, 2, source="a", is_good=False))
    session.feed(checked(core, 3, source="a"))
    session.feed(checked(core, 10, source="b"))
    session.feed(checked(core, 3, source="a", stream="other"))
    committed(core)
    (answer,) = session.replies()
    assert (answer.num_settled, list(answer.duplicates)) == (5, [])
    assert [(each.number, each.reason) for each in answer.refused] == [
        (2, "BATCH_REFUSED"),
        (3, "SOURCE_STOPPED"),
    ]
    assert answer.refused[0].refusal.code == Code.INVALID_ARGUMENT
    assert answer.refused[0].refusal.violations[0].field == "states[0].event_time_us"
    assert answer.refused[1].refusal.message == (
        "an earlier merge of source a into stream s was refused in this call: "
        "correct that one, and send this one again after it"
    )
    assert epochs_in(core) == [1, 10]
    assert epochs_in(core, "other") == [3]
    again = MergeSession(core.committer, core.limits)
    for epoch in (1, 2, 3):
        again.feed(checked(core, epoch, source="a"))
    committed(core)
    (answer,) = again.replies()
    assert (answer.num_settled, list(answer.duplicates), len(answer.refused)) == (3, [1], 0)
    assert epochs_in(core) == [1, 2, 3, 10]


def test_a_merge_that_the_commit_refuses_stops_its_source() -> None:
    """Also merges that were queued behind it, in the same transaction and later."""
    core = open_core(MemoryStorage(), Limits(max_merge_sources=1))
    session = MergeSession(core.committer, core.limits)
    for source, epoch in (("a", 1), ("b", 5), ("b", 6), ("a", 2)):
        session.feed(checked(core, epoch, source=source))
    committed(core)
    session.feed(checked(core, 7, source="b"))
    session.feed(checked(core, 3, source="a"))
    committed(core)
    (answer,) = session.replies()
    assert [(each.number, each.reason) for each in answer.refused] == [
        (2, "TOO_MANY_SOURCES"),
        (3, "SOURCE_STOPPED"),
        (5, "SOURCE_STOPPED"),
    ]
    assert epochs_in(core) == [1, 2, 3]


@pytest.mark.parametrize("fails", ["lost", "kept"])
def test_a_failed_commit_ends_the_stream(fails: str) -> None:
    """What was durable before is settled, the rest is not; and nothing of it counts later."""
    storage = FailingStorage()
    core = open_core(storage, Limits())
    session = MergeSession(core.committer, core.limits)
    session.feed(checked(core, 1))
    committed(core)
    storage.fails = fails
    session.feed(checked(core, 2))
    session.feed(checked(core, 3))
    core.committer.step(NOW).deliver()
    assert core.committer.state is State.FAILED
    (answer,) = session.replies()
    assert (answer.num_settled, list(answer.refused)) == (1, [])
    assert session.error is not None
    assert session.error.code is Code.UNAVAILABLE
    with pytest.raises(RequestError, match="disk"):
        session.feed(checked(core, 4))
    core.committer.recover()
    committed(core)
    assert epochs_in(core) == ([1] if fails == "lost" else [1, 2, 3])
    again = MergeSession(core.committer, core.limits)
    for epoch in (2, 3, 4):
        again.feed(checked(core, epoch))
    committed(core)
    (answer,) = again.replies()
    assert list(answer.duplicates) == ([] if fails == "lost" else [1, 2])
    assert epochs_in(core) == [1, 2, 3, 4]


def test_a_merge_submitted_after_a_failed_one_does_not_overtake_it() -> None:
    """The storage works again before the session hears of the failure."""
    storage = FailingStorage()
    core = open_core(storage, Limits())
    session = MergeSession(core.committer, core.limits)
    storage.fails = "lost"
    session.feed(checked(core, 1))
    failed = core.committer.step(NOW)
    core.committer.recover()
    session.feed(checked(core, 2))
    session.feed(checked(core, 9, source="other"))
    failed.deliver()
    committed(core)
    assert session.error is not None
    assert session.replies() == []
    assert epochs_in(core) == [9]


def test_refused_names_and_sources_take_no_memory_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A long name is neither kept nor repeated; a stream with too many stopped sources ends."""
    core = open_core(MemoryStorage(), Limits())
    session = MergeSession(core.committer, core.limits)
    error = RequestError(Code.INVALID_ARGUMENT, "too long", reason="INVALID_MERGE")
    for _ in range(2):
        long = MergeInbox(core.limits)
        long.header = pb.MergeHeader(stream="s", source="x" * 100_000, epoch=1)
        session.feed(CheckedMerge(long, error=error))
    (answer,) = session.replies()
    assert [each.refusal.message for each in answer.refused] == ["too long", "too long"]
    assert session._refused == set()
    monkeypatch.setattr(merge_session, "MAX_STOPPED_SOURCES", 2)
    for source in "ab":
        session.feed(checked(core, 1, source=source, is_good=False))
    with pytest.raises(RequestError, match="begin another one") as caught:
        session.feed(checked(core, 1, source="c"))
    assert caught.value.retry_after_s == 0.0
    (answer,) = session.replies()
    assert (answer.num_settled, len(answer.refused)) == (4, 2)


def test_a_session_is_full_of_bytes_or_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until they are settled and reported."""
    core = open_core(MemoryStorage(), Limits(max_inflight_bytes=1_000))
    session = MergeSession(core.committer, core.limits)
    epoch = 0
    while not session.full:
        epoch += 1
        session.feed(checked(core, epoch))
    assert 1 < epoch < 20
    committed(core)
    assert not session.full
    monkeypatch.setattr(merge_session, "MAX_WAITING_MERGES", 3)
    assert session.full is (epoch >= 3)
    session.replies()
    for _ in range(3):
        assert not session.full
        session.feed(checked(core, 1))
    assert session.full
    assert len(session.replies()) == 1
    assert not session.full


class Sender:
    """A client of two sources that sends what is not settled again after each failure."""

    def __init__(self, core: ServerCore, chance: random.Random) -> None:
        self.core = core
        self.chance = chance
        # Epochs of each source that no answer has settled; one of "a" is refused for ever.
        self.waiting = {source: list(range(1, 13)) for source in "ab"}
        self.bad = chance.choice([0, 5, 9])
        self.stopped: set[str] = set()
        self.connect()

    def connect(self) -> None:
        """Begin a stream; merges of the old one may still be in the queue."""
        self.session = MergeSession(self.core.committer, self.core.limits)
        self.sent: list[tuple[str, int]] = []
        self.num_settled = 0

    @property
    def is_done(self) -> bool:
        """Whether everything is settled, except what follows a refused merge."""
        return not any(rest for source, rest in self.waiting.items() if source not in self.stopped)

    def send(self) -> None:
        """Send the next merge of a source."""
        source = self.chance.choice([each for each in "ab" if each not in self.stopped])
        under_way = sum(each == source for each, _ in self.sent[self.num_settled :])
        rest = self.waiting[source][under_way:]
        if rest and self.session.error is None:
            is_good = source == "b" or rest[0] != self.bad
            merge = checked(self.core, rest[0], source=source, is_good=is_good)
            try:
                self.session.feed(merge)
            except RequestError:
                self.connect()
            else:
                self.sent.append((source, rest[0]))

    def read(self) -> None:
        """Read the answers."""
        for answer in self.session.replies():
            refused = {each.number for each in answer.refused}
            for number in range(self.num_settled + 1, answer.num_settled + 1):
                source, epoch = self.sent[number - 1]
                assert self.waiting[source].pop(0) == epoch
                if number in refused:
                    self.stopped.add(source)
                else:
                    assert source not in self.stopped
            self.num_settled = answer.num_settled
        if self.session.error is not None:
            self.connect()


@pytest.mark.parametrize("seed", range(20))
def test_a_client_that_sends_again_counts_each_merge_once(seed: int) -> None:
    """Through failed commits, streams that break at any time, late old streams and refusals."""
    chance = random.Random(seed)
    storage = FailingStorage()
    core = open_core(storage, Limits())
    sender = Sender(core, chance)

    def commit() -> None:
        storage.fails = chance.choice([None, None, None, "lost", "kept"])
        core.committer.step(NOW).deliver()
        storage.fails = None

    steps = [sender.send, commit, core.committer.recover, sender.read, sender.connect]
    for _ in range(5_000):
        if sender.is_done:
            break
        (step,) = chance.choices(steps, [12, 5, 3, 5, 1])
        step()
    else:
        pytest.fail("not all merges were settled")
    core.committer.recover()
    committed(core)
    assert sender.stopped == ({"a"} if sender.bad else set())
    expected = [*range(1, sender.bad or 13), *range(1, 13)]
    assert epochs_in(core) == sorted(expected)
