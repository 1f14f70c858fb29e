"""Verification: whether a log is what was written and acknowledged, and its checkpoint agrees.

The log is authoritative: every row is checked (checksum, order, time, content) and applied.
The state that this gives at the checkpoint's revision must be the checkpoint's, to the last
bit. The witnesses of what was acknowledged (`_log.loss_check`) must not claim more than the log
holds. Nothing is written; a server may be running. It costs as much time as a start without a
checkpoint, and twice the memory of the state.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streameval.checks import UnknownFormatError
from streameval_server._core.applier import Applier
from streameval_server._core.replay import engine_at_base, replay, restore
from streameval_server._log.acked_revision import AckedRevisionFile
from streameval_server._log.checkpoint import Manifest, part_keys, read_base
from streameval_server._log.loss import loss_of
from streameval_server._log.loss_check import find_loss
from streameval_server._log.schema import connect_read_only
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import CorruptLogError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from streameval_server._core.engine import Engine
    from streameval_server._log.acked_revision import AckedRevision
    from streameval_server._log.loss import Loss
    from streameval_server._log.rows import LogRow
    from streameval_server._log.storage import PartKey
    from streameval_server._model.limits import Limits


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes
    ----------
    what : str
        "file", "acked", "base", "log", "checkpoint" or "leftovers".
    ok : bool
        Whether it is sound.
    detail : str
        What was found, and the consequence of damage.
    """

    what: str
    ok: bool
    detail: str


@dataclass(slots=True)
class Verification:
    """The results of all checks of a log.

    Attributes
    ----------
    findings : list of Finding
    revision : int
        The last revision that could be applied.
    state_hash : str
        The hash of the state at that revision.
    """

    findings: list[Finding] = field(default_factory=list)
    revision: int = 0
    state_hash: str = ""

    @property
    def ok(self) -> bool:
        """Whether every check succeeded."""
        return all(finding.ok for finding in self.findings)

    def add(self, what: str, detail: str, *, ok: bool = True) -> None:
        """Add a finding."""
        self.findings.append(Finding(what, ok, detail))


def verify(
    path: Path, limits: Limits, *, progress: Callable[[float], None] = lambda _: None
) -> Verification:
    """Check a log, what was acknowledged of it, and its checkpoint.

    A file that is missing or empty is a finding when rows of it were acknowledged. O(bytes of
    the log and of the state).

    Parameters
    ----------
    path
        The database file: of a data directory, or a backup.
    limits
        The server's: its limits on cells decide to which resolution counts are kept.
    progress
        Called now and then with the share of rows that were checked.

    Raises
    ------
    StorageError
        When there is no log there, or another version wrote it in a format that this one does
        not know: what is not supported is not called damaged.
    """
    found = Verification()
    if not path.is_file() or not path.stat().st_size:
        acked = AckedRevisionFile(path).read()
        loss = loss_of(acked, None, 0, None)
        if loss is None:
            raise StorageError(
                f"there is no log at {path}: give --data the directory of "
                "'streameval serve --print-config'"
            )
        _add_acked(acked, loss, found)
        return found
    _verify_file(path, found)
    storage = SqliteStorage(path, read_only=True)
    try:
        storage.open()
    except CorruptLogError as error:
        found.add("log", f"{error}: nothing can be read; restore a backup", ok=False)
        return found
    try:
        # Behind the opening, which fails where `find_loss` would undo an unfinished creation.
        _verify_acked(path, found)
        _verify_content(storage, limits, found, progress)
    finally:
        storage.close()
    return found


def _verify_file(path: Path, found: Verification) -> None:
    """Check the pages with SQLite's integrity check."""
    try:
        with closing(connect_read_only(path)) as connection:
            problems = [text for (text,) in connection.execute("PRAGMA integrity_check(3)")]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        problems = [str(error)]
    if problems == ["ok"]:
        wal = path.with_name(f"{path.name}-wal")
        size = path.stat().st_size + (wal.stat().st_size if wal.exists() else 0)
        found.add("file", f"{size:,} bytes, as SQLite wrote them")
    else:
        found.add("file", "; ".join(problems), ok=False)


def _verify_acked(path: Path, found: Verification) -> None:
    """Compare the log with the witnesses of what was acknowledged, as a start does."""
    try:
        acked = AckedRevisionFile(path).read()
        loss = find_loss(path, acked)
    except (StorageError, sqlite3.Error, UnicodeDecodeError) as error:
        found.add("acked", f"{error}: whether rows are missing is not known", ok=False)
        return
    _add_acked(acked, loss, found)


def _add_acked(acked: AckedRevision | None, loss: Loss | None, found: Verification) -> None:
    if loss is not None:
        remedy = "restore a backup, or start once with --accept-loss to go on with what is left"
        found.add("acked", f"{loss}: {remedy}", ok=False)
    elif acked is None:
        found.add("acked", "no file says how far: a missing end of the log would not be noticed")
    else:
        found.add("acked", f"revision {acked.revision}, and the log reaches it")


