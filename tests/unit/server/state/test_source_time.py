"""Ids expire, and labels are late, by the clock of their source where it says its time."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from copy import copy
from itertools import islice, pairwise

import pytest

from streameval import Evaluator
from streameval.statistics import BaseSpan, Evidence, Pane, encode_evidence
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import pair_pb2, stream_pb2
from streameval_server import Limits
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.storage import MemoryStorage
from streameval_server._model.errors import RequestError
from streameval_server._state.checkpoint_parts import content_parts
from streameval_server._state.stream_parts import STREAM_PART

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
NOW = 1_800_000_000 * SECOND
SKEW = 600 * SECOND


def sent(core: ServerCore, at: int, batch: pb.Batch) -> None:
    call = UnaryCall(core.committer, core.limits)
    call.ingest_batch(pb.IngestBatchRequest(batch=batch).SerializeToString(), at)
    core.committer.step(at).deliver()
    call.response()
    core.applier.finish()


def predictions(*ids: str, at: int, source: int = 0) -> pb.Batch:
    scores = [int(each[1:]) % 97 / 97 for each in ids]
    rows = pb.Predictions(ids=ids, scores=scores, event_times_us=[at])
    return pb.Batch(stream="s", predictions=rows, source_time_us=source)


def labels(*ids: str, at: int, source: int = 0) -> pb.Batch:
    positives = [int(each[1:]) % 3 == 0 for each in ids]
    rows = pb.Labels(ids=ids, positives=positives, label_times_us=[at])
    return pb.Batch(stream="s", labels=rows, source_time_us=source)


def started(storage: MemoryStorage | None = None) -> ServerCore:
    """Return a server with two streams and their pair, which wait for labels for seven days."""
    core = open_core(storage or MemoryStorage(), Limits())
    call = UnaryCall(core.committer, core.limits)
    for name in ("s", "t"):
        stream = stream_pb2.Stream(name=name)
        stream.settings.label_ttl.FromSeconds(7 * 86_400)
        call.create_stream(stream_pb2.CreateStreamRequest(stream=stream).SerializeToString())
    pair = pair_pb2.CreatePairRequest(pair=pair_pb2.Pair(a="s", b="t"))
    call.create_pair(pair.SerializeToString())
    return core


def history() -> Iterator[tuple[int, pb.Batch]]:
    """Yield 28 days: a prediction an hour, its label an hour later, some never or twice."""
    begin = NOW - 28 * DAY
    for hour in range(28 * 24):
        at = begin + hour * HOUR + HOUR // 2
        source = at - SKEW
        yield at, predictions(f"r{hour}", at=at, source=source)
        if hour and hour % 5:
            yield at, labels(f"r{hour - 1}", at=at, source=source)
        if hour % 7 == 3:
            yield at, labels(f"r{hour - 1}", at=at, source=source)
        if hour % 11 == 0:
            yield at, labels(f"x{hour}", at=at, source=source)  # never predicted


def state(core: ServerCore) -> dict[str, bytes]:
    """Return the bytes of the stream, without its head, which names revisions and times."""
    found = dict(content_parts(core.engine._streams["s"]))
    return {name: data for name, data in found.items() if name.split("/")[0] != STREAM_PART}


def take_evidence(parts: dict[str, bytes]) -> bytes:
    """Take the evidence out of the parts, and return it."""
    data = parts["verdict/0/s"]
    begins = 8 + sum(struct.unpack_from("<II", data))
    parts["verdict/0/s"] = data[:begins]
    return data[begins:]


def evidence_by(days: int) -> bytes:
    """Return the evidence of `history` by the library, of a base of three weeks.

    Its first days are in panes of a day, what follows in panes of an hour.
    """
    labelled = [hour for hour in range(28 * 24) if (hour + 1) % 5 or (hour + 1) % 7 == 3]
    first_us = (NOW - 28 * DAY) // DAY * DAY
    edges = [*range(first_us, first_us + days * DAY, DAY)]
    edges += [*range(first_us + days * DAY, NOW, HOUR)]
    panes = []
    for start_us, end_us in pairwise([*edges, NOW]):
        hours = [
            hour
            for hour in range(28 * 24)
            if start_us <= NOW - 28 * DAY + hour * HOUR + HOUR // 2 < end_us
        ]
        rows = Evaluator(resolution=12, max_cells=1 << 14)
        for hour in hours:
            if hour in labelled:
                rows.add_case(hour % 3 == 0, hour % 97 / 97)
        panes.append(Pane(start_us, end_us, rows._view(), len(hours)))
    end_us = first_us + 21 * DAY
    inside = [each for each in panes if each.end_us <= end_us]
    base = BaseSpan.of((first_us, end_us), [each.state for each in inside])
    evidence = Evidence.begin(base, inside, 60 * SECOND)
    evidence.observe([each for each in panes if each.start_us >= end_us], NOW - HOUR)
    return encode_evidence(evidence)


def counts(core: ServerCore) -> object:
    view = core.engine.view("s")
    counters = copy(view.counters)
    counters.state_bytes = 0  # memory depends on the order of arrivals
    return view.whole.coverage.counts, view.evaluator.to_bytes(), counters


@pytest.mark.slow
def test_a_refill_of_28_days_is_what_was_live() -> None:
    """To the byte: counts, panes, delays, the ids that still wait, and evidence.

    A base has standard errors of how its panes vary. Live, its last week is in panes of an
    hour when it is frozen, refilled in panes of a day: evidence is what the
    library makes of them.
    """
    live, refilled = started(), started()
    for at, batch in history():
        sent(live, at, batch)
        sent(refilled, NOW, batch)
    last = labels("r1", at=NOW, source=NOW - SKEW)
    for core in (live, refilled):
        sent(core, NOW, last)
        core.committer.step(NOW + HOUR)
        core.applier.finish()
    assert counts(refilled) == counts(live)
    found, expected = state(refilled), state(live)
    for parts, days in ((found, 21), (expected, 14)):
        assert take_evidence(parts) == evidence_by(days)
    assert found == expected
    coverage = refilled.engine.view("s").whole.coverage
    assert coverage.counts.expired > 80
    assert coverage.delays.quantiles_us([0.01, 0.99]) == pytest.approx([HOUR, HOUR], rel=0.01)


def test_a_refilled_pair_is_what_was_live() -> None:
    """Its ids wait as long as those of its streams; its head names revisions and times."""
    live, refilled = started(), started()
    for at, batch in islice(history(), 400):
        for name in ("s", "t"):
            batch.stream = name
            sent(live, at, batch)
            sent(refilled, NOW, batch)
    found = []
    for core in (live, refilled):
        for name in ("s", "t"):
            batch = labels("r1", at=NOW, source=NOW - SKEW)
            batch.stream = name
            sent(core, NOW, batch)
        core.committer.step(NOW + DAY)
        core.applier.finish()
        (pair,) = core.engine.pairs.values()
        found.append({name: data for name, data in content_parts(pair) if name[:5] != "pair/"})
    assert found[0] == found[1]
    assert sum(name.startswith("pairpane/") for name in found[0]) > 5


def test_without_a_time_of_the_source_what_is_old_expires() -> None:
    """By the time of reading, as for every sender without times."""
    core = started()
    for _, batch in history():
        batch.source_time_us = 0
        sent(core, NOW, batch)
    assert core.engine.view("s").whole.coverage.counts.labelled < 24 * 7


def test_it_replays() -> None:
    """From the log and from any checkpoint, whatever the source's time was then."""
    storage = MemoryStorage()
    core = started(storage)
    for number, (_, batch) in enumerate(history()):
        sent(core, NOW + number * SECOND, batch)
        if number == 700:
            core.applier.request_checkpoint()
            while core.committer.step(NOW + number * SECOND).more:
                core.applier.finish()
        if number == 900:
            break
    wanted = core.engine.state_hash()
    assert core.committer.checkpoint_revision
    again = open_core(storage, Limits())
    assert again.recovery.checkpoint_revision
    assert again.engine.state_hash() == wanted
    assert again.engine._streams["s"].lag_us == core.engine._streams["s"].lag_us > 0


