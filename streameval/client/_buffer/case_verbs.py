"""Verbs that add cases, whose label is known, and misses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never

import numpy as np

from streameval._common.keywords import MISSING, keywords_error, reports_keywords
from streameval._counts.columns import check_columns, check_count, check_label, check_score
from streameval._time.times import to_us
from streameval.client._buffer.checks import (
    SEGMENT_SETS,
    check_segment_set,
    check_segments,
)
from streameval.client._buffer.columns import CaseRows, MissRows
from streameval.client._buffer.sampling import check_row_sampling, check_sampling_columns
from streameval.client._buffer.verbs import RowVerbs, copy_if_shared

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from streameval.client._buffer.buffer import Buffer


class CaseVerbs(RowVerbs):
    """The verbs that add cases and misses to one stream."""

    def __init__(self, buffer: Buffer, name: str) -> None:
        super().__init__(buffer, name)
        self._negatives = self._stream_buffer.unlocked_cases.negatives
        self._positives = self._stream_buffer.unlocked_cases.positives
        self._segmented = self._stream_buffer.unlocked_segmented_cases.triples

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
            A multiple of 2**-16 from 0 to 2**31; 0 adds nothing. By default 1.
        label_probability : float, optional
            The probability with which the case was chosen to be labelled: the weight is
            divided by it and rounded to a multiple of 2**-16.
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
        O(1), about 0.3 us, with segments 0.6 us, with a time, a weight or a cluster some 2 us.
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
        if (
            at is not None
            or weight is not None
            or label_probability is not None
            or cluster is not None
        ):
            sampling = check_row_sampling(weight, label_probability, cluster)
            self._add_marked_case(positive, score, at, segments, sampling)
            return
        if not segments:
            rows = self._positives if positive else self._negatives
            if len(rows) >= rows.allowed:
                self._buffer.add_case(self._stream_buffer, positive, score)
                return
            rows.append(score)
            if not rows.allowed:
                self._buffer.handle_late_row(self._stream_buffer.unlocked_cases)
            return
        try:
            segment_set = SEGMENT_SETS[tuple(segments.items())]
        except (TypeError, AttributeError):  # no mapping of text
            segment_set = check_segment_set(segments)
        rows = self._segmented
        if len(rows) >= rows.allowed:
            self._buffer.add_segmented_case(self._stream_buffer, positive, score, segment_set)
            return
        rows += (segment_set, positive, score)
        if not rows.allowed:
            self._buffer.handle_late_row(self._stream_buffer.unlocked_segmented_cases)

    def _add_marked_case(
        self,
        positive: bool,
        score: float,
        at: datetime | np.datetime64 | None,
        segments: Mapping[str, str] | None,
        sampling: tuple[int | None, int | None],
    ) -> None:
        """Add one checked case that has a time, the units of a weight, or a cluster's checksum."""
        pairs = check_segments(segments) if segments else ()
        time_us = None if at is None else to_us(at)
        units, checksum = sampling
        row = (self._stream_buffer, positive, score, time_us, pairs)
        if checksum is not None:
            self._buffer.add_sampled_case(*row, sampling="clusters", value=checksum)
        elif units is None:
            self._buffer.add_dated_case(*row)
        elif units:  # a weight of 0 drops the row
            self._buffer.add_sampled_case(*row, sampling="units", value=units)

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
            Multiples of 2**-16 from 0 to 2**31, as `streameval.round_weights` returns them;
            0 drops the row. By default 1 each.
        label_probability : float or column of float, optional
            The probability with which each case was chosen to be labelled, one for all rows
            or one per row: the weights are divided by it and rounded.
        clusters : column of str, int or bytes, optional
            Where the stream declares clusters: which one each row is of. Only the CRC-32 of a
            key is sent. A stream with clusters takes no weights.

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
        positives, values, repeats = check_columns(labels=labels, scores=scores, counts=counts)
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
            rows = CaseRows(
                self.name, positives, values, repeats, times, slices, units, checksums
            ).take(np.flatnonzero(is_counted))
        else:
            rows = CaseRows(
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
            rows = MissRows(self.name, positives, negatives, 1, time_us, pairs)
            self._buffer.add_rows(self._stream_buffer, rows)
