"""Verbs that add cases, whose label is known, and misses."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from streameval._common.keywords import MISSING, keywords_error, reports_keywords
from streameval._counts.columns import check_columns, check_count, check_label, check_score
from streameval._time.times import to_us
from streameval.client._buffer.checks import check_segment_set, check_segments
from streameval.client._buffer.columns import BufferedCases, BufferedMisses
from streameval.client._buffer.sampling import check_row_sampling, check_sampling_columns
from streameval.client._buffer.verbs import RowVerbs, copy_if_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

_pack_value: Callable[[int], bytes] = struct.Struct("<q").pack


class CaseVerbs(RowVerbs):
    """The verbs that add cases and misses to one stream."""

    def add_case(  # noqa: PLR0917 - a keyword-only default costs every call 10 ns
        self,
        positive: bool,
        score: float,
        at: datetime | np.datetime64 | None = None,
        segments: Mapping[str, str] | None = None,
        weight: float | None = None,
        label_probability: float | None = None,
        cluster: str | int | bytes | None = None,
    ) -> None:
        """Add one case.

        Parameters
        ----------
        positive : bool
            Whether the reference is positive; 1 and 0 are taken too.
        score : float
            A finite number; higher means more positive.
        at : datetime or datetime64, optional
            The time of the prediction; by default now, by the server's clock.
        segments : mapping of str to str, optional
            The case's value of each segment key, for instance ``{"country": "US"}``.
        weight : float, optional
            From 0 to 2**31, as `Evaluator.add_case` takes it; 0 adds nothing. By default 1.
        label_probability : float, optional
            The probability with which the case was chosen to be labelled: the weight is
            divided by it.
        cluster : str, int or bytes, optional
            Where the stream declares clusters: which one the case is of. Only its CRC-32 is
            sent; 17, "17" and b"17" are one cluster.

        Raises
        ------
        InvalidInputError
            When an argument is invalid; nothing was added.
        ClosedError
            When the client is closed.

        Notes
        -----
        O(1), about 0.6 us, with segments 1 us, with a time, a weight or a cluster some 2 us.
        Whole columns are faster: `add_cases`.

        Examples
        --------
        >>> from streameval.client import Client
        >>> Client("localhost:50051").stream("fraud/v3").add_case(True, float("nan"))
        Traceback (most recent call last):
        streameval.InvalidInputError: score must be finite, got nan
        """
        # x - x is NaN for NaN and the infinities: one subtraction rejects both.
        if type(score) is not float or score - score != 0.0:
            score = check_score(score)
        if positive is not True and positive is not False:
            positive = check_label(positive)
        if at is None and weight is None and label_probability is None and cluster is None:
            segment_set = check_segment_set(segments) if segments else None
            self._buffer.add_case(self._stream_buffer, positive, score, None, segment_set)
            return
        units, checksum = check_row_sampling(weight, label_probability, cluster)
        segment_set = check_segment_set(segments) if segments else None
        row = (self._stream_buffer, positive, score, None if at is None else to_us(at), segment_set)
        if checksum is not None:
            self._buffer.add_case(*row, sampling="clusters", value=_pack_value(checksum))
        elif units is None:
            self._buffer.add_case(*row)
        elif units:  # a weight of 0 drops the row
            self._buffer.add_case(*row, sampling="units", value=_pack_value(units))

    @reports_keywords
    def add_cases(
        self,
        *columns: Never,
        labels: Any,
        scores: Any,
        counts: Any = None,
        at: Any = None,
        segments: Mapping[str, Any] | None = None,
        weights: Any = None,
        label_probability: Any = None,
        clusters: Any = None,
        positive: Any = None,
        negative: Any = None,
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
            The times of the predictions: one for all rows, or one per row.
        segments : mapping of str to str or column of str, optional
            For each key one value for all rows, or one per row.
        weights : column of float, optional
            From 0 to 2**31, as `Evaluator.add_cases` takes them; 0 drops the row. By default
            1 each.
        label_probability : float or column of float, optional
            The probability with which each case was chosen to be labelled, one for all rows
            or one per row: the weights are divided by it and rounded.
        clusters : column of str, int or bytes, optional
            Where the stream declares clusters: which one each row is of. Only the CRC-32 of a
            key is sent. A stream with clusters takes no weights.
        positive, negative : object, optional
            The labels of the two classes, where they are others than true, false, 1 and 0:
            ``positive="fraud", negative="ok"``. Without `negative` the one other class of the
            call is the negative one.

        Raises
        ------
        InvalidInputError
            With ``field`` and ``index`` of the first invalid value; nothing
            was added.
        ClosedError
            When the client is closed.

        Notes
        -----
        O(n), a few nanoseconds a row for arrays; the columns are copied. If the
        buffer is full, the rows that do not fit are dropped and counted.

        Examples
        --------
        >>> from streameval.client import Client
        >>> stream = Client("localhost:50051").stream("fraud/v3")
        >>> stream.add_cases(labels=[1, 0, 2], scores=[0.9, 0.4, 0.1])
        Traceback (most recent call last):
        streameval.InvalidInputError: label must be True, False, 1 or 0, got 2 at index 2
        """
        if columns or labels is MISSING or scores is MISSING:
            raise keywords_error(CaseVerbs.add_cases)
        positives, values, repeats = check_columns(
            labels=labels, scores=scores, counts=counts, positive=positive, negative=negative
        )
        times, slices = self._times_and_segments(at, segments, values.size, like="labels")
        units, checksums = check_sampling_columns(
            weights, label_probability, clusters, size=values.size, counts=repeats, like="labels"
        )
        if repeats is not None or units is not None:
            # Rows that count nothing are dropped; selecting the others copies the columns.
            is_counted = np.ones(values.size, dtype=np.bool_)
            for column in (repeats, units):
                if column is not None:
                    is_counted &= column > 0
            rows = BufferedCases(
                self.name, positives, values, repeats, times, slices, units, checksums
            ).take(np.flatnonzero(is_counted))
        else:
            rows = BufferedCases(
                self.name,
                copy_if_shared(positives, labels),
                copy_if_shared(values, scores),
                None,
                times,
                slices,
                clusters=checksums,
            )
        self._buffer.add_rows(self._stream_buffer, rows)

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
            When `count` is not such an integer; nothing was added.
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
            When `count` is not such an integer; nothing was added.
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
        time_us = self._stream_buffer.stamps.now() if at is None else to_us(at)
        if positives or negatives:
            rows = BufferedMisses(self.name, positives, negatives, 1, time_us, pairs)
            self._buffer.add_rows(self._stream_buffer, rows)
