"""The users of a server: producers of every kind of rows, batch jobs, an operator."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from streameval import Evaluator
from streameval.client._delivery.merge_upload import Upload
from streameval.client._errors import error_for
from streameval.v1 import alarm_pb2, ingest_pb2, pair_pb2, stream_pb2
from streameval_server._model.alarm_change import AlarmChange
from streameval_server._model.errors import RequestError
from streameval_server._model.mark import MarkChange

from .client import Client
from .oracle import (
    CLUSTER_GROUPS,
    CLUSTERED,
    MISSED_CLUSTER,
    UNIT,
    WEIGHTED,
    MergeContents,
    cluster_of,
)
from .world import MINUTE, MS, START_US, S

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from streameval_server._ingest.unary_call import UnaryCall

    from .client import Verbs
    from .ledger import Ledger
    from .server import Server
    from .world import World

STREAMS = ("a", "b/1", "c")
COUNTRIES = ("US", "DE", "FR", "")
PLANS = ("x", "y")
LABEL_TTLS_S = (300, 1_800, 7_200)
WEIGHTS = (0.0, 0.5, 1.0, 2.25, 7_001 / UNIT, 4_096.0)
LABEL_PROBABILITIES = (0.25, 0.3, 1.0)
AGES_US = (0, 0, S, MINUTE, 20 * MINUTE, 70 * MINUTE, 200 * MINUTE, -MINUTE)


class Rows:
    """Makes rows that can be identified by their score.

    Most scores are used once; some are used again, as ties.
    """

    def __init__(self, world: World) -> None:
        self._dice = world.random
        self._world = world
        self._made = 0

    def score(self) -> float:
        """Return a score of at most 12 significant bits."""
        if self._made and self._dice.random() < 0.1:
            return self._score(self._dice.randrange(self._made))
        self._made += 1
        return self._score(self._made)

    @staticmethod
    def _score(number: int) -> float:
        return (number * 2731 % 4096 - 512) / 4096

    def id(self) -> str:
        """Return one of a few ids, so that applications share most of them."""
        return f"id-{self._dice.randrange(14)}"

    def at(self) -> np.datetime64 | None:
        """Return an event time, or None; some are too old or in the future."""
        dice = self._dice.random()
        if dice < 0.5:
            return None
        age_us = self._dice.choice(AGES_US)
        if dice < 0.75:
            # Its label falls due within seconds, or fell due seconds ago; mostly within the second
            # or two by which expiry is counted, so that a tick too early is seen.
            off_us = self._dice.randrange(-20 * S, 5 * S)
            age_us = self._dice.choice(LABEL_TTLS_S) * S + off_us**5 // (20 * S) ** 4
        elif dice > 0.985:
            age_us = self._dice.choice((-10 * MINUTE, 90_000 * MINUTE))
        time_us = max(START_US - 300 * MINUTE, self._world.now_us - age_us)
        return np.datetime64(time_us, "us")

    def segments(self, keys: tuple[str, ...]) -> dict[str, str]:
        """Return values of declared keys, and rarely of an undeclared key."""
        dice = self._dice
        segments = {}
        if "country" in keys and dice.random() < 0.8:
            segments["country"] = dice.choice(COUNTRIES)
        if "plan" in keys and dice.random() < 0.8:
            segments["plan"] = dice.choice(PLANS)
        if dice.random() < 0.01:
            segments["unknown"] = "x"
        return segments

    def weight(self, name: str, each: str | None = None) -> dict[str, float]:
        """Return arguments of a row's weight: none where the stream's rows have none.

        The label of an id has the weight that it always has, in three of ten cases another one.
        """
        dice = self._dice
        if name != WEIGHTED or dice.random() < 0.3:
            return {}
        given = {"weight": dice.choice(WEIGHTS)}
        if each is not None and dice.random() < 0.7:
            given = {"weight": WEIGHTS[len(WEIGHTS) - 1 - int(each[-1]) % 5]}
        elif dice.random() < 0.3:
            given["label_probability"] = dice.choice(LABEL_PROBABILITIES)
        return given

    def weights(self, name: str, size: int) -> dict[str, Any]:
        """Return the same for the rows of a batch."""
        dice = self._dice
        if name != WEIGHTED or dice.random() < 0.3:
            return {}
        given: dict[str, Any] = {"weights": dice.choices(WEIGHTS, k=size)}
        if dice.random() < 0.3:
            chosen = dice.choices(LABEL_PROBABILITIES, k=size)
            given["label_probability"] = chosen if dice.random() < 0.5 else chosen[0]
        return given


class Application:
    """A user that performs a number of operations, with pauses between them."""

    def __init__(self, world: World, server: Server, ledger: Ledger, rows: Rows) -> None:
        self.world = world
        self.server = server
        self.ledger = ledger
        self.rows = rows
        self.left = world.plan.operations
        self.world.soon(self._turn)

    @property
    def is_done(self) -> bool:
        """Whether all operations are done and answered."""
        return self.left == 0

    def _turn(self) -> None:
        if self.left == 0:
            return
        self.left -= 1
        self.operate()
        if self.world.trouble(self.world.plan.lulls):
            pause_us = self.world.random.choice((2, 12, 40, 90)) * MINUTE
        else:
            pause_us = self.world.random.randrange(400 * MS)
        self.world.after(pause_us, self._turn)

    def operate(self) -> None:
        """Perform one operation."""
        raise NotImplementedError


class StreamingProducer(Application):
    """Adds rows through the client; it may be killed and restarted with a higher epoch."""

    def __init__(self, *arguments: Any, producer: str, keys: dict[str, tuple[str, ...]]) -> None:
        super().__init__(*arguments)
        self._keys = keys
        self._epoch = 1
        self._put = self.ledger.put[producer]
        self.clients = [Client(self.world, self.ledger, self.server, producer, self._epoch)]
        self._flushing = 0

    @property
    def is_done(self) -> bool:
        """Whether every row is acknowledged, refused or lost with its client."""
        return self.left == 0 and not self._flushing and all(c.is_settled for c in self.clients)

    def operate(self) -> None:
        """Restart, add rows, or flush."""
        world = self.world
        if world.trouble(world.plan.restarts):
            self._restart()
        # The client before the last may still run, unaware that it has a successor.
        client = world.random.choice(self.clients[-2:]) if world.chance(0.3) else self.clients[-1]
        if client.life:
            client = self.clients[-1]
        for _ in range(world.random.choice((1, 1, 2, 4))):
            name = world.random.choice(STREAMS)
            add = world.random.choices(_ADDS, _SHARES)[0]
            add(self, client.stream(name), name, self._keys.get(name, ()))
        if world.chance(0.2):
            self._flushing += 1
            client.flush(self._flushed)

    def _flushed(self) -> None:
        self._flushing -= 1

    def _restart(self) -> None:
        world, before = self.world, self.clients[-1]
        world.tally["restarted clients"] += 1
        if world.chance(0.6):
            before.crash()
        # Senders increase their epoch themselves, by ones; this is beyond them.
        self._epoch += 1_000
        world.trace(before.name, "is succeeded, %s", "dead" if before.life else "alive")
        successor = Client(world, self.ledger, self.server, before.producer, self._epoch)
        self.clients.append(successor)

    # -- operations

    def _cases(self, verbs: Verbs, name: str, keys: tuple[str, ...]) -> None:
        rows, dice = self.rows, self.world.random
        if dice.random() < 0.5:
            score, positive, at = rows.score(), dice.random() < 0.4, rows.at()
            segments, given = rows.segments(keys) or None, rows.weight(name)
            # Clients drop rows of weight 0.
            self._put["cases", name, score] += given.get("weight", 1) > 0
            verbs.add_case(
                positive, score, at=at, segments=segments, **given, **_cluster(name, score)
            )
            return
        size = dice.choice((2, 5, 12))
        scores = [rows.score() for _ in range(size)]
        counts = [dice.randrange(4) for _ in range(size)] if dice.random() < 0.3 else None
        labels = [dice.random() < 0.4 for _ in range(size)]
        at, segments = rows.at(), rows.segments(keys) or None
        given = rows.weights(name, size)
        columns = (scores, counts or [1] * size, given.get("weights", [1] * size))
        for score, count, weight in zip(*columns, strict=True):
            self._put["cases", name, score] += count if weight else 0
        verbs.add_cases(
            labels=labels,
            scores=scores,
            counts=counts,
            at=at,
            segments=segments,
            **given,
            **_clusters(name, scores),
        )

    def _misses(self, verbs: Verbs, name: str, keys: tuple[str, ...]) -> None:
        count = self.world.random.randrange(3)
        self._put["misses", name] += count
        add = verbs.add_misses if self.world.chance(0.5) else verbs.add_negative_misses
        add(count, at=self.rows.at(), segments=self.rows.segments(keys) or None)

    def _log(self, verbs: Verbs, name: str, keys: tuple[str, ...]) -> None:
        rows = self.rows
        if self.world.chance(0.6):
            each, score, at = rows.id(), rows.score(), rows.at()
            self._put["predictions", name, each, score] += 1
            segments = rows.segments(keys) or None
            verbs.log(each, score, at=at, segments=segments, **_cluster(name, score))
            if at is not None and self.world.chance(0.5):
                # The prediction may be about to fall due.
                self._put["labels", name, each, None] += 1
                verbs.label(each, self.world.chance(0.5), **rows.weight(name, each))
            return
        ids = [rows.id() for _ in range(self.world.random.choice((2, 9)))]
        scores = [rows.score() for _ in ids]
        for each, score in zip(ids, scores, strict=True):
            self._put["predictions", name, each, score] += 1
        verbs.log_cases(
            ids=ids,
            scores=scores,
            at=rows.at(),
            segments=rows.segments(keys) or None,
            **_clusters(name, scores),
        )

    def _label(self, verbs: Verbs, name: str, _keys: tuple[str, ...]) -> None:
        rows, dice = self.rows, self.world.random
        if dice.random() < 0.8:
            each, score, at = rows.id(), None, None
            if dice.random() < 0.2:
                at = np.datetime64(self.world.now_us - dice.choice(AGES_US[:5]), "us")
                # Such a label has no cluster: rarely sent where the stream declares some.
                is_full = dice.random() < (0.05 if name == CLUSTERED else 0.7)
                score = rows.score() if is_full else None
            self._put["labels", name, each, score] += 1
            given = rows.weight(name, each)
            verbs.label(each, dice.random() < 0.5, at=at, score=score, **given)
            return
        ids = [rows.id() for _ in range(dice.choice((2, 10)))]
        for each in ids:
            self._put["labels", name, each, None] += 1
        labels = [dice.random() < 0.5 for _ in ids]
        verbs.label_cases(ids=ids, labels=labels, **rows.weights(name, len(ids)))

    def _retract(self, verbs: Verbs, name: str, _keys: tuple[str, ...]) -> None:
        each = self.rows.id()
        self._put["retractions", name, each, None] += 1
        verbs.retract(each)


def _cluster(name: str, score: float) -> dict[str, Any]:
    """Return the argument of one row's cluster."""
    return {"cluster": cluster_of(score)} if name == CLUSTERED else {}


