"""A workload of every kind of operation for a core that is killed, and its expected state.

Rounds of operations come in one fixed order, and each round is one commit. So the log's last
revision tells which rounds are durable, and the expected state needs no record of what was
sent: it is counted by hand from those rounds.
"""

from __future__ import annotations

import functools
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from google.protobuf.message import Message

from streameval import Evaluator
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import pair_pb2, stream_pb2
from streameval_server import Limits
from streameval_server._batch.merge import MergeInbox
from streameval_server._core.catalog import settings_in
from streameval_server._core.committer import CommitterState
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.session import IngestSession
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log import checkpoint
from streameval_server._log.storage import MemoryStorage, Storage
from streameval_server._model.alarm_change import AlarmChange
from streameval_server._model.errors import RequestError
from streameval_server._model.mark import MarkChange
from streameval_server._model.verdict_change import VerdictChange
from streameval_server._state.pairs.pair_file import PairFile, PairImport
from streameval_server._state.stream_file import StreamFile

START_US = 1_800_000_000_000_000
ROUND_US = 15_000_000  # longer than the time after which a tick is logged
LIMITS = Limits(checkpoint_bytes=1 << 30)  # checkpoints are only taken on request
PRODUCERS = ("p", "q")
ROUNDS = 15
HOLD, RELEASE = 12, 14
"""The rounds in which the clock comes into doubt, and is trusted again."""
checkpoint.PIECE_BYTES = 2_048  # the parts of some states take two steps to write
WEIGHTED = "audits"
"""The stream whose rows have weights: a case by its score, a label by its id."""
COPY = "copy"
"""The prefix of imported streams, whose rows have weights, too."""
CLUSTERED = "bursts"
"""The stream that declares clusters; a row's score tells its cluster."""
CLUSTER_GROUPS = 8
WATCHED = "watched"
"""The stream with a detector; its cases are worse from round 4 on."""
KEPT = ("a", "ids", "due", WEIGHTED, CLUSTERED, WATCHED)
"""Streams that exist at the end; "gone" is created, filled and deleted."""


class Rows(NamedTuple):
    """The rows that one operation adds to a stream."""

    stream: str
    cases: tuple[tuple[float, bool], ...] = ()
    misses: int = 0
    predictions: tuple[tuple[str, float], ...] = ()
    labels: tuple[tuple[str, bool], ...] = ()
    retractions: tuple[str, ...] = ()


class Operation(NamedTuple):
    """One request: a producer's batch, a single batch, a merge, an import, or a change of a stream.

    `rows` is None when nothing is counted, for instance for a refused batch.
    """

    verb: str
    who: str = ""
    number: int = 0
    rows: Rows | None = None


def is_acked(operation: Operation) -> bool:
    """Return whether an operation has an ack: it is more than a change of the clock."""
    return operation.verb not in {"hold", "release"}


