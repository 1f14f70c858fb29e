"""A disk that distinguishes synced from written transactions, and that can fail.

A transaction is *visible* once it is written, and *durable* once it is synced.
After a process crash the visible transactions remain; after a power cut the durable
ones and possibly some later ones. Other threads run while a write is in progress, and
the process may die in the middle of it.

The acknowledged revision is kept as `AckedRevisionFile` keeps it, by a thread that lags: a crash
leaves one of the newest revisions, a power cut any that was recorded after the last sync.
"""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

from streameval_server._log.acked_revision import AckedRevision
from streameval_server._log.checkpoint import part_keys, read_base
from streameval_server._log.history import History
from streameval_server._log.loss import loss_of
from streameval_server._log.storage import MemoryStorage
from streameval_server._model.errors import CorruptLogError, StorageError

from .world import ThreadKilled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from streameval_server._log.rows import LogRow
    from streameval_server._log.storage import PartKey, PartRow

    from .world import World

Transaction = tuple[str, tuple]
"""The name of a write, and its arguments."""


class Disk(MemoryStorage):
    """The `Storage` of one server, through all its lives.

    Attributes
    ----------
    broken : bool
        Every write fails, and most calls to open or read.
    """

    def __init__(self, world: World) -> None:
        super().__init__()
        self.broken = False
        self._damaged: bytes | None = None
        self._ailing = 0
        self._world = world
        self._journal: list[Transaction] = []
        self._synced = self._durable = 0
        self._writing: Transaction | None = None
        self._lives = 0
        self._is_open = False
        # A source of its own: the other events of a seed do not depend on the file.
        self._lag = random.Random(repr(world.plan))
        self._history = History(self._lag.randrange(1, 1 << 62))
        # Recorded since the last sync, which is the first; a crash leaves one of them.
        self._acked: list[AckedRevision] = []

    # -- the storage interface

    def open(self) -> None:
        """Open; visible transactions are durable afterwards."""
        assert not self._is_open, "opened twice"
        self._fail("open")
        self._check_loss()
        self._sync()
        self._is_open = True

    def _check_loss(self) -> None:
        """Assert that the acknowledged revision, as it is now in its file, is in the log."""
        if self._acked:
            acked = self._acked[-1]
            rows = [row.crc32 for row in self.rows if row.revision == acked.revision]
            last = super().last_revision()
            loss = loss_of(acked, None, last, rows[0] if rows else None)
            assert loss is None, f"a false alarm: {loss}"

    def close(self) -> None:
        """Close; a killed server does not, even where its code would."""
        if not isinstance(sys.exception(), ThreadKilled):
            self._is_open = False

    def last_revision(self) -> int:
        """Return the newest visible row's revision."""
        self._fail("read")
        return super().last_revision()

    def read(self, after: int) -> Iterator[LogRow]:
        """Yield visible rows."""
        self._fail("read")
        yield from super().read(after)

    def append(self, rows: Sequence[LogRow]) -> None:
        """Write rows."""
        self._write("append", list(rows))
        self._acked.append(AckedRevision(rows[-1].revision, rows[-1].crc32))
        if self._lag.random() < 0.1:
            del self._acked[:-1]  # synced

    def write_parts(self, rows: Sequence[PartRow]) -> None:
        """Write pieces."""
        self._write("write_parts", list(rows))

    def write_manifest(self, manifest: bytes, superseded: Sequence[PartKey]) -> None:
        """Make a checkpoint current."""
        self._write("write_manifest", manifest, list(superseded))

    def prune(self, keep: Collection[PartKey]) -> None:
        """Drop parts."""
        self._write("prune", frozenset(keep))

    def write_base(self, manifest: bytes, superseded: Sequence[PartKey]) -> None:
        """Make a checkpoint the log's beginning."""
        self._write("write_base", manifest, list(superseded))

    def drop(self, before: int) -> int:
        """Drop some rows before the log's beginning."""
        dropped = self._write("drop", before)
        assert isinstance(dropped, int)
        return dropped

    def _fail(self, what: str) -> None:
        if self.broken and self._world.chance(0.7):
            raise StorageError(f"cannot {what}: disk I/O error")

    def _write(self, name: str, *arguments: object) -> object:
        assert self._is_open, f"{name} on a closed log"
        assert self._writing is None, f"{name} during {self._writing}"
        life, world = self._lives, self._world
        self._writing = (name, arguments)
        world.meanwhile()
        if self._lives != life:
            raise ThreadKilled(name)
        self._writing = None
        fate = world.fate_of_write(broken=self.broken)
        if self._ailing:
            self._ailing -= 1
            if world.trouble(0.4):
                fate = "lost"
        result = None
        if fate != "lost":
            result = self._perform(name, arguments)
            if fate != "cached":
                self._sync()
        if fate != "done":
            world.tally["failed writes"] += 1
            world.trace("disk", "%s failed and is %s", name, fate)
            raise StorageError(f"cannot write: disk I/O error in {name}")
        world.meanwhile()
        if self._lives != life:
            raise ThreadKilled(name)
        return result

    def _perform(self, name: str, arguments: tuple) -> object:
        if name == "append" and arguments[0][0].revision != super().last_revision() + 1:
            raise CorruptLogError(f"row {arguments[0][0].revision} does not fit the log")
        self._journal.append((name, arguments))
        return self._make_visible(name, arguments)

    def _make_visible(self, name: str, arguments: tuple) -> object:
        write: Callable = getattr(super(), name)
        return write(*arguments)

    def _sync(self) -> None:
        self._synced = len(self._journal)
        self._durable = super().last_revision()

    # -- failures

    def durable_rows(self, after: int) -> list[LogRow]:
        """Return the durable rows above a revision."""
        return [row for row in self.rows if after < row.revision <= self._durable]

    def crash(self, *, power: bool) -> None:
        """Crash the process, or the whole machine if `power`."""
        self._lives += 1
        self._is_open = False
        if self._acked:
            oldest = 0 if power else max(0, len(self._acked) - 3)
            left = self._lag.randrange(oldest, len(self._acked))
            del self._acked[left + 1 :]
        writing, self._writing = self._writing, None
        if writing is not None and self._world.chance(0.5):
            self._perform(*writing)
            if self._world.chance(0.5):
                self._sync()
        if power:
            self._world.tally["power cuts"] += 1
            self._world.trace("disk", "loses what was not synced")
            kept = self._world.random.randint(self._synced, len(self._journal))
            self._restart(self._journal[:kept])

    def _restart(self, journal: list[Transaction]) -> None:
        self.rows, self.parts, self._manifest, self._base = [], {}, None, None
        self._journal = journal
        self._synced = min(self._synced, len(journal))
        for name, arguments in journal:
            self._make_visible(name, arguments)

    def rot(self) -> None:
        """Flip a bit of a checkpoint's part, in place, but not of the log's base.

        The base is the only copy of the rows that compaction dropped.
        """
        base = read_base(self)
        keys = sorted(self.parts.keys() - part_keys(base))
        if not keys:
            return
        pieces = self.parts[self._world.random.choice(keys)]
        piece = self._world.random.choice(sorted(pieces))
        data = bytearray(pieces[piece])
        if data:
            data[self._world.random.randrange(len(data))] ^= 1 << self._world.random.randrange(8)
            pieces[piece] = bytes(data)
            self._world.tally["damaged checkpoints"] += 1
            self._damaged = self.manifest()
            self._ailing = 6  # the next writes of such a disk may fail too

    @property
    def is_rotten(self) -> bool:
        """Whether the current checkpoint was damaged; later checkpoints must not reuse it."""
        return self._damaged is not None and self._damaged == self.manifest()
