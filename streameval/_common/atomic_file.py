"""Files that are whole or not there."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streameval._common.errors import StreamEvalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def write_atomically(target: Path) -> Iterator[Path]:
    """Yield a name beside the target to write to; afterwards that file is the target, durably.

    Only its owner can read it. When the context raises, nothing is left. What is
    there is not touched.

    Parameters
    ----------
    target : Path

    Raises
    ------
    StreamEvalError
        When there is a file of the target's name, or of the other.
    """
    partial = target.with_name(target.name + ".partial")
    for path in (target, partial):
        if path.exists():
            raise StreamEvalError(f"{path} is there already: move it, or write to another name")
    # Before anything is in it.
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
        return  # directories cannot be opened there
    descriptor = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
