"""Segments of batches: every valid form, and every kind of error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streameval.checks import OTHER_VALUE
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import types_pb2
from streameval_server import Limits
from streameval_server._batch.decode import decode
from streameval_server._core import producer_marks as marks
from streameval_server._model.errors import Code, Refused
from streameval_server._model.stream_settings import StreamSettings

from ..batches import NOW, SETTINGS, case_batch, column, decoded, refusal


def packed(codes, values=("US",)):
    data = np.array(codes, dtype="<u2").tobytes()
    return pb.SegmentColumn(key="country", values=values, codes_u16le=data)


def one_case(*segments):
    return {"cases": pb.Cases(scores=[1], positives=[True], segments=segments)}


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        (column(values=["US", "DE"], codes=[1, 0, 1]), [1, 0, 1]),
        (packed([1, 0, 1], ["US", "DE"]), [1, 0, 1]),
        (packed([300] * 3, map(str, range(301))), [300] * 3),
        (column(values=["US", "DE"], codes=[1]), [1, 1, 1]),
        (packed([1], ["US", "DE"]), [1, 1, 1]),
    ],
)
def test_codes_are_one_for_each_row_or_one_for_all(given, codes):
    """Codes are a repeated field or a bytes column."""
    cases = pb.Cases(scores=[1, 2, 3], positives=[True] * 3, segments=[given])
    rows = decode(pb.Batch(stream="s", cases=cases), 100, NOW, Limits(), SETTINGS)
    assert rows.segments[0].codes.tolist() == codes
    assert rows.segments[0].codes.dtype.kind == "u"


BAD = {
    "undeclared": (
        one_case(column("plan", ["x"])),
        (
            "segment key 'plan' is not declared: the stream has country; add it: "
            "streameval streams update s --segment plan"
        ),
        "cases.segments[0].key",
    ),
    "twice": (
        one_case(column(), column()),
        "segment key 'country' must be given once",
        "cases.segments[1].key",
    ),
    "many keys": (
        one_case(*(column(f"key {i}") for i in range(9))),
        "batch must have at most 8 segment keys, got 9",
        "cases.segments",
    ),
    "many keys of a miss": (
        {
            "misses": pb.Misses(
                positives=1,
                segments=[types_pb2.Segment(key=f"key {i}", value="x") for i in range(9)],
            )
        },
        "batch must have at most 8 segment keys, got 9",
        "misses.segments",
    ),
    "many values": (
        one_case(column(values=["US"] * 9)),
        "a segment column must have at most 8 values, got 9",
        "cases.segments[0].values",
    ),
    "many values of no row": (
        {"predictions": pb.Predictions(segments=[column("a"), column(values=[""] * 9)])},
        "a segment column must have at most 8 values, got 9",
        "predictions.segments[1].values",
    ),
    "few codes": (
        {
            "predictions": pb.Predictions(
                ids=["a", "b", "c"], scores=[1, 1, 1], segments=[column(codes=[0, 0])]
            )
        },
        "codes must have one row, or one for each of ids, got 2 rows and 3",
        "predictions.segments[0].codes",
    ),
    "few packed codes": (
        {"cases": pb.Cases(scores=[1] * 3, positives=[True] * 3, segments=[packed([0, 0])])},
        "codes_u16le must have one row, or one for each of scores, got 2 rows and 3",
        "cases.segments[0].codes_u16le",
    ),
    "half a packed code": (
        one_case(pb.SegmentColumn(key="country", values=["US"], codes_u16le=b"\0")),
        "codes_u16le must have 2 bytes for each code, got 1 bytes",
        "cases.segments[0].codes_u16le",
    ),
    "codes twice": (
        one_case(pb.SegmentColumn(key="country", values=["US"], codes=[0], codes_u16le=b"\0\0")),
        "codes and codes_u16le must not both be given",
        "cases.segments[0].codes_u16le",
    ),
    "high packed code": (
        one_case(packed([513])),
        "code must be below 1, the number of values, got 513 at index 0",
        "cases.segments[0].codes[0]",
    ),
    "high code": (
        one_case(column(codes=[1])),
        "code must be below 1, the number of values, got 1 at index 0",
        "cases.segments[0].codes[0]",
    ),
    "long value": (
        one_case(column(values=["\u00e9" * 65])),
        "segment value must be at most 128 bytes of UTF-8, got 130",
        "cases.segments[0].values[0]",
    ),
    "reserved value": (
        {
            "misses": pb.Misses(
                positives=1, segments=[types_pb2.Segment(key="country", value=OTHER_VALUE)]
            )
        },
        "segment value __other__ is reserved for values beyond the maximum of a key",
        "misses.segments[0].value",
    ),
}


@pytest.mark.parametrize(("rows", "message", "field"), BAD.values(), ids=BAD)
def test_bad_segments_are_refused_with_field_and_index(rows, message, field):
    """The INVALID_ARGUMENT message names the rule, the row and the value."""
    expected = Refused(Code.INVALID_ARGUMENT, message, ((field, message),))
    found = refusal(pb.Batch(stream="s", **rows), settings=SETTINGS)
    assert replace(found, segment_keys=()) == expected
    assert found.segment_keys == (("country", "plan") if "not declared" in message else ())


WORST = "\U000e0001"
"""A character that takes ten when it is quoted."""
EIGHT_LONG_KEYS = StreamSettings(segment_keys=tuple(f"{i}" * 64 for i in range(8)))


@pytest.mark.parametrize("key", [WORST * 40_000, "\"'" * 40_000, "k" * 40_000])
@pytest.mark.parametrize("times", [1, 2])
def test_a_refusal_is_short_whatever_it_quotes(key, times):
    """A refusal is logged, sent and kept, so its size must not depend on the batch."""
    kinds = [
        one_case(*[column(key)] * times),
        {"misses": pb.Misses(positives=1, segments=[types_pb2.Segment(key=key)] * times)},
        {"predictions": pb.Predictions(ids=["a"], scores=[1], segments=[column(key)] * times)},
        {"cases": pb.Cases(segments=[pb.SegmentColumn(key=key)] * 2)},
    ]
    for kind in kinds:
        refused = refusal(pb.Batch(stream="s", **kind), settings=EIGHT_LONG_KEYS)
        ((field, text),) = refused.violations
        assert field.endswith("].key")
        assert text == refused.message
        assert repr(key)[:100] in text
        assert len(text) <= 512
        # The kept refusal is complete.
        assert marks.advance(None, 1, 1, NOW, refused=refused).refusals[0].refused == refused


def test_a_column_has_as_many_values_as_a_batch_has_rows():
    """Each row of the largest batch may have its own value; unused values are allowed."""
    batch = case_batch([0.5], [True], segments=[column(values=list("abcdefgh"), codes=[7])])
    assert decoded(batch, settings=SETTINGS).segments[0].values == tuple("abcdefgh")
