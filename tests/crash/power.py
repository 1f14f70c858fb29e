"""A file system that forgets what was not synced, under the real SQLite.

`Recorder` registers an SQLite VFS whose files are those of SQLite's own VFS, except that each
write, truncation, sync, creation and deletion is noted before SQLite goes on. `Journal.image`
then gives the files that a power cut at any moment may leave: everything that was synced,
and of the rest what chance keeps, sector by sector.

The model, as POSIX allows it: a sync makes a file's earlier writes durable; a file is created
or deleted durably when its directory is synced, which SQLite does with the first sync of a
journal; unsynced operations may survive in any order, a write also in part. A sector (512
bytes) is written whole or not at all, and no other is changed, as SQLite assumes.
"""

from __future__ import annotations

import _sqlite3
import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_int64, c_void_p, cast
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import random

SECTOR_BYTES = 512
KEPT = (".db", ".db-wal", ".db-journal")
"""The files that survive; SQLite rebuilds the shared memory beside them."""


class Event(NamedTuple):
    """What happened to a file: `create`, `write`, `truncate`, `sync`, `delete` or `ack`.

    `at` is the offset of a write, the size after a truncation, the number of events that
    came before a sync began, or the revision of an ack.
    """

    kind: str
    path: str = ""
    at: int = 0
    data: bytes = b""
    syncs_directory: bool = False