def _clusters(name: str, scores: list[float]) -> dict[str, Any]:
    """Return the argument of rows' clusters."""
    return {"clusters": [cluster_of(score) for score in scores]} if name == CLUSTERED else {}


_ADDS = (
    StreamingProducer._cases,
    StreamingProducer._misses,
    StreamingProducer._log,
    StreamingProducer._label,
    StreamingProducer._retract,
)
_SHARES = (4, 1, 4, 4, 2)


class UnaryProducer(Application):
    """Sends numbered batches by unary calls, and repeats each until it is answered."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._sequence = 0
        self._frame: bytes | None = None
        self._waits = False

    @property
    def is_done(self) -> bool:
        """Whether every batch was answered."""
        return self.left == 0 and self._frame is None

    def operate(self) -> None:
        """Send the next batch, or the unanswered one again."""
        world = self.world
        if self._frame is not None:
            self._send()
            return
        self._sequence += 1
        name = world.random.choice(STREAMS)
        batch = ingest_pb2.Batch(sequence=self._sequence, stream=name)
        score = self.rows.score() if world.chance(0.9) else float("nan")
        self.ledger.put["unary"]["cases", name, score] += 1
        batch.cases.scores.append(score)
        batch.cases.positives.append(world.chance(0.5))
        if given := self.rows.weight(name):
            # A weight that is too small is refused.
            batch.cases.weights.append(1e-6 if world.chance(0.1) else given["weight"])
            batch.cases.label_probabilities.append(world.random.choice(LABEL_PROBABILITIES))
        if name == CLUSTERED:
            batch.cases.clusters.append(zlib.crc32(cluster_of(score)))
        request = ingest_pb2.IngestBatchRequest(producer="unary", epoch=1, batch=batch)
        self._frame = request.SerializeToString()
        self.ledger.sends(("unary", 1, self._sequence), self._frame, 1)
        self._send()

    def _send(self) -> None:
        frame, sequence = self._frame, self._sequence
        self._waits = False
        if frame is None:
            return
        for _ in range(2 if self.world.trouble(self.world.plan.repeats) else 1):
            self.server.call(
                lambda call: call.ingest_batch(frame, self.server.clock_us()),
                lambda answer: self._answered(sequence, answer),
            )

    def _answered(self, sequence: int, answer: Any) -> None:
        if sequence != self._sequence or self._frame is None:
            return
        if isinstance(answer, RequestError):
            if answer.reason == "BATCH_REFUSED":
                self.ledger.refuses("unary", 1, sequence)
            else:
                assert answer.reason in {"AWAY", "STORAGE_FAILED", "QUEUE_FULL"}, answer.reason
                if not self._waits:  # a repeated message has two answers
                    self._waits = True
                    self.world.after(S, self._send)
                return
        else:
            self.ledger.acks("unary", 1, sequence, answer.revision)
        self._frame = None


class MergeProducer(Application):
    """Merges evaluators of its own, and repeats merges that were not answered."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.left //= 2
        self._epoch = 0
        self._waiting = 0

    @property
    def is_done(self) -> bool:
        """Whether every merge was answered."""
        return self.left == 0 and not self._waiting

    def operate(self) -> None:
        """Merge the next state."""
        world, rows = self.world, self.rows
        self._epoch += 1
        name = world.random.choice(STREAMS)
        evaluator = Evaluator(cluster_groups=CLUSTER_GROUPS if name == CLUSTERED else None)
        cases = []
        for _ in range(world.random.randrange(6)):
            score, positive = rows.score(), world.chance(0.4)
            # A merged state has weights, and no label probabilities.
            given = {key: each for key, each in rows.weight(name).items() if key == "weight"}
            evaluator.add_case(positive, score, **given, **_cluster(name, score))
            cases.append((score, positive, int(given.get("weight", 1.0) * UNIT)))
        misses = world.random.randrange(3)
        evaluator.add_misses(misses, cluster=MISSED_CLUSTER if name == CLUSTERED else None)
        at_us = world.random.choice((0, world.now_us, world.now_us - 30 * MINUTE))
        upload = Upload(
            name,
            evaluator,
            source="edge",
            epoch=self._epoch,
            at=np.datetime64(at_us, "us") if at_us else None,
            segments=None,
        )
        requests = list(upload.requests())
        header = requests[0].header.SerializeToString()
        data = b"".join(request.data for request in requests[1:])
        payload = len(header).to_bytes(4, "little") + header + data
        self.ledger.merges[payload] = MergeContents(
            "edge", self._epoch, at_us, (), tuple(cases), misses
        )
        self._waiting += 1
        self._send(upload)
        if world.trouble(world.plan.repeats):
            self.server.merge(requests, lambda _: None)

    def _send(self, upload: Upload) -> None:
        self.server.merge(list(upload.requests()), lambda answer: self._answered(upload, answer))

    def _answered(self, upload: Upload, answer: Any) -> None:
        if isinstance(answer, RequestError):
            error = error_for(
                answer.code.name,
                answer.message,
                reason=answer.reason,
                retry_after_s=answer.retry_after_s,
            )
            pause_s = upload.pause_s(error, None)
            if pause_s is not None:
                self.world.after(int(pause_s * S), self._send, upload)
                return
            assert answer.reason in {"BATCH_REFUSED", "TOO_MANY_STREAMS", "INVALID_ARGUMENT"} or (
                answer.code.name in {"INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED"}
            ), answer.reason
        self._waiting -= 1


