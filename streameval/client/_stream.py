"""The verbs of one stream: what is added to it, and what is asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._errors import InvalidInputError
from streameval._evaluator import Evaluator
from streameval.client._adding import Adding
from streameval.client._convert import read_hull, read_points, read_snapshot
from streameval.v1 import query_pb2, types_pb2

if TYPE_CHECKING:
    from streameval._curves import RocHull
    from streameval._points import OperatingPoints
    from streameval._snapshot import Snapshot
    from streameval.client._core import Core


class Stream(Adding):
    """One stream of a server: everything about one model version.

    `Client.stream` makes it; any number of them, in any threads, may stand for
    the same stream. The methods that add return at once; a thread sends what
    they added.
    """

    def __init__(self, core: Core, name: str) -> None:
        super().__init__(core.buffer, name)
        self._core = core

    def __repr__(self) -> str:
        return f"<Stream {self.name!r} of {self._core.transport.address!r}>"

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