class Journal:
    """What happened to files, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def acked(self, revision: int) -> None:
        """Note an ack."""
        self.events.append(Event("ack", at=revision))

    def acked_before(self, moment: int) -> int:
        """Return the last revision that was acked before a moment; 0 without one."""
        return max((each.at for each in self.events[:moment] if each.kind == "ack"), default=0)

    def image(self, moment: int, rng: random.Random, kept: float) -> dict[str, bytes]:
        """Return the files after a power cut before the event number `moment`.

        Each operation that was not synced survives with the probability `kept`.
        """
        past = self.events[:moment]
        synced: dict[str, int] = {}
        directory = 0
        for event in past:
            if event.kind == "sync":
                synced[event.path] = max(synced.get(event.path, 0), event.at)
                if event.syncs_directory:
                    directory = max(directory, event.at)
            elif event.kind == "delete" and event.syncs_directory:
                directory = max(directory, event.at)
        files: dict[str, bytearray] = {}
        names: dict[str, bool] = {}
        for number, event in enumerate(past):
            match event.kind:
                case "create" | "delete":
                    if number < directory or rng.random() < kept:
                        names[event.path] = event.kind == "create"
                    if event.kind == "create":
                        files[event.path] = bytearray()
                case "write" | "truncate":
                    durable = number < synced.get(event.path, 0)
                    _apply(files[event.path], event, 1.0 if durable else kept, rng)
        return {path: bytes(data) for path, data in files.items() if names.get(path)}


def _apply(file: bytearray, event: Event, kept: float, rng: random.Random) -> None:
    """Apply a write or a truncation, or the sectors of it that survive."""
    if event.kind == "truncate":
        if kept == 1.0 or rng.random() < kept:
            del file[event.at :]
            file.extend(bytes(event.at - len(file)))
        return
    end = event.at + len(event.data)
    start = event.at
    while start < end:
        stop = min(end, (start // SECTOR_BYTES + 1) * SECTOR_BYTES)
        if kept == 1.0 or rng.random() < kept:
            file.extend(bytes(max(0, stop - len(file))))
            file[start:stop] = event.data[start - event.at : stop - event.at]
        start = stop


# -- the VFS


class _Methods(Structure):
    """`sqlite3_io_methods` up to the methods that are replaced."""

    _fields_ = (
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", c_void_p),
        ("truncate", c_void_p),
        ("sync", c_void_p),
        ("rest", c_void_p * 13),
    )


class _File(Structure):
    """`sqlite3_file`."""

    _fields_ = (("methods", POINTER(_Methods)),)


class _Vfs(Structure):
    """`sqlite3_vfs`."""

    _fields_ = (
        ("version", c_int),
        ("file_size", c_int),
        ("max_name", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
        ("delete", c_void_p),
        ("rest", c_void_p * 16),
    )


# The name is passed on as the pointer that it is: SQLite keeps it while the file is open.
_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(_File), c_int, POINTER(c_int))
_DELETE = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_WRITE = CFUNCTYPE(c_int, POINTER(_File), c_void_p, c_int, c_int64)
_TRUNCATE = CFUNCTYPE(c_int, POINTER(_File), c_int64)
_SYNC = CFUNCTYPE(c_int, POINTER(_File), c_int)
_DIRECTORY_TYPES = 0x00000800 | 0x00004000 | 0x00080000
"""SQLITE_OPEN_MAIN_JOURNAL, SUPER_JOURNAL and WAL: with the first sync of such a file SQLite
syncs its directory."""


class Recorder:
    """Notes what SQLite does to the files of one directory, within a `with` block.

    Connections must be opened and closed within the block.
    """

    def __init__(self, directory: Path) -> None:
        self.journal = Journal()
        self._directory = str(directory)
        self._sqlite = ctypes.CDLL(_sqlite3.__file__)
        self._sqlite.sqlite3_vfs_find.restype = POINTER(_Vfs)
        self._real = self._sqlite.sqlite3_vfs_find(None)
        self._open_files: dict[int, tuple[str, _Methods]] = {}
        self._present: set[str] = set()
        self._unsynced_names: set[str] = set()
        self._callbacks = (
            _OPEN(self._open),
            _DELETE(self._delete),
            _WRITE(self._write),
            _TRUNCATE(self._truncate),
            _SYNC(self._sync),
        )
        real = self._real.contents
        self._vfs = _Vfs.from_buffer_copy(real)
        self._vfs.name = b"recorder"
        self._vfs.next = None
        self._vfs.open, self._vfs.delete = (
            cast(each, c_void_p).value for each in self._callbacks[:2]
        )
        self._real_open, self._real_delete = _OPEN(real.open), _DELETE(real.delete)

    def __enter__(self) -> Journal:
        """Register the VFS as the default."""
        assert self._sqlite.sqlite3_vfs_register(byref(self._vfs), 1) == 0
        return self.journal

    def __exit__(self, *_error: object) -> None:
        """Register SQLite's own VFS as the default again."""
        assert self._sqlite.sqlite3_vfs_unregister(byref(self._vfs)) == 0
        assert self._sqlite.sqlite3_vfs_register(self._real, 1) == 0

    def _open(self, _vfs: int, name: int | None, file, flags: int, out) -> int:
        path = "" if name is None else ctypes.string_at(name).decode()
        code = self._real_open(cast(self._real, c_void_p).value, name, file, flags, out)
        if code or not path.startswith(self._directory) or not path.endswith(KEPT):
            return code
        real = file.contents.methods.contents
        methods = _Methods.from_buffer_copy(real)
        methods.write, methods.truncate, methods.sync = (
            cast(each, c_void_p).value for each in self._callbacks[2:]
        )
        key = ctypes.addressof(file.contents)
        self._open_files[key] = (path, real, methods)
        file.contents.methods = ctypes.pointer(methods)
        if path not in self._present:
            self._present.add(path)
            self.journal.events.append(Event("create", path))
            if flags & _DIRECTORY_TYPES:
                self._unsynced_names.add(path)
        return code

    def _delete(self, _vfs: int, name: bytes, syncs_directory: int) -> int:
        code = self._real_delete(cast(self._real, c_void_p).value, name, syncs_directory)
        path = name.decode()
        if not code and path.startswith(self._directory) and path.endswith(KEPT):
            self._present.discard(path)
            deletion = Event("delete", path, len(self.journal.events) + 1)
            self.journal.events.append(deletion._replace(syncs_directory=bool(syncs_directory)))
        return code

    def _found(self, file) -> tuple[str, _Methods]:
        path, real, _ = self._open_files[ctypes.addressof(file.contents)]
        return path, real

    def _write(self, file, data: int, length: int, at: int) -> int:
        path, real = self._found(file)
        self.journal.events.append(Event("write", path, at, ctypes.string_at(data, length)))
        return _WRITE(real.write)(file, data, length, at)

    def _truncate(self, file, size: int) -> int:
        path, real = self._found(file)
        self.journal.events.append(Event("truncate", path, size))
        return _TRUNCATE(real.truncate)(file, size)

    def _sync(self, file, flags: int) -> int:
        path, real = self._found(file)
        began = len(self.journal.events)
        code = _SYNC(real.sync)(file, flags)
        if not code:
            directory = path in self._unsynced_names
            self._unsynced_names.discard(path)
            self.journal.events.append(Event("sync", path, began, b"", directory))
        return code