class Operator(Application):
    """Creates, updates and deletes streams, sends batches without a producer, and queries."""

    def __init__(self, *arguments: Any, keys: dict[str, tuple[str, ...]]) -> None:
        super().__init__(*arguments)
        self._keys = keys
        for name in STREAMS:
            if self.world.chance(0.7):
                self._create(name)
        if self.world.chance(0.5):
            self._change_pair()

    def operate(self) -> None:
        """Perform one operation."""
        dice = self.world.random
        name = dice.choice(STREAMS)
        kind = dice.random()
        if kind < 0.15:
            self._create(name)
        elif kind < 0.25:
            frame = stream_pb2.DeleteStreamRequest(name=name).SerializeToString()
            self._ask("delete_stream", frame)
        elif kind < 0.55:
            self._update(name)
        elif kind < 0.8:
            self._unnamed(name)
        elif kind < 0.83:
            self._change_alarm(name)
        elif kind < 0.89:
            self._change_pair()
        else:
            self.server.query()

    def _create(self, name: str) -> None:
        dice = self.world.random
        request = stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name=name))
        given = request.stream.settings
        given.pane.seconds = dice.choice((60, 60, 3_600))
        given.retention.seconds = dice.choice((2, 4, 12)) * 3_600
        given.label_ttl.seconds = dice.choice(LABEL_TTLS_S)
        given.relabel_ttl.seconds = dice.choice((60, 600, 5_000))
        given.resolution = dice.choice((12, 12, 5))
        given.max_pending = dice.choice((4, 1_000))
        policy = dice.randrange(3)
        if policy == 1:
            given.expired = stream_pb2.EXPIRY_POLICY_NEGATIVE
        elif policy == 2 and name != CLUSTERED:
            given.orphans = stream_pb2.ORPHAN_POLICY_MISS
        keys = dice.choice(((), ("country",), ("country", "plan")))
        given.segment_keys.extend(keys)
        if name == CLUSTERED:
            given.cluster_groups = CLUSTER_GROUPS
        self._keys[name] = tuple(keys)
        self._ask("create_stream", request.SerializeToString())

    def _update(self, name: str) -> None:
        dice = self.world.random
        request = stream_pb2.UpdateStreamRequest(stream=stream_pb2.Stream(name=name))
        given, path = request.stream.settings, dice.choice(_CHANGES)
        if path == "segment_keys":
            keys = ("country", "plan")
            given.segment_keys.extend(keys)
            self._keys[name] = keys
        elif path == "max_pending":
            given.max_pending = dice.choice((3, 1_000))
        elif path == "expired":
            given.expired = dice.choice(
                (stream_pb2.EXPIRY_POLICY_NEGATIVE, stream_pb2.EXPIRY_POLICY_DROP)
            )
        elif path == "retention":
            given.retention.seconds = dice.choice((2, 4, 12)) * 3_600
        elif path == "alarms":
            self._unnamed(name, _REFERENCE_CASES)
            self._declare(given.alarms)
        else:
            getattr(given, path).seconds = dice.choice((60, 300, 1_800, 7_200))
        request.update_mask.paths.append(f"settings.{path}")
        self._ask("update_stream", request.SerializeToString())

    def _declare(self, given: alarm_pb2.AlarmSettings) -> None:
        """Set alarms that compare with what is there already, or nothing."""
        dice = self.world.random
        for watch in dice.sample(("ranking", "auc_roc"), dice.randrange(3)):
            given.watches.add(name=watch, tolerance=0.01)
        given.pane.seconds = dice.choice((60, 600))
        given.mean_time_to_false_alarm.seconds = 3_600
        given.maturity.seconds = dice.choice((0, 600))
        now_s = self.server.clock_us() // 1_000_000
        given.reference.start_time.seconds = max(1, now_s - 4 * 3_600)
        given.reference.end_time.seconds = now_s + 600
        given.label_wait.seconds = dice.choice((0, 300))

    def _change_alarm(self, name: str) -> None:
        change = AlarmChange(self.world.random.randrange(1, 4), self.world.chance(0.5))
        self.server.call(lambda call: call.change_alarm(name, change), lambda _: None)
        mark = MarkChange(deleted=change.number)
        if change.is_delivery:
            mark = MarkChange(self.server.clock_us(), "deployed")
        self.server.call(lambda call: call.change_marks(name, mark), lambda _: None)

    def _change_pair(self) -> None:
        """Make a pair, or delete it."""
        dice = self.world.random
        a, b = dice.sample(STREAMS, 2)
        if dice.random() < 0.25:
            self._delete_pair("-".join(sorted((a, b))), a)
            return
        given = pair_pb2.PairSettings(max_cells=dice.choice((16, 4_096)))
        given.max_pending = dice.choice((4, 1_000))
        if dice.random() < 0.5:
            given.label_ttl.seconds = dice.choice(LABEL_TTLS_S)
        made = pair_pb2.CreatePairRequest(pair=pair_pb2.Pair(a=a, b=b, settings=given))
        made.pair_id = "-".join(sorted((a, b)))
        self._ask("create_pair", made.SerializeToString())

    def _delete_pair(self, name: str, stream: str) -> None:
        """Delete a pair, of which this is a stream, as the server finds it at the call."""
        self.world.trace("operator", "delete_pair")
        frame = pair_pb2.DeletePairRequest(name=name).SerializeToString()

        def submit(call: UnaryCall) -> None:
            facts = self.server.core.committer.catalog.get(stream)
            call.delete_pair(frame, None if facts is None else facts.sides_of(name))

        self.server.call(submit, lambda _: None)

    def _unnamed(self, name: str, size: int = 1) -> None:
        batch = ingest_pb2.Batch(stream=name)
        scores = [self.rows.score() for _ in range(size)]
        batch.cases.scores.extend(scores)
        batch.cases.positives.extend(self.world.chance(0.5) for _ in scores)
        if name == CLUSTERED:
            batch.cases.clusters_u32le = b"".join(
                zlib.crc32(cluster_of(score)).to_bytes(4, "little") for score in scores
            )
        frame = ingest_pb2.IngestBatchRequest(batch=batch).SerializeToString()
        self.ledger.transmissions[frame] += 1
        self.server.call(
            lambda call: call.ingest_batch(frame, self.server.clock_us()), lambda _: None
        )

    def _ask(self, method: str, frame: bytes) -> None:
        self.world.trace("operator", method)

        def submit(call: Any) -> None:
            ask: Callable[[bytes], None] = getattr(call, method)
            ask(frame)

        self.server.call(submit, lambda _: None)


_REFERENCE_CASES = 120
"""Enough for a detector's reference."""

_CHANGES = (
    "segment_keys",
    "max_pending",
    "expired",
    "retention",
    "label_ttl",
    "relabel_ttl",
    "alarms",
)
