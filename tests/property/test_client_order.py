"""From calls to batches: no row is lost, the rows of an id keep their order and times."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.client._buffer.buffer import Buffer
from streameval.client._buffer.case_verbs import CaseVerbs
from streameval.client._buffer.clock import clock_ns
from streameval.client._buffer.id_verbs import IdVerbs
from streameval.client._delivery.sender import Sender
from streameval.v1 import ingest_pb2

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_US = 1_767_268_800_000_000
IDS = ["a", "b", "é", "d"]

ids = st.sampled_from(IDS)
scores = st.integers(0, 9).map(float)
times = st.none() | st.integers(0, 3).map(lambda hours: NOON - timedelta(hours=hours))
segments = st.none() | st.dictionaries(
    st.sampled_from(["country", "plan"]), st.sampled_from(["", "US", "DE"])
)
columns = st.lists(st.tuples(ids, st.booleans(), scores), min_size=1, max_size=4)
calls = st.one_of(
    st.tuples(st.just("case"), st.booleans(), scores, times, segments),
    st.tuples(st.just("log"), ids, scores, times, segments),
    st.tuples(st.just("label"), ids, st.booleans(), times, st.none() | scores),
    st.tuples(st.just("retract"), ids),
    st.tuples(st.just("cases"), columns, times, segments),
    st.tuples(st.just("logs"), columns, times, segments),
    st.tuples(st.just("labels"), columns, times, st.booleans()),
    st.tuples(st.just("retracts"), columns),
    st.tuples(st.just("miss"), times, segments),
    st.tuples(st.just("take")),
)


def us(at: datetime | None) -> int | None:
    """Return the expected time in microseconds; None where the client stamps the row."""
    return (
        None if at is None else (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    )


def pairs(chosen: dict[str, str] | None) -> frozenset:
    """Return segments without empty values."""
    return frozenset((key, value) for key, value in (chosen or {}).items() if value)


class Verbs(CaseVerbs, IdVerbs):
    """The methods that add rows to a stream."""


class ExpectedRows:
    """The rows that batches must have: by id in order, cases in any order."""

    def __init__(self) -> None:
        self.by_id: dict[str, list] = defaultdict(list)
        self.cases: list = []
        self.misses: dict = defaultdict(int)

    def call(self, stream: Verbs, call: tuple) -> None:
        """Make a call, and record its rows."""
        kind, *rest = call
        if kind == "case":
            positive, score, at, chosen = rest
            stream.add_case(positive, score, at=at, segments=chosen)
            self.cases.append((positive, score, us(at), pairs(chosen)))
        elif kind == "log":
            id_, score, at, chosen = rest
            stream.log(id_, score, at=at, segments=chosen)
            self.by_id[id_].append(("log", score, us(at), pairs(chosen)))
        elif kind == "label":
            id_, positive, at, score = rest
            stream.label(id_, positive, at=at, score=score)
            self.by_id[id_].append(("label", positive, us(at), score))
        elif kind == "retract":
            stream.retract(rest[0].encode())
            self.by_id[rest[0]].append(("retract",))
        elif kind == "miss":
            stream.add_misses(2, at=rest[0], segments=rest[1])
            self.misses[us(rest[0]), pairs(rest[1])] += 2
        else:
            self._columns(stream, kind, rest)

    def _columns(self, stream: Verbs, kind: str, rest: list) -> None:
        rows = rest[0]
        names, labels, values = zip(*rows)
        if kind == "cases":
            stream.add_cases(labels=labels, scores=values, at=rest[1], segments=rest[2])
            self.cases += [(y, s, us(rest[1]), pairs(rest[2])) for _, y, s in rows]
        elif kind == "logs":
            stream.log_cases(ids=names, scores=values, at=rest[1], segments=rest[2])
            for id_, _, score in rows:
                self.by_id[id_].append(("log", score, us(rest[1]), pairs(rest[2])))
        elif kind == "labels":
            given = values if rest[2] else None
            stream.label_cases(ids=names, labels=labels, at=rest[1], scores=given)
            for id_, positive, score in rows:
                known = score if rest[2] else None
                self.by_id[id_].append(("label", positive, us(rest[1]), known))
        else:
            stream.retract_cases(ids=names)
            for id_ in names:
                self.by_id[id_].append(("retract",))


class ReceivedRows(ExpectedRows):
    """The rows that batches have."""

    def batch(self, batch: ingest_pb2.Batch) -> None:
        """Decode a batch as the server does."""
        kind = batch.WhichOneof("rows")
        if kind == "cases":
            cases = batch.cases
            scores = np.frombuffer(cases.scores_f64le).tolist()
            bits = np.unpackbits(np.frombuffer(cases.positives_bits, np.uint8), bitorder="little")
            labels = bits[: len(scores)].astype(bool).tolist()
            self.cases += zip(
                labels, scores, self.times(cases, len(scores)), self.slices(cases, len(scores))
            )
        elif kind == "predictions":
            rows, n = batch.predictions, len(batch.predictions.ids)
            for id_, *row in zip(rows.ids, rows.scores, self.times(rows, n), self.slices(rows, n)):
                self.by_id[id_].append(("log", *row))
        elif kind == "labels":
            rows, n = batch.labels, len(batch.labels.ids)
            known = list(rows.scores) or [None] * n
            when = self.times(rows, n) if rows.event_times_us else [None] * n
            for id_, *row in zip(rows.ids, rows.positives, when, known):
                self.by_id[id_].append(("label", *row))
        elif kind == "retractions":
            for id_ in batch.retractions.ids:
                self.by_id[id_].append(("retract",))
        else:
            misses = batch.misses
            where = frozenset((each.key, each.value) for each in misses.segments)
            self.misses[self.time(misses.event_time_us), where] += misses.positives

    def times(self, rows: object, n: int) -> list:
        """Return each row's time, or None for one that was stamped."""
        given = list(rows.event_times_us)
        assert len(given) in {1, n}
        return [self.time(each) for each in (given if len(given) == n else given * n)]

    @staticmethod
    def time(time_us: int) -> int | None:
        """Return a time; None for a stamp, which lies just before the server's clock."""
        if NOON_US - 3 * 3_600_000_000 <= time_us <= NOON_US:
            return time_us
        assert NOON_US + 3_600_000_000 - 120_000_000 < time_us <= NOON_US + 3_600_000_000
        return None

    @staticmethod
    def slices(rows: object, n: int) -> list[frozenset]:
        """Return each row's segments."""
        found = [[] for _ in range(n)]
        for column in rows.segments:
            packed = np.frombuffer(column.codes_u16le, "<u2").tolist()
            codes = packed or [*column.codes] * n  # one for all
            assert len(codes) == n
            assert set(codes) == set(range(len(column.values)))  # and no others
            for where, code in zip(found, codes):
                if column.values[code]:
                    where.append((column.key, column.values[code]))
        return [frozenset(each) for each in found]


