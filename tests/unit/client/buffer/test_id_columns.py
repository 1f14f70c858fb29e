"""Rows by id, times and segments become batches that decode to equal rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval import Evaluator, InvalidInputError
from streameval._row_codec.segments import segment_bytes
from streameval.client import MergeState
from streameval.client._buffer.checks import check_ids, check_segment_columns, check_segments
from streameval.client._buffer.columns import Rows, join_times, stamps_to_times
from streameval.client._buffer.id_columns import (
    LABEL,
    PREDICTION,
    BufferedLabels,
    BufferedPredictions,
    BufferedRetractions,
    coalesce_id_rows,
    phases,
    rank_of,
)
from streameval.client._buffer.segments import join_segments
from streameval.client._buffer.single_rows import Stamps, compact_times
from streameval.client._delivery.merge_upload import PIECE_BYTES, Upload
from streameval.client._errors import error_for
from streameval.v1 import ingest_pb2
from streameval.wire import RowReader, SegmentCodes
from streameval_server import Limits
from streameval_server._batch.decode import decode
from streameval_server._model.stream_settings import StreamSettings

NOW = 1_800_000_000_000_000
KEYS = StreamSettings(segment_keys=("country", "plan"))

ids = st.text(min_size=1, max_size=40).filter(lambda text: len(text.encode()) <= 128)
values = st.sampled_from(["", "US", "DE", "é" * 60])
rows = st.tuples(
    ids,
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(NOW - 10**9, NOW),
    values,
    values,
)


def batches(piece: Rows, max_rows: int, max_bytes: int) -> list[ingest_pb2.Batch]:
    """Split rows into batches within the limits."""
    found, rest = [], piece
    while rest is not None:
        head, rest = rest.split(max_rows, max_bytes)
        batch = head.batch(len(found) + 1)
        assert batch == head.batch(len(found) + 1)
        assert head.size <= max_rows
        assert batch.ByteSize() <= head.wire_bytes
        assert head.wire_bytes <= max_bytes or head.size == 1
        found.append(batch)
    return found


@given(
    table=st.lists(rows, min_size=1, max_size=30),
    max_rows=st.integers(1, 12),
    max_bytes=st.integers(1500, 4000),
    one_time=st.booleans(),
)
def test_rows_by_id_arrive_as_they_were(
    table: list[tuple], max_rows: int, max_bytes: int, one_time: bool
) -> None:
    """The server decodes equal ids, scores, times and segments."""
    names, labels, scores, when, countries, plans = (list(column) for column in zip(*table))
    times = when[0] if one_time else np.array(when)
    slices = check_segment_columns({"country": countries, "plan": plans}, len(names), like="ids")
    limits = Limits(max_batch_rows=max_rows, max_batch_bytes=1 << 20)

    def read(piece: Rows) -> list:
        return [
            decode(batch, batch.ByteSize(), NOW, limits, KEYS)
            for batch in batches(piece, max_rows, max_bytes)
        ]

    def flat(parts: list, name: str) -> list:
        found: list = []
        for part in parts:
            column = getattr(part, name)
            found += [column] * part.size if isinstance(column, int) else list(column)
        return found

    encoded = [name.encode() for name in names]
    expected_times = [when[0]] * len(when) if one_time else when
    predictions = read(BufferedPredictions("s", names, np.array(scores), times, slices))
    assert flat(predictions, "ids") == encoded
    assert flat(predictions, "scores") == scores
    assert flat(predictions, "event_us") == expected_times
    for key, column in (("country", countries), ("plan", plans)):
        read_back = [
            part_column.values[code]
            for part in predictions
            for part_column in part.segments
            if part_column.key == key
            for code in part_column.codes
        ]
        assert read_back == column
    known = read(BufferedLabels("s", names, np.array(labels), times, np.array(scores)))
    assert flat(known, "ids") == encoded
    assert flat(known, "labels") == labels
    assert flat(known, "scores") == scores
    assert flat(known, "event_us") == expected_times
    plain = read(BufferedLabels("s", names, np.array(labels)))
    assert flat(plain, "labels") == labels
    assert all(part.scores is None and part.event_us is None for part in plain)
    assert flat(read(BufferedRetractions("s", names)), "ids") == encoded


def test_pieces_join_with_their_segments() -> None:
    """Missing keys become no value, codes are renumbered, and equal times stay one time."""
    parts = [
        (SegmentCodes("country", ("US", "DE"), np.array([0, 1, 0], np.uint32)),),
        (),
        (
            SegmentCodes("country", ("DE",), np.array([0], np.uint32)),
            SegmentCodes("plan", ("pro",), np.array([0], np.uint32)),
        ),
    ]
    country, plan = join_segments(parts, [3, 2, 1])
    assert [country.values[code] for code in country.codes] == ["US", "DE", "US", "", "", "DE"]
    assert [plan.values[code] for code in plan.codes] == [""] * 5 + ["pro"]
    assert join_times([5, 5], [2, 1]) == 5
    assert join_times([5, np.array([6, 7])], [1, 2]).tolist() == [5, 6, 7]
    assert compact_times(np.array([4, 4])) == 4
    assert compact_times(np.array([4, 5])).tolist() == [4, 5]


@pytest.mark.parametrize("values", [1, 2, 300, (1 << 16) + 1])
def test_codes_travel_as_the_server_reads_them(values: int) -> None:
    """One code for a single value, a bytes column up to 65,536 values, a repeated field beyond."""
    codes = np.arange(2 * values, dtype=np.uint32) % values
    column = SegmentCodes("country", tuple(map(str, range(values))), codes)
    message = column.to_message()
    assert message.ByteSize() <= segment_bytes(column)
    cases = ingest_pb2.Cases(
        scores=[0.5] * codes.size, positives=[True] * codes.size, segments=[message]
    )
    (segment,) = RowReader(ingest_pb2.Batch(cases=cases)).segments()
    assert segment.codes.tolist() == codes.tolist()
    assert segment.values == column.values


def test_ids_change_places_only_where_that_means_the_same() -> None:
    """Alternating kinds make few pieces, and the rows of each id keep their order."""
    alternating = [
        piece
        for i in range(50)
        for piece in (
            BufferedPredictions("s", [f"a{i}"], np.ones(1), 5),
            BufferedLabels("s", [f"a{i}"], np.ones(1, bool)),
        )
    ]
    predictions, labels = coalesce_id_rows(alternating)
    assert (predictions.size, labels.size, predictions.times) == (50, 50, 5)
    again = coalesce_id_rows([*alternating, BufferedPredictions("s", ["a7"], np.ones(1), 5)])
    assert [rank_of(piece) for piece in again] == [PREDICTION, LABEL, PREDICTION]
    assert phases(["a", "b", "a", "a"], [1, 0, 1, 0]) == [0, 3, 4]


def test_stamps_are_shared_for_a_moment() -> None:
    """Rows within 25 ms share a stamp; stamps are converted by the server's clock."""
    clock = iter((7_000_000_000, 7_024_999_999, 7_025_000_000))
    stamps = Stamps(clock.__next__)
    first = stamps.now()
    assert first < 0
    assert stamps.now() == first
    assert stamps.now() == first - 25_000
    assert stamps_to_times(first, NOW - 7_000_000) == NOW
    assert stamps_to_times(first, -(10**12)) == 1  # the earliest possible time
    mixed = stamps_to_times(np.array([first, 17, -1]), 100)
    assert mixed.tolist() == [7_000_100, 17, 100]
    untouched = np.array([1, 2])
    assert stamps_to_times(untouched, 100) is untouched


