"""Rows of payloads: what model servers send, and what is wrong with some of it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval import InvalidInputError
from streameval.payloads import (
    PRESETS,
    Event,
    PayloadMapping,
    Reason,
    _extraction,
    read_event,
    read_rows,
)

RESPONSE = "org.kubeflow.serving.inference.response"
V2 = {
    "model_name": "fraud",
    "id": "order-7",
    "outputs": [{"name": "p", "shape": [2, 2], "datatype": "FP64", "data": [0.9, 0.1, 0.3, 0.7]}],
}
KSERVE = {
    "ce-id": "7",
    "ce-type": RESPONSE,
    "ce-source": "http://localhost:9081/",
    "ce-specversion": "1.0",
    "ce-time": "2026-01-02T03:04:05.678901Z",
    "ce-inferenceservicename": "fraud",
    "ce-namespace": "shop",
    "content-type": "application/json",
}
TIME_US = int(datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC).timestamp() * 1e6)


def mapping(**keys: Any) -> PayloadMapping:
    """Return a mapping of a table's keys."""
    return PayloadMapping.of({"stream": "fraud/v3", **keys})


def plain(**keys: Any) -> PayloadMapping:
    """Return a mapping of plain objects."""
    return mapping(**{"preset": "ndjson", **keys})


def test_kserve_v2_of_two_rows_and_two_classes() -> None:
    """The class's column, an id a row, the event's time and a segment of a header."""
    found = read_rows(
        mapping(preset="kserve-v2", segments={"shop": "headers.namespace"}, **{"class": 1}),
        read_event(KSERVE, json.dumps(V2).encode()),
    )
    assert not found.refusals
    assert [(row.id, row.score, row.label) for row in found.rows] == [
        ("order-7/0", 0.1, None),
        ("order-7/1", 0.7, None),
    ]
    assert {row.time_us for row in found.rows} == {TIME_US}
    assert [dict(row.segments) for row in found.rows] == [{"shop": "shop"}] * 2


@pytest.mark.parametrize(
    ("predictions", "keys", "expected"),
    [
        ([0.25], {}, [("7", 0.25)]),
        ([1, 0], {}, [("7/0", 1.0), ("7/1", 0.0)]),
        ([[0.25], [0.5]], {}, [("7/0", 0.25), ("7/1", 0.5)]),
        ([[0.9, 0.1]], {"class": 1}, [("7", 0.1)]),
        ([{"ok": 0.9, "fraud": 0.1}], {"class": "fraud"}, [("7", 0.1)]),
    ],
)
def test_kserve_v1(predictions: object, keys: dict[str, Any], expected: object) -> None:
    """Labels as numbers, scores, scores by class in lists and objects."""
    body = json.dumps({"predictions": predictions}).encode()
    found = read_rows(mapping(preset="kserve-v1", **keys), read_event(KSERVE, body))
    assert not found.refusals
    assert [(row.id, row.score) for row in found.rows] == expected


def test_seldon_predictions_and_feedback() -> None:
    """A class by its name, flat tensors, and the truth that comes back under the same id."""
    seldon = mapping(preset="seldon", **{"class": "fraud"})
    head = {"type": "io.seldon.serving.inference.response", "requestid": "r1", "id": "e1"}
    tensor = {"shape": [1, 2], "values": [0.9, 0.1]}
    for data in ({"ndarray": [[0.9, 0.1]]}, {"tensor": tensor}):
        body = json.dumps({"data": {"names": ["ok", "fraud"], **data}}).encode()
        event = Event(read_event({}, body).body, head)
        (row,) = read_rows(seldon, event).rows
        assert (row.id, row.score, row.label) == ("r1", 0.1, None)
    truth = {"response": {"data": {"ndarray": [[0.9, 0.1]]}}, "truth": {"data": {"ndarray": [[1]]}}}
    (row,) = read_rows(seldon, Event(truth, {**head, "type": "io.seldon.serving.feedback"})).rows
    assert (row.id, row.score, row.label) == ("r1", None, True)


def test_ground_truth_of_sagemaker() -> None:
    """A label by the inference's id, else by the event's."""
    labels = mapping(preset="sagemaker-labels")
    line = {"groundTruthData": {"data": "1", "encoding": "CSV"}, "eventVersion": "0"}
    for ids, expected in (({"eventId": "e"}, "e"), ({"eventId": "e", "inferenceId": "i"}, "i")):
        (row,) = read_rows(labels, Event({**line, "eventMetadata": ids})).rows
        assert (row.id, row.label) == (expected, True)