def rounds(seed: int) -> list[list[Operation]]:
    """Return all operations, by rounds."""
    rng = random.Random(seed)
    numbers = dict.fromkeys(PRODUCERS, 0)

    def batch(rows: Rows | None, producer: str = "") -> Operation:
        producer = producer or rng.choice(PRODUCERS)
        numbers[producer] += 1
        return Operation("batch", producer, numbers[producer], rows)

    def some(stream: str) -> Rows:
        cases = tuple(
            (rng.randrange(50) / 64, rng.random() < 0.3) for _ in range(rng.randrange(1, 12))
        )
        return Rows(stream, cases=cases)

    created = [Operation("create", name) for name in ("due", CLUSTERED)]
    found = [[*created, batch(some("a"), "p"), batch(None, "p")]]
    for number in range(1, ROUNDS - 2):
        if number % 6 == 5:
            found.append([])  # time passes: ids expire, panes coarsen
            continue
        ids = [f"{number}-{row}" for row in range(4)]
        early = [f"{number - 1}-{row}" for row in range(4)]
        chosen = [
            batch(some("a")),
            batch(Rows("ids", predictions=tuple((each, rng.random()) for each in ids))),
            batch(Rows("ids", labels=tuple((each, rng.random() < 0.4) for each in early[:3]))),
            batch(some(WEIGHTED)),
            batch(Rows(WEIGHTED, predictions=tuple((each, rng.random()) for each in ids))),
            batch(Rows(WEIGHTED, labels=tuple((each, rng.random() < 0.4) for each in early[:3]))),
            batch(some(CLUSTERED)),
            batch(Rows(CLUSTERED, predictions=tuple((each, rng.random()) for each in ids))),
            batch(Rows(CLUSTERED, labels=tuple((each, rng.random() < 0.4) for each in early[:3]))),
        ]
        chosen += watched(rng, number, batch)
        chosen += paired(number) + marked(number)
        match number % 6:
            case 0:
                chosen.append(batch(Rows("ids", retractions=(ids[0], early[1]))))
                chosen.append(batch(Rows(WEIGHTED, retractions=(ids[0], early[1]))))
                chosen.append(Operation("merge", "edge", number, some("a")))
                chosen.append(Operation("merge", "audit", number, some(WEIGHTED)))
                chosen.append(batch(Rows(CLUSTERED, retractions=(ids[0], early[1]))))
                chosen.append(Operation("merge", "edge", number, some(CLUSTERED)))
            case 1:
                chosen.append(batch(None))
                chosen.append(Operation("single", rows=some("a")))
            case 2:
                chosen.append(Operation("create", "gone"))
                chosen.append(batch(some("gone")))
            case 3:
                chosen.append(batch(Rows("a", misses=rng.randrange(1, 4))))
                chosen.append(batch(Rows("due", predictions=tuple((each, 0.5) for each in ids))))
                chosen.append(Operation("update", "due", number))
            case 4:
                chosen.append(Operation("delete", "gone"))
                chosen.append(Operation("import", rows=some(f"{COPY}/{number}")))
        found.append(chosen)
    found.insert(HOLD, [Operation("hold")])
    found.insert(RELEASE, [Operation("release")])
    return found


def watched(rng: random.Random, number: int, batch: Callable[[Rows], Operation]) -> list[Operation]:
    """Return a round's operations of the stream with a detector."""
    labels = [rng.random() < 0.5 for _ in range(120 if number == 1 else 8)]
    cases = ((rng.randrange(30) / 64 + 0.5 * (each == (number < 4)), each) for each in labels)
    found = [batch(Rows(WATCHED, cases=tuple(cases)))]
    if number == 1:
        found.append(Operation("declare", WATCHED))
    elif number > 8:
        found.append(Operation("alarm", WATCHED, number % 2))
        found.append(Operation("verdict", WATCHED, number % 3))
    return found


def paired(number: int) -> list[Operation]:
    """Return a round's operations of pairs; one is made, deleted, and imported again."""
    if number == 2:
        return [Operation("pair", CLUSTERED)]
    if number % 6 == 3:
        return [Operation("import_pair" if number == 9 else "pair", WEIGHTED)]
    return [Operation("unpair", WEIGHTED)] if number % 6 == 4 else []


