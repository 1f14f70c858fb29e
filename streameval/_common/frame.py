"""The frame of every binary format: a magic word, a format number, flags, a body, a checksum.

Every state that is written to disk or sent, of one evaluator or of many panes, has
this frame. CRC-32 detects every change within four adjacent bytes; each decoder also
checks the content of its body. Each flag stands for one optional part of a body, such as a
column of weights; bytes with a flag that their format does not have are refused.

`Reader` compares every length with the bytes that are left before it allocates
anything, so untrusted bytes cost no more memory than a small multiple of their
length.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from streameval._common.errors import CorruptStateError, UnknownFormatError

if TYPE_CHECKING:
    import numpy.typing as npt

_PREFIX = struct.Struct("<4sHB")
_CHECKSUM = struct.Struct("<I")
_UNRELEASED = b"SEV"
"""How bytes begin that were written before 0.1.0, when the formats had other numbers."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One binary format.

    Attributes
    ----------
    magic : bytes
        The first four bytes: "SVE" and a letter.
    version : int
        The version that is written, and the only one that can be read.
    name : str
        Its name in messages, with the article: "an evaluator".
    flags : int
        All flags that the format has.
    """

    magic: bytes
    version: int
    name: str
    flags: int = 0

    def sealed(self, *parts: bytes, flags: int = 0) -> bytes:
        """Return the framed bytes: the prefix, the parts, the checksum of both. O(n)."""
        body = b"".join((_PREFIX.pack(self.magic, self.version, flags), *parts))
        return body + _CHECKSUM.pack(zlib.crc32(body))

    def body(self, data: bytes | bytearray | memoryview, size: int = 0) -> memoryview:
        """Return the bytes between prefix and checksum, or refuse the prefix. O(1).

        Parameters
        ----------
        data : bytes-like
        size : int
            The least length of a body.
        """
        view = self._bytes_of(data)
        if len(view) < _PREFIX.size + size + _CHECKSUM.size:
            raise_corrupt(f"{len(view)} bytes are too few for {self.name}: truncated?")
        magic, version, flags = _PREFIX.unpack_from(view)
        if magic.startswith(_UNRELEASED):
            raise UnknownFormatError(
                f"{self.name} from before the first release of streameval (it begins with "
                f"{magic!r}) cannot be read: write it again with this version"
            )
        if magic != self.magic:
            raise_corrupt(
                f"not {self.name}: the bytes begin with {magic!r}, not with {self.magic!r}"
            )
        if version != self.version:
            raise UnknownFormatError(
                f"{self._noun} format {version} is unknown; "
                f"this version reads format {self.version}"
            )
        if flags & ~self.flags:
            raise_corrupt(f"{self.name} has no flags {flags & ~self.flags}")
        return view[_PREFIX.size : -_CHECKSUM.size]

    def begins(self, data: bytes | bytearray | memoryview) -> bool:
        """Return whether bytes begin as this format's: its magic word and version. O(1)."""
        view = self._bytes_of(data)
        return len(view) >= _PREFIX.size and _PREFIX.unpack_from(view)[:2] == (
            self.magic,
            self.version,
        )

    def check_length(self, body: memoryview, size: int) -> None:
        """Refuse a body whose length is not the announced one. O(1)."""
        if size != len(body):
            framing = _PREFIX.size + _CHECKSUM.size
            raise_corrupt(
                f"{self.name} of {size + framing} bytes is announced, "
                f"got {len(body) + framing}: truncated?"
            )

    def check_checksum(self, data: bytes | bytearray | memoryview) -> None:
        """Refuse bytes whose checksum does not match. O(n)."""
        view = memoryview(data).cast("B")
        (checksum,) = _CHECKSUM.unpack_from(view, len(view) - _CHECKSUM.size)
        if zlib.crc32(view[: -_CHECKSUM.size]) != checksum:
            raise_corrupt(f"the {self._noun}'s bytes were altered: their checksum does not match")

    def reader(self, data: bytes | bytearray | memoryview) -> Reader:
        """Return a reader of the body, or refuse the bytes. O(n)."""
        body = self.body(data)
        self.check_checksum(data)
        return Reader(body, self._noun, flags_of(data))

    def _bytes_of(self, data: bytes | bytearray | memoryview) -> memoryview:
        try:
            return memoryview(data).cast("B")
        except TypeError:
            raise_corrupt(f"{self.name} is read from bytes, got {type(data).__name__}")

    @property
    def _noun(self) -> str:
        return self.name.partition(" ")[2]


class Reader:
    """A cursor over a body, from its start to its end.

    Attributes
    ----------
    flags : int
        Which optional parts the body has.
    """

    def __init__(self, body: memoryview, noun: str, flags: int = 0) -> None:
        self.flags = flags
        self._body = body
        self._at = 0
        self._noun = noun

    def fields(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read one structure."""
        return layout.unpack(self._take(layout.size))

    def column(self, dtype: str, rows: int) -> npt.NDArray[Any]:
        """Read a column as a read-only array over the bytes, without a copy."""
        return np.frombuffer(self._take(rows * np.dtype(dtype).itemsize), dtype=dtype)

    def blob(self, size: int) -> memoryview:
        """Read `size` bytes, without a copy."""
        return self._take(size)

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return len(self._body) - self._at

    def end(self) -> None:
        """Refuse a body that has bytes left."""
        if self.left:
            raise_corrupt(f"{self.left} bytes are left after the {self._noun}")

    def _take(self, size: int) -> memoryview:
        left = self.left
        if not 0 <= size <= left:
            raise_corrupt(f"the {self._noun} announces {size} more bytes where {left} are left")
        part = self._body[self._at : self._at + size]
        self._at += size
        return part


def flags_of(data: bytes | bytearray | memoryview) -> int:
    """Return the flags of framed bytes. O(1)."""
    return memoryview(data).cast("B")[_PREFIX.size - 1]


def raise_corrupt(message: str) -> NoReturn:
    """Raise `CorruptStateError`."""
    raise CorruptStateError(message)