def test_columns_of_text_are_read_from_any_library(require) -> None:
    """Lists, tuples, arrays, and columns of pandas and pyarrow are accepted."""
    assert check_ids(("a", b"b", np.str_("c"))) == ["a", "b", "c"]
    assert check_ids(np.array(["a", "é"])) == ["a", "é"]
    assert check_ids([]) == []
    assert check_ids(np.array([], dtype=str)) == []
    pandas = require("pandas")
    assert check_ids(pandas.Series(["a", "b"])) == ["a", "b"]
    (column,) = check_segment_columns(
        {"k": pandas.Series(["x", "y", "x"], dtype="category")}, 3, like="ids"
    )
    assert [column.values[code] for code in column.codes] == ["x", "y", "x"]
    (missing,) = check_segment_columns({"k": ["x", None]}, 2, like="ids")
    assert missing.values == ("x", "")
    assert check_segments({}) == ()
    with pytest.raises(InvalidInputError, match="must be a column"):
        check_ids({"a": 1})
    with pytest.raises(InvalidInputError, match="must be a string, got nan at index 1"):
        check_segment_columns({"k": ["x", float("nan")]}, 2, like="ids")
    with pytest.raises(InvalidInputError, match=r"must be a string, got \[\] at index 0"):
        check_segment_columns({"k": [[], "x"]}, 2, like="ids")


def test_an_upload_comes_in_pieces_and_is_repeated_with_patience() -> None:
    """A header is followed by chunks of 1 MiB; only transient errors are retried, with backoff."""
    ev = Evaluator()
    rng = np.random.default_rng(0)
    ev.add_cases(labels=rng.random(300_000) < 0.5, scores=rng.random(300_000))
    upload = Upload("s", [MergeState(ev)], source="a", epoch=1, at=None, segments=None)
    header, *pieces = upload.requests()
    assert [len(piece.data) for piece in pieces[:-1]] == [PIECE_BYTES] * (len(pieces) - 1)
    data = b"".join(piece.data for piece in pieces)
    assert header.header.total_bytes == len(data)
    (state,) = ingest_pb2.MergeStates.FromString(data).states
    assert Evaluator.from_bytes(state.evaluator) == ev
    assert state.event_time_us == 0
    assert next(upload.requests()) == header
    unavailable = error_for("UNAVAILABLE", "gone")
    assert [upload.pause_s(unavailable, None) for _ in range(8)] == [
        0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0,
    ]  # fmt: skip
    assert upload.pause_s(unavailable, 3.0) is None
    assert upload.pause_s(error_for("RESOURCE_EXHAUSTED", "full", retry_after_s=9.0), 10.0) == 9.0
    assert upload.pause_s(error_for("INVALID_ARGUMENT", "no"), None) is None
