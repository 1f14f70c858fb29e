"""Detects changed files without reading them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

Signature = tuple[tuple[int, int, int] | None, ...]
"""Per file: modification time, length and inode; None where there is no file."""


def file_signature(*paths: Path) -> Signature:
    """Return a value that differs once any of the files was written or replaced.

    Symbolic links are followed, so a link that is moved to another directory,
    as container platforms do, counts as a change. One system call per file.
    """
    return tuple(map(_signature, paths))


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
