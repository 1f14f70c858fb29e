"""Looks for transactions behind the place where SQLite stops reading a write-ahead log.

SQLite reads frames up to the first one whose checksum is wrong, and forgets what follows
without a word: this is how it finds the end after a power cut. But each commit is synced
before the next one is written, so a whole transaction with a further frame behind it was
durable. If such a transaction stands behind a wrong frame, the disk has damaged the file, and
acknowledged rows are lost.

A frame's checksum is computed on from the previous frame's, which is stored in that frame's
head. So a frame can be checked although an earlier one is damaged. The checksum is linear modulo
2**32: all frames are computed at once, as sums of products. Format:
https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

_HEADER_BYTES = 32
_FRAME_HEAD_BYTES = 24
_MAGIC = 0x377F0682
"""Begins a header whose checksums read little-endian words; one more: big-endian words."""
_CHUNK_BYTES = 4 << 20
"""Bytes of frames that are checked at a time."""
_LOG_COLUMNS = 10
_LEAF = 0x0D
"""A page of a table that holds rows."""
_MASK = 0xFFFFFFFF


class WalDamage(NamedTuple):
    """What stands behind a wrong frame.

    Attributes
    ----------
    frame : int
        The number of the wrong frame, from 1; 0 when the header is wrong.
    frames : int
        Frames of the file.
    revision : int
        The last row of the log in the whole transactions behind it; 0 when they hold none.
        SQLite would have read them all, the last one even if it was not synced.
    """

    frame: int
    frames: int
    revision: int


def find_wal_damage(database: Path) -> WalDamage | None:
    """Return what stands behind the first wrong frame; None when nothing synced does. O(bytes).

    The files are only read.

    Parameters
    ----------
    database
        The database; its write-ahead log has the same path with ``-wal`` appended.

    Raises
    ------
    OSError
        When a file cannot be read.
    """
    wal = _Wal.of(database)
    if wal is None:
        return None
    scan = _Scan(None if wal.header_is_right else 0)
    for chunk in wal.chunks():
        scan.take(chunk)
    if scan.wrong is None or not scan.has_synced:
        return None
    return WalDamage(scan.wrong, scan.count, scan.committed_revision)


def copy_growth_bytes(database: Path) -> int:
    """Return by how much the database grows when its write-ahead log is copied into it. O(bytes).

    Parameters
    ----------
    database
        As for `find_wal_damage`.

    Raises
    ------
    OSError
        When a file cannot be read.
    """
    wal = _Wal.of(database)
    if wal is None:
        return 0
    pages = 0
    for chunk in wal.chunks():
        # The head of a frame that ends a transaction has the size of the database after it.
        sizes = np.ascontiguousarray(chunk.frames[chunk.is_right, 4:8]).view(">u4")
        pages = max(pages, int(sizes.max(initial=0)))
    return max(pages * wal.page_bytes - database.stat().st_size, 0)


class _Chunk(NamedTuple):
    """Some frames.

    Attributes
    ----------
    frames : array of uint8
        Each a row of bytes.
    is_current : array of bool
        Whether its salts are the header's; others are left from before a restart of the file.
    is_right : array of bool
        Whether it is current, and its checksum follows from the previous frame's.
    """

    frames: NDArray[np.uint8]
    is_current: NDArray[np.bool_]
    is_right: NDArray[np.bool_]


class _Wal:
    """The frames of a file, a chunk at a time."""

    @classmethod
    def of(cls, database: Path) -> Self | None:
        """Return a database's; None where there are no frames that SQLite would read."""
        path = database.with_name(f"{database.name}-wal")
        if not path.is_file() or path.stat().st_size <= _HEADER_BYTES + _FRAME_HEAD_BYTES:
            return None
        with database.open("rb") as file:
            page_bytes = int.from_bytes(file.read(18)[16:], "big")
        page_bytes = 65_536 if page_bytes == 1 else page_bytes
        if page_bytes < 512 or page_bytes & (page_bytes - 1):
            return None  # SQLite refuses such a database
        return cls(path, page_bytes)

    def __init__(self, path: Path, page_bytes: int) -> None:
        self._path = path
        self.page_bytes = page_bytes
        self._frame_bytes = _FRAME_HEAD_BYTES + page_bytes
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
            first = file.read(_FRAME_HEAD_BYTES)
        magic = int.from_bytes(header[:4], "big")
        self._word = ">u4" if magic == _MAGIC + 1 else "<u4"
        words = np.frombuffer(header, ">u4")
        seed = _checksums(np.frombuffer(header[:24], self._word)[None, :])[0]
        self.header_is_right = magic in {_MAGIC, _MAGIC + 1} and bool((seed == words[6:8]).all())
        if not self.header_is_right:
            self._word = ">u4" if sys.byteorder == "big" else "<u4"
        # A damaged header cannot tell its salts: the first frame repeats them.
        self._salts = words[4:6] if self.header_is_right else np.frombuffer(first[8:16], ">u4")
        self._seed = words[6:8].astype(np.uint32)

    def chunks(self) -> Iterator[_Chunk]:
        """Yield the frames, some at a time."""
        per_chunk = max(1, _CHUNK_BYTES // self._frame_bytes)
        last = self._seed
        with self._path.open("rb") as file:
            file.seek(_HEADER_BYTES)
            while data := file.read(per_chunk * self._frame_bytes):
                count = len(data) // self._frame_bytes
                if not count:
                    return
                frames = np.frombuffer(data, np.uint8, count * self._frame_bytes)
                frames = frames.reshape(count, self._frame_bytes)
                heads = np.ascontiguousarray(frames[:, :_FRAME_HEAD_BYTES]).view(">u4")
                stored = heads[:, 4:6].astype(np.uint32)
                seeds = np.vstack((last[None, :], stored[:-1]))
                covered = np.hstack((frames[:, :8], frames[:, _FRAME_HEAD_BYTES:]))
                found = _checksums(np.ascontiguousarray(covered).view(self._word), seeds)
                is_current = (heads[:, 2:4] == self._salts).all(axis=1)
                yield _Chunk(frames, is_current, is_current & (found == stored).all(axis=1))
                last = stored[-1]


class _Scan:
    """Finds the transactions behind a wrong frame that were synced, frame by frame."""

    def __init__(self, wrong: int | None) -> None:
        self.count = 0
        self.wrong = wrong
        self.has_synced = False
        self.committed_revision = 0
        self._revision = 0  # of the frames behind the wrong one
        self._after_commit = False

    def take(self, chunk: _Chunk) -> None:
        """Take the next frames."""
        for frame, is_current, is_right in zip(*chunk, strict=True):
            self.count += 1
            # A wrong frame may commit too: nothing is written behind a commit before its sync.
            is_commit = bool(is_current and frame[4:8].any())
            if not is_right:
                self.wrong = self.count if self.wrong is None else self.wrong
            elif self.wrong is not None:
                self.has_synced = self.has_synced or self._after_commit
                page = frame[_FRAME_HEAD_BYTES:]
                self._revision = max(self._revision, _last_revision(page.tobytes()))
                if is_commit:
                    self.committed_revision = self._revision
            self._after_commit = is_commit


def _checksums(
    words: NDArray[np.uint32], seeds: NDArray[np.uint32] | None = None
) -> NDArray[np.uint32]:
    """Return SQLite's checksum of each row of words, as two columns. O(words).

    For each two words x and y: s += x + t, then t += y + s, modulo 2**32. After n pairs, a pair
    with k pairs behind it counts with Fibonacci numbers: s has F(2k+1) x + F(2k) y, t has
    F(2k+2) x + F(2k+1) y, and the seeds count likewise.
    """
    pairs = words.shape[1] // 2
    fibonacci = [0, 1]
    while len(fibonacci) < 2 * pairs + 2:
        fibonacci.append((fibonacci[-1] + fibonacci[-2]) & _MASK)
    numbers = np.array(fibonacci, np.uint32)
    behind = 2 * np.arange(pairs - 1, -1, -1)
    x, y = words[:, ::2].astype(np.uint32), words[:, 1::2].astype(np.uint32)
    s = x @ numbers[behind + 1] + y @ numbers[behind]
    t = x @ numbers[behind + 2] + y @ numbers[behind + 1]
    if seeds is not None:
        before = int(numbers[2 * pairs - 1]), int(numbers[2 * pairs]), int(numbers[2 * pairs + 1])
        lower, middle, upper = (np.uint32(each) for each in before)
        s = s + lower * seeds[:, 0] + middle * seeds[:, 1]
        t = t + middle * seeds[:, 0] + upper * seeds[:, 1]
    return np.stack((s, t), axis=1).astype(np.uint32)


def _last_revision(page: bytes) -> int:
    """Return the last revision on a page of the log's table; 0 for any other page."""
    if page[0] != _LEAF:
        return 0
    cells = int.from_bytes(page[3:5], "big")
    at = int.from_bytes(page[6 + 2 * cells : 8 + 2 * cells], "big")
    if not cells or at < 8 + 2 * cells:
        return 0
    try:
        _, at = _varint(page, at)
        revision, at = _varint(page, at)
        end, start = _varint(page, at)
        end += at
        columns = 0
        while start < end:
            _, start = _varint(page, start)
            columns += 1
    except IndexError:
        return 0
    return revision if columns == _LOG_COLUMNS else 0


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return SQLite's number of variable length at a place, and the place behind it."""
    number = 0
    for length in range(1, 9):
        byte = data[at]
        at += 1
        number = number << 7 | byte & 0x7F
        if byte < 0x80 or length == 9:
            return number, at
    return number << 8 | data[at], at + 1
