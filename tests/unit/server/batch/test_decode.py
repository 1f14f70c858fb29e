"""Decoding of batches: every valid form, and every kind of error."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from streameval import InvalidInputError
from streameval._counts import columns
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import types_pb2
from streameval_server._batch.decode import stored
from streameval_server._log.rows import Format
from streameval_server._model.errors import Code, CorruptLogError, Refused
from streameval_server._model.row_kinds import (
    CaseRows,
    LabelRows,
    MissRows,
    PredictionRows,
    RetractionRows,
)

from ..batches import LIMITS, NOW, SETTINGS, case_batch, column, decoded, refusal

SEGMENT = types_pb2.Segment(key="country", value="US")


def test_plain_and_packed_columns_say_the_same():
    """Bytes columns and repeated fields decode to equal rows."""
    plain = decoded(case_batch())
    packed = decoded(
        pb.Batch(
            stream="fraud/v3",
            cases=pb.Cases(
                scores_f64le=np.array([0.9, 0.1, 0.1]).tobytes(), positives_bits=b"\x01"
            ),
        )
    )
    for rows in (plain, packed):
        assert isinstance(rows, CaseRows)
        assert rows.scores.tolist() == [0.9, 0.1, 0.1]
        assert rows.scores.dtype == np.float64
        assert rows.labels.tolist() == [True, False, False]
        assert rows.labels.dtype == np.bool_
        assert (rows.counts, rows.size, rows.total) == (None, 3, 3)


@pytest.mark.parametrize("size", [1, 7, 8])
def test_bits_are_least_significant_first(size):
    """Label i is bit i % 8 of byte i // 8."""
    positives = [i % 3 == 0 for i in range(size)]
    bits = sum(1 << i for i, positive in enumerate(positives) if positive)
    cases = pb.Cases(
        scores=[float(i) for i in range(size)],
        positives_bits=bits.to_bytes((size + 7) // 8, "little"),
    )
    rows = decoded(pb.Batch(stream="s", cases=cases))
    assert rows.labels.tolist() == positives


def test_counts_weigh_rows():
    """A row stands for `count` cases; a count of 0 is no case."""
    rows = decoded(case_batch(counts=[2, 0, 5]))
    assert rows.counts.tolist() == [2, 0, 5]
    assert rows.counts.dtype == np.int64
    assert (rows.size, rows.total) == (3, 7)


@pytest.mark.parametrize(
    "batch",
    [
        pb.Batch(stream="s"),
        pb.Batch(stream="s", cases=pb.Cases()),
        pb.Batch(stream="s", cases=pb.Cases(scores=[1.0], positives=[True], counts=[0])),
        pb.Batch(stream="s", misses=pb.Misses()),
    ],
)
def test_batches_without_rows_do_nothing(batch):
    """An empty batch is accepted."""
    assert decoded(batch) is None


def test_misses():
    """Misses have positives and negatives."""
    rows = decoded(pb.Batch(stream="s", misses=pb.Misses(positives=3, negatives=4)))
    assert rows == MissRows(3, 4, size=1, total=7)


@pytest.mark.parametrize("times", [[], [NOW], [NOW - 5, NOW, NOW + LIMITS.max_future_us]])
def test_event_times_are_taken(times):
    """No time, one time or one for each row, up to the allowed lead over the server's clock."""
    assert decoded(case_batch(event_times_us=times)).size == 3


HUGE = 2**62
BAD = {
    "nan": (
        case_batch(scores=[0.5, math.nan, math.nan]),
        "score must be finite, got nan at index 1",
        "cases.scores[1]",
    ),
    "infinite": (
        case_batch(scores=[0.5, 0.5, -math.inf]),
        "score must be finite, got -inf at index 2",
        "cases.scores[2]",
    ),
    "packed nan": (
        pb.Batch(
            stream="s",
            cases=pb.Cases(scores_f64le=np.array([0.0, np.nan]).tobytes(), positives_bits=b"\x00"),
        ),
        "score must be finite, got nan at index 1",
        "cases.scores_f64le[1]",
    ),
    "packed labels beside plain nan": (
        pb.Batch(stream="s", cases=pb.Cases(scores=[0.1, math.nan], positives_bits=b"\x01")),
        "score must be finite, got nan at index 1",
        "cases.scores[1]",
    ),
    "packed nan beside plain labels": (
        pb.Batch(
            stream="s",
            cases=pb.Cases(scores_f64le=np.array([0.0, np.nan]).tobytes(), positives=[True, False]),
        ),
        "score must be finite, got nan at index 1",
        "cases.scores_f64le[1]",
    ),
    "a time without rows": (
        pb.Batch(stream="s", cases=pb.Cases(event_times_us=[1])),
        "event_times_us must have one row, or one for each of scores, got 1 rows and 0",
        "cases.event_times_us",
    ),
    "times of rows that count nothing": (
        case_batch([0.5], [True], counts=[0], event_times_us=[1, 2]),
        "event_times_us must have one row, or one for each of scores, got 2 rows and 1",
        "cases.event_times_us",
    ),
    "a time without predictions": (
        pb.Batch(stream="s", predictions=pb.Predictions(event_times_us=[1])),
        "event_times_us must have one row, or one for each of ids, got 1 rows and 0",
        "predictions.event_times_us",
    ),
    "a time without labels": (
        pb.Batch(stream="s", labels=pb.Labels(event_times_us=[1])),
        "event_times_us must have one row, or one for each of ids, got 1 rows and 0",
        "labels.event_times_us",
    ),
    "a slice without rows": (
        pb.Batch(
            stream="s",
            cases=pb.Cases(segments=[pb.SegmentColumn(key="k", values=["v"], codes=[0])]),
        ),
        "codes must have one row, or one for each of scores, got 1 rows and 0",
        "cases.segments[0].codes",
    ),
    "more scores": (
        case_batch(scores=[0.5] * 4),
        "scores must have one row for each of labels, got 4 rows and 3",
        "cases.scores",
    ),
    "fewer counts": (
        case_batch(counts=[1, 1]),
        "counts must have one row for each of labels, got 2 rows and 3",
        "cases.counts",
    ),
    "too many": (
        case_batch(counts=[HUGE - 1, 0, 1]),
        "all counts together must stay below 2**62",
        "cases.counts",
    ),
    "beyond int64": (
        case_batch(counts=[2**64 - 1, 0, 1]),
        "all counts together must stay below 2**62",
        "cases.counts",
    ),
    "both scores": (
        case_batch(scores_f64le=bytes(24)),
        "scores and scores_f64le must not both be given",
        "cases.scores_f64le",
    ),
    "both labels": (
        case_batch(positives_bits=b"\x00"),
        "positives and positives_bits must not both be given",
        "cases.positives_bits",
    ),
    "torn scores": (
        pb.Batch(stream="s", cases=pb.Cases(scores_f64le=bytes(15), positives_bits=b"\x00")),
        "scores_f64le must have 8 bytes for each score, got 15 bytes",
        "cases.scores_f64le",
    ),
    "few bits": (
        pb.Batch(stream="s", cases=pb.Cases(scores_f64le=bytes(64), positives_bits=b"\x00\x00")),
        "positives_bits must have one bit for each of scores, got 2 bytes and 8 rows",
        "cases.positives_bits",
    ),
    "stray bits": (
        pb.Batch(stream="s", cases=pb.Cases(scores_f64le=bytes(24), positives_bits=b"\x08")),
        "positives_bits must have zeros after the last row",
        "cases.positives_bits",
    ),
    "two times": (
        case_batch(event_times_us=[NOW, NOW]),
        "event_times_us must have one row, or one for each of scores, got 2 rows and 3",
        "cases.event_times_us",
    ),
    "future": (
        case_batch(event_times_us=[NOW, 4_102_444_800_000_000, NOW]),
        "event time must not lie in the future, got 2100-01-01T00:00:00+00:00 at index 1",
        "cases.event_times_us[1]",
    ),
    "far future": (
        case_batch(event_times_us=[2**63 - 1]),
        "event time must not lie in the future, got 9223372036854775807 us at index 0",
        "cases.event_times_us[0]",
    ),
    "missed in the future": (
        pb.Batch(stream="s", misses=pb.Misses(positives=1, event_time_us=4_102_444_800_000_000)),
        "event time must not lie in the future, got 2100-01-01T00:00:00+00:00",
        "misses.event_time_us",
    ),
    "too many misses": (
        pb.Batch(stream="s", misses=pb.Misses(positives=HUGE)),
        "all counts together must stay below 2**62",
        "misses.positives",
    ),
    "too many misses together": (
        pb.Batch(stream="s", misses=pb.Misses(positives=HUGE - 1, negatives=1)),
        "all counts together must stay below 2**62",
        "misses.positives",
    ),
    "too many negative misses": (
        pb.Batch(stream="s", misses=pb.Misses(negatives=2**64 - 1)),
        "all counts together must stay below 2**62",
        "misses.negatives",
    ),
    "no stream": (
        pb.Batch(misses=pb.Misses(positives=1)),
        "stream name must not be empty",
        "stream",
    ),
    "odd stream": (
        pb.Batch(stream="fraud v3"),
        "stream name must be [A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*, got 'fraud v3'",
        "stream",
    ),
}


@pytest.mark.parametrize(("batch", "message", "field"), BAD.values(), ids=BAD)
def test_bad_columns_are_refused_with_field_and_index(batch, message, field):
    """The INVALID_ARGUMENT message names the rule, the row and the value."""
    assert refusal(batch) == Refused(Code.INVALID_ARGUMENT, message, ((field, message),))


def test_every_kind_of_rows_is_read():
    """Ids are decoded as bytes, columns as arrays, times as one or one for each row."""
    country = pb.SegmentColumn(key="country", values=["US", ""], codes=[0, 1])
    predictions = decoded(
        pb.Batch(
            stream="s",
            predictions=pb.Predictions(
                ids=["a", "\u00e9"], scores=[0.5, 1], event_times_us=[NOW], segments=[country]
            ),
        ),
        settings=SETTINGS,
    )
    assert isinstance(predictions, PredictionRows)
    assert predictions.ids == [b"a", b"\xc3\xa9"]
    assert predictions.scores.tolist() == [0.5, 1.0]
    assert (predictions.event_us, predictions.size, predictions.total) == (NOW, 2, 2)
    (column,) = predictions.segments
    assert (column.key, column.values, column.codes.tolist()) == ("country", ("US", ""), [0, 1])
    labels = decoded(
        pb.Batch(
            stream="s",
            labels=pb.Labels(
                ids=["a", "b"], positives=[True, False], scores=[0.5, 1], event_times_us=[NOW, 5]
            ),
        ),
        settings=replace(SETTINGS, retention_us=NOW),
    )
    assert isinstance(labels, LabelRows)
    assert labels.labels.tolist() == [True, False]
    assert labels.event_us.tolist() == [NOW, 5]
    assert labels.scores.tolist() == [0.5, 1.0]
    retractions = decoded(pb.Batch(stream="s", retractions=pb.Retractions(ids=["a"])))
    assert isinstance(retractions, RetractionRows)
    assert (retractions.ids, retractions.size, retractions.total) == ([b"a"], 1, 0)
    misses = pb.Misses(positives=1, event_time_us=NOW, segments=[SEGMENT])
    rows = decoded(pb.Batch(stream="s", misses=misses), settings=SETTINGS)
    assert rows == MissRows(1, 0, 1, 1, NOW, (("country", "US"),))


@pytest.mark.parametrize("kind", ["predictions", "labels", "retractions"])
def test_no_ids_are_no_rows(kind):
    """A batch without ids is accepted."""
    assert decoded(pb.Batch(stream="s", **{kind: {}})) is None


OLD = NOW - SETTINGS.retention_us - 1
BAD_BY_SETTINGS = {
    "old": (
        {"cases": pb.Cases(scores=[1, 1], positives=[True, True], event_times_us=[NOW, OLD])},
        (
            "event time must not be older than retention, got 2026-12-16T07:59:59.999999+00:00 "
            "at index 1, kept since 2026-12-16T08:00:00+00:00: give the stream a longer retention "
            "('streameval streams update --retention 10y'), or leave the row out"
        ),
        "cases.event_times_us[1]",
    ),
    "future label": (
        {"labels": pb.Labels(ids=["a"], positives=[True], event_times_us=[4_102_444_800_000_000])},
        "event time must not lie in the future, got 2100-01-01T00:00:00+00:00 at index 0",
        "labels.event_times_us[0]",
    ),
    "before 1970": (
        {"predictions": pb.Predictions(ids=["a"], scores=[1], event_times_us=[-1])},
        (
            "event time must not be older than retention, got 1969-12-31T23:59:59.999999+00:00 "
            "at index 0, kept since 2026-12-16T08:00:00+00:00: give the stream a longer retention "
            "('streameval streams update --retention 10y'), or leave the row out"
        ),
        "predictions.event_times_us[0]",
    ),
    "no id": (
        {"retractions": pb.Retractions(ids=["a", ""])},
        "id must not be empty at index 1",
        "retractions.ids[1]",
    ),
    "long id": (
        {"labels": pb.Labels(ids=["\u00e9" * 65], positives=[True])},
        "id must be at most 128 bytes of UTF-8, got 130 at index 0",
        "labels.ids[0]",
    ),
    "few scores": (
        {"predictions": pb.Predictions(ids=["a", "b"], scores=[1])},
        "scores must have one row for each of ids, got 1 rows and 2",
        "predictions.scores",
    ),
    "few labels": (
        {"labels": pb.Labels(ids=["a", "b"], positives=[True])},
        "positives must have one row for each of ids, got 1 rows and 2",
        "labels.positives",
    ),
    "bad score": (
        {"labels": pb.Labels(ids=["a"], positives=[True], scores=[math.inf])},
        "score must be finite, got inf at index 0",
        "labels.scores[0]",
    ),
}


@pytest.mark.parametrize(
    ("rows", "message", "field"), BAD_BY_SETTINGS.values(), ids=BAD_BY_SETTINGS
)
def test_what_settings_and_limits_do_not_allow(rows, message, field):
    """The refusal names the field and the row."""
    batch = pb.Batch(stream="s", **rows)
    expected = Refused(Code.INVALID_ARGUMENT, message, ((field, message),))
    assert refusal(batch, settings=SETTINGS) == expected


@pytest.mark.parametrize(
    "rows",
    [
        {"cases": pb.Cases(scores=[0.5, 1.5], positives=[True, True])},
        {"predictions": pb.Predictions(ids=["a", "b"], scores=[0.5, 1.5])},
        {"labels": pb.Labels(ids=["a", "b"], positives=[True, True], scores=[0.5, 1.5])},
    ],
)
def test_probabilities_must_be_such(rows):
    """On the probability scale a score outside [0, 1] is refused in every kind of rows."""
    settings = replace(SETTINGS, scale="probability")
    (kind,) = rows
    message = "score must be between 0 and 1 on the probability scale, got 1.5 at index 1"
    expected = Refused(Code.INVALID_ARGUMENT, message, ((f"{kind}.scores[1]", message),))
    assert refusal(pb.Batch(stream="s", **rows), settings=settings) == expected


def test_a_bad_stream_name_is_cut():
    """A refusal stays short although a character may take ten when it is quoted."""
    refused = refusal(pb.Batch(stream="\U000e0001" * 128))
    assert refused.violations == (("stream", refused.message),)
    assert len(refused.message) <= 512


def test_limits_on_size():
    """The RESOURCE_EXHAUSTED message names the limit and the remedy."""
    assert decoded(case_batch([0.5] * 8, [True] * 8)).size == 8
    many = refusal(case_batch([0.5] * 9, [True] * 9))
    assert many.code == Code.RESOURCE_EXHAUSTED
    assert many.message == "batch must have at most 8 rows, got 9: send smaller ones"
    packed = pb.Cases(scores_f64le=bytes(72), positives_bits=bytes(2))
    assert refusal(pb.Batch(stream="s", cases=packed)).code == Code.RESOURCE_EXHAUSTED
    large = refusal(case_batch(), nbytes=1001)
    assert large.code == Code.RESOURCE_EXHAUSTED
    assert large.message == "batch must be at most 1000 bytes, got 1001: send smaller ones"


def test_the_text_is_the_librarys():
    """An invalid column has the same message in Python and over gRPC."""
    with pytest.raises(InvalidInputError) as caught:
        columns.check_columns(labels=[True, False], scores=[0.5, math.nan])
    assert refusal(case_batch([0.5, math.nan], [True, False])).message == str(caught.value)


def test_stored_batches_are_read_without_todays_limits():
    """An accepted batch counts, even if the limits were lowered afterwards."""
    batch = case_batch([0.5] * 9, [True] * 9, event_times_us=[2**63 - 1])
    frame = pb.IngestRequest(batch=batch).SerializeToString()
    assert stored(Format.INGEST_REQUEST, frame).total == 9
    frame = pb.IngestBatchRequest(batch=batch).SerializeToString()
    assert stored(Format.INGEST_BATCH_REQUEST, frame).total == 9
    batch = case_batch([0.5], [True], segments=[column(values=["US"] * 9)])
    frame = pb.IngestRequest(batch=batch).SerializeToString()
    assert stored(Format.INGEST_REQUEST, frame).segments[0].values == ("US",) * 9
    assert stored(Format.INGEST_REQUEST, b"") is None
    batch = pb.Batch(stream="s", cases=pb.Cases(event_times_us=[1]))
    frame = pb.IngestRequest(batch=batch).SerializeToString()
    assert stored(Format.INGEST_REQUEST, frame) is None


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff",
        pb.IngestRequest(batch=case_batch([math.nan], [True])).SerializeToString(),
        pb.IngestRequest(batch=pb.Batch(labels=pb.Labels(ids=["a"]))).SerializeToString(),
        pb.IngestRequest(
            batch=pb.Batch(predictions=pb.Predictions(ids=["a"], scores=[math.nan]))
        ).SerializeToString(),
    ],
)
def test_stored_batches_that_cannot_be_are_corrupt(payload):
    """A payload that could not have been accepted is CorruptLogError."""
    with pytest.raises(CorruptLogError, match="not a batch that this version accepts"):
        stored(Format.INGEST_REQUEST, payload)


def test_refusals_survive_the_wire():
    """A refusal decoded from its message is equal."""
    refused = Refused(Code.UNIMPLEMENTED, "no", (("a", "b"), ("c", "d")))
    assert Refused.from_message(refused.to_message()) == refused
