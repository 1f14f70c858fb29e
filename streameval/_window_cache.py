"""The windows that were asked for last, each until one of its panes changes.

States are immutable, so the same objects are the same counts. They are held
weakly: a window does not keep the panes in memory that it was made of.

Cost: O(panes) to find out that none changed. Any thread may ask; two that ask
for the same at once may both compute it.
"""

from __future__ import annotations

import threading
import weakref
from operator import is_
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from streameval._window import Window

K = TypeVar("K", bound="Hashable")
W = TypeVar("W", bound="Window")


class _Entry(NamedTuple, Generic[W]):
    parts: tuple[weakref.ref[object], ...]
    window: W
    cells: int


class WindowCache(Generic[K, W]):
    """Windows by name, least recently used ones leaving first.

    Parameters
    ----------
    max_cells : int
        Distinct scores that all of them may hold together, besides the newest.
    """

    def __init__(self, max_cells: int) -> None:
        self._max_cells = max_cells
        self._entries: dict[K, _Entry[W]] = {}
        self._cells = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, parts: Sequence[object], make: Callable[[], W]) -> W:
        """Return the window of a name; made anew unless its parts are the same objects."""
        # An object has one such reference as long as it lives, so references can be compared.
        now = tuple(map(weakref.ref, parts))
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and same_parts(entry.parts, now):
                # Last in the order of the dictionary is the most recently used.
                self._entries[key] = self._entries.pop(key)
                return entry.window
        window = make()
        with self._lock:
            self._drop(key)
            self._entries[key] = entry = _Entry(now, window, len(window._view().counts))
            self._cells += entry.cells
            while self._cells > self._max_cells and len(self._entries) > 1:
                self._drop(next(iter(self._entries)))
        return window

    def _drop(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._cells -= entry.cells


def same_parts(before: Sequence[object], now: Sequence[object]) -> bool:
    """Whether both are the same objects. O(n)."""
    return len(before) == len(now) and all(map(is_, before, now))