def marked(number: int) -> list[Operation]:
    """Return a round's marks: one is made, and deleted in the next round."""
    if number % 6 not in {1, 2}:
        return []
    return [Operation("mark" if number % 6 == 1 else "unmark", "a", number // 6 + 1)]


class Truth:
    """Streams, counted by hand."""

    def __init__(self) -> None:
        self.cases: dict[str, list[tuple[float, bool]]] = {}
        self.misses: Counter[str] = Counter()
        self.scores: dict[str, dict[str, float]] = {}
        self.labels: dict[str, dict[str, bool]] = {}

    def add(self, operation: Operation) -> None:
        """Count an operation."""
        if operation.verb == "create":
            self.cases[operation.who] = []
        elif operation.verb == "delete":
            for kept in (self.cases, self.misses, self.scores, self.labels):
                kept.pop(operation.who, None)
        rows = operation.rows
        if rows is None:
            return
        self.cases.setdefault(rows.stream, []).extend(rows.cases)
        self.misses[rows.stream] += rows.misses
        scores = self.scores.setdefault(rows.stream, {})
        labels = self.labels.setdefault(rows.stream, {})
        scores.update(rows.predictions)
        labels.update(rows.labels)
        for each in rows.retractions:
            scores.pop(each, None)
            labels.pop(each, None)

    def check(self, core: ServerCore) -> None:
        """Compare every stream, score by score."""
        assert [info.name for info in core.engine.streams()] == sorted(self.cases)
        for name, cases in self.cases.items():
            view = core.engine.view(name)
            assert view is not None
            labels = self.labels.get(name, {})
            joined = [
                (score, labels[each], label_weight(name, each))
                for each, score in self.scores.get(name, {}).items()
                if each in labels
            ]
            counted = [(score, label, case_weight(name, score)) for score, label in cases]
            expected = evaluator_of(name, counted + joined)
            expected.add_misses(self.misses[name])
            assert view.evaluator.weights == expected.weights, name
            points, wanted = view.evaluator.operating_points(), expected.operating_points()
            assert points.thresholds.tolist() == wanted.thresholds.tolist(), name
            assert points.tp.tolist() == wanted.tp.tolist(), name
            assert points.fp.tolist() == wanted.fp.tolist(), name
            if name == CLUSTERED:
                groups, own = view.evaluator._view().clusters, expected._view().clusters
                assert groups is not None
                assert own is not None
                assert groups.same_content(own), name


class Workload:
    """All rounds, with the log's revision and the state after each of them."""

    def __init__(self, seed: int = 1) -> None:
        self.rounds = rounds(seed)
        self.ends: list[int] = []
        """The log's revision after each round."""
        self.hashes = {}
        """The state's hash at each of these revisions."""
        storage = MemoryStorage()
        core = open_core(storage, LIMITS)
        self.hashes[0] = core.engine.state_hash()
        run = Run(core, self)
        for at in range(ROUNDS):
            run.round(at)
            assert core.committer.revision == core.engine.revision
            self.ends.append(core.committer.revision)
            self.hashes[self.ends[-1]] = core.engine.state_hash()

    def next_round(self, revision: int) -> int:
        """Return the first round that a log of this revision does not include."""
        return next((at for at, end in enumerate(self.ends) if end > revision), ROUNDS)

    def check(self, core: ServerCore) -> None:
        """Compare a state with the expected one at its revision: counts and bytes."""
        revision = core.committer.revision
        assert core.engine.revision == revision
        assert revision in self.hashes, f"revision {revision} is the end of no round"
        truth = Truth()
        sequences = dict.fromkeys(PRODUCERS, 0)
        for operations in self.rounds[: self.next_round(revision)]:
            for operation in operations:
                truth.add(operation)
                if operation.verb == "batch":
                    sequences[operation.who] = operation.number
        truth.check(core)
        for producer, last in sequences.items():
            assert core.committer.marks.last_sequence(producer, 1) == last
        assert core.engine.state_hash() == self.hashes[revision]


class Run:
    """One life of a core at work.

    Parameters
    ----------
    core
        Just opened.
    acked
        Called with each revision at the moment of its ack.
    """

    def __init__(self, core: ServerCore, workload: Workload, acked=lambda _revision: None) -> None:
        self.core = core
        self._workload = workload
        self._acked = acked
        self._sessions: dict[str, IngestSession] = {}
        self.failures = 0

    def to_the_end(self) -> None:
        """Repeat the last durable round, which must change nothing, and do the remaining ones."""
        committer = self.core.committer
        at = self._workload.next_round(committer.revision)
        self._repeat(at - 1)
        while at < ROUNDS:
            self.round(at)
            at += 1
            if committer.state is not CommitterState.SERVING:
                self._recover()
                at = self._workload.next_round(committer.revision)
                self._repeat(at - 1)

    def round(self, at: int) -> None:
        """Submit a round's operations and commit them as one; apply; write a checkpoint."""
        self._submit(at, self._workload.rounds[at])
        if at % 4 == 1:
            self.core.applier.request_checkpoint()
        if at % 5 == 3 and not self.core.committer.compacting:
            self.core.applier.request_checkpoint()
            self.core.committer.compact(lambda _told: None)
        self._work(at)

    def _repeat(self, at: int) -> None:
        if at < 0:
            return
        before = self.core.committer.revision
        safe = [each for each in self._workload.rounds[at] if each.verb in {"batch", "merge"}]
        self._submit(at, safe)
        self._work(at)
        assert self.core.committer.revision == before or self.failures

    def _submit(self, at: int, operations: list[Operation]) -> None:
        now = START_US + at * ROUND_US
        for operation in operations:
            if operation.verb == "batch":
                session = self._session(operation.who, now)
                session.feed(request(operation), now)
            elif not is_acked(operation):
                self.core.committer.disputed_us = now if operation.verb == "hold" else None
            else:
                self._call(operation, now)

    def _session(self, producer: str, now: int) -> IngestSession:
        if producer not in self._sessions:
            session = IngestSession(self.core.committer, LIMITS)
            opened = pb.IngestRequest(open=pb.Open(producer=producer, epoch=1))
            session.feed(opened.SerializeToString(), now)
            session.replies()
            self._sessions[producer] = session
        return self._sessions[producer]

    def _call(self, operation: Operation, now: int) -> None:
        committer = self.core.committer
        call = UnaryCall(committer, LIMITS, lambda: self._settled(call))
        if operation.verb == "single":
            call.ingest_batch(request(operation), now)
        elif operation.verb == "merge":
            inbox = merge_inbox(operation)
            call.merge(inbox, inbox.finish(now, settings_in(committer.catalog, inbox.header)))
        elif operation.verb == "import":
            file = exported(operation)
            call.import_stream(operation.rows.stream, file, StreamFile.from_bytes(file))
        elif operation.verb == "declare":
            call.update_stream(request(operation))
        elif operation.verb == "alarm":
            call.change_alarm(operation.who, AlarmChange(1, is_delivery=bool(operation.number)))
        elif operation.verb == "verdict":
            call.change_verdict(operation.who, verdict_change(operation.number, now))
        elif operation.verb == "mark":
            call.change_marks(operation.who, MarkChange(START_US, f"deployed {operation.number}"))
        elif operation.verb == "unmark":
            call.change_marks(operation.who, MarkChange(deleted=operation.number))
        elif "pair" in operation.verb:
            change_pair(call, operation)
        else:
            getattr(call, f"{operation.verb}_stream")(request(operation))

    def _settled(self, call: UnaryCall) -> None:
        try:
            self._acked(call.response().revision)
        except RequestError:
            assert self.core.committer.state is CommitterState.FAILED

    def _work(self, at: int) -> None:
        committer, applier = self.core.committer, self.core.applier
        now = START_US + at * ROUND_US
        more = True
        while more:
            result = committer.step(now)
            result.deliver()
            self._listen()
            applier.finish()
            more = committer.state is CommitterState.SERVING and (
                result.more or applier.checkpoint_pending or committer.compacting
            )

    def _listen(self) -> None:
        for session in self._sessions.values():
            for reply in session.replies():
                if reply.HasField("ack"):
                    self._acked(reply.ack.revision)

    def _recover(self) -> None:
        self.failures += 1
        self._sessions.clear()
        committer = self.core.committer
        for _ in range(3):
            committer.recover()
            if committer.state is not CommitterState.FAILED:
                break
        assert committer.state is CommitterState.SERVING, committer.error
        # The last round is repeated at its own time, when the clock was as the log has it.
        committer.disputed_us = committer.held_us
        self.core.applier.finish()
        self._workload.check(self.core)


def reopened(storage: Storage) -> ServerCore:
    """Open a log that an earlier process left."""
    core = open_core(storage, LIMITS)
    assert core.recovery.checkpoint_error is None
    return core


def message(operation: Operation) -> pb.Batch:
    """Return an operation's batch; it is refused if it has no rows."""
    sequence, rows = operation.number, operation.rows
    if rows is None:
        bad = pb.Cases(scores=[float("nan")], positives=[True])
        return pb.Batch(sequence=sequence, stream="a", cases=bad)
    made = pb.Batch(sequence=sequence, stream=rows.stream)
    if rows.cases:
        scores, positives = zip(*rows.cases)
        made.cases.CopyFrom(pb.Cases(scores=scores, positives=positives))
        if is_weighted(rows.stream):
            made.cases.weights.extend(case_weight(rows.stream, score) for score in scores)
        made.cases.clusters.extend(checksums(rows.stream, scores))
    elif rows.predictions:
        ids, scores = zip(*rows.predictions)
        made.predictions.CopyFrom(pb.Predictions(ids=ids, scores=scores))
        made.predictions.clusters.extend(checksums(rows.stream, scores))
    elif rows.labels:
        ids, positives = zip(*rows.labels)
        made.labels.CopyFrom(pb.Labels(ids=ids, positives=positives))
        if is_weighted(rows.stream):
            made.labels.weights.extend(label_weight(rows.stream, each) for each in ids)
    elif rows.retractions:
        made.retractions.CopyFrom(pb.Retractions(ids=rows.retractions))
    else:
        made.misses.positives = rows.misses
    return made


def declaration() -> stream_pb2.UpdateStreamRequest:
    """Return the request that declares the detector: its reference is the first two rounds."""
    made = stream_pb2.UpdateStreamRequest(stream=stream_pb2.Stream(name=WATCHED))
    given = made.stream.settings.alarms
    given.watches.add(name="auc_roc", tolerance=0.01)
    given.pane.seconds = 10
    given.mean_time_to_false_alarm.seconds = 20
    start_s = START_US // 1_000_000 // 60 * 60
    given.reference.start_time.seconds, given.reference.end_time.seconds = start_s, start_s + 60
    made.update_mask.paths.append("settings.alarms")
    return made


def verdict_change(number: int, now: int) -> VerdictChange:
    """Return what is called, what is accepted as normal, or what a webhook has taken."""
    if number == 2:
        return VerdictChange(called="worse", from_us=now - ROUND_US)
    return VerdictChange(from_us=now - ROUND_US) if number else VerdictChange(told="worse")


def is_weighted(stream: str) -> bool:
    """Return whether the rows of a stream have weights."""
    return stream.partition("/")[0] in {WEIGHTED, COPY}


def case_weight(stream: str, score: float) -> float:
    """Return the weight of a case, which its score determines."""
    return (int(score * 64) % 7 + 1) / 4 if is_weighted(stream) else 1.0


def label_weight(stream: str, id_: str) -> float:
    """Return the weight of a label, which its id determines."""
    return (zlib.crc32(id_.encode()) % 9 + 1) / 65_536 if is_weighted(stream) else 1.0


def cluster_of(score: float) -> str:
    """Return the cluster of a row, which its score determines."""
    return f"user-{int(score * 64) % 11}"


def checksums(stream: str, scores: tuple[float, ...]) -> list[int]:
    """Return the checksums of the rows' clusters; none where the stream declares none."""
    if stream != CLUSTERED:
        return []
    return [zlib.crc32(cluster_of(score).encode()) for score in scores]


def evaluator_of(stream: str, rows: Iterable[tuple[float, bool, float]]) -> Evaluator:
    """Return an evaluator of scores, labels and weights; with clusters if the stream has some."""
    if stream == CLUSTERED:
        made = Evaluator(cluster_groups=CLUSTER_GROUPS)
        for score, label, _ in rows:
            made.add_case(label, score, cluster=cluster_of(score))
        return made
    made = Evaluator()
    for score, label, weight in rows:
        made.add_case(label, score, weight=weight)
    return made


@functools.cache
def exported(operation: Operation) -> bytes:
    """Return an exported stream of another server, to be imported."""
    assert operation.rows is not None
    core = open_core(MemoryStorage(), LIMITS)
    call = UnaryCall(core.committer, LIMITS)
    single = pb.IngestBatchRequest(batch=message(operation))
    call.ingest_batch(single.SerializeToString(), START_US)
    core.committer.step(START_US).deliver()
    core.applier.finish()
    export = core.engine.export(operation.rows.stream)
    assert export is not None
    return export()[1]


def change_pair(call: UnaryCall, operation: Operation) -> None:
    """Make the pair of "ids" and another stream, import it, or delete it."""
    if operation.verb == "pair":
        call.create_pair(request(operation))
    elif operation.verb == "import_pair":
        data = exported_pair()
        file = PairFile.from_bytes(data)
        call.import_pair(PairImport(operation.who, "ids", operation.who, file, data))
    else:
        gone = pair_pb2.DeletePairRequest(name=operation.who)
        call.delete_pair(gone.SerializeToString(), ("ids", operation.who))


@functools.cache
def exported_pair() -> bytes:
    """Return an exported pair of another server, with an id that counts and one that waits."""
    core = open_core(MemoryStorage(), LIMITS)
    for name in ("ids", "other"):
        call = UnaryCall(core.committer, LIMITS)
        made = stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name=name))
        call.create_stream(made.SerializeToString())
    paired_with = pair_pb2.CreatePairRequest(pair=pair_pb2.Pair(a="ids", b="other"))
    UnaryCall(core.committer, LIMITS).create_pair(paired_with.SerializeToString())
    core.committer.step(START_US).deliver()
    for name, ids in (("ids", ["there-1", "there-2"]), ("other", ["there-1"])):
        predictions = pb.Predictions(ids=ids, scores=[0.5] * len(ids))
        single = pb.IngestBatchRequest(batch=pb.Batch(stream=name, predictions=predictions))
        UnaryCall(core.committer, LIMITS).ingest_batch(single.SerializeToString(), START_US)
    core.committer.step(START_US).deliver()
    core.applier.finish()
    [pair] = core.engine.pairs.values()
    export = core.engine.export_pair(pair.info)
    assert export is not None
    return export()[1]


