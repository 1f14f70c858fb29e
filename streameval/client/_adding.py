"""What is added to a stream: the verbs of both clients, which return at once.

Arguments are checked here, with the library's own rules, and appended to the
buffer; whoever sends does the rest.
"""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._columns import (
    check_columns,
    check_count,
    check_label,
    check_labels,
    check_length,
    check_score,
    check_scores,
)
from streameval._times import column_us, to_us
from streameval.client._rows import (
    CaseRows,
    LabelRows,
    MissRows,
    PredictionRows,
    RetractionRows,
)
from streameval.client._runs import PREDICTED, RETRACTED, labelled
from streameval.client._text import (
    check_id,
    check_ids,
    check_segment_columns,
    check_segments,
    check_stream_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval.client._buffer import Buffer
    from streameval.client._clock import Times
    from streameval.client._segments import Segments

_LARGEST = sys.float_info.max
_LONGEST = 128


class Adding:
    """The verbs that add to one stream.

    They check their arguments like those of `streameval.Evaluator`, raise the
    same errors with the same words, and return at once.

    Wherever they take ``at``, it is when the *prediction* was made, as an aware
    datetime or a numpy datetime64 (which is UTC). Without it a row is stamped
    when it is added, and dated by the server's clock when it is sent: this
    machine's clock may be wrong. Wherever they take ``segments``, it says which
    slices a row belongs to, by keys that the stream declares.
    """

    def __init__(self, buffer: Buffer, name: str) -> None:
        self._buffer = buffer
        self._lane = buffer.lane(check_stream_name(name))

    @property
    def name(self) -> str:
        """Name of the stream, for instance ``fraud/v3``."""
        return self._lane.stream

    # -- cases: scores whose truth is known --------------------------------------

    def add_case(
        self,
        positive: bool,
        score: float,
        *,
        at: datetime | np.datetime64 | None = None,
        segments: Mapping[str, str] | None = None,
    ) -> None:
        """Add one case.

        Parameters
        ----------
        positive : bool
            Whether the reference is positive; 1 and 0 are taken too.
        score : float
            A finite number; higher means more positive.
        at : datetime or datetime64, optional
            When it was scored; now, by the server's clock, unless given.
        segments : mapping of str to str, optional
            Its value of each segment key, for instance ``{"country": "US"}``.

        Raises
        ------
        InvalidInputError
            When one is something else; nothing was added then.
        ClosedError
            When the client is closed.

        Notes
        -----
        O(1), about 0.4 us. Whole columns are quicker: `add_cases`.

        Examples
        --------
        >>> from streameval.client import Client
        >>> Client("localhost:50051").stream("fraud/v3").add_case(True, float("nan"))
        Traceback (most recent call last):
        streameval._errors.InvalidInputError: score must be finite, got nan
        """
        # NaN fails the comparison, and so do the infinities.
        if type(score) is not float or not -_LARGEST <= score <= _LARGEST:
            score = check_score(score)
        if positive is not True and positive is not False:
            positive = check_label(positive)
        if at is None and segments is None:
            self._buffer.add_case(self._lane, positive, score)
            return
        pairs = check_segments(segments) if segments else ()
        time_us = None if at is None else to_us(at)
        self._buffer.add_dated_case(self._lane, positive, score, time_us, pairs)

    def add_cases(
        self,
        *,
        labels: Any,
        scores: Any,
        counts: Any = None,
        at: Any = None,
        segments: Mapping[str, Any] | None = None,
    ) -> None:
        """Add columns of cases, all or none of them.

        Parameters
        ----------
        labels : column of bool or of 0 and 1
            Whether each reference is positive.
        scores : column of float
            Finite numbers, as many as there are labels.
        counts : column of int, optional
            How many identical cases each row stands for; 0 drops the row.
        at : datetime, sequence of datetime, or datetime64[n], optional
            When they were scored: one time for all rows, or one per row.
        segments : mapping of str to str or column of str, optional
            For each key one value for all rows, or one per row.

        Raises
        ------
        InvalidInputError
            With ``field`` and ``index`` of the first value at fault; nothing
            was added then.
        ClosedError
            When the client is closed.

        Notes
        -----
        O(n), a few nanoseconds a row for arrays; the columns are copied. Where
        the buffer is full, the rows that do not fit are dropped and counted.

        Examples
        --------
        >>> from streameval.client import Client
        >>> stream = Client("localhost:50051").stream("fraud/v3")
        >>> stream.add_cases(labels=[1, 0, 2], scores=[0.9, 0.4, 0.1])
        Traceback (most recent call last):
        streameval._errors.InvalidInputError: label must be True, False, 1 or 0, got 2 at index 2
        """
        positives, values, weights = check_columns(labels=labels, scores=scores, counts=counts)
        times, slices = self._when_and_where(at, segments, values.size, like="labels")
        rows = CaseRows(self.name, positives, values, weights, times, slices)
        if weights is not None:
            # A row that counts nothing is no row; the copies are the caller's columns no more.
            rows = rows.take(np.flatnonzero(weights > 0))
        else:
            rows = CaseRows(
                self.name, _own(positives, labels), _own(values, scores), None, times, slices
            )
        self._buffer.add_rows(self._lane, rows)

    def add_misses(
        self,
        count: int,
        *,
        at: datetime | np.datetime64 | None = None,
        segments: Mapping[str, str] | None = None,
    ) -> None:
        """Add positive references that were never scored; they rank below every case.

        Parameters
        ----------
        count : int
            0 or more.
        at, segments
            As in `add_case`.

        Raises
        ------
        InvalidInputError
            When `count` is not such an integer.
        ClosedError
            When the client is closed.
        """
        self._miss(check_count(count), 0, at, segments)

    def add_negative_misses(
        self,
        count: int,
        *,
        at: datetime | np.datetime64 | None = None,
        segments: Mapping[str, str] | None = None,
    ) -> None:
        """Add negative references that were never scored; they rank below every case.

        Parameters
        ----------
        count : int
            0 or more.
        at, segments
            As in `add_case`.

        Raises
        ------
        InvalidInputError
            When `count` is not such an integer.
        ClosedError
            When the client is closed.
        """
        self._miss(0, check_count(count), at, segments)

    def _miss(
        self,
        positives: int,
        negatives: int,
        at: datetime | np.datetime64 | None,
        segments: Mapping[str, str] | None,
    ) -> None:
        pairs = check_segments(segments) if segments else ()
        time_us = self._lane.stamps.now() if at is None else to_us(at)
        if positives or negatives:
            rows = MissRows(self.name, positives, negatives, 1, time_us, pairs)
            self._buffer.add_rows(self._lane, rows)

    # -- predictions now, labels later -------------------------------------------

    def log(
        self,
        id: str | bytes,  # noqa: A002 - the word that everybody uses
        score: float,
        *,
        at: datetime | np.datetime64 | None = None,
        segments: Mapping[str, str] | None = None,
    ) -> None:
        """Log one prediction; its `label` may come later, or have come before.

        Parameters
        ----------
        id : str or bytes
            1 to 128 bytes of UTF-8, unique in the stream while its label is
            awaited; the first prediction of an id counts.
        score : float
            A finite number; higher means more positive.
        at : datetime or datetime64, optional
            When it was made; now, by the server's clock, unless given.
        segments : mapping of str to str, optional
            Its value of each segment key, for instance ``{"country": "US"}``.

        Raises
        ------
        InvalidInputError
            When one is something else; nothing was added then.
        ClosedError
            When the client is closed.

        Notes
        -----
        O(1), about 0.5 us. A label that this client adds after it never arrives
        before it.

        Examples
        --------
        >>> from streameval.client import Client
        >>> Client("localhost:50051").stream("fraud/v3").log("", 0.4)
        Traceback (most recent call last):
        streameval._errors.InvalidInputError: id must not be empty
        """
        if type(id) is not str or not id.isascii() or not 0 < len(id) <= _LONGEST:
            id = check_id(id)  # noqa: A001 - checked
        if type(score) is not float or not -_LARGEST <= score <= _LARGEST:
            score = check_score(score)
        if at is None and segments is None:
            self._buffer.add_prediction(self._lane, id, score)
            return
        pairs = check_segments(segments) if segments else ()
        mark = (None if at is None else to_us(at), pairs)
        self._buffer.add_id(self._lane, PREDICTED, id, score, mark)

    def label(
        self,
        id: str | bytes,  # noqa: A002 - as in log
        positive: bool,
        *,
        at: datetime | np.datetime64 | None = None,
        score: float | None = None,
    ) -> None:
        """Say the truth about one prediction. A second label of an id replaces the first.

        Parameters
        ----------
        id : str or bytes
            Of the prediction.
        positive : bool
            Whether the reference is positive; 1 and 0 are taken too.
        at : datetime or datetime64, optional
            When the *prediction* was made, where that is known.
        score : float, optional
            What was predicted, where that is known. With `at`, no stored
            prediction is needed.

        Raises
        ------
        InvalidInputError
            When one is something else; nothing was added then.
        ClosedError
            When the client is closed.

        Notes
        -----
        O(1), about 0.4 us.
        """
        if type(id) is not str or not id.isascii() or not 0 < len(id) <= _LONGEST:
            id = check_id(id)  # noqa: A001 - checked
        if positive is not True and positive is not False:
            positive = check_label(positive)
        mark = None if at is None else (to_us(at), ())
        value = 0.0 if score is None else check_score(score)
        code = labelled(positive, timed=at is not None, scored=score is not None)
        self._buffer.add_id(self._lane, code, id, value, mark)

    def retract(self, id: str | bytes) -> None:  # noqa: A002 - as in log
        """Take one prediction back, labelled or not: it counts no more.

        Parameters
        ----------
        id : str or bytes
            Of the prediction. One that is not known (any more) changes nothing
            and is counted by the server.

        Raises
        ------
        InvalidInputError
            When it is no id.
        ClosedError
            When the client is closed.
        """
        self._buffer.add_id(self._lane, RETRACTED, check_id(id))

    def log_cases(
        self, *, ids: Any, scores: Any, at: Any = None, segments: Mapping[str, Any] | None = None
    ) -> None:
        """Log columns of predictions, all or none of them.

        Parameters
        ----------
        ids : column of str or bytes
            As in `log`.
        scores : column of float
            Finite numbers, as many as there are ids.
        at : datetime, sequence of datetime, or datetime64[n], optional
            When they were made: one time for all rows, or one per row.
        segments : mapping of str to str or column of str, optional
            For each key one value for all rows, or one per row.

        Raises
        ------
        InvalidInputError
            With ``field`` and ``index`` of the first value at fault; nothing
            was added then.
        ClosedError
            When the client is closed.

        Notes
        -----
        O(n), about 0.1 us a row.

        Examples
        --------
        >>> from streameval.client import Client
        >>> stream = Client("localhost:50051").stream("fraud/v3")
        >>> stream.log_cases(ids=["a", "b"], scores=[0.9, float("inf")])
        Traceback (most recent call last):
        streameval._errors.InvalidInputError: score must be finite, got inf at index 1
        """
        names = check_ids(ids)
        values = check_scores(scores)
        check_length("scores", values.size, like="ids", length=len(names))
        times, slices = self._when_and_where(at, segments, len(names), like="ids")
        rows = PredictionRows(self.name, names, _own(values, scores), times, slices)
        self._buffer.add_rows(self._lane, rows)

    def label_cases(self, *, ids: Any, labels: Any, at: Any = None, scores: Any = None) -> None:
        """Say the truth about columns of predictions, all or none of them.

        Parameters
        ----------
        ids : column of str or bytes
            Of the predictions.
        labels : column of bool or of 0 and 1
            As many as there are ids.
        at : datetime, sequence of datetime, or datetime64[n], optional
            When the *predictions* were made, where that is known.
        scores : column of float, optional
            What was predicted, where that is known.

        Raises
        ------
        InvalidInputError
            With ``field`` and ``index`` of the first value at fault; nothing
            was added then.
        ClosedError
            When the client is closed.

        Notes
        -----
        O(n), about 0.1 us a row.
        """
        names = check_ids(ids)
        positives = check_labels(labels)
        check_length("labels", positives.size, like="ids", length=len(names))
        values = None
        if scores is not None:
            values = check_scores(scores)
            check_length("scores", values.size, like="ids", length=len(names))
            values = _own(values, scores)
        times = None if at is None else _times(at, len(names))
        rows = LabelRows(self.name, names, _own(positives, labels), times, values)
        self._buffer.add_rows(self._lane, rows)

    def retract_cases(self, *, ids: Any) -> None:
        """Take a column of predictions back, labelled or not.

        Parameters
        ----------
        ids : column of str or bytes
            Of the predictions.

        Raises
        ------
        InvalidInputError
            With ``index`` of the first that is no id; nothing was taken back.
        ClosedError
            When the client is closed.
        """
        self._buffer.add_rows(self._lane, RetractionRows(self.name, check_ids(ids)))

    # -- machinery ---------------------------------------------------------------

    def _when_and_where(
        self, at: Any, segments: Mapping[str, Any] | None, rows: int, *, like: str
    ) -> tuple[Times, Segments]:
        slices = check_segment_columns(segments, rows, like=like) if segments else ()
        return self._lane.stamps.now() if at is None else _times(at, rows), slices


def _times(at: Any, rows: int) -> Times:
    if isinstance(at, datetime | np.datetime64):
        return to_us(at)
    return column_us(at, rows)


def _own(column: Any, given: Any) -> Any:
    """Return a column that is not the caller's memory."""
    return column if isinstance(given, list | tuple) else column.copy()
