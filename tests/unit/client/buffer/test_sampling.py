"""Weights, label probabilities and clusters: kept by the buffer, sent as the caller gave them."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streameval import InvalidInputError
from streameval.client._buffer.columns import BufferedCases
from streameval.client._buffer.id_columns import BufferedLabels, BufferedPredictions
from streameval_server import Limits
from streameval_server._batch.decode import decode
from streameval_server._model.stream_settings import StreamSettings

from .buffers import Verbs, buffer

if TYPE_CHECKING:
    from streameval.client._buffer.buffer import Buffer

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_US = int(NOON.timestamp()) * 10**6
ONE = 2**16
CLUSTERED = StreamSettings(cluster_groups=32, segment_keys=("country",))
PLAIN = StreamSettings(segment_keys=("country",))


def arrived(box: Buffer, settings: StreamSettings = PLAIN) -> list[Any]:
    """Return what the server decodes of the buffer's rows, in batches of 4 rows at most."""
    found = []
    for rows in box.take():
        rest = rows
        while rest is not None:
            piece, rest = rest.split(4, 10**6)
            batch = piece.batch(1, offset_us=NOON_US)
            assert batch.ByteSize() <= piece.wire_bytes
            found.append(decode(batch, 1, NOON_US, Limits(), settings))
    return found


def joined(pieces: list[Any], name: str) -> list[Any]:
    return np.concatenate([getattr(piece, name) for piece in pieces]).tolist()


def checksums(*keys: str) -> list[int]:
    return [zlib.crc32(key.encode()) for key in keys]


@pytest.fixture
def box() -> Buffer:
    return buffer()


@pytest.fixture
def stream(box: Buffer) -> Verbs:
    return Verbs(box, "s")


def test_weighted_cases_arrive(box, stream):
    """One by one and in columns, divided by the probability; a weight of 0 adds nothing."""
    stream.add_case(True, 1.0, weight=0.5)
    stream.add_case(False, 2.0, label_probability=0.25, at=NOON)
    stream.add_case(True, 3.0, weight=3, label_probability=0.5, segments={"country": "US"})
    stream.add_case(True, 4.0, weight=0)
    stream.add_cases(
        labels=[1, 0, 1], scores=[5.0, 6.0, 7.0], weights=[1, 0, 2], label_probability=0.1
    )
    assert box.accepted == 5
    pieces = arrived(box)
    by_score = dict(zip(joined(pieces, "scores"), joined(pieces, "units"), strict=True))
    assert by_score == {
        1.0: ONE // 2,
        2.0: 4 * ONE,
        3.0: 6 * ONE,
        5.0: round(10 * ONE),
        7.0: round(20 * ONE),
    }


def test_clustered_cases_arrive(box, stream):
    """One by one and in columns; only the checksum of a key leaves the process."""
    stream.add_case(True, 1.0, cluster="ann")
    stream.add_case(False, 2.0, cluster=17, at=NOON)
    stream.add_cases(labels=[1, 0], scores=[3.0, 4.0], clusters=["bo", "17"])
    stream.add_cases(labels=[1, 0], scores=[5.0, 6.0], counts=[0, 2], clusters=["x", "cy"])
    assert box.accepted == 5
    pieces = arrived(box, CLUSTERED)
    by_score = dict(zip(joined(pieces, "scores"), joined(pieces, "clusters"), strict=True))
    keys = {1.0: "ann", 2.0: "17", 3.0: "bo", 4.0: "17", 6.0: "cy"}
    assert by_score == {score: zlib.crc32(key.encode()) for score, key in keys.items()}


def test_plain_weighted_and_clustered_cases_are_batches_of_their_own(box, stream):
    """A plain row never carries a column that it was not given."""
    for score in (1.0, 2.0):
        stream.add_case(True, score)
        stream.add_case(True, score, weight=2)
        stream.add_case(True, score, cluster="ann")
    rows = box.take()
    assert all(isinstance(each, BufferedCases) for each in rows)
    shapes = sorted((each.size, each.units is not None, each.clusters is not None) for each in rows)
    assert shapes == [(2, False, False), (2, False, True), (2, True, False)]
    assert box.take() == []


