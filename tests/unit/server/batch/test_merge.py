"""Merges: atomic, counted once for each epoch, in the panes and slices that they name."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from streameval import Evaluator
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import stream_pb2, types_pb2
from streameval_server import Limits
from streameval_server._batch import chunks
from streameval_server._batch.merge import MergeInbox
from streameval_server._core.catalog import is_merged, settings_in
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.storage import MemoryStorage
from streameval_server._model.errors import Code, RequestError

NOW = 1_800_000_000_000_000
US = types_pb2.Segment(key="country", value="US")


def counted(**columns) -> Evaluator:
    evaluator = Evaluator()
    evaluator.add_cases(**columns)
    return evaluator


SMALL = counted(labels=[1, 0, 0], scores=[0.9, 0.5, 0.1])


def encoded(*states: pb.PaneState) -> bytes:
    return pb.MergeStates(states=states).SerializeToString()


def header_of(data: bytes, **fields) -> pb.MergeHeader:
    named = {"stream": "s", "source": "edge-1", "epoch": 1} | fields
    return pb.MergeHeader(**{"total_bytes": len(data), "crc32": zlib.crc32(data)} | named)


def merged(core: ServerCore, data: bytes, *, size: int = 64, **fields) -> pb.MergeResponse:
    """Merge as the service does, and wait until it is applied."""
    inbox = MergeInbox(core.limits)
    inbox.feed(pb.MergeRequest(header=header_of(data, **fields)))
    for start in range(0, len(data), size):
        inbox.feed(pb.MergeRequest(data=data[start : start + size]))
    call = UnaryCall(core.committer, core.limits)
    call.merge(inbox, inbox.finish(NOW, settings_in(core.committer.catalog, inbox.header)))
    core.committer.step(NOW).deliver()
    core.applier.finish()
    response = call.response()
    assert isinstance(response, pb.MergeResponse)
    return response


def created(core: ServerCore, **settings) -> None:
    call = UnaryCall(core.committer, core.limits)
    stream = stream_pb2.Stream(name="s", settings=stream_pb2.StreamSettings(**settings))
    call.create_stream(stream_pb2.CreateStreamRequest(stream=stream).SerializeToString())
    core.committer.step(NOW).deliver()
    call.response()


def test_a_merge_counts_in_its_panes_and_slices():
    """All time counts each state once; a state without a time is in no pane."""
    core = open_core(MemoryStorage(), Limits())
    created(core, segment_keys=["country"])
    other = counted(labels=[1], scores=[0.7])
    data = encoded(
        pb.PaneState(evaluator=SMALL.to_bytes()),
        pb.PaneState(event_time_us=NOW, segments=[US], evaluator=other.to_bytes()),
        pb.PaneState(event_time_us=NOW - 3_600_000_000, evaluator=other.to_bytes()),
    )
    response = merged(core, data)
    assert (response.revision, response.duplicate) == (2, False)
    view = core.engine.view("s")
    assert view.evaluator.num_cases == 5
    assert [pane.evaluator.num_cases for pane in view.whole.panes] == [1, 1]
    assert view.slice(("country", "US")).all_time.num_cases == 1
    assert len(view.slice(("country", "US")).panes) == 1
    assert view.slice(("country", "")).all_time.num_cases == 4
    assert core.committer.catalog["s"].total == 5


def test_an_epoch_counts_once():
    """An epoch not above the source's last changes nothing, even in the same transaction."""
    core = open_core(MemoryStorage(), Limits())
    data = encoded(pb.PaneState(evaluator=SMALL.to_bytes()))
    assert not merged(core, data, epoch=5).duplicate
    assert merged(core, data, epoch=5).duplicate
    assert merged(core, data, epoch=4).duplicate
    assert not merged(core, data, epoch=4, source="edge-2").duplicate
    assert not merged(core, data, epoch=6).duplicate
    assert core.engine.view("s").evaluator.num_cases == 9
    calls = []
    for _ in range(2):
        inbox = MergeInbox(core.limits)
        inbox.feed(pb.MergeRequest(header=header_of(data, epoch=7)))
        inbox.feed(pb.MergeRequest(data=data))
        assert not is_merged(core.committer.catalog, inbox.header)
        calls.append(UnaryCall(core.committer, core.limits))
        calls[-1].merge(inbox, inbox.finish(NOW, settings_in(core.committer.catalog, inbox.header)))
    core.committer.step(NOW).deliver()
    assert [call.response().duplicate for call in calls] == [False, True]
    assert calls[0].response().revision == calls[1].response().revision
    assert is_merged(core.committer.catalog, inbox.header)
    core.applier.finish()
    assert core.engine.view("s").evaluator.num_cases == 12