def merge_inbox(operation: Operation) -> MergeInbox:
    """Return a merge whose messages have all been received."""
    assert operation.rows is not None
    name = operation.rows.stream
    evaluator = evaluator_of(
        name,
        [(score, label, case_weight(name, score)) for score, label in operation.rows.cases],
    )
    states = pb.MergeStates(states=[pb.PaneState(evaluator=evaluator.to_bytes())])
    data = states.SerializeToString()
    header = pb.MergeHeader(
        stream=operation.rows.stream,
        source=operation.who,
        epoch=operation.number,
        total_bytes=len(data),
        crc32=zlib.crc32(data),
    )
    inbox = MergeInbox(LIMITS)
    inbox.feed(pb.MergeRequest(header=header))
    inbox.feed(pb.MergeRequest(data=data))
    return inbox


@functools.cache
def request(operation: Operation) -> bytes:
    """Return an operation's request.

    It is made once, by the first life, in which no allocation fails: protobuf loses what it has no
    room to copy, and says nothing.
    """
    made: Message
    match operation.verb:
        case "batch":
            made = pb.IngestRequest(batch=message(operation))
        case "single":
            made = pb.IngestBatchRequest(batch=message(operation))
        case "declare":
            made = declaration()
        case "pair":
            settings = pair_pb2.PairSettings(max_cells=16, max_pending=30)
            pair = pair_pb2.Pair(a="ids", b=operation.who, settings=settings)
            made = pair_pb2.CreatePairRequest(pair=pair, pair_id=operation.who)
        case _:
            made = stream_request(operation)
    return made.SerializeToString()


def stream_request(operation: Operation) -> Message:
    """Return the request that creates, updates or deletes a stream."""
    made = stream_pb2.Stream(name=operation.who)
    if operation.verb == "delete":
        return stream_pb2.DeleteStreamRequest(name=operation.who)
    if operation.who == "due":
        made.settings.label_ttl.seconds = 20
        made.settings.relabel_ttl.seconds = 20
    if operation.who == CLUSTERED:
        made.settings.cluster_key = "user"
        made.settings.cluster_groups = CLUSTER_GROUPS
    if operation.verb == "create":
        return stream_pb2.CreateStreamRequest(stream=made)
    made.settings.retention.seconds = 20 * 86_400 + operation.number
    changed = stream_pb2.UpdateStreamRequest(stream=made)
    changed.update_mask.paths.append("settings.retention")
    return changed
