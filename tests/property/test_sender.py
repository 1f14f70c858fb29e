"""The sender against a model server: any order of events delivers each row once, in order."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streameval.client._buffer.columns import BufferedCases
from streameval.client._delivery import batch_size
from streameval.client._delivery.sender import Phase, Sender
from streameval.client._errors import error_for
from streameval.client._wire.rpc_errors import CONNECTION_CUT
from streameval.v1 import ingest_pb2, status_pb2

MAX_ROWS = 4
POISON = -1.0
REFUSED = -2.0
LOST, CUT, MOVED = "INTERNAL", "CUT", "EPOCH_MOVED"
ERRORS = {
    CUT: error_for("UNAVAILABLE", "cut", reason=CONNECTION_CUT),
    MOVED: error_for("FAILED_PRECONDITION", "moved", reason=MOVED),
}


@dataclass
class Server:
    """A model of the server: a log, marks by epoch, one answer queue."""

    log: list[float] = field(default_factory=list)
    marks: dict[int, int] = field(default_factory=dict)
    seen: dict[tuple[int, int], bytes] = field(default_factory=dict)
    refused: list[float] = field(default_factory=list)
    refusals: dict[int, list[ingest_pb2.BatchRefused]] = field(default_factory=dict)
    revision: int = 0
    highest_epoch: int = 0


class SenderMachine(RuleBasedStateMachine):
    """Moves messages one by one, breaks connections anywhere, and counts what arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.smallest, batch_size._MIN_BATCH_BYTES = batch_size._MIN_BATCH_BYTES, 1
        self.proxy_rows = MAX_ROWS
        self.server = Server()
        self.sender = Sender("p", 1, random=lambda: 0.5)
        self.now = 0.0
        self.next_score = 1.0
        self.given: list[float] = []
        self.wire_up: list[ingest_pb2.IngestRequest] = []
        self.wire_down: list[ingest_pb2.IngestResponse] = []
        self.epoch = 0
        self.acked: int = 0
        self.late: list[ingest_pb2.IngestRequest] = []
        self.late_epoch = 0
        self.resumed = 0
        self.committed = 0

    def _put(self, scores: list[float]) -> None:
        self.given += scores
        array = np.array(scores)
        self.sender.put([BufferedCases("s", array > 0, array)])

    @rule(size=st.integers(1, 11))
    def put(self, size: int) -> None:
        """Put rows with unique scores, so that each can be identified."""
        self._put([self.next_score + i for i in range(size)])
        self.next_score += size

    @rule()
    def put_what_is_refused(self) -> None:
        """Put a batch that the server refuses by rule."""
        self._put([REFUSED])

    @rule()
    def put_poison(self) -> None:
        """Put a batch that ends each connection it travels on."""
        self._put([POISON])

    @rule(most=st.integers(1, MAX_ROWS))
    def limit(self, most: int) -> None:
        """Put a proxy before the server that cuts a connection with a larger batch."""
        self.proxy_rows = most

    @precondition(lambda self: self.sender.phase is Phase.DISCONNECTED)
    @rule()
    def connect(self) -> None:
        """Open a connection; messages of the one before are lost."""
        self.wire_up = [self.sender.open()]
        self.wire_down = []

    @precondition(lambda self: self.sender.phase is Phase.READY)
    @rule(most=st.integers(1, 5))
    def send(self, most: int) -> None:
        """Take some messages from the sender."""
        for _ in range(most):
            message = self.sender.next_message()
            if message is None:
                return
            self.wire_up.append(message)

    @precondition(lambda self: self.wire_up)
    @rule(most=st.integers(1, 5), answer=st.booleans())
    def serve(self, most: int, answer: bool) -> None:
        """Let the server take messages, commit them, and answer, or keep its answers late."""
        for _ in range(most):
            failure = self._serve_one(self.wire_up.pop(0)) if self.wire_up else None
            if failure is not None:
                self._break(failure)
                return
        if answer and self.epoch and self.sender.phase is Phase.READY:
            self._ack()

    def _ack(self) -> None:
        ack = ingest_pb2.Ack(
            last_sequence=self.server.marks[self.epoch], revision=self.server.revision
        )
        self.wire_down.append(ingest_pb2.IngestResponse(ack=ack))

    def _serve_one(self, message: ingest_pb2.IngestRequest) -> str | None:
        server = self.server
        if message.HasField("open"):
            after = (message.open.after_epoch, message.open.after_sequence)
            present = (server.highest_epoch, server.marks.get(server.highest_epoch, 0))
            if server.highest_epoch < message.open.epoch and after[0] and after != present:
                return MOVED
            self.epoch = message.open.epoch
            assert self.epoch >= server.highest_epoch
            server.highest_epoch = self.epoch
            self.resumed = last = server.marks.setdefault(self.epoch, 0)
            resume = ingest_pb2.Resume(
                last_sequence=last,
                max_batch_rows=MAX_ROWS,
                max_batch_bytes=1 << 20,
                max_inflight_bytes=2000,
                revision=server.revision,
                refused=server.refusals.get(self.epoch, []),
            )
            self.wire_down.append(ingest_pb2.IngestResponse(resume=resume))
            return None
        batch = message.batch
        scores = np.frombuffer(batch.cases.scores_f64le).tolist()
        assert len(scores) <= MAX_ROWS
        key = (self.epoch, batch.sequence)
        content = batch.SerializeToString(deterministic=True)
        # A batch that is sent again has the content it had before.
        assert server.seen.setdefault(key, content) == content
        last = server.marks[self.epoch]
        assert batch.sequence <= last + 1, "a gap"
        if batch.sequence <= last:
            # Only batches that became durable after `Resume` are sent again.
            assert batch.sequence > self.resumed
            return None
        if POISON in scores:
            return LOST
        if len(scores) > self.proxy_rows:
            return CUT
        server.marks[self.epoch] = batch.sequence
        server.revision += 1
        self.committed = server.revision
        if REFUSED in scores:
            server.refused += scores
            refused = ingest_pb2.BatchRefused(
                sequence=batch.sequence,
                refusal=status_pb2.Refusal(code=3, message="refused by rule"),
                revision=server.revision,
            )
            server.refusals.setdefault(self.epoch, []).append(refused)
            self.wire_down.append(ingest_pb2.IngestResponse(refused=refused))
        else:
            server.log += scores
        return None

    @precondition(lambda self: self.wire_down)
    @rule(most=st.integers(1, 5), twice=st.booleans())
    def receive(self, most: int, twice: bool) -> None:
        """Let the sender read answers, acks and refusals possibly twice."""
        for _ in range(most):
            if not self.wire_down or self.sender.phase in (Phase.DISCONNECTED, Phase.FENCED):
                break
            message = self.wire_down.pop(0)
            self.sender.receive(message)
            if twice and not message.HasField("resume"):
                self.sender.receive(message)
        if self.sender.phase is Phase.DISCONNECTED:
            self._break(None)

    @precondition(lambda self: self.sender.phase in (Phase.OPENING, Phase.READY))
    @rule(code=st.sampled_from(["UNAVAILABLE", "RESOURCE_EXHAUSTED", CUT, None]))
    def disconnect(self, code: str | None) -> None:
        """Break the connection; messages in flight are lost in both directions."""
        self.late, self.late_epoch = self.wire_up, self.epoch
        self._break(code)

    @precondition(lambda self: self.late)
    @rule()
    def commit_late(self) -> None:
        """Commit a batch of a broken connection: the client gets no answer."""
        message = self.late.pop(0)
        if not message.HasField("batch") or self.late_epoch != self.server.highest_epoch:
            return
        heard, epoch = list(self.wire_down), self.epoch
        self.epoch = self.late_epoch
        if self._serve_one(message) is not None:
            self.late = []
        self.wire_down, self.epoch = heard, epoch

    def _break(self, code: str | None) -> None:
        retry = 1.0 if code == "RESOURCE_EXHAUSTED" else None
        error = None if code is None else error_for(code, "broken", retry_after_s=retry)
        error = ERRORS.get(code or "", error)
        self.wire_up, self.wire_down = [], []
        self.sender.disconnected(error, self.now)
        assert self.sender.retry_at > self.now
        if retry:
            assert self.sender.retry_at >= self.now + retry

    @rule()
    def forget_marks(self) -> None:
        """Forget an idle producer: its connection ends, its rows stay."""
        self.finish()  # a batch that is about to be committed is not forgotten
        if self.sender.phase is not Phase.DISCONNECTED:
            self._break("UNAVAILABLE")
        self.late = []
        self.committed = 0
        self.server.marks.clear()
        self.server.refusals.clear()
        self.server.seen.clear()

    @invariant()
    def nothing_twice(self) -> None:
        """Check that the log has the rows in the order of their puts, none of them twice."""
        log = self.server.log
        assert log == sorted(set(log))
        sender = self.sender
        assert sender.settled_rows <= sender.put_rows == len(self.given)
        assert sender.acked_rows <= len(log)

    def teardown(self) -> None:
        """Check that every row arrived once, or is reported as refused."""
        self.finish()
        batch_size._MIN_BATCH_BYTES = self.smallest
        good = [score for score in self.given if score > 0]
        poison = [score for score in self.given if score == POISON]
        sender = self.sender
        # Rows of different puts are never in one batch, so only refused puts are refused.
        assert self.server.log == good
        assert sender.settled_rows == len(self.given)
        assert sender.dropped_rows == 0
        assert self.server.refused == [score for score in self.given if score == REFUSED]
        lost = len(poison) + len(self.server.refused)
        assert (sender.refused_rows, sender.refused_batches) == (lost, lost)
        assert sender.acked_rows == len(good)
        assert sender.revision >= self.committed  # reads its own writes

    def finish(self) -> None:
        """Give the sender a connection that works until nothing is pending."""
        for _ in range(4000):
            if not self.sender.pending:
                break
            if self.sender.phase is Phase.DISCONNECTED:
                self.connect()
            self.serve(5, True)
            if self.wire_down:
                self.receive(5, False)
            if self.sender.phase is Phase.READY:
                self.send(5)
        assert not self.sender.pending


TestSender = SenderMachine.TestCase
TestSender.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