@pytest.mark.parametrize("weights", [None, [2.0, 1.0]])
def test_an_exact_state_is_merged_into_a_stream_of_probabilities(weights):
    """It has no scale of its own: scores between 0 and 1 count, others are refused; also again."""
    storage = MemoryStorage()
    core = open_core(storage, Limits())
    created(core, scale=stream_pb2.SCALE_PROBABILITY, segment_keys=["country"])
    state = counted(labels=[1, 0], scores=[0.9, 0.5], weights=weights)
    for epoch in (1, 2):
        pane = pb.PaneState(event_time_us=NOW, segments=[US], evaluator=state.to_bytes())
        merged(core, encoded(pane), epoch=epoch)
    assert core.engine.view("s").evaluator.num_cases == 4
    (pane,) = core.engine.view("s").slice(("country", "US")).panes
    assert pane.evaluator.num_cases == 4
    assert open_core(storage, Limits()).engine.state_hash() == core.engine.state_hash()
    outside = counted(labels=[1, 0], scores=[1.5, 0.5], weights=weights)
    with pytest.raises(RequestError, match=r"scores between 0 and 1, the other has 1.5"):
        merged(core, encoded(pb.PaneState(evaluator=outside.to_bytes())), epoch=3)


def test_a_restart_knows_what_was_merged():
    """A restart from the log and from a checkpoint restores identical state."""
    storage = MemoryStorage()
    core = open_core(storage, Limits())
    rng = np.random.default_rng(1)
    for epoch in (1, 2):
        state = counted(labels=rng.random(300) < 0.2, scores=rng.random(300))
        data = encoded(pb.PaneState(event_time_us=NOW, evaluator=state.to_bytes()))
        merged(core, data, size=1000, epoch=epoch)
        again = open_core(storage, Limits())
        assert again.engine.state_hash() == core.engine.state_hash()
        core.applier.request_checkpoint()
        core.applier.finish()
        while core.committer.step(NOW).more:
            pass
        again = open_core(storage, Limits())
        assert again.recovery.replayed == 0
        assert again.engine.state_hash() == core.engine.state_hash()
        assert again.committer.catalog == core.committer.catalog
        core = again
    assert merged(core, data, epoch=2).duplicate


def test_coarser_states_lower_the_resolution():
    """Merging takes the lower resolution; counts stay exact."""
    core = open_core(MemoryStorage(), Limits())
    coarse = Evaluator(resolution=4, max_cells=3)
    coarse.add_cases(labels=[1, 0], scores=[0.71, 0.3])
    merged(core, encoded(pb.PaneState(event_time_us=NOW, evaluator=coarse.to_bytes())))
    view = core.engine.view("s")
    assert view.evaluator.resolution == 4
    assert view.evaluator.max_cells == Limits().max_cells
    assert view.whole.panes[0].evaluator.resolution == 4
    assert view.evaluator.num_cases == 2


def refused(core: ServerCore, data: bytes, **fields) -> RequestError:
    with pytest.raises(RequestError) as caught:
        merged(core, data, **fields)
    assert core.committer.revision == 0
    return caught.value


PROBABILITIES = Evaluator(resolution=8, scale="probability")
BAD = {
    "stream": ({"stream": "a//b"}, "header.stream", "stream name must be"),
    "source": ({"source": ""}, "header.source", "source must not be empty"),
    "epoch": ({"epoch": 0}, "header.epoch", "epoch must be from 1 to 2**63 - 1, got 0"),
    "checksum": ({"crc32": 1}, "header.crc32", "the data is not what was sent"),
    "too few": ({"total_bytes": 1000}, "data", "1000 bytes are announced, got"),
    "too many": ({"total_bytes": 3}, "data", "more than the 3 bytes announced"),
}


@pytest.mark.parametrize(("fields", "field", "text"), BAD.values(), ids=BAD)
def test_bad_headers(fields, field, text):
    """The INVALID_ARGUMENT error names the field; nothing was changed."""
    core = open_core(MemoryStorage(), Limits())
    error = refused(core, encoded(pb.PaneState(evaluator=SMALL.to_bytes())), **fields)
    assert error.code == Code.INVALID_ARGUMENT
    assert error.violations[0][0] == field
    assert text in error.message


BAD_STATES = {
    "damaged": ({"evaluator": SMALL.to_bytes()[:-1]}, "states[1].evaluator", "truncated"),
    "future": (
        {"event_time_us": NOW * 2, "evaluator": SMALL.to_bytes()},
        "states[1].event_time_us",
        "event time must not lie in the future",
    ),
    "old": (
        {"event_time_us": 1, "evaluator": SMALL.to_bytes()},
        "states[1].event_time_us",
        "event time must not be older than retention",
    ),
    "impossible key": (
        {"segments": [type(US)(key="a key", value="US")], "evaluator": SMALL.to_bytes()},
        "states[1].segments[0].key",
        "a segment key must be [A-Za-z0-9._-]+",
    ),
    "clusters": (
        {"evaluator": Evaluator(cluster_groups=32).to_bytes()},
        "states[1].evaluator",
        "same cluster_groups to merge, got 32 and none",
    ),
    "scale": (
        {"evaluator": PROBABILITIES.to_bytes()},
        "states[1].evaluator",
        "on the plain and on the probability scale have no cells in common",
    ),
}


