"""The data directory of one server: its log's file, and a lock that ends with the process.

The lock belongs to an open file, not to the file's existence, so a killed server leaves
nothing behind that has to be removed by hand.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from streameval import StreamEvalError
from streameval_server._model.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path


LOG_NAME = "streameval.db"
"""Name of the log's file in a data directory."""

LOCK_NAME = "lock"
"""Name of the lock's file in a data directory."""

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
"""0 on Windows, which has no such flag."""


def log_of(directory: Path) -> Path:
    """Return the path of the log in a data directory.

    Raises
    ------
    StorageError
        When there is none.
    """
    path = directory / LOG_NAME
    if not path.is_file():
        raise StorageError(
            f"there is no log at {path}: give --data the directory of "
            "'streameval serve --print-config'"
        )
    return path


class DataDirectoryInUseError(StreamEvalError):
    """Another server uses the data directory."""

    __module__ = "streameval_server"


class DirectoryLock:
    """An exclusive lock on a data directory, held until `release` or the end of the process.

    Creates the directory when it does not exist, readable by its owner only. A symbolic
    link in the place of the lock's file is refused: the file it names would be overwritten.

    Raises
    ------
    DataDirectoryInUseError
        When another process, or another server in this one, holds the lock.
    StorageError
        When the directory cannot be created or written to.
    """

    def __init__(self, directory: Path) -> None:
        try:
            _create(directory)
            self._fd = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o600)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise StorageError(
                    f"cannot use the data directory {directory}: its file 'lock' is a symbolic "
                    "link, which is not followed; remove it"
                ) from error
            raise _cannot_use(directory, error) from error
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            os.close(self._fd)
            raise StorageError(
                f"cannot use the data directory {directory}: its file 'lock' is not a regular "
                "file; remove it"
            )
        try:
            _lock(self._fd)
        except OSError as error:
            # The file holds the process id of the server that has the lock.
            holder = os.read(self._fd, 32).decode(errors="replace").strip()
            os.close(self._fd)
            raise DataDirectoryInUseError(
                f"{directory} is in use by another server"
                f"{f' (process {holder})' if holder else ''}: "
                "stop it, or give this one a directory of its own with --data"
            ) from error
        try:
            # In place: on a full disk a block that was given back may be gone.
            content = f"{os.getpid()}\n".encode()
            os.lseek(self._fd, 0, os.SEEK_SET)
            os.write(self._fd, content)
            os.ftruncate(self._fd, len(content))
        except OSError as error:
            os.close(self._fd)
            raise _cannot_use(directory, error) from error

    def release(self) -> None:
        """Release the lock."""
        os.close(self._fd)


def directory_owner_problem(directory: Path) -> str | None:
    """Return why other users can change the files of a directory; None when they cannot.

    Members of its group are trusted: the volumes of containers are shared by a group.
    Always None on systems without POSIX permissions.
    """
    if os.name != "posix":
        return None
    status = directory.stat()
    if status.st_mode & stat.S_IWOTH:
        return f"every user of this machine can write to {directory}: chmod o-w"
    if status.st_uid not in (0, os.geteuid()):
        return f"{directory} belongs to another user ({status.st_uid}), who can change its files"
    return None


def _create(directory: Path) -> None:
    """Create a directory that a power cut does not remove; O(1) when it exists.

    SQLite syncs the directory of the log's files, but not the directories above it.
    """
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in missing if os.name == "posix" else ():
        # As in SQLite: where a directory cannot be opened or synced, the log can still be used.
        with suppress(OSError):
            descriptor = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _cannot_use(directory: Path, error: OSError) -> StorageError:
    return StorageError(f"cannot use the data directory {directory}: {error.strerror}")


if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> None:
        # Far beyond the content, because other processes cannot read a locked region.
        os.lseek(fd, 1 << 30, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