def test_the_clock_runs_on_while_the_source_is_quiet() -> None:
    """Seven days after it was made a prediction expires, however late the log was read."""
    core = started()
    made = NOW - 20 * DAY
    sent(core, NOW, predictions("r1", at=made, source=made))
    for days, expired in ((6.9, 0), (7.2, 1)):
        core.committer.step(NOW + int(days * DAY))
        core.applier.finish()
        assert core.engine.view("s").whole.coverage.counts.expired == expired


def test_a_partition_that_is_behind_expires_nothing() -> None:
    """The clock goes back with it, and on again."""
    core = started()
    sent(core, NOW, predictions("r1", at=NOW, source=NOW))
    old = NOW - 20 * DAY
    sent(core, NOW, predictions("r2", at=old, source=old))
    sent(core, NOW, labels("r2", at=old + HOUR, source=old + HOUR))
    sent(core, NOW, predictions("r3", at=old, source=old))
    assert core.engine.view("s").whole.coverage.counts.pending == 2
    sent(core, NOW, labels("r1", at=NOW, source=NOW))
    found = core.engine.view("s").whole.coverage.counts
    assert (found.labelled, found.expired, found.pending) == (2, 1, 0)


@pytest.mark.parametrize("number", [1, 20])
def test_a_label_that_is_read_first_keeps_its_time(number: int) -> None:
    """In columns, and row by row."""
    core = started()
    old = NOW - 20 * DAY
    ids = [f"r{each}" for each in range(number)]
    sent(core, NOW, labels(*ids, at=old + HOUR, source=old))
    sent(core, NOW, predictions(*ids, at=old, source=old))
    delays = core.engine.view("s").whole.coverage.delays
    assert delays.quantiles_us([0, 1]) == pytest.approx([HOUR, HOUR], rel=0.01)


def test_a_time_of_labels_is_at_most_their_arrival() -> None:
    """Without a time of the source, too; and no earlier than their prediction."""
    core = started()
    sent(core, NOW, predictions("r1", "r2", "r3", at=NOW - 4 * HOUR))
    sent(core, NOW, labels("r1", at=NOW - 3 * HOUR))
    sent(core, NOW, labels("r2", at=NOW + 9 * DAY))
    sent(core, NOW, labels("r3", at=-(1 << 63)))
    found = core.engine.view("s").whole.coverage.delays.quantiles_us([0.1, 0.5, 1])
    assert found == pytest.approx([0, HOUR, 4 * HOUR], rel=0.01)


def test_wrong_lengths_are_refused() -> None:
    batch = labels("r1", "r2", "r3", at=NOW)
    batch.labels.label_times_us.append(NOW)
    with pytest.raises(RequestError, match="label_times_us must have one row, or one for each"):
        sent(started(), NOW, batch)


def test_a_source_that_is_far_behind_is_bounded_by_retention() -> None:
    """A time that no log can have does not keep ids for ever."""
    core = started()
    sent(core, NOW, predictions("r1", at=NOW, source=1))
    core.committer.step(NOW + 38 * DAY)
    core.applier.finish()
    assert core.engine.view("s").counters.kept_ids == 0
