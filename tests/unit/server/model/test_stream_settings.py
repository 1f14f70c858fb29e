"""A stream's settings: defaults, rules, and what can change."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import pytest

from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import stream_pb2
from streameval_server import Limits
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.storage import MemoryStorage
from streameval_server._model.errors import Code, RequestError
from streameval_server._model.stream_settings import (
    DAY_US,
    DEFAULTS,
    HOUR_US,
    SECOND_US,
    StreamSettings,
    check,
    settings_of,
    update_of,
)

NOW = 1_800_000_000_000_000


def message(**fields) -> stream_pb2.StreamSettings:
    """Return settings; a time is given in seconds."""
    settings = stream_pb2.StreamSettings()
    for name, value in fields.items():
        if name in {"pane", "retention", "label_ttl", "relabel_ttl"}:
            getattr(settings, name).FromMicroseconds(round(value * SECOND_US))
        elif name == "segment_keys":
            settings.segment_keys.extend(value)
        else:
            setattr(settings, name, value)
    return settings


def test_settings_default():
    """And every setting survives the way through a message."""
    assert settings_of(stream_pb2.StreamSettings()) == DEFAULTS
    assert settings_of(DEFAULTS.to_message()) == DEFAULTS
    check(DEFAULTS, Limits())
    other = replace(
        DEFAULTS,
        pane_us=90 * DAY_US,
        retention_us=400 * DAY_US,
        resolution=9,
        scale="probability",
        label_ttl_us=HOUR_US + 1,
        relabel_ttl_us=2 * HOUR_US,
        max_pending=5,
        orphans="miss",
        segment_keys=("b", "a"),
        threshold=0.25,
        cost_fp=0.5,
        cost_fn=12.0,
        min_label_probability=0.05,
    )
    assert settings_of(other.to_message()) == other
    negative = replace(DEFAULTS, expired="negative")
    assert settings_of(negative.to_message()) == negative
    clustered = replace(DEFAULTS, cluster_key="user_id", cluster_groups=64)
    assert settings_of(clustered.to_message()) == clustered


def test_a_cluster_key_declares_32_groups():
    """Groups need no key: its name is for clients."""
    assert settings_of(message(cluster_key="user_id")).cluster_groups == 32
    unnamed = settings_of(message(cluster_groups=8))
    assert (unnamed.cluster_key, unnamed.cluster_groups) == ("", 8)
    check(unnamed, Limits())


def test_clusters_are_named_in_checkpoints_only_where_declared():
    """Bytes and hashes of streams without clusters are those of older releases."""
    assert not {"cluster_key", "cluster_groups"} & set(DEFAULTS.to_fields())
    clustered = replace(DEFAULTS, cluster_key="user_id", cluster_groups=64)
    assert StreamSettings(**clustered.to_fields()) == clustered


def test_a_setting_that_is_not_declared_takes_no_bytes():
    """Checkpoints and exports without a threshold or costs are those of earlier releases."""
    without = asdict(DEFAULTS)
    assert without.pop("threshold") is without.pop("cost_fp") is without.pop("cost_fn") is None
    assert without.pop("alarms") is without.pop("min_label_probability") is None
    assert (without.pop("cluster_key"), without.pop("cluster_groups")) == ("", 0)
    assert DEFAULTS.to_fields() == without
    assert replace(DEFAULTS, threshold=0.0).to_fields() == {**without, "threshold": 0.0}
    declared = replace(DEFAULTS, threshold=0.5, cost_fp=1.0, cost_fn=8.0)
    assert declared.to_fields() == {**without, "threshold": 0.5, "cost_fp": 1.0, "cost_fn": 8.0}
    assert StreamSettings.of_fields(declared.to_fields()) == declared
    assert (declared.costs, DEFAULTS.costs) == ((1.0, 8.0), None)
    check(declared, Limits())
    for scale, threshold in (("plain", -1e300), ("probability", 0.0), ("probability", 1.0)):
        check(replace(DEFAULTS, scale=scale, threshold=threshold), Limits())


def test_label_ttl_follows_a_short_retention():
    """Its default is no longer than retention."""
    assert settings_of(message(retention=3600)).label_ttl_us == HOUR_US


BAD = {
    "no pane": (
        message(pane=0.5),
        "pane",
        "pane must be from 1 s to 3660 d, got 0.5 s",
    ),
    "odd pane": (
        message(pane=7),
        "pane",
        "pane must divide an hour or a day, or be whole days, got 7 s",
    ),
    "short retention": (
        message(pane=3600, retention=60),
        "retention",
        "retention must be at least one pane, got 60 s for a pane of 3600 s",
    ),
    "long retention": (
        message(retention=4000 * 86400),
        "retention",
        "retention must be from 1 s to 3660 d, got 3.456e+08 s",
    ),
    "negative ttl": (
        message(label_ttl=-1),
        "label_ttl",
        "label_ttl must be from 1 s to 3660 d, got -1 s",
    ),
    "long ttl": (
        message(retention=3600, label_ttl=7200),
        "label_ttl",
        "label_ttl must be at most retention, got 7200 s with a retention of 3600 s",
    ),
    "resolution": (
        message(resolution=54),
        "resolution",
        "resolution must be from 1 to 53, got 54",
    ),
    "max_pending": (
        message(max_pending=20_000_001),
        "max_pending",
        "max_pending must be from 1 to 20000000, got 20000001",
    ),
    "twice": (
        message(orphans=stream_pb2.ORPHAN_POLICY_MISS, expired=stream_pb2.EXPIRY_POLICY_NEGATIVE),
        "orphans",
        (
            "orphans MISS with expired NEGATIVE would count a late positive twice: "
            "as a negative case when its prediction expires and as a miss when its label comes"
        ),
    ),
    "key": (
        message(segment_keys=["a key"]),
        "segment_keys",
        "a segment key must be [A-Za-z0-9._-]+ and at most 64 characters, got 'a key'",
    ),
    "long key": (
        message(segment_keys=["k" * 200]),
        "segment_keys",
        (
            "a segment key must be [A-Za-z0-9._-]+ and at most 64 characters, got '"
            + "k" * 146
            + "..."
        ),
    ),
    "key twice": (
        message(segment_keys=["a", "a"]),
        "segment_keys",
        "segment_keys must be distinct, got 'a' twice",
    ),
    "few groups": (
        message(cluster_groups=7),
        "cluster_groups",
        "cluster_groups must be between 8 and 1024, got 7",
    ),
    "cluster key": (
        message(cluster_key="a key"),
        "cluster_key",
        "cluster_key must be [A-Za-z0-9._-]+ and at most 64 characters, got 'a key'",
    ),
    "misses without clusters": (
        message(cluster_key="user_id", orphans=stream_pb2.ORPHAN_POLICY_MISS),
        "orphans",
        (
            "orphans MISS with clusters would count misses that have no cluster: "
            "a label without a prediction does not tell it"
        ),
    ),
    "threshold nan": (
        message(threshold=math.nan),
        "threshold",
        "threshold must be finite, got nan",
    ),
    "threshold inf": (
        message(threshold=-math.inf),
        "threshold",
        "threshold must be finite, got -inf",
    ),
    **{
        f"{name} {cost}": (
            message(threshold=0.5, **{"cost_fp": 1.0, "cost_fn": 1.0, name: cost}),
            name,
            f"{name} must be positive and finite, got {cost:g}",
        )
        for name in ("cost_fp", "cost_fn")
        for cost in (0.0, -1.0, math.inf, math.nan)
    },
    "one cost": (
        message(threshold=0.5, cost_fn=3.0),
        "cost_fp",
        "cost_fn without cost_fp: declare both costs, or none",
    ),
    "the other cost": (
        message(threshold=0.5, cost_fp=3.0),
        "cost_fn",
        "cost_fp without cost_fn: declare both costs, or none",
    ),
    "costs without a threshold": (
        message(cost_fp=3.0, cost_fn=4.0),
        "cost_fp",
        (
            "cost_fp and cost_fn need a threshold, at which errors are counted: declare one, or "
            "remove both costs"
        ),
    ),
    "threshold of a probability": (
        message(threshold=1.5, scale=stream_pb2.SCALE_PROBABILITY),
        "threshold",
        "threshold must be from 0 to 1 on the probability scale, got 1.5",
    ),
    "unknown policy": (message(orphans=9), "orphans", "orphans has the unknown value 9"),
    "a label probability that no label can have": (
        message(min_label_probability=1e-300),
        "min_label_probability",
        "min_label_probability must be from 2**-31 to 1, got 1e-300",
    ),
}


@pytest.mark.parametrize(("settings", "field", "text"), BAD.values(), ids=BAD)
def test_rules(settings, field, text):
    """INVALID_ARGUMENT with the field, before anything is logged."""
    core = open_core(MemoryStorage(), Limits())
    request = stream_pb2.CreateStreamRequest(stream=stream_pb2.Stream(name="s", settings=settings))
    with pytest.raises(RequestError) as caught:
        UnaryCall(core.committer, core.limits).create_stream(request.SerializeToString())
    assert caught.value.code == Code.INVALID_ARGUMENT
    assert caught.value.message == text
    assert caught.value.violations == ((f"stream.settings.{field}", text),)
    assert not core.committer.queued_bytes


def test_too_many_keys():
    """It is a limit of the server: RESOURCE_EXHAUSTED."""
    with pytest.raises(RequestError) as caught:
        check(settings_of(message(segment_keys="abcdefghi")), Limits())
    assert caught.value.code == Code.RESOURCE_EXHAUSTED
    assert caught.value.message == "segment_keys must be at most 8, got 9"


def update(paths, **fields) -> stream_pb2.UpdateStreamRequest:
    request = stream_pb2.UpdateStreamRequest(
        stream=stream_pb2.Stream(name="s", settings=message(**fields))
    )
    request.update_mask.paths.extend(paths)
    return request


def updated(before: StreamSettings, request: stream_pb2.UpdateStreamRequest) -> StreamSettings:
    return update_of(request).apply_to(before)


def test_only_what_the_mask_names_changes():
    """Unset fields that it names get their defaults."""
    before = replace(DEFAULTS, max_pending=7, relabel_ttl_us=5 * HOUR_US)
    request = update(["settings.retention"], retention=40 * 86400, max_pending=9)
    after = updated(before, request)
    assert after == replace(before, retention_us=40 * DAY_US)
    assert updated(before, update(["settings.max_pending"])) == replace(
        before, max_pending=DEFAULTS.max_pending
    )
    assert updated(before, update(["settings"])) == DEFAULTS
    declared = updated(before, update(["settings.threshold"], threshold=0.7))
    assert declared == replace(before, threshold=0.7)
    assert updated(declared, update(["settings.threshold"])) == before
    costs = ["settings.cost_fp", "settings.cost_fn"]
    priced = updated(declared, update(costs, cost_fp=1.0, cost_fn=8.0))
    assert priced == replace(declared, cost_fp=1.0, cost_fn=8.0)
    assert updated(priced, update(costs[1:], cost_fn=9.0)).costs == (1.0, 9.0)
    assert updated(priced, update(costs)) == declared


def test_keys_can_be_added():
    """In any order; existing keys keep their positions."""
    before = replace(DEFAULTS, segment_keys=("a", "b"))
    request = update(["settings.segment_keys"], segment_keys=["c", "b", "a"])
    after = updated(before, request)
    assert after.segment_keys == ("a", "b", "c")


CANNOT = {
    "pane": ({"pane": 3600}, "pane cannot change: panes cannot be divided"),
    "resolution": (
        {"resolution": 11},
        "resolution cannot change: panes have dropped the other bits",
    ),
    "scale": (
        {"scale": stream_pb2.SCALE_PROBABILITY},
        "scale cannot change: panes have dropped the scores",
    ),
    "cluster_key": (
        {"cluster_key": "user_id"},
        "cluster_key cannot change: clusters are counted by one key, from a stream's first row on",
    ),
    "cluster_groups": (
        {"cluster_groups": 32},
        "cluster_groups cannot change: clusters are counted in them, from a stream's first row on",
    ),
    "segment_keys": (
        {"segment_keys": ["b"]},
        "segment_keys can only be added: 'a' has slices already",
    ),
}


@pytest.mark.parametrize(("field", "fields", "text"), [(k, *v) for k, v in CANNOT.items()])
def test_fixed_settings_say_why(field, fields, text):
    """FAILED_PRECONDITION; giving the present value is allowed."""
    before = replace(DEFAULTS, segment_keys=("a",))
    with pytest.raises(RequestError) as caught:
        updated(before, update([f"settings.{field}"], **fields))
    assert caught.value.code == Code.FAILED_PRECONDITION
    assert caught.value.violations == ((f"stream.settings.{field}", text),)
    same = update([f"settings.{field}"])
    same.stream.settings.CopyFrom(before.to_message())
    assert updated(before, same) == before


@pytest.mark.parametrize(
    ("paths", "text"),
    [
        ([], "update_mask must name the settings to change, got none"),
        (["name"], "update_mask must name settings, as settings.label_ttl, got 'name'"),
        (["settings.x"], "update_mask must name settings, as settings.label_ttl, got 'settings.x'"),
        (
            ["\0" * 200],
            "update_mask must name settings, as settings.label_ttl, got '"
            + "\\x00" * 36
            + "\\x...",
        ),
    ],
)
def test_invalid_masks(paths, text):
    """INVALID_ARGUMENT."""
    with pytest.raises(RequestError) as caught:
        updated(DEFAULTS, update(paths))
    assert caught.value.violations == (("update_mask", text),)


# -- in the service


def called(core: ServerCore, submit) -> object:
    call = UnaryCall(core.committer, core.limits)
    submit(call)
    core.committer.step(NOW).deliver()
    core.applier.finish()
    return call.response()


def created(core: ServerCore, **fields) -> None:
    stream = stream_pb2.Stream(name="s", settings=message(**fields))
    frame = stream_pb2.CreateStreamRequest(stream=stream).SerializeToString()
    response = called(core, lambda call: call.create_stream(frame))
    assert settings_of(response.stream.settings) == core.engine.stream("s").settings


def sent(core: ServerCore, **rows) -> object:
    frame = pb.IngestBatchRequest(batch=pb.Batch(stream="s", **rows)).SerializeToString()
    return called(core, lambda call: call.ingest_batch(frame, NOW))


def test_settings_are_durable():
    """A restart restores them, from the log and from a checkpoint."""
    storage = MemoryStorage()
    core = open_core(storage, Limits())
    created(core, retention=7200, segment_keys=["country"])
    frame = update(["settings.segment_keys"], segment_keys=["country", "plan"]).SerializeToString()
    response = called(core, lambda call: call.update_stream(frame))
    assert (response.stream.name, response.revision) == ("s", 2)
    wanted = replace(
        DEFAULTS,
        retention_us=2 * HOUR_US,
        label_ttl_us=2 * HOUR_US,
        segment_keys=("country", "plan"),
    )
    for _ in range(2):
        assert core.engine.stream("s").settings == wanted
        assert core.committer.catalog["s"].settings == wanted
        again = open_core(storage, Limits())
        assert again.engine.state_hash() == core.engine.state_hash()
        assert again.committer.catalog == core.committer.catalog
        core = again
        core.drain(NOW)


def test_a_batch_is_checked_again_when_settings_changed_before_its_commit():
    """The new settings decide: a key that is gone and another scale are refused."""
    core = open_core(MemoryStorage(), Limits())
    created(core, segment_keys=["country"])
    column = pb.SegmentColumn(key="country", values=["US"], codes=[0])
    cases = pb.Cases(scores=[2.0], positives=[True], segments=[column])
    frame = pb.IngestBatchRequest(batch=pb.Batch(stream="s", cases=cases)).SerializeToString()
    calls = [UnaryCall(core.committer, core.limits) for _ in range(4)]
    calls[0].delete_stream(stream_pb2.DeleteStreamRequest(name="s").SerializeToString())
    calls[1].create_stream(
        stream_pb2.CreateStreamRequest(
            stream=stream_pb2.Stream(
                name="s",
                settings=message(segment_keys=["country"], scale=stream_pb2.SCALE_PROBABILITY),
            )
        ).SerializeToString()
    )
    calls[2].ingest_batch(frame, NOW)
    good = pb.Cases(scores=[0.5], positives=[True], segments=[column])
    frame = pb.IngestBatchRequest(batch=pb.Batch(stream="s", cases=good)).SerializeToString()
    calls[3].ingest_batch(frame, NOW)
    core.committer.step(NOW).deliver()
    with pytest.raises(RequestError, match="score must be between 0 and 1 on the probability"):
        calls[2].response()
    assert calls[3].response().revision == 4
    core.applier.finish()
    assert core.engine.view("s").evaluator.num_cases == 1


def test_unknown_streams_cannot_be_updated():
    """NOT_FOUND."""
    core = open_core(MemoryStorage(), Limits())
    frame = update(["settings.max_pending"], max_pending=5).SerializeToString()
    with pytest.raises(RequestError, match="there is no stream s"):
        called(core, lambda call: call.update_stream(frame))


def test_rules_hold_for_updated_settings():
    """They apply to the resulting settings, not only to the changed ones."""
    core = open_core(MemoryStorage(), Limits())
    created(core)
    frame = update(["settings.retention"], retention=86400).SerializeToString()
    with pytest.raises(RequestError, match="label_ttl must be at most retention"):
        called(core, lambda call: call.update_stream(frame))
    assert core.committer.revision == 1


def test_the_paths_of_a_mask_are_limited(monkeypatch):
    """A longer mask is refused; one from the log of an older release is replayed."""
    storage = MemoryStorage()
    core = open_core(storage, Limits())
    created(core)
    few, many = (
        update(["settings.max_pending"] * paths, max_pending=5).SerializeToString()
        for paths in (32, 33)
    )
    with pytest.raises(RequestError) as caught:
        called(core, lambda call: call.update_stream(many))
    message = "update_mask must have at most 32 paths, got 33"
    assert caught.value.code == Code.INVALID_ARGUMENT
    assert caught.value.violations == (("update_mask", message),)
    assert core.committer.revision == 1
    assert called(core, lambda call: call.update_stream(few)).revision == 2
    monkeypatch.setattr("streameval_server._ingest.unary_call.check_mask", lambda _: None)
    assert called(core, lambda call: call.update_stream(many)).revision == 3
    assert open_core(storage, Limits()).engine.stream("s").settings.max_pending == 5


def test_retention_can_shrink_and_grow():
    """Dropped panes do not come back, and late rows for them are in no pane."""
    core = open_core(MemoryStorage(), Limits())
    created(core)
    old = NOW - 10 * DAY_US
    sent(core, predictions=pb.Predictions(ids=["a", "b"], scores=[1, 2], event_times_us=[old, NOW]))
    assert len(core.engine.view("s").whole.panes) == 2
    for days in (5, 30):
        fields = {"retention": days * 86400, "label_ttl": 5 * 86400}
        frame = update([f"settings.{name}" for name in fields], **fields).SerializeToString()
        called(core, lambda call, frame=frame: call.update_stream(frame))
        assert len(core.engine.view("s").whole.panes) == 1
    sent(core, labels=pb.Labels(ids=["a", "b"], positives=[True, False]))
    view = core.engine.view("s")
    assert view.evaluator.num_cases == 2
    assert [pane.evaluator.num_cases for pane in view.whole.panes] == [1]
    assert view.counters.beyond_retention == 1
    sent(core, retractions=pb.Retractions(ids=["a"]))
    assert core.engine.view("s").evaluator.num_cases == 1
