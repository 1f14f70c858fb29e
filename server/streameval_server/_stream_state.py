"""One stream's counts: an all-time evaluator, exact until it meets its cap on cells."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streameval._errors import CorruptStateError
from streameval._evaluator import Evaluator
from streameval_server._batch import CaseRows
from streameval_server._errors import CorruptLogError
from streameval_server._stream_settings import DEFAULTS, StreamSettings

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval_server._batch import Rows

_HEAD = struct.Struct("<qqqq")

_ROW_BYTES = 32
"""Most that a reference adds to memory: 16 B of state, and as much while it is merged."""


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream's description.

    Attributes
    ----------
    name : str
    create_us : int
        When it was made, in microseconds since 1970.
    create_revision : int
        Log revision at which it was made.
    settings : StreamSettings
        How it counts.
    """

    name: str
    create_us: int
    create_revision: int
    settings: StreamSettings = DEFAULTS


class StreamState:
    """A stream. Rows are collected by `add`, and counted by `fold`.

    Attributes
    ----------
    info : StreamInfo
    revision : int
        Log revision of its last change.
    total : int
        References counted, misses included.
    memory_bytes : int
        Memory that it takes at most.
    """

    __slots__ = ("_evaluator", "_frozen", "_pending", "info", "memory_bytes", "revision", "total")

    def __init__(
        self, info: StreamInfo, evaluator: Evaluator, *, revision: int, total: int
    ) -> None:
        self.info = info
        self.revision = revision
        self.total = total
        self.memory_bytes = 0
        self._evaluator = evaluator
        self._frozen: Evaluator | None = None
        self._pending: list[CaseRows] = []

    @classmethod
    def new(cls, info: StreamInfo, max_cells: int) -> StreamState:
        """Return a stream without counts."""
        evaluator = Evaluator(max_cells=max_cells)
        return cls(info, evaluator, revision=info.create_revision, total=0)

    def add(self, rows: Rows, revision: int) -> None:
        """Take the rows of one batch."""
        self.revision = revision
        self.total += rows.total
        if isinstance(rows, CaseRows):
            self._pending.append(rows)
        else:
            self._evaluator.add_misses(rows.positives)
            self._evaluator.add_negative_misses(rows.negatives)

    def fold(self) -> int:
        """Count what `add` took; return by how many bytes memory may have grown."""
        self._frozen = None
        pending, self._pending = self._pending, []
        if not pending:
            return 0
        self._evaluator.add_cases(
            labels=np.concatenate([rows.labels for rows in pending]),
            scores=np.concatenate([rows.scores for rows in pending]),
            counts=_joined_counts(pending),
        )
        grown = _ROW_BYTES * sum(rows.size for rows in pending)
        most = _ROW_BYTES * (self._evaluator.max_cells or grown)
        grown = max(min(grown, most - self.memory_bytes), 0)
        self.memory_bytes += grown
        return grown

    def frozen(self) -> Evaluator:
        """Return the counts as they are now, not to be mutated; the same until they change."""
        if self._frozen is None:
            self._frozen = self._evaluator.copy()
        return self._frozen

    def to_bytes(self) -> bytes:
        """Return the stream's part of a checkpoint. O(cells)."""
        counts = self._evaluator.to_bytes()
        self.memory_bytes = 2 * len(counts)
        info = self.info
        head = _HEAD.pack(info.create_us, info.create_revision, self.revision, self.total)
        return head + counts

    @classmethod
    def from_bytes(cls, name: str, data: bytes) -> StreamState:
        """Read it back.

        Raises
        ------
        CorruptLogError
            When the bytes are not what `to_bytes` wrote.
        """
        try:
            create_us, create_revision, revision, total = _HEAD.unpack_from(data)
            evaluator = Evaluator.from_bytes(data[_HEAD.size :])
        except (struct.error, CorruptStateError) as error:
            raise CorruptLogError(f"stream {name} in the checkpoint: {error}") from error
        info = StreamInfo(name, create_us, create_revision)
        state = cls(info, evaluator, revision=revision, total=total)
        state.memory_bytes = 2 * len(data)
        return state


def _joined_counts(pending: list[CaseRows]) -> npt.NDArray[np.int64] | None:
    if all(rows.counts is None for rows in pending):
        return None
    return np.concatenate(
        [np.ones(rows.size, np.int64) if rows.counts is None else rows.counts for rows in pending]
    )