def test_inference_table_of_databricks() -> None:
    """A response that is JSON in a text, milliseconds, and no row of a failed request."""
    table = mapping(preset="databricks")
    record = {
        "client_request_id": None,
        "databricks_request_id": "d1",
        "timestamp_ms": TIME_US // 1000,
        "status_code": 200,
        "response": '{"predictions": [0.25]}',
    }
    (row,) = read_rows(table, Event(record)).rows
    assert (row.id, row.score, row.time_us) == ("d1", 0.25, TIME_US // 1000 * 1000)
    assert read_rows(table, Event({**record, "status_code": 500})).is_ignored
    labelled = mapping(preset="databricks", label="body.truth")
    for share, weight in ((0.25, 4.0), (0.3, round((1 << 16) / 0.3) / (1 << 16)), (None, None)):
        sampled = Event({**record, "sampling_fraction": share, "truth": 1})
        (row,) = read_rows(labelled, sampled).rows
        assert (row.label, row.weight) == (True, weight)
    found = read_rows(table, Event({**record, "response": "{"}))
    assert found.refusals[0].reason is Reason.UNREADABLE


def test_records_of_bentoml() -> None:
    """The name that the service logs as its score."""
    record = {"request_id": 12, "timestamp": "2026-01-02T03:04:05.678901", "probability": 0.5}
    (row,) = read_rows(mapping(preset="bentoml", score="body.probability"), Event(record)).rows
    assert (row.id, row.score, row.time_us) == ("12", 0.5, TIME_US)


def test_a_stream_for_each_class() -> None:
    """A row becomes one of each class; the label is positive for its own class only."""
    fan = plain(stream="{team}/{class}", classes=["cat", "dog", "bird"])
    event = Event({"id": "a", "score": [0.2, 0.5, 0.3], "label": "dog"}, {"team": "pets"})
    found = read_rows(fan, event)
    assert [(row.stream, row.score, row.label) for row in found.rows] == [
        ("pets/cat", 0.2, False),
        ("pets/dog", 0.5, True),
        ("pets/bird", 0.3, False),
    ]
    by_place = read_rows(fan, Event({"id": "a", "label": 2}, {"team": "pets"}))
    assert [row.label for row in by_place.rows] == [False, False, True]
    by_name = {"id": "a", "score": {"dog": 0.5, "cat": 0.2, "bird": 0.3}}
    found = read_rows(fan, Event(by_name, {"team": "pets"}))
    assert [row.score for row in found.rows] == [0.2, 0.5, 0.3]


REFUSED = [
    ({}, {"id": "a"}, Reason.NOTHING_SELECTED, "nothing is at body.score or body.label"),
    ({}, {"id": "a", "score": []}, Reason.NOTHING_SELECTED, "the payload has no rows"),
    ({}, {"id": "a", "score": "0.5"}, Reason.SCORE, "score must be a number, got '0.5'"),
    ({}, {"id": "a", "score": True}, Reason.SCORE, "score must be a number, got True"),
    ({}, {"id": "a", "score": float("nan")}, Reason.SCORE, "score must be finite, got nan"),
    ({}, {"id": "a", "score": 10**400}, Reason.SCORE, "score must be finite"),
    ({}, {"id": "a", "score": {"p": 1}}, Reason.SCORE, "score must be a number"),
    ({}, {"id": "a", "score": [[0.1, 0.9]]}, Reason.SEVERAL_SCORES,
     "a row has 2 scores: declare class, or select one"),
    ({"class": 2}, {"id": "a", "score": [0.1, 0.9]}, Reason.CLASS,
     "there is no class 2: a row has 2"),
    ({"class": "x"}, {"id": "a", "score": [[0.1]]}, Reason.CLASS, "there is no class 'x' in []"),
    ({"class": "x"}, {"id": "a", "score": {"y": 1}}, Reason.CLASS, "there is no class 'x'"),
    ({}, {"score": 0.5}, Reason.ID, "no id is at body.id"),
    ({}, {"id": "a" * 10_000, "score": 0.5}, Reason.ID,
     "id must be at most 128 bytes of UTF-8, got 10000"),
    ({}, {"id": ["a"], "score": [0.5, 0.6]}, Reason.LENGTH, "id has 1 rows where score has 2"),
    ({}, {"id": {"a": 1}, "score": 0.5}, Reason.ID,
     "id must be a text or an integer, got {'a': 1}"),
    ({}, {"id": "a", "label": "yes"}, Reason.LABEL,
     "label must be true, false, 0 or 1, got 'yes': declare positive"),
    ({}, {"id": "a", "label": 2}, Reason.LABEL, "label must be true, false, 0 or 1, got 2"),
    ({}, {"id": "a", "label": {"x": 1}}, Reason.LABEL, "label must be one value"),
    ({}, {"id": "a", "score": 1, "time": "noon"}, Reason.TIME,
     "time must be a time, got 'noon': write ISO 8601"),
    ({}, {"id": "a", "score": 1, "time": -5}, Reason.TIME, "time must be after 1970, got -5"),
    ({}, {"id": "a", "score": 1, "time": float("inf")}, Reason.TIME, "time must be"),
    ({"segments": {"c": "body.c"}}, {"id": "a", "score": 1, "c": {}}, Reason.SEGMENT,
     "segments.c must be a text, number or boolean, got {}"),
    ({"segments": {"c": "body.c"}}, {"id": "a", "score": 1, "c": "x" * 200}, Reason.SEGMENT,
     "at most 128 bytes"),
    ({"weight": "body.w"}, {"id": "a", "label": 1, "w": "2"}, Reason.WEIGHT,
     "weight must be a number, got '2'"),
    ({"weight": "body.w"}, {"id": "a", "label": 1, "w": 0.001}, Reason.WEIGHT,
     "weight 0.001 would change by more than a thousandth"),
    ({"label_probability": "body.p"}, {"id": "a", "label": 1, "p": 0}, Reason.WEIGHT,
     "label probability must be above 0 and at most 1, got 0"),
    ({"cluster": "body.user"}, {"id": "a", "score": 1}, Reason.CLUSTER,
     "no cluster is at body.user"),
    ({"cluster": "body.user"}, {"id": "a", "score": 1, "user": 1.5}, Reason.CLUSTER,
     "cluster must be a text or an integer, got 1.5"),
    ({"cluster": "body.user"}, {"id": "a", "score": 1, "user": ""}, Reason.CLUSTER,
     "cluster must be a text or an integer, got ''"),
    ({"stream": "{team}/v1"}, {"id": "a", "score": 1}, Reason.STREAM,
     "the stream's name needs the header 'team'"),
    ({"score": "parse_json(body.score)"}, {"id": "a", "score": 1}, Reason.UNREADABLE,
     "score 'parse_json(body.score)' cannot be applied"),
    ({"score": "parse_json(body.score)"}, {"id": "a", "score": "oops"}, Reason.UNREADABLE,
     "parse_json was given what is not JSON: 'oops'"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "body", "reason", "message"), REFUSED)
def test_a_refusal_says_what_and_why(
    keys: dict[str, Any], body: object, reason: Reason, message: str
) -> None:
    """Each by its reason, with the value; nothing is counted."""
    found = read_rows(plain(**keys), Event(body))
    assert [each.reason for each in found.refusals] == [reason]
    assert message in found.refusals[0].message
    assert not found.rows


def test_labels_have_a_time_of_their_own() -> None:
    """In the unit of the mapping; a prediction alone has none, and a wrong one is refused."""
    timed = plain(time="body.made", label_time="body.known", time_unit="ms")
    body = {"id": "a", "score": [0.1, 0.2], "label": [1, None], "made": 5_000, "known": 7_000}
    rows = read_rows(timed, Event(body)).rows
    assert [row.time_us for row in rows] == [5_000_000] * 2
    assert [row.label_time_us for row in rows] == [7_000_000, None]
    (row,) = read_rows(timed, Event({"id": "a", "label": 1})).rows
    assert row.label_time_us is None
    found = read_rows(timed, Event({"id": "a", "label": 1, "known": "soon"}))
    assert [each.reason for each in found.refusals] == [Reason.TIME]
    assert not found.rows


def test_weights_belong_to_labels_and_clusters_to_scores() -> None:
    """One value a row or one for all; a weight is divided by its label probability."""
    weighted = plain(weight="body.w", label_probability="body.p")
    body = {"id": "a", "score": [0.1, 0.2, 0.3], "label": [1, 0, None], "w": [2, 0.5, 7], "p": 0.5}
    assert [row.weight for row in read_rows(weighted, Event(body)).rows] == [4.0, 1.0, None]
    (row,) = read_rows(weighted, Event({"id": "a", "label": 1})).rows
    assert row.weight is None
    clustered = plain(cluster="body.user")
    body = {"id": "a", "score": [0.1, 0.2], "user": ["u1", 17]}
    assert [row.cluster for row in read_rows(clustered, Event(body)).rows] == ["u1", "17"]
    (row,) = read_rows(clustered, Event({"id": "a", "label": 1})).rows
    assert row.cluster is None


def test_one_bad_row_leaves_the_others() -> None:
    """The other rows of a batch count, under the ids of their places."""
    body = {"id": "a", "score": [0.1, None, "x", 0.4], "label": [True, None, False, 0]}
    found = read_rows(plain(), Event(body))
    assert [(row.id, row.score, row.label) for row in found.rows if row.score is not None] == [
        ("a/0", 0.1, True),
        ("a/3", 0.4, False),
    ]
    assert [(each.row, each.reason) for each in found.refusals] == [
        (1, Reason.NOTHING_SELECTED),
        (2, Reason.SCORE),
    ]


def test_events_of_other_types_are_ignored() -> None:
    """The requests that KServe logs beside the responses."""
    event = Event(V2, {"type": "org.kubeflow.serving.inference.request"})
    found = read_rows(mapping(preset="kserve-v2"), event)
    assert found.is_ignored
    assert not found.rows
    assert not found.refusals


@pytest.mark.parametrize(
    ("time", "unit"),
    [
        ("2026-11-26T19:46:00.123456789Z", ""),
        ("20261126T204600,123456789+01", "s"),
        ("2026-11-26 19:46:00.123456 UTC", "ms"),
        (1795722360.123456, ""),
        (1795722360123456, "us"),
        ("1795722360123456789", "ns"),
    ],
)
def test_times_are_those_of_files(time: object, unit: str) -> None:
    """One reader: what the command line reads, a mapping reads, with the unit that it declares."""
    one = mapping(preset="ndjson", time_unit=unit)
    (row,) = read_rows(one, Event({"id": "a", "score": 1, "time": time}, {})).rows
    assert row.time_us == 1795722360123456


def test_an_ambiguous_time_is_refused() -> None:
    """With what to write in the mapping."""
    for time, told in ((20261126, "write 2026-11-26"), (1795722360123, 'give time_unit = "ms"')):
        found = read_rows(
            mapping(preset="ndjson"), Event({"id": "a", "score": 1, "time": time}, {})
        )
        assert not found.rows
        assert told in found.refusals[0].message


@pytest.mark.parametrize(
    ("keys", "field", "message"),
    [
        ({"id": ""}, "id", "id is needed"),
        ({"score": "", "label": ""}, "score", "give a score, a label, or both"),
        ({"score": "body["}, "score", "score is not a JMESPath expression"),
        ({"score": 7}, "score", "score must be a str, got 7"),
        ({"scores": "body.s"}, "scores", "a mapping has no 'scores'"),
        ({"preset": "kserve"}, "preset", "preset must be one of kserve-v1"),
        ({"stream": "a//b"}, "stream", "stream name must be"),
        ({"stream": "a/{b!r}"}, "stream", "stream may have {header} in its name"),
        ({"stream": "a/{"}, "stream", "stream:"),
        ({"stream": "a/{class}"}, "classes", "need each other"),
        ({"classes": ["x"]}, "classes", "need each other"),
        ({"classes": ["x", "x"]}, "classes", "has one twice"),
        ({"stream": "{class}", "classes": ["x"], "positive": "x"}, "classes", "no positive"),
        ({"time_unit": "h"}, "time_unit", "time_unit must be s, ms, us or ns"),
        ({"class": True}, "class", "class must be a place or a name"),
        ({"positive": []}, "positive", "positive must be a label, got []"),
        ({"positive": "a", "negative": "a"}, "negative", "are one class"),
        (
            {"stream": "{class}", "classes": ["1", "1.0"]},
            "classes",
            "classes has two names of one value: ['1', '1.0']",
        ),
        ({"negative": "a"}, "negative", "negative is the other class: give positive too"),
        ({"segments": {"a b": "body.x"}}, "segments", "a segment key must be"),
        ({"segments": {"a": ""}}, "segments.a", "must be a JMESPath expression"),
        ({"types": "x"}, "types", "types must be a list"),
        ({"label": "", "weight": "body.w"}, "weight", "weight belongs to a label"),
        ({"label": "", "label_probability": "body.p"}, "label_probability", "belongs to a label"),
        ({"label": "", "label_time": "body.t"}, "label_time", "belongs to a label"),
        ({"score": "", "cluster": "body.c"}, "cluster", "a cluster belongs to a score"),
        ({"weight": "body.w", "cluster": "body.c"}, "cluster", "takes no weights"),
        ({"cluster": "body["}, "cluster", "cluster is not a JMESPath expression"),
    ],
)
def test_a_wrong_mapping_is_refused(keys: dict[str, Any], field: str, message: str) -> None:
    """With the key at fault."""
    with pytest.raises(InvalidInputError, match=re.escape(message)) as refused:
        plain(**keys)
    assert refused.value.field == field


def outcomes(mapping: PayloadMapping, body: Any, **headers: str) -> list[Any]:
    """Return each row of a body as its id and score, or the reason why it is refused."""
    head = {"type": RESPONSE, "id": "e1", **headers}
    found = read_rows(mapping, read_event(
        {f"ce-{name}": each for name, each in head.items()}
        | {"ce-source": "s", "ce-specversion": "1.0"},
        json.dumps(body).encode(),
    ))  # fmt: skip
    return [(row.id, row.score) for row in found.rows] + [
        (each.row, each.reason) for each in found.refusals
    ]


def v2(data: Any, shape: Any, **more: Any) -> dict[str, Any]:
    """Return a response of the Open Inference Protocol with one output."""
    output = {"name": "p", "datatype": "FP32", "shape": shape, "data": data}
    return {"id": "o", "outputs": [output], **more}


KEYS = {"preset": "kserve-v2", "stream": "k"}
NO_CLASS = [(row, Reason.CLASS) for row in range(3)]
WRONG_SHAPE = [(None, Reason.LENGTH)]


@pytest.mark.parametrize(
    ("data", "shape", "class_", "expected"),
    # Met in public reports: MLServer#185 and seldon-core#3156 (nested data), MLServer#2197 and
    # #1625 ([N, 1] for [N]), seldon-core#5188 (a shape that is not the data's), triton#2870 (flat
    # data), triton#5035 (a batch as [N] or [N, 1]), triton#3711 (-1 in a configuration's shape).
    [
        ([0.9, 0.2, 0.7], [3], 1, NO_CLASS),
        ([0.9, 0.2, 0.7], [3, 1], 1, NO_CLASS),
        ([[0.9], [0.2], [0.7]], [3, 1], 1, NO_CLASS),
        ([0.9, 0.2, 0.7], [3], None, [("o/0", 0.9), ("o/1", 0.2), ("o/2", 0.7)]),
        ([0.9, 0.2, 0.7], [3], 0, [("o/0", 0.9), ("o/1", 0.2), ("o/2", 0.7)]),
        ([0.9, 0.1], [1, 2], 1, [("o", 0.1)]),
        ([0.9, 0.1, 0.3, 0.7], ["2", "2"], 1, [("o/0", 0.1), ("o/1", 0.7)]),
        ([0.9, 0.1, 0.3, 0.7], [2.0, 2.0], 1, [("o/0", 0.1), ("o/1", 0.7)]),
        ([[0.9, 0.1], [0.3, 0.7]], [2, 2], 1, [("o/0", 0.1), ("o/1", 0.7)]),
        ([0.9, 0.1, 0.3], [2, 2], 1, WRONG_SHAPE),
        ([0.9, 0.1, 0.3, 0.7], [-1, 2], 1, WRONG_SHAPE),
        ([0.9, 0.1, 0.3, 0.7], [3], None, WRONG_SHAPE),
        ([0.9, 0.1], [3], None, WRONG_SHAPE),
        ([0.9, 0.1], [2.5], None, WRONG_SHAPE),
        ([[0.9, 0.1], [0.3, 0.7]], [3, 2], 1, WRONG_SHAPE),
        ([[0.9, 0.1], [0.3]], [2, 2], 1, WRONG_SHAPE),
        ([[0.9, 0.1]], [2], 1, WRONG_SHAPE),
        ([0.5], [0], None, WRONG_SHAPE),
        ([], [0, 2], 1, [(None, Reason.NOTHING_SELECTED)]),
        ([], [2, 0], 1, [(None, Reason.NOTHING_SELECTED)]),
        ([], [2], 1, WRONG_SHAPE),
        ([0.5], [], None, [("o", 0.5)]),
    ],
)
def test_the_shape_says_how_many_rows(
    data: Any, shape: Any, class_: int | None, expected: list[Any]
) -> None:
    """A class is looked up in a row, never taken as a row; what does not fit gives none."""
    keys = KEYS if class_ is None else {**KEYS, "class": class_}
    assert outcomes(mapping(**keys), v2(data, shape)) == expected


def test_the_first_output_may_be_another() -> None:
    """Classes that were predicted are no scores of classes; the probabilities are selected."""
    body = v2([1, 0], [2])
    body["outputs"].append({"name": "proba", "shape": [2, 2], "data": [0.1, 0.9, 0.7, 0.3]})
    assert outcomes(mapping(**KEYS, **{"class": 1}), body) == NO_CLASS[:2]
    chosen = mapping(**KEYS, score="body.outputs[?name=='proba'].data | [0]", **{"class": 1})
    assert outcomes(chosen, body) == [("o/0", 0.9), ("o/1", 0.3)]
    broken = {**body["outputs"][1], "shape": [3, 2]}
    assert outcomes(chosen, {**body, "outputs": [broken]}) == WRONG_SHAPE
    every = mapping(**KEYS, score="body.outputs[*].data")
    assert outcomes(every, {**body, "outputs": [broken, broken]}) == [
        (row, Reason.LENGTH) for row in range(2)
    ]


@pytest.mark.parametrize(
    ("predictions", "expected"),
    # Met in public reports: kserve#374 and #1100 (classes or probabilities), kubeflow/kale#394
    # (classes), seldon-core#145 (one dimension for two), kserve#3377 (a scalar for a list).
    [
        ([0.9, 0.2, 0.7], NO_CLASS),
        ([[0.9, 0.2], [0.7, 0.3]], [("e1/0", 0.2), ("e1/1", 0.3)]),
        ([[0.9, 0.2], 0.7], [("e1/0", 0.2), (1, Reason.CLASS)]),
        ([0.9], [(None, Reason.CLASS)]),
        (0.9, [(None, Reason.CLASS)]),
        ([[0.9]], [(None, Reason.CLASS)]),
        ([[[0.9, 0.2]]], [(None, Reason.CLASS)]),
        ([None, [0.9, 0.2]], [("e1/1", 0.2), (0, Reason.NOTHING_SELECTED)]),
        ([], [(None, Reason.NOTHING_SELECTED)]),
        ({"a": 1}, [(None, Reason.CLASS)]),
    ],
)
def test_predictions_have_one_element_an_instance(predictions: Any, expected: list[Any]) -> None:
    """Of protocol V1, also where Databricks keeps it as text, and in a mapping of one's own."""
    keys: dict[str, Any] = {"stream": "k", "class": 1}
    one = outcomes(mapping(preset="kserve-v1", **keys), {"predictions": predictions})
    assert one == expected
    own = mapping(score="body.predictions", id="headers.id", **keys)
    assert outcomes(own, {"predictions": predictions}) == expected
    text = json.dumps({"predictions": predictions})
    row = {"databricks_request_id": "e1", "timestamp_ms": 1, "status_code": 200, "response": text}
    assert outcomes(mapping(preset="databricks", **keys), row) == expected
    found = read_rows(own, Event({"predictions": [0.9, 0.2]}, {"id": "e1"}))
    assert "there is no class 1: a row has 1; if the list is the classes of one row, select [" in (
        found.refusals[0].message
    )
    wrapped = mapping(score="[body.predictions]", id="headers.id", **keys)
    assert outcomes(wrapped, {"predictions": [0.9, 0.2]}) == [("e1", 0.2)]


def test_a_record_of_one_row_has_a_list_of_classes() -> None:
    """Presets of senders that write one record a row; the mapping's table says it too."""
    line = {"id": "a", "request_id": "a", "score": [0.9, 0.1], "timestamp": 1795722360}
    for preset in ("ndjson", "bentoml"):
        one = mapping(preset=preset, score="body.score", **{"class": 1})
        assert outcomes(one, line) == outcomes(PayloadMapping.of(one.to_table()), line)
        assert outcomes(one, line) == [("a", 0.1)]
        assert outcomes(one, {**line, "score": 0.9}) == [(None, Reason.CLASS)]


def test_lists_keep_the_places_of_rows() -> None:
    """A row without a score or a label does not take its neighbour's."""
    rows = mapping(
        id="body[*].id", score="body[*].p", label="body[*].y", segments={"c": "body[*].c"}
    )
    body = [{"id": "a", "p": 0.1, "c": "x"}, {"id": "b", "y": 1, "c": "y"}, {"id": "c"}, {"p": 0.4}]
    found = read_rows(rows, Event(body))
    assert [(row.id, row.score, row.label, dict(row.segments)) for row in found.rows] == [
        ("a", 0.1, None, {"c": "x"}),
        ("b", None, True, {"c": "y"}),
    ]
    assert [(each.row, each.reason) for each in found.refusals] == [
        (2, Reason.NOTHING_SELECTED),
        (3, Reason.ID),
    ]


@pytest.mark.parametrize("declared", ["true", "1", "True", True, 1, 1.0, "1.0", None])
@pytest.mark.parametrize("value", [True, 1, 1.0, "1", "true", "True", "TRUE", "1.0", " 1 "])
def test_a_declared_class_is_a_value(declared: Any, value: Any) -> None:
    """Not a text: JSON's true is the positive class however it is declared."""
    keys = {} if declared is None else {"positive": declared}
    (row,) = read_rows(plain(**keys), Event({"id": "a", "score": 0.9, "label": value})).rows
    assert row.label is True
    for other in (False, 0, 0.0, "0", "false", "0.0"):
        (row,) = read_rows(plain(**keys), Event({"id": "a", "label": other})).rows
        assert row.label is False


@pytest.mark.parametrize(
    "value", ["", "N/A", "NaN", float("nan"), "pending", "Fraud", "FRAUD", 0, 1, True, "legit "]
)
def test_only_the_classes_are_labels(value: Any) -> None:
    """What is missing, a third class and another case are refused, with the value."""
    body = {"id": "a", "score": 0.9, "label": value}
    found = read_rows(plain(positive="fraud"), Event(body))
    assert [each.reason for each in found.refusals] == [Reason.LABEL]
    assert not found.rows
    found = read_rows(plain(positive="fraud", negative="legit"), Event(body))
    assert [row.label for row in found.rows] == ([False] if value == "legit " else [])


@pytest.mark.parametrize(
    ("label", "positives"),
    [
        *(("dog", [0, 1, 0]), ("7", [0, 0, 1]), (7, [0, 0, 1]), (7.0, [0, 0, 1])),
        *((" 7.0 ", [0, 0, 1]), (0, [1, 0, 0]), ("1", [0, 1, 0]), (1.0, [0, 1, 0])),
        *(("Dog", None), ("", None), (float("nan"), None), ("N/A", None), (3, None), (-1, None)),
        *((0.5, None), ("bird", None), ({}, None)),
    ],
)
def test_the_label_of_a_class(label: Any, positives: list[int] | None) -> None:
    """A name as a value, else a place; nothing else is a class."""
    fan = plain(stream="{class}", classes=["cat", "dog", "7"])
    found = read_rows(fan, Event({"id": "a", "label": label}))
    if positives is None:
        assert {each.reason for each in found.refusals} == {Reason.LABEL}
    else:
        assert [row.label for row in found.rows] == [each == 1 for each in positives]


def test_no_label_leaves_the_prediction() -> None:
    """Null is absent, as it is without the key."""
    for body in ({"id": "a", "score": 0.9, "label": None}, {"id": "a", "score": 0.9}):
        (row,) = read_rows(plain(positive="fraud"), Event(body)).rows
        assert (row.score, row.label) == (0.9, None)


@pytest.mark.parametrize(
    ("value", "id_"),
    [(7, "7"), (7.0, "7"), (1e3, "1000"), (10**20, "1" + "0" * 20), ("7.0", "7.0"), (-0.0, "0")],
)
def test_integers_are_ids(value: Any, id_: str) -> None:
    """A number is an id if it is an integer, however it is written."""
    (row,) = read_rows(plain(), Event({"id": value, "score": 0.9})).rows
    assert row.id == id_


@pytest.mark.parametrize("value", [0.5, 2.0**53, 1e300, float("nan"), True, [], {}])
def test_other_numbers_are_no_ids(value: Any) -> None:
    """Two integers could be one float."""
    found = read_rows(plain(), Event({"id": value, "score": 0.9}))
    assert [each.reason for each in found.refusals] in ([Reason.ID], [Reason.LENGTH])


def test_scores_that_would_tie_are_refused() -> None:
    """Of integers that floats do not have."""
    found = read_rows(plain(), Event({"id": "a", "score": 2**53 + 1}))
    assert [each.reason for each in found.refusals] == [Reason.SCORE]
    assert "at most 2**53" in found.refusals[0].message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda each: (
        st.lists(each, max_size=4)
        | st.dictionaries(st.sampled_from(["id", "score", "label", "time", "p"]), each, max_size=5)
    ),
    max_leaves=12,
)