def test_clustered_predictions_and_weighted_labels_arrive(box, stream):
    """Also between plain ones."""
    stream.log("plain", 0.5)
    stream.log("a", 0.9, cluster="ann")
    stream.log("b", 0.2, cluster="bo", at=NOON, segments={"country": "US"})
    stream.log_cases(ids=["c", "d"], scores=[0.3, 0.4], clusters=["ann", "cy"])
    stream.label("plain", True)
    stream.label("a", True, weight=0.5)
    stream.label("b", False, label_probability=0.5, at=NOON, score=0.2)
    stream.label("c", False, weight=0)
    stream.label_cases(ids=["d", "e"], labels=[1, 0], label_probability=[0.5, 1])
    assert box.accepted == 11
    clusters, units, plain = {}, {}, set()
    for rows in box.take():
        is_prediction = isinstance(rows, BufferedPredictions)
        columns = rows.clusters if is_prediction else rows.units
        if columns is None:
            plain |= set(rows.ids)
            continue
        (clusters if is_prediction else units).update(zip(rows.ids, columns.tolist(), strict=True))
        batch = rows.batch(1, offset_us=NOON_US)
        assert batch.ByteSize() <= rows.wire_bytes
        sent = decode(batch, 1, NOON_US, Limits(), CLUSTERED if is_prediction else PLAIN)
        assert (sent.clusters if is_prediction else sent.units).tolist() == columns.tolist()
    assert plain == {"plain"}
    assert clusters == dict(zip("abcd", checksums("ann", "bo", "ann", "cy"), strict=True))
    assert units == {"a": ONE // 2, "b": 2 * ONE, "c": 0, "d": 2 * ONE, "e": ONE}


def test_the_last_label_of_an_id_stays_last(box, stream):
    """Labels with and without weights keep the order of the calls."""
    weights = [None, 2, None, 0.5, 4]
    for weight in weights:
        stream.label("a", True, weight=weight)
    found = [
        None if rows.units is None else unit / ONE
        for rows in box.take()
        if isinstance(rows, BufferedLabels)
        for unit in (rows.units if rows.units is not None else range(rows.size))
    ]
    assert found == weights


BAD = {
    "negative": ({"weights": [1, -1]}, "weights", 1),
    "nan": ({"weights": [float("nan"), 1]}, "weights", 0),
    "infinite": ({"weights": [float("inf"), 1]}, "weights", 0),
    "small": ({"weights": [1, 1e-3]}, "weights", 1),
    "length": ({"weights": [1]}, "weights", None),
    "zero": ({"label_probability": [0, 1]}, "label_probability", 0),
    "above one": ({"label_probability": 1.5}, "label_probability", None),
}


@pytest.mark.parametrize(("columns", "field", "index"), BAD.values(), ids=BAD)
def test_wrong_weights_add_nothing(box, stream, columns, field, index):
    for add in (
        lambda: stream.add_cases(labels=[1, 0], scores=[0.1, 0.2], **columns),
        lambda: stream.label_cases(ids=["a", "b"], labels=[1, 0], **columns),
    ):
        with pytest.raises(InvalidInputError) as caught:
            add()
        assert (caught.value.field, caught.value.index) == (field, index)
    assert box.accepted == 0


@pytest.mark.parametrize(
    ("add", "text"),
    [
        (lambda s: s.add_case(True, 0.5, weight=-1), "weight must be finite, from 0 to 2"),
        (lambda s: s.add_case(True, 0.5, label_probability=0), "label probability must be above 0"),
        (lambda s: s.label("a", True, weight=1e-3), "weight 0.001 would change by more than"),
        (lambda s: s.add_case(True, 0.5, cluster=0.5), "a cluster must be str, int or bytes"),
        (lambda s: s.log("a", 0.5, cluster=True), "a cluster must be str, int or bytes"),
        (
            lambda s: s.log_cases(ids=["a"], scores=[0.5], clusters=["a", "b"]),
            "clusters must have one row for each of ids, got 2 rows and 1",
        ),
        (
            lambda s: s.add_case(True, 0.5, weight=1, cluster="ann"),
            "a stream that declares clusters takes no weights",
        ),
        (
            lambda s: s.add_cases(
                labels=[1], scores=[0.5], label_probability=0.5, clusters=["ann"]
            ),
            "a stream that declares clusters takes no weights",
        ),
    ],
)
def test_a_wrong_row_adds_nothing(box, stream, add, text):
    with pytest.raises(InvalidInputError, match=text.replace("*", r"\*")):
        add(stream)
    assert box.accepted == 0


def test_rows_with_columns_of_their_own_need_room():
    """They count against the capacity, and are dropped with the others when it is reached."""
    box = buffer(capacity=2)
    stream = Verbs(box, "s")
    for _ in range(3):
        stream.add_case(True, 0.5, cluster="ann")
    assert (box.accepted, box.dropped) == (2, 1)
    box.reset()
    assert stream._stream_buffer.sampled_cases == {}
