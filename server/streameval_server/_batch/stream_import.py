"""Imports: an exported stream or pair, from its chunks to an entry for the log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from streameval import CorruptStateError
from streameval.v1 import admin_pb2
from streameval_server._batch.chunks import ChunkJoiner
from streameval_server._model.errors import Code, RequestError
from streameval_server._model.names import check_new_stream_name
from streameval_server._model.pair_settings import check_sides
from streameval_server._state.pairs.pair_file import PairFile, PairImport
from streameval_server._state.stream_file import StreamFile

if TYPE_CHECKING:
    from streameval_server._model.limits import Limits

H = TypeVar("H", admin_pb2.ImportStreamHeader, admin_pb2.ImportPairHeader)


class _Inbox(ABC, Generic[H]):
    """Collects the messages of one import.

    Parameters
    ----------
    limits
        The server's.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._header: H | None = None
        self._chunks = ChunkJoiner(0, _invalid)

    def feed(self, request: Any) -> None:
        """Accept the next message: an ImportStreamRequest or an ImportPairRequest.

        Raises
        ------
        RequestError
            It ends the call; nothing was changed.
        """
        if self._header is None:
            if not request.HasField("header"):
                raise _invalid("header", "the first message must be header")
            self._check(request.header)
            self._header = request.header
            self._chunks = ChunkJoiner(request.header.total_bytes, _invalid)
            return
        if not request.HasField("data"):
            raise _invalid("data", "every message after the first must be data")
        self._chunks.add(request.data)

    @abstractmethod
    def _check(self, header: H) -> None:
        """Refuse a header. Raises RequestError."""

    def _check_size(self, what: str, total_bytes: int) -> None:
        limit = self._limits.max_import_bytes
        if total_bytes > limit:
            message = (
                f"an exported {what} must be at most {limit} bytes, "
                f"got {total_bytes}: raise limits.max_import_bytes"
            )
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                message,
                reason="IMPORT_TOO_LARGE",
                violations=(("header.total_bytes", message),),
            )

    def _whole(self) -> tuple[H, bytes]:
        """Return the header and the content. Raises RequestError when some is missing."""
        if self._header is None:
            raise _invalid("header", "the first message must be header")
        return self._header, self._chunks.joined()


class StreamInbox(_Inbox[admin_pb2.ImportStreamHeader]):
    """Collects an exported stream."""

    def _check(self, header: admin_pb2.ImportStreamHeader) -> None:
        if header.name:
            check_new_stream_name(header.name, "header.name", self._limits.max_stream_name)
        self._check_size("stream", header.total_bytes)

    def finish(self) -> tuple[str, StreamFile, bytes]:
        """Return the name, the stream and the payload of the log row. O(bytes).

        Raises
        ------
        RequestError
            When data is missing, or is not a stream that this server can hold.
        """
        header, data = self._whole()
        try:
            file = StreamFile.from_bytes(data)
            name = header.name or file.name
            check_new_stream_name(name, "data", self._limits.max_stream_name)
            file.check(name, self._limits)
        except CorruptStateError as error:
            raise _invalid("data", str(error)) from None
        return name, file, data


class PairInbox(_Inbox[admin_pb2.ImportPairHeader]):
    """Collects an exported pair."""

    def _check(self, header: admin_pb2.ImportPairHeader) -> None:
        if header.name:
            self._check_name(header.name, "header.name")
        self._check_size("pair", header.total_bytes)

    def finish(self) -> PairImport:
        """Return the change that makes the pair. O(bytes).

        Raises
        ------
        RequestError
            When data is missing, or is not a pair that this server can hold.
        """
        header, data = self._whole()
        try:
            file = PairFile.from_bytes(data)
            name = header.name or file.name
            self._check_name(name, "data")
            a, b = header.a or file.a, header.b or file.b
            check_sides(a, b, "header.")
            file.check(self._limits)
        except CorruptStateError as error:
            raise _invalid("data", str(error)) from None
        return PairImport(name, a, b, file, data)

    def _check_name(self, name: str, field: str) -> None:
        check_new_stream_name(name, field, self._limits.max_stream_name, "pair name")


def _invalid(field: str, message: str) -> RequestError:
    return RequestError(
        Code.INVALID_ARGUMENT, message, reason="INVALID_IMPORT", violations=((field, message),)
    )
