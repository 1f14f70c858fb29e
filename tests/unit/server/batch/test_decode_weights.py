"""Decoding of weights, label probabilities and clusters, and every refusal of them."""

from __future__ import annotations

import zlib
from fractions import Fraction

import numpy as np
import pytest

from streameval.v1 import ingest_pb2 as pb
from streameval_server._batch.content import content_checksum
from streameval_server._batch.decode import batch_of, stored
from streameval_server._log.rows import MENDED, Format
from streameval_server._model.errors import Code
from streameval_server._model.row_kinds import is_plain, memory_of
from streameval_server._model.stream_settings import StreamSettings

from ..batches import LIMITS, case_batch, decoded, refusal

CLUSTERED = StreamSettings(cluster_key="user_id", cluster_groups=32)
USERS = [zlib.crc32(user) for user in (b"ann", b"bo", b"ann")]
NAN, INFINITY = float("nan"), float("inf")


def predictions(**columns):
    rows = pb.Predictions(ids=["a", "b", "c"], scores=[0.9, 0.2, 0.1], **columns)
    return pb.Batch(sequence=1, stream="fraud/v3", predictions=rows)


def labels(**columns):
    rows = pb.Labels(ids=["a", "b", "c"], positives=[True, False, False], **columns)
    return pb.Batch(sequence=1, stream="fraud/v3", labels=rows)


def test_rows_without_weights_and_clusters_have_neither():
    for batch in (case_batch(), predictions(), labels()):
        assert is_plain(decoded(batch))
    assert decoded(case_batch()).units is None
    assert decoded(labels()).units is None


@pytest.mark.parametrize("make", [case_batch, labels])
def test_weights_are_read_in_units(make):
    """A weight w is w x 2**16 units, exactly; label probabilities divide it."""
    weights, shares = [0.5, 2**-16, 2**31], [0.25, 1.0, 1.0]
    rows = decoded(make(weights=weights, label_probabilities=shares))
    wanted = [Fraction(w) * 2**16 / Fraction(p) for w, p in zip(weights, shares, strict=True)]
    assert rows.units.tolist() == wanted
    assert rows.units.dtype == np.int64
    assert not is_plain(rows)


@pytest.mark.parametrize("make", [case_batch, labels])
def test_one_label_probability_stands_for_all_rows(make):
    """1/p is rounded to the nearest multiple of 2**-16."""
    rows = decoded(make(label_probabilities=[0.3]))
    assert rows.units.tolist() == [round(Fraction(2**16) / Fraction(0.3))] * 3


def test_a_weight_of_0_is_read():
    assert decoded(case_batch(weights=[0, 1, 0])).units.tolist() == [0, 65536, 0]


@pytest.mark.parametrize("make", [case_batch, predictions])
def test_both_forms_of_clusters_say_the_same(make):
    packed = np.array(USERS, dtype="<u4").tobytes()
    for batch in (make(clusters=USERS), make(clusters_u32le=packed)):
        rows = decoded(batch, settings=CLUSTERED)
        assert rows.clusters.tolist() == USERS
        assert rows.clusters.dtype == np.uint32
        assert memory_of(rows) - memory_of(decoded(make())) == rows.clusters.nbytes


@pytest.mark.parametrize(
    ("columns", "field", "message"),
    [
        (
            {"weights": [1, -0.5, 1]},
            "weights[1]",
            "weight must be finite, from 0 to 2**31, got -0.5 at index 1",
        ),
        ({"weights": [1, 1, NAN]}, "weights[2]", "weight must be finite, got nan at index 2"),
        ({"weights": [INFINITY, 1, 1]}, "weights[0]", "weight must be finite, got inf at index 0"),
        (
            {"weights": [1, 0.001, 1]},
            "weights[1]",
            (
                "weight 0.001 at index 1 would change by more than a thousandth if rounded to a "
                "multiple of 2**-16; multiply all weights by 2**3: figures depend on their ratios "
                "only"
            ),
        ),
        (
            {"label_probabilities": [1, 0, 1]},
            "label_probabilities[1]",
            "label probability must be above 0 and at most 1, got 0.0 at index 1",
        ),
        (
            {"label_probabilities": [1.5]},
            "label_probabilities",
            "label probability must be above 0 and at most 1, got 1.5",
        ),
        (
            {"label_probabilities": [1, 1, NAN]},
            "label_probabilities[2]",
            "label probability must be finite, got nan at index 2",
        ),
        (
            {"weights": [2**31, 1, 1], "label_probabilities": [0.5]},
            "label_probabilities[0]",
            "weight over label probability must be at most 2**31, got 4294967296.0 at index 0",
        ),
        (
            {"label_probabilities": [0.5, 0.5]},
            "label_probabilities",
            "label_probability must have one row for each of {like}, got 2 rows and 3",
        ),
        (
            {"weights": [1]},
            "weights",
            "weights must have one row for each of {like}, got 1 rows and 3",
        ),
    ],
)
@pytest.mark.parametrize("make", [case_batch, labels])
def test_wrong_weights_are_refused(make, columns, field, message):
    batch = make(**columns)
    kind, like = batch.WhichOneof("rows"), "scores" if make is case_batch else "ids"
    refused = refusal(batch)
    assert refused.code == Code.INVALID_ARGUMENT
    assert refused.message == message.format(like=like)
    assert refused.violations == ((f"{kind}.{field}", refused.message),)


