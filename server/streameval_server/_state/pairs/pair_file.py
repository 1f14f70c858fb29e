"""A pair as a file, for import into another server that has its streams.

Layout: a `Frame` that contains the length of a header (4 bytes, little-endian), the header,
and the pair's parts as in a checkpoint. The header is JSON, so that people can read it too:
names, revision, time, settings, ids, and the names and lengths of the parts in order.

A file is trusted as much as a checkpoint: its checksum detects accidents, not tampering. Only
content that could affect other streams (settings, numbers, names) is checked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import streameval
from streameval import CorruptStateError, StreamEvalError
from streameval.kernel import MAX_TIME_US, Frame
from streameval.v1 import admin_pb2
from streameval_server._model.errors import Code, CorruptLogError, RequestError
from streameval_server._model.pair_settings import PairInfo, PairSettings
from streameval_server._state.file_values import read_integer, read_text
from streameval_server._state.pairs.pair_parts import pair_fields, restore_pair

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval_server._model.limits import Limits
    from streameval_server._model.stream_settings import StreamSettings
    from streameval_server._state.pairs.pair_state import PairState

_FRAME = Frame(b"SVEQ", 1, "an exported pair")
_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class PairFile:
    """An exported pair.

    Attributes
    ----------
    name : str
        Its own name.
    a, b : str
        Names of its streams.
    revision, time_us : int
        The log's revision and time at the export.
    ids : int
        Number of ids that it keeps.
    settings : PairSettings
    parts : mapping of str to bytes
        As `restore_pair` takes them.
    """

    name: str
    a: str
    b: str
    revision: int
    time_us: int
    ids: int
    settings: PairSettings
    parts: Mapping[str, bytes]

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a file. O(bytes).

        Raises
        ------
        CorruptStateError
            When it is not what `pair_to_bytes` wrote.
        """
        reader = _FRAME.reader(data)
        length = int.from_bytes(reader.blob(_LENGTH_BYTES), "little")
        try:
            header = json.loads(bytes(reader.blob(length)))
            parts = {}
            for part, size in header["parts"]:
                parts[read_text(part)] = bytes(reader.blob(read_integer(size)))
            reader.end()
            fields = pair_fields(parts)
            for number in ("create_us", "now_us", "beyond_retention"):
                read_integer(fields[number])
            for number in fields["tally"].values():
                read_integer(number)
            if fields["look_us"] is not None:
                read_integer(fields["look_us"], MAX_TIME_US)
            for since_us, _ in fields["evidence"].values():
                read_integer(since_us, MAX_TIME_US)
            return cls(
                read_text(header["name"]),
                read_text(header["a"]),
                read_text(header["b"]),
                read_integer(header["revision"]),
                read_integer(header["time_us"], MAX_TIME_US),
                read_integer(header["ids"]),
                PairSettings.of_fields(fields["settings"]),
                parts,
            )
        except StreamEvalError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            message = f"the exported pair's header cannot be read: {error!r:.200}"
            raise CorruptStateError(message) from error

    def check(self, limits: Limits) -> None:
        """Refuse a file that `restored` would fail on. O(bytes).

        Raises
        ------
        CorruptStateError
            When the content is damaged, or beyond the limits.
        """
        try:
            self.settings.check_exported(limits)
            state = self.restored(1, limits)
        except (ValueError, RequestError, CorruptLogError) as error:
            raise CorruptStateError(f"the exported pair cannot be read: {error}") from error
        if state.kept_ids != self.ids:
            raise CorruptStateError(
                f"the exported pair's header says {self.ids} ids, its parts have {state.kept_ids}"
            )

    def restored(self, revision: int, limits: Limits) -> PairState:
        """Return the pair, changed last at a revision. O(bytes).

        Raises
        ------
        CorruptLogError
            When the parts are damaged.
        """
        return restore_pair(limits, revision, self.parts)


@dataclass(frozen=True, slots=True)
class PairImport:
    """Makes a pair from an exported one.

    Attributes
    ----------
    name : str
        Its own name here.
    a, b : str
        Names of its streams here.
    file : PairFile
    data : bytes
        The file.
    """

    name: str
    a: str
    b: str
    file: PairFile
    data: bytes

    @classmethod
    def from_bytes(cls, payload: bytes) -> Self:
        """Read the payload of a log row. Raises CorruptStateError. O(bytes)."""
        begin = _LENGTH_BYTES + int.from_bytes(payload[:_LENGTH_BYTES], "little")
        header = admin_pb2.ImportPairHeader.FromString(payload[_LENGTH_BYTES:begin])
        data = payload[begin:]
        return cls(header.name, header.a, header.b, PairFile.from_bytes(data), data)

    def to_bytes(self) -> bytes:
        """Return the payload: the length of an ImportPairHeader, the header, the file."""
        header = admin_pb2.ImportPairHeader(
            name=self.name, a=self.a, b=self.b, total_bytes=len(self.data)
        )
        text = header.SerializeToString()
        return len(text).to_bytes(_LENGTH_BYTES, "little") + text + self.data

    def check_fits(self, a: StreamSettings, b: StreamSettings) -> None:
        """Refuse two streams whose rows it could not count. Raises RequestError."""
        self.file.settings.check_fits(a, b)

    def restored(self, revision: int, limits: Limits) -> PairState:
        """Return the pair of the streams here, made at a revision. O(bytes)."""
        state = self.file.restored(revision, limits)
        state.adopt(self.name, self.a, self.b, revision)
        return state


def no_stream_of_import(name: str) -> RequestError:
    """Return the error of an import of a pair without one of its streams."""
    return RequestError(
        Code.NOT_FOUND,
        f"there is no stream {name}: a pair's file has no streams; export and import both of "
        "them before it, or name the two that it is to compare",
        reason="NO_STREAM",
    )


def pair_to_bytes(
    info: PairInfo, revision: int, time_us: int, ids: int, parts: Mapping[str, bytes]
) -> bytes:
    """Return a pair's file. O(bytes).

    Parameters
    ----------
    info
        Its description.
    revision, time_us, ids, parts
        As in `PairFile`.
    """
    header = {
        "name": info.name,
        "a": info.a,
        "b": info.b,
        "revision": revision,
        "time_us": time_us,
        "written_by": f"streameval {streameval.__version__}",
        "settings": info.settings.to_fields(),
        "ids": ids,
        "parts": [(part, len(data)) for part, data in parts.items()],
    }
    text = json.dumps(header).encode()
    return _FRAME.sealed(len(text).to_bytes(_LENGTH_BYTES, "little"), text, *parts.values())
