"""How the C library's allocator keeps freed memory."""

from __future__ import annotations

import ctypes

_M_ARENA_MAX = -8
_MAX_ARENAS = 2


def trim_heap() -> bool:
    """Give pages that are free back to the kernel; return whether the C library can.

    glibc keeps what lies below something in use. A start from a checkpoint verifies states in
    large arrays and makes lasting objects between them, so it leaves megabytes of such pages.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return False
    trim(0)
    return True


def limit_arenas() -> bool:
    """Let all threads share two of glibc's arenas; return whether the C library has arenas.

    A thread has an arena of its own otherwise, up to eight for each processor, and what is
    freed in one is not used by another: with six threads that allocate in turns a server took
    a quarter more memory than its data. To be called before threads are started.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_ARENA_MAX, _MAX_ARENAS) == 1