@pytest.mark.parametrize(("fields", "field", "text"), BAD_STATES.values(), ids=BAD_STATES)
def test_bad_states(fields, field, text):
    """One invalid state refuses the whole merge and is named by its index."""
    core = open_core(MemoryStorage(), Limits())
    data = encoded(pb.PaneState(evaluator=SMALL.to_bytes()), pb.PaneState(**fields))
    error = refused(core, data)
    assert error.violations[0][0] == field
    assert text in error.message


PAIR = [pb.PaneState(evaluator=SMALL.to_bytes())] * 2
LARGE = counted(labels=[1] * 3_000, scores=np.arange(3_000) / 7)

IS_SMALL = {
    "one state": (encoded(PAIR[0]), {}, True),
    "no state": (encoded(), {}, True),
    "two states": (encoded(*PAIR), {}, False),
    "a large state": (encoded(pb.PaneState(evaluator=LARGE.to_bytes())), {}, False),
    "not a message": (b"\xff\xff", {}, True),
    "truncated": (encoded(*PAIR), {"total_bytes": 10_000}, True),
    "announced as large": (encoded(PAIR[0]), {"total_bytes": 100_000}, False),
}


@pytest.mark.parametrize(("data", "fields", "is_small"), IS_SMALL.values(), ids=IS_SMALL)
def test_small_merges_have_one_small_state(data, fields, is_small):
    """Only a merge that is checked or refused quickly is small: the event loop waits for it."""
    inbox = MergeInbox(Limits())
    assert not inbox.is_small()
    inbox.feed(pb.MergeRequest(header=header_of(data, **fields)))
    if data:
        inbox.feed(pb.MergeRequest(data=data))
    assert inbox.is_small() is is_small


def test_weights_do_not_merge_into_clusters():
    """A state with weights is refused by a stream that declares clusters."""
    core = open_core(MemoryStorage(), Limits())
    created(core, cluster_groups=32)
    weighted = counted(labels=[1, 0], scores=[0.9, 0.5], weights=[2.0, 1.0])
    with pytest.raises(RequestError, match="same cluster_groups to merge, got 32 and none"):
        merged(core, encoded(pb.PaneState(evaluator=weighted.to_bytes())))


def test_pieces_must_be_in_order(monkeypatch):
    """The header must come first, then data in chunks below the limit."""
    monkeypatch.setattr(chunks, "MAX_CHUNK_BYTES", 8)
    inbox = MergeInbox(Limits())
    with pytest.raises(RequestError, match="the first message must be header"):
        inbox.feed(pb.MergeRequest(data=b"x"))
    with pytest.raises(RequestError, match="the first message must be header"):
        inbox.finish(NOW, inbox.settings)
    inbox.feed(pb.MergeRequest(header=header_of(bytes(100))))
    with pytest.raises(RequestError, match="every message after the first must be data"):
        inbox.feed(pb.MergeRequest(header=header_of(b"")))
    with pytest.raises(RequestError, match="data must be at most 8 bytes, got 9"):
        inbox.feed(pb.MergeRequest(data=bytes(9)))
    with pytest.raises(RequestError, match="not an encoded MergeStates"):
        merged(open_core(MemoryStorage(), Limits()), b"\xff\xff", size=8)


def test_limits_of_merges():
    """A merge is refused when too large, from too many sources, or for an unknown stream."""
    data = encoded(pb.PaneState(evaluator=SMALL.to_bytes()))
    core = open_core(MemoryStorage(), Limits(max_merge_bytes=10))
    assert refused(core, data).code == Code.RESOURCE_EXHAUSTED
    core = open_core(MemoryStorage(), Limits(max_merge_states=2))
    state = pb.PaneState(evaluator=SMALL.to_bytes())
    many = refused(core, encoded(state, state, state))
    merged(core, encoded(state, state))
    assert many.code == Code.RESOURCE_EXHAUSTED
    assert many.message.startswith("a merge must have at most 2 states, got 3: merge in parts")
    core = open_core(MemoryStorage(), Limits(max_merge_sources=1))
    merged(core, data)
    with pytest.raises(RequestError, match="stream s has 1 merge sources, the most allowed"):
        merged(core, data, source="edge-2")
    core = open_core(MemoryStorage(), Limits(), auto_create=False)
    with pytest.raises(RequestError, match="there is no stream s, and this server makes none"):
        merged(core, data)


def test_settings_that_change_in_between_end_a_merge():
    """A merge that was checked under older settings is ABORTED, to be repeated."""
    core = open_core(MemoryStorage(), Limits())
    data = encoded(pb.PaneState(event_time_us=NOW, evaluator=SMALL.to_bytes()))
    inbox = MergeInbox(core.limits)
    inbox.feed(pb.MergeRequest(header=header_of(data)))
    inbox.feed(pb.MergeRequest(data=data))
    prepared = inbox.finish(NOW, settings_in(core.committer.catalog, inbox.header))
    created(core, scale=stream_pb2.SCALE_PROBABILITY)
    call = UnaryCall(core.committer, core.limits)
    call.merge(inbox, prepared)
    core.committer.step(NOW).deliver()
    with pytest.raises(RequestError) as caught:
        call.response()
    assert (caught.value.code, caught.value.reason) == (Code.ABORTED, "SETTINGS_CHANGED")