@settings(max_examples=400)
@given(body=JSON, preset=st.sampled_from(sorted(PRESETS)), place=st.none() | st.integers(0, 3))
@pytest.mark.slow
def test_nothing_that_is_sent_raises(body: object, preset: str, place: int | None) -> None:
    """Every row is whole, and what is not a row has a reason."""
    keys: dict[str, Any] = {"preset": preset, "types": [], "when": ""}
    if place is not None:
        keys["class"] = place
    if preset == "bentoml":
        keys["score"] = "body.score"
    found = read_rows(mapping(**keys), Event(body, {"id": "e"}))
    assert not found.is_ignored
    assert found.rows or found.refusals
    for row in found.rows:
        assert row.id
        assert row.score is not None or row.label is not None


@pytest.mark.parametrize("key", ["id", "country", "user"])
def test_half_a_surrogate_pair(key: str) -> None:
    """JSON can hold one; an id, a segment or a cluster is UTF-8. The other rows are read."""
    mapping = PayloadMapping.of(
        {
            "stream": "s",
            "id": "body[*].id",
            "score": "body[*].score",
            "segments": {"country": "body[*].country"},
            "cluster": "body[*].user",
        }
    )
    good = {"id": "é", "score": 0.5, "country": "é", "user": "é"}
    found = read_rows(mapping, Event([{**good, key: "\ud800"}, good]))
    assert [row.id for row in found.rows] == ["é"]
    reason = {"id": Reason.ID, "country": Reason.SEGMENT, "user": Reason.CLUSTER}[key]
    assert [(each.reason, each.row) for each in found.refusals] == [(reason, 0)]
    assert "half a surrogate pair" in found.refusals[0].message
    found.refusals[0].message.encode()


numbers = st.one_of(st.floats(), st.floats(0, 1), st.integers(-2, 2), st.just("x"), st.none())


@given(
    scores=st.lists(st.one_of(st.floats(0, 1), numbers), min_size=1, max_size=12),
    id_=st.one_of(st.text(max_size=3), st.just("i" * 127), st.just("i" * 126), st.integers()),
    country=st.one_of(st.none(), st.text(max_size=3), st.lists(st.text(), max_size=3)),
    time=st.one_of(st.none(), st.integers(-1, 10), st.just("2026-01-01T00:00:00Z")),
)
def test_rows_alike_are_read_as_any_others(
    scores: list[Any], id_: Any, country: Any, time: Any
) -> None:
    """The short way of scores that share all else gives what the long way gives."""
    table = {
        "stream": "s",
        "id": "body.id",
        "score": "body.scores",
        "time": "body.time",
        "segments": {"country": "body.country"},
    }
    mapping = PayloadMapping.of(table)
    event = Event({"id": id_, "scores": scores, "country": country, "time": time})
    short = read_rows(mapping, event)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_extraction._EventRows, "_read_scores", lambda *_: False)
        assert read_rows(mapping, event) == short