def _verify_content(
    storage: SqliteStorage,
    limits: Limits,
    found: Verification,
    progress: Callable[[float], None],
) -> None:
    manifest, restored = _checkpoint(storage, limits, found)
    try:
        base = read_base(storage)
        engine = engine_at_base(storage, base, limits)
    except CorruptLogError as error:
        _refuse_unknown(error)
        found.add("log", f"{error}: restore a backup", ok=False)
        return
    start = engine.revision
    if base is not None:
        found.add("base", f"the log was compacted and begins at revision {start}: readable")
    applier = Applier(engine, limits, checkpoints=False)
    checkpoint_hash = None
    rows = _RowReader(storage, start, progress)
    try:
        if manifest is not None:
            replay(rows.until(manifest.revision), applier)
            if engine.revision == manifest.revision:
                checkpoint_hash = engine.state_hash()
        replay(rows.rest(), applier)
    except CorruptLogError as error:
        follows = "the state after it is unknown"
        if restored is not None and restored.revision > engine.revision:
            follows = f"a server goes on from the checkpoint of revision {restored.revision}"
        found.add("log", f"{error}: {follows}; restore a backup", ok=False)
    else:
        found.add(
            "log",
            f"revisions {start + 1} to {rows.last}: {rows.bytes:,} bytes, each row applied"
            if rows.last > start
            else "no rows after its beginning",
        )
    found.revision, found.state_hash = engine.revision, engine.state_hash()
    if restored is not None and manifest is not None:
        if base is not None and restored.revision == start:
            found.add("checkpoint", f"revision {start}: it is where the log begins")
        else:
            _compare(restored, checkpoint_hash, found)
        _leftovers(storage, part_keys(manifest) | part_keys(base), found)


def _checkpoint(
    storage: SqliteStorage, limits: Limits, found: Verification
) -> tuple[Manifest | None, Engine | None]:
    """Return the manifest and the state of the checkpoint; None for each that is unreadable."""
    manifest = None
    try:
        data = storage.manifest()
        if data is None:
            found.add("checkpoint", "there is none: a start replays the whole log")
            return None, None
        manifest = Manifest.from_bytes(data)
        engine = restore(storage, manifest, limits)
    except CorruptLogError as error:
        _refuse_unknown(error)
        found.add("checkpoint", f"{error}: a start replays the whole log", ok=False)
        return manifest, None
    return manifest, engine


def _refuse_unknown(error: BaseException) -> None:
    """Raise StorageError where a part is sound, its format only unknown: that is no damage."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, UnknownFormatError):
            raise StorageError(
                f"{error}: verify it with the release that wrote it, or a newer one"
            ) from error
        cause = cause.__cause__


def _compare(restored: Engine, replayed_hash: str | None, found: Verification) -> None:
    revision = restored.revision
    if replayed_hash is None:
        found.add(
            "checkpoint",
            f"revision {revision}: readable, but the log ends before it, so it cannot be compared",
            ok=False,
        )
    elif restored.state_hash() != replayed_hash:
        found.add(
            "checkpoint",
            f"revision {revision}: its state is {restored.state_hash()}, and the log gives "
            f"{replayed_hash}. If its server has other limits on cells, verify it with them: "
            "--config FILE",
            ok=False,
        )
    else:
        found.add("checkpoint", f"revision {revision}: the log gives the same state, bit by bit")


def _leftovers(storage: SqliteStorage, needed: set[PartKey], found: Verification) -> None:
    stray = [key for key in storage.part_keys() if key not in needed]
    if stray:
        found.add(
            "leftovers",
            f"{len(stray)} parts of a checkpoint that was not finished: "
            "harmless, the next start removes them",
        )


class _RowReader:
    """Reads the rows of a log in two parts, counts them and reports progress."""

    def __init__(
        self, storage: SqliteStorage, start: int, progress: Callable[[float], None]
    ) -> None:
        self.last = start
        self.bytes = 0
        self._rows = storage.read(start)
        self._total = storage.last_revision()
        self._progress = progress

    def until(self, revision: int) -> Iterator[LogRow]:
        """Yield the rows up to a revision."""
        while self.last < revision:
            row = next(self._rows, None)
            if row is None:
                return
            yield self._count(row)

    def rest(self) -> Iterator[LogRow]:
        """Yield the other rows."""
        for row in self._rows:
            yield self._count(row)

    def _count(self, row: LogRow) -> LogRow:
        self.last = row.revision
        self.bytes += len(row.payload)
        if row.revision % 1_024 == 0:
            self._progress(row.revision / self._total)
        return row
