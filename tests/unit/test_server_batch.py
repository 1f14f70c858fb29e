"""What a batch may hold: every way to say it, and every way to get it wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streameval import _columns
from streameval._errors import InvalidInputError
from streameval.v1 import ingest_pb2 as pb
from streameval_server._batch import CaseRows, MissRows, decode, stored
from streameval_server._entries import Format
from streameval_server._errors import Code, CorruptLogError, Refused, RefusedError
from streameval_server._limits import Limits

LIMITS = Limits(max_batch_rows=8, max_batch_bytes=1000)
NOW = 1_800_000_000_000_000


def case_batch(scores=(0.9, 0.1, 0.1), positives=(True, False, False), **columns):
    cases = pb.Cases(scores=scores, positives=positives, **columns)
    return pb.Batch(sequence=1, stream="fraud/v3", cases=cases)


def decoded(batch, nbytes=100):
    return decode(batch, nbytes, NOW, LIMITS)


def refusal(batch, nbytes=100) -> Refused:
    with pytest.raises(RefusedError) as caught:
        decoded(batch, nbytes)
    return caught.value.refused


def test_plain_and_packed_columns_say_the_same():
    """The bytes columns are another spelling of the repeated ones."""
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
    """A row stands for as many cases as its count says; 0 is none."""
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
    """An empty batch is fine."""
    assert decoded(batch) is None


def test_misses():
    """Misses carry both classes."""
    rows = decoded(pb.Batch(stream="s", misses=pb.Misses(positives=3, negatives=4)))
    assert rows == MissRows(3, 4, size=1, total=7)


@pytest.mark.parametrize("times", [[], [NOW], [NOW - 5, NOW, NOW + LIMITS.max_future_us]])
def test_event_times_are_taken(times):
    """None, one, or one a row, up to the allowed lead over the server's clock."""
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
    """INVALID_ARGUMENT says what, where and which value."""
    assert refusal(batch) == Refused(Code.INVALID_ARGUMENT, message, ((field, message),))


@pytest.mark.parametrize(
    ("rows", "field"),
    [
        ({"predictions": pb.Predictions(ids=["a"], scores=[0.5])}, "predictions"),
        ({"labels": pb.Labels(ids=["a"], positives=[True])}, "labels"),
        ({"retractions": pb.Retractions(ids=["a"])}, "retractions"),
        (
            {
                "cases": pb.Cases(
                    scores=[0.5], positives=[True], segments=[pb.SegmentColumn(key="country")]
                )
            },
            "cases.segments",
        ),
    ],
)
def test_what_is_not_served_yet_is_refused_by_name(rows, field):
    """UNIMPLEMENTED names the kind of rows, or the column."""
    message = f"{field} are not served yet by this version"
    expected = Refused(Code.UNIMPLEMENTED, message, ((field, message),))
    assert refusal(pb.Batch(stream="s", **rows)) == expected


def test_limits_on_size():
    """RESOURCE_EXHAUSTED says the limit and what to do."""
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
    """The same bad column reads the same over Python and over gRPC."""
    with pytest.raises(InvalidInputError) as caught:
        _columns.check_columns(labels=[True, False], scores=[0.5, math.nan])
    assert refusal(case_batch([0.5, math.nan], [True, False])).message == str(caught.value)


def test_stored_batches_are_read_without_todays_limits():
    """What was accepted counts, also after limits were lowered."""
    batch = case_batch([0.5] * 9, [True] * 9, event_times_us=[2**63 - 1])
    frame = pb.IngestRequest(batch=batch).SerializeToString()
    assert stored(Format.INGEST_REQUEST, frame).total == 9
    frame = pb.IngestBatchRequest(batch=batch).SerializeToString()
    assert stored(Format.INGEST_BATCH_REQUEST, frame).total == 9
    assert stored(Format.INGEST_REQUEST, b"") is None


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff",
        pb.IngestRequest(batch=case_batch([math.nan], [True])).SerializeToString(),
        pb.IngestRequest(batch=pb.Batch(labels=pb.Labels(ids=["a"]))).SerializeToString(),
    ],
)
def test_stored_batches_that_cannot_be_are_corrupt(payload):
    """A payload that was never accepted is not counted."""
    with pytest.raises(CorruptLogError, match="not a batch that this version accepts"):
        stored(Format.INGEST_REQUEST, payload)


def test_refusals_survive_the_wire():
    """A refusal read back from its message is the same."""
    refused = Refused(Code.UNIMPLEMENTED, "no", (("a", "b"), ("c", "d")))
    assert Refused.from_message(refused.to_message()) == refused
