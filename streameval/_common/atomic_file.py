"""Files that are written completely or not at all."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streameval._common.errors import StreamEvalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def write_atomically(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write; then rename it to the target, durably.

    Only the owner can read the file. If the block raises, the temporary file is
    deleted, and an existing target is as it was.

    Parameters
    ----------
    target : Path
    replace : bool
        Whether to replace an existing target, and what an interrupted attempt has left.

    Raises
    ------
    StreamEvalError
        When the target or the temporary file exists, and is not to be replaced.
    """
    partial = target.with_name(target.name + ".partial")
    if replace:
        partial.unlink(missing_ok=True)
    for path in () if replace else (target, partial):
        if path.exists():
            raise StreamEvalError(f"{path} exists: move it, or write to another name")
    # Permissions are set at creation, before the file has any content.
    os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield partial
        _sync(partial)
        partial.replace(target)
        _sync(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name != "posix":
        return  # other systems cannot open a directory
    descriptor = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