@given(script=st.lists(calls, max_size=25), max_rows=st.integers(1, 9))
@settings(max_examples=300)
def test_calls_arrive_as_they_were_made(script: list[tuple], max_rows: int) -> None:
    """The rows of each id are sent in order; cases and misses have the same totals."""
    box = Buffer(capacity=10**6, batch_rows=10, when_full="drop", start=lambda: True)
    stream = Verbs(box, "s")
    sender = Sender("p", 1, random=lambda: 0.5)
    sender.open()
    resume = ingest_pb2.Resume(
        max_batch_rows=max_rows, time_us=NOON_US + 3_600_000_000, max_inflight_bytes=1 << 40
    )
    expected, arrived = ExpectedRows(), ReceivedRows()
    for call in script:
        if call == ("take",):
            sender.put(box.take())
        else:
            expected.call(stream, call)
    sender.put(box.take())
    # The client stamps times before the moment of the server's `Resume`.
    sender.receive(ingest_pb2.IngestResponse(resume=resume), clock_ns() // 1_000)
    while (message := sender.next_message()) is not None:
        arrived.batch(message.batch)
    assert dict(arrived.by_id) == dict(expected.by_id)
    key = lambda case: (case[0], case[1], case[2] or 0, sorted(case[3]))  # noqa: E731
    assert sorted(arrived.cases, key=key) == sorted(expected.cases, key=key)
    assert arrived.misses == expected.misses
    assert sender.put_rows == sender.sent_rows == box.accepted
