"""A data directory from a backup: looked through first, and only where there is nothing."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from streameval._common import write_atomically
from streameval_server._log.data_directory import LOG_NAME, DirectoryLock
from streameval_server._model.errors import CorruptLogError, StorageError
from streameval_server.maintenance.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streameval_server._model.limits import Limits
    from streameval_server.maintenance.verify import Verification


def restore(
    backup: Path,
    directory: Path,
    limits: Limits,
    *,
    progress: Callable[[float], None] = lambda _: None,
) -> Verification:
    """Make a data directory of a backup; return what was found in it. O(bytes).

    Raises
    ------
    StorageError
        When the directory has something in it, or the backup cannot be read.
    CorruptLogError
        When the backup is damaged; `streameval admin verify` says where. Nothing
        was written.
    """
    if directory.exists() and any(directory.iterdir()):
        raise StorageError(
            f"{directory} is not empty: nothing is restored over what is there. "
            "Move it away, or restore to another directory"
        )
    found = verify(backup, limits, progress=progress)
    if not found.ok:
        damage = "; ".join(finding.detail for finding in found.findings if not finding.ok)
        raise CorruptLogError(f"{backup} is damaged: {damage}")
    lock = DirectoryLock(directory)
    try:
        with write_atomically(directory / LOG_NAME) as partial:
            shutil.copyfile(backup, partial)
    finally:
        lock.release()
    return found
