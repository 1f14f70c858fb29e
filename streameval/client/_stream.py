"""The verbs of one stream: what is added to it, and what is asked of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from streameval._columns import check_columns, check_count, check_label, check_score
from streameval._errors import InvalidInputError
from streameval._evaluator import Evaluator
from streameval.client._convert import read_hull, read_points, read_snapshot
from streameval.client._rows import CaseRows, MissRows
from streameval.v1 import query_pb2, types_pb2

if TYPE_CHECKING:
    from streameval._curves import RocHull
    from streameval._points import OperatingPoints
    from streameval._snapshot import Snapshot
    from streameval.client._core import Core

_LARGEST = sys.float_info.max


class Stream:
    """One stream of a server: everything about one model version.

    `Client.stream` makes it; any number of them, in any threads, may stand for
    the same stream. The methods that add check their arguments like those of
    `streameval.Evaluator`, raise the same errors with the same words, and
    return at once; a thread sends what they added.
    """

    def __init__(self, core: Core, name: str) -> None:
        self._core = core
        self._buffer = core.buffer
        self._lane = self._buffer.lane(name)

    @property
    def name(self) -> str:
        """Name of the stream, for instance ``fraud/v3``."""
        return self._lane.stream

    def __repr__(self) -> str:
        return f"<Stream {self.name!r} of {self._core.transport.address!r}>"

    # -- adding ------------------------------------------------------------------

    def add_case(self, positive: bool, score: float) -> None:
        """Add one case.

        Parameters
        ----------
        positive : bool
            Whether the reference is positive; 1 and 0 are taken too.
        score : float
            A finite number; higher means more positive.

        Raises
        ------
        InvalidInputError
            When either is something else; nothing was added then.
        ClosedError
            When the client is closed.

        Notes
        -----
        O(1), about 0.3 us. Whole columns are quicker: `add_cases`.

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
        self._buffer.add_case(self._lane, positive, score)

    def add_cases(self, *, labels: Any, scores: Any, counts: Any = None) -> None:
        """Add columns of cases, all or none of them.

        Parameters
        ----------
        labels : column of bool or of 0 and 1
            Whether each reference is positive.
        scores : column of float
            Finite numbers, as many as there are labels.
        counts : column of int, optional
            How many identical cases each row stands for; 0 drops the row.

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
        if weights is not None:
            # A row that counts nothing is no row; the copies are the caller's columns no more.
            kept = weights > 0
            positives, values, weights = positives[kept], values[kept], weights[kept]
        else:
            positives, values = positives.copy(), values.copy()
        self._buffer.add_rows(self._lane, CaseRows(self.name, positives, values, weights))

    def add_misses(self, count: int) -> None:
        """Add positive references that were never scored; they rank below every case.

        Parameters
        ----------
        count : int
            0 or more.

        Raises
        ------
        InvalidInputError
            When `count` is not such an integer.
        ClosedError
            When the client is closed.
        """
        self._miss(check_count(count), 0)

    def add_negative_misses(self, count: int) -> None:
        """Add negative references that were never scored; they rank below every case.

        Parameters
        ----------
        count : int
            0 or more.

        Raises
        ------
        InvalidInputError
            When `count` is not such an integer.
        ClosedError
            When the client is closed.
        """
        self._miss(0, check_count(count))

    def _miss(self, positives: int, negatives: int) -> None:
        if positives or negatives:
            self._buffer.add_rows(self._lane, MissRows(self.name, positives, negatives))

    def flush(self, timeout: float | None = 30.0) -> int:
        """Wait until everything added to the *client* so far is durable.

        The same as `Client.flush`: batches of all streams travel in one order.
        """
        return self._core.worker.flush(timeout)

    # -- asking ------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the stream's figures.

        They include everything that a `flush` has waited for.

        Raises
        ------
        NotFoundError
            When there is no such stream.
        UnavailableError
            When there is no server at the address.
        DeadlineError
            When it does not answer in time.
        """
        transport = self._core.transport
        request = query_pb2.GetSnapshotRequest(selection=self._selection())
        response = transport.unary(
            transport.queries().GetSnapshot, request, timeout=self._core.timeout_s
        )
        return read_snapshot(response.snapshot)

    def evaluator(self) -> Evaluator:
        """Return the stream's state as an evaluator of its own: every metric, locally.

        Raises
        ------
        NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        CorruptStateError
            When the state did not arrive whole.

        Notes
        -----
        Transfers the whole state: at most 4 MB with the server's default limits.
        """
        transport = self._core.transport
        request = query_pb2.GetStateRequest(selection=self._selection())
        pieces = transport.streamed(
            transport.queries().GetState, request, timeout=self._core.timeout_s
        )
        return Evaluator.from_bytes(b"".join(piece.data for piece in pieces))

    def operating_points(self, *, max_points: int = 0) -> OperatingPoints:
        """Return the stream's operating points, thinned to what a plot needs.

        Parameters
        ----------
        max_points : int
            At most about so many; 0 means 2,048. The hull's vertices are always
            among them.

        Raises
        ------
        NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        """
        if max_points < 0:
            message = f"max_points must be 0 or more, got {max_points}"
            raise InvalidInputError(message, field="max_points")
        return read_points(self._curve(query_pb2.CURVE_KIND_OPERATING_POINTS, max_points))

    def roc_hull(self) -> RocHull:
        """Return the vertices of the ROC hull, which are those of the achievable PR curve.

        Raises
        ------
        NotFoundError, UnavailableError, DeadlineError
            As `snapshot`.
        """
        return read_hull(self._curve(query_pb2.CURVE_KIND_HULL, 0))

    def _curve(
        self, kind: query_pb2.CurveKind.ValueType, max_points: int
    ) -> query_pb2.GetCurveResponse:
        transport = self._core.transport
        request = query_pb2.GetCurveRequest(
            selection=self._selection(), kind=kind, max_points=max_points
        )
        return transport.unary(transport.queries().GetCurve, request, timeout=self._core.timeout_s)

    def _selection(self) -> types_pb2.Selection:
        revision = self._core.worker.revision
        return types_pb2.Selection(stream=self.name, min_revision=revision)