@pytest.mark.parametrize(
    ("columns", "field", "message"),
    [
        (
            {},
            "clusters",
            "the stream declares clusters, by user_id, so every row needs one: give clusters",
        ),
        (
            {"clusters": [1]},
            "clusters",
            "clusters must have one row for each of {like}, got 1 rows and 3",
        ),
        (
            {"clusters_u32le": bytes(8)},
            "clusters_u32le",
            "clusters_u32le must have one row for each of {like}, got 2 rows and 3",
        ),
        (
            {"clusters_u32le": bytes(11)},
            "clusters_u32le",
            "clusters_u32le must have 4 bytes for each cluster, got 11 bytes",
        ),
        (
            {"clusters": USERS, "clusters_u32le": bytes(12)},
            "clusters_u32le",
            "clusters and clusters_u32le must not both be given",
        ),
    ],
)
@pytest.mark.parametrize("make", [case_batch, predictions])
def test_wrong_clusters_are_refused(make, columns, field, message):
    batch = make(**columns)
    kind, like = batch.WhichOneof("rows"), "scores" if make is case_batch else "ids"
    refused = refusal(batch, settings=CLUSTERED)
    assert refused.code == Code.INVALID_ARGUMENT
    assert refused.message == message.format(like=like)
    assert refused.violations == ((f"{kind}.{field}", refused.message),)


@pytest.mark.parametrize("make", [case_batch, predictions])
def test_clusters_that_no_stream_declared_are_refused(make):
    refused = refusal(make(clusters=USERS))
    assert refused.message == "the stream declares no clusters: create one with cluster_key"
    assert refused.violations[0][0].endswith(".clusters")


@pytest.mark.parametrize(
    ("batch", "field"),
    [
        (case_batch(weights=[1, 1, 1], clusters=USERS), "cases.weights"),
        (case_batch(label_probabilities=[0.5], clusters=USERS), "cases.weights"),
        (labels(weights=[1, 1, 1]), "labels.weights"),
    ],
)
def test_a_stream_with_clusters_takes_no_weights(batch, field):
    refused = refusal(batch, settings=CLUSTERED)
    assert refused.message.startswith("a stream that declares clusters takes no weights")
    assert refused.violations == ((field, refused.message),)


def test_a_stream_with_clusters_takes_no_rows_without_one():
    """Misses, and labels that bring their own score, would be cases without a cluster."""
    assert decoded(labels(), settings=CLUSTERED) is not None
    misses = pb.Batch(stream="s", misses=pb.Misses(positives=1))
    assert refusal(misses, settings=CLUSTERED).violations[0][0] == "misses"
    scored = labels(scores=[0.1, 0.2, 0.3])
    assert refusal(scored, settings=CLUSTERED).violations[0][0] == "labels.scores"


@pytest.mark.parametrize(
    "rows",
    [
        {"cases": pb.Cases(weights=[1])},
        {"cases": pb.Cases(scores=[1], positives=[True], counts=[0], weights=[1, 1])},
        {"cases": pb.Cases(clusters=[1])},
        {"predictions": pb.Predictions(clusters=[1])},
        {"labels": pb.Labels(weights=[1])},
    ],
)
def test_columns_of_a_batch_that_counts_nothing_fit_too(rows):
    assert refusal(pb.Batch(stream="s", **rows)).code == Code.INVALID_ARGUMENT


@pytest.mark.parametrize("format_", set(Format) - {Format.BY_KIND})
def test_logged_batches_with_these_columns_are_read_back(format_):
    """A log row is the batch that was accepted; a mended one has no checksum of its content."""
    batch = case_batch(weights=[0.5, 1, 2])
    streamed = format_ in {Format.INGEST_REQUEST, Format.MENDED_INGEST_REQUEST}
    message = pb.IngestRequest(batch=batch) if streamed else pb.IngestBatchRequest(batch=batch)
    payload = message.SerializeToString()
    assert batch_of(format_, payload) == batch
    assert stored(format_, payload).units.tolist() == [32768, 65536, 131072]
    content = 0 if format_ in MENDED.values() else zlib.crc32(batch.SerializeToString())
    assert content_checksum(format_, payload) == content


def test_a_clustered_batch_keeps_the_limit_of_rows():
    size = LIMITS.max_batch_rows + 1
    batch = case_batch([0.5] * size, [True] * size, clusters=[0] * size)
    assert refusal(batch, settings=CLUSTERED).code == Code.RESOURCE_EXHAUSTED
