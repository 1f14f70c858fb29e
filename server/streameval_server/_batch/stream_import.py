"""Imports: an exported stream, from its chunks to an entry for the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval import CorruptStateError
from streameval_server._batch.chunks import ChunkJoiner
from streameval_server._model.errors import Code, RequestError
from streameval_server._model.names import check_new_stream_name
from streameval_server._state.stream_file import StreamFile

if TYPE_CHECKING:
    from streameval.v1 import admin_pb2
    from streameval_server._model.limits import Limits


class ImportInbox:
    """Collects the messages of one import.

    Parameters
    ----------
    limits
        The server's.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._header: admin_pb2.ImportStreamHeader | None = None
        self._chunks = ChunkJoiner(0, _invalid)

    def feed(self, request: admin_pb2.ImportStreamRequest) -> None:
        """Accept the next message.

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

    def _check(self, header: admin_pb2.ImportStreamHeader) -> None:
        limits = self._limits
        if header.name:
            check_new_stream_name(header.name, "header.name", limits.max_stream_name)
        if header.total_bytes > limits.max_import_bytes:
            message = (
                f"an exported stream must be at most {limits.max_import_bytes} bytes, "
                f"got {header.total_bytes}: raise limits.max_import_bytes"
            )
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                message,
                reason="IMPORT_TOO_LARGE",
                violations=(("header.total_bytes", message),),
            )

    def finish(self) -> tuple[str, StreamFile, bytes]:
        """Return the name, the stream and the payload of the log row. O(bytes).

        Raises
        ------
        RequestError
            When data is missing, or is not a stream that this server can hold.
        """
        header = self._header
        if header is None:
            raise _invalid("header", "the first message must be header")
        data = self._chunks.joined()
        try:
            file = StreamFile.from_bytes(data)
            name = header.name or file.name
            check_new_stream_name(name, "data", self._limits.max_stream_name)
            file.check(name, self._limits)
        except CorruptStateError as error:
            raise _invalid("data", str(error)) from None
        return name, file, data


def _invalid(field: str, message: str) -> RequestError:
    return RequestError(
        Code.INVALID_ARGUMENT, message, reason="INVALID_IMPORT", violations=((field, message),)
    )
