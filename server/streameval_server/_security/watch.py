"""Whether files have changed, without reading them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

Signature = tuple[tuple[int, int, int] | None, ...]
"""Of each file: when it was written, its length, its inode; None where there is no file."""


def signature(*paths: Path) -> Signature:
    """Return what differs once any of the files was written or replaced.

    Symbolic links are followed, so that a link moved to another directory, as
    container platforms do it, is a change too. One system call a file.
    """
    return tuple(map(_signature, paths))


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
