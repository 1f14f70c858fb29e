"""Verbs that log predictions and add their labels later, by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never

from streameval._common.keywords import MISSING, by_keyword, keywords_error, reports_keywords
from streameval._common.names import MAX_ID_BYTES
from streameval._counts.cluster_keys import cluster_checksum
from streameval._counts.columns import (
    check_label,
    check_labels,
    check_length,
    check_score,
    check_scores,
)
from streameval._time.times import to_us
from streameval.client._buffer.checks import check_id, check_ids, check_segment_set
from streameval.client._buffer.id_columns import (
    BufferedLabels,
    BufferedPredictions,
    BufferedRetractions,
)
from streameval.client._buffer.sampling import check_row_sampling, check_sampling_columns
from streameval.client._buffer.single_rows import (
    CLUSTERED_PREDICTION_CODE,
    PREDICTION_CODE,
    RETRACTION_CODE,
    label_code,
)
from streameval.client._buffer.verbs import RowVerbs, copy_if_shared, times_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import numpy as np


# The codes of a negative and a positive label without a time and a score.
_LABEL_CODES = tuple(label_code(positive, timed=False, scored=False) for positive in (False, True))


class IdVerbs(RowVerbs):
    """The verbs that log, label and retract predictions of one stream."""

    def log(
        self,
        id: str | bytes | int,  # noqa: A002 - the usual word
        score: float,
        at: datetime | np.datetime64 | None = None,
        segments: Mapping[str, str] | None = None,
        cluster: str | int | bytes | None = None,
    ) -> None:
        """Log one prediction; its `label` may be added before or after it.

        Parameters
        ----------
        id : str, bytes or int
            1 to 128 bytes of UTF-8, unique in the stream while its label is
            awaited; the first prediction of an id counts. An integer is its digits.
        score : float
            A finite number; higher means more positive.
        at : datetime or datetime64, optional
            The time of the prediction; by default now, by the server's clock.
        segments : mapping of str to str, optional
            The prediction's value of each segment key, for instance
            ``{"country": "US"}``.
        cluster : str, int or bytes, optional
            Where the stream declares clusters: which one the prediction is of. Only its
            CRC-32 is sent; 17, "17" and b"17" are one cluster.

        Raises
        ------
        InvalidInputError
            When an argument is invalid; nothing was added.
        ClosedError
            When the client is closed.

        Notes
        -----
        O(1), about 0.6 us. A label that this client adds later never arrives
        before the prediction.

        Examples
        --------
        >>> from streameval.client import Client
        >>> Client("localhost:50051").stream("fraud/v3").log("", 0.4)
        Traceback (most recent call last):
        streameval.InvalidInputError: id must not be empty
        """
        if type(id) is not str or not id.isascii() or not 0 < len(id) <= MAX_ID_BYTES:
            id = check_id(id)  # noqa: A001 - checked
        # x - x is NaN for NaN and the infinities: one subtraction rejects both.
        if type(score) is not float or score - score != 0.0:
            score = check_score(score)
        if at is None and segments is None and cluster is None:
            self._buffer.add_id(self._stream_buffer, id, PREDICTION_CODE, score)
            return
        segment_set = check_segment_set(segments) if segments else None
        time_us = None if at is None else to_us(at)
        checksum = None if cluster is None else cluster_checksum(cluster)
        self._buffer.add_id(
            self._stream_buffer,
            id,
            PREDICTION_CODE if checksum is None else CLUSTERED_PREDICTION_CODE,
            score,
            time_us,
            segment_set,
            checksum,
        )

    def label(  # noqa: PLR0917 - as in add_case
        self,
        id: str | bytes | int,  # noqa: A002 - as in log
        positive: bool,
        at: datetime | np.datetime64 | None = None,
        score: float | None = None,
        weight: float | None = None,
        label_probability: float | None = None,
    ) -> None:
        """Add the label of one prediction. A second label of an id replaces the first.

        Parameters
        ----------
        id : str, bytes or int
            The id of the prediction.
        positive : bool
            Whether the reference is positive; 1 and 0 are taken too.
        at : datetime or datetime64, optional
            The time of the *prediction*, if known.
        score : float, optional
            The score of the prediction, if known. With `at`, no stored
            prediction is needed.
        weight : float, optional
            From 0 to 2**31, as `Evaluator.add_case` takes it; a case of weight 0 counts nothing.
            By default 1.
        label_probability : float, optional
            The probability with which the prediction was chosen to be labelled: the weight
            is divided by it.

        Raises
        ------
        InvalidInputError
            When an argument is invalid; nothing was added.
        ClosedError
            When the client is closed.

        Notes
        -----
        O(1), about 0.7 us.
        """
        if type(id) is not str or not id.isascii() or not 0 < len(id) <= MAX_ID_BYTES:
            id = check_id(id)  # noqa: A001 - checked
        if positive is not True and positive is not False:
            positive = check_label(positive)
        if at is None and score is None and weight is None and label_probability is None:
            self._buffer.add_id(self._stream_buffer, id, _LABEL_CODES[positive], 0.0)
            return
        value = 0.0 if score is None else check_score(score)
        units, _ = check_row_sampling(weight, label_probability, None)
        code = label_code(
            positive,
            timed=at is not None,
            scored=score is not None,
            weighted=units is not None,
        )
        time_us = None if at is None else to_us(at)
        self._buffer.add_id(self._stream_buffer, id, code, value, time_us, None, units)

    def retract(self, id: str | bytes | int) -> None:  # noqa: A002 - as in log
        """Retract one prediction, labelled or not: it no longer counts.

        Parameters
        ----------
        id : str, bytes or int
            The id of the prediction. An id that the server does not know (any
            more) changes nothing; the server counts it.

        Raises
        ------
        InvalidInputError
            When it is not an id; nothing was retracted.
        ClosedError
            When the client is closed.
        """
        self._buffer.add_id(self._stream_buffer, check_id(id), RETRACTION_CODE, 0.0)

    @reports_keywords
    def log_cases(
        self,
        *columns: Never,
        ids: Any,
        scores: Any,
        at: Any = None,
        segments: Mapping[str, Any] | None = None,
        clusters: Any = None,
    ) -> None:
        """Log columns of predictions, all or none of them.

        Parameters
        ----------
        ids : column of str, bytes or int
            As in `log`.
        scores : column of float
            Finite numbers, as many as there are ids.
        at : datetime, sequence of datetime, or datetime64[n], optional
            The times of the predictions: one for all rows, or one per row.
        segments : mapping of str to str or column of str, optional
            For each key one value for all rows, or one per row.
        clusters : column of str, int or bytes, optional
            Where the stream declares clusters: which one each row is of, as in `log`.

        Raises
        ------
        InvalidInputError
            With ``field`` and ``index`` of the first invalid value; nothing
            was added.
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
        streameval.InvalidInputError: score must be finite, got inf at index 1
        """
        if columns or ids is MISSING or scores is MISSING:
            raise keywords_error(IdVerbs.log_cases)
        names = check_ids(ids)
        values = check_scores(scores)
        check_length("scores", values.size, like="ids", length=len(names))
        times, slices = self._times_and_segments(at, segments, len(names), like="ids")
        _, checksums = check_sampling_columns(
            None, None, clusters, size=len(names), counts=None, like="ids"
        )
        rows = BufferedPredictions(
            self.name, names, copy_if_shared(values, scores), times, slices, checksums
        )
        self._buffer.add_rows(self._stream_buffer, rows)

    @reports_keywords
    def label_cases(
        self,
        *columns: Never,
        ids: Any,
        labels: Any,
        at: Any = None,
        scores: Any = None,
        weights: Any = None,
        label_probability: Any = None,
        positive: Any = None,
        negative: Any = None,
    ) -> None:
        """Add the labels of columns of predictions, all or none of them.

        Parameters
        ----------
        ids : column of str, bytes or int
            The ids of the predictions.
        labels : column of bool or of 0 and 1
            As many as there are ids.
        at : datetime, sequence of datetime, or datetime64[n], optional
            The times of the *predictions*, if known.
        scores : column of float, optional
            The scores of the predictions, if known.
        weights : column of float, optional
            From 0 to 2**31, as in `label`. By default 1 each.
        label_probability : float or column of float, optional
            The probability with which each prediction was chosen to be labelled, one for all
            rows or one per row.
        positive, negative : object, optional
            The labels of the two classes, as in `add_cases`.

        Raises
        ------
        InvalidInputError
            With ``field`` and ``index`` of the first invalid value; nothing
            was added.
        ClosedError
            When the client is closed.

        Notes
        -----
        O(n), about 0.1 us a row.
        """
        if columns or ids is MISSING or labels is MISSING:
            raise keywords_error(IdVerbs.label_cases)
        names = check_ids(ids)
        positives = check_labels(labels, positive=positive, negative=negative)
        check_length("labels", positives.size, like="ids", length=len(names))
        values = None
        if scores is not None:
            values = check_scores(scores)
            check_length("scores", values.size, like="ids", length=len(names))
            values = copy_if_shared(values, scores)
        times = None if at is None else times_of(at, len(names))
        units, _ = check_sampling_columns(
            weights, label_probability, None, size=len(names), counts=None, like="ids"
        )
        rows = BufferedLabels(
            self.name, names, copy_if_shared(positives, labels), times, values, units
        )
        self._buffer.add_rows(self._stream_buffer, rows)

    @by_keyword
    def retract_cases(self, *, ids: Any) -> None:
        """Retract a column of predictions, labelled or not, all or none of them.

        Parameters
        ----------
        ids : column of str, bytes or int
            The ids of the predictions.

        Raises
        ------
        InvalidInputError
            With ``index`` of the first value that is not an id; nothing was retracted.
        ClosedError
            When the client is closed.
        """
        self._buffer.add_rows(self._stream_buffer, BufferedRetractions(self.name, check_ids(ids)))
