"""A cache of values computed from immutable parts, validated by the parts' identity.

The counts of a pane are immutable, so a value is valid while its parts are the same
objects. Parts are held by weak references: the cache does not keep them in memory,
and a value whose part was collected can never be valid again, so a sweep drops it.
A value without parts would never be dropped, so it is not cached.

Cost: O(parts) for a hit, and O(parts) amortised to insert. Thread-safe; two threads
that miss on the same key at once may both compute the value.
"""

from __future__ import annotations

import threading
import weakref
from operator import is_
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")
P = TypeVar("P")


_ENTRY_BYTES, _PART_BYTES = 512, 80
"""Memory of an entry besides its value, and of each of its references to parts."""


class _Entry(NamedTuple, Generic[V]):
    parts: tuple[weakref.ref[object], ...]
    value: V
    memory_bytes: int


class PartsCache(Generic[K, V]):
    """Values by key, with the least recently used evicted first.

    Parameters
    ----------
    max_bytes : int
        The most that all values may take, keys and references to parts included; the newest may
        exceed it alone.
    size : callable
        Returns the memory of a value, in bytes.

    Attributes
    ----------
    memory_bytes : int
        Memory of all of it, an upper bound.

    Examples
    --------
    >>> class Pane:
    ...     pass
    >>> cache = PartsCache(10_000, len)
    >>> pane = Pane()
    >>> cache.get("a", [pane], lambda: "first"), cache.get("a", [pane], lambda: "not called")
    ('first', 'first')
    >>> cache.get("a", [Pane()], lambda: "other parts")
    'other parts'
    """

    def __init__(self, max_bytes: int, size: Callable[[V], int]) -> None:
        self.memory_bytes = 0
        self._max_bytes = max_bytes
        self._size = size
        self._entries: dict[K, _Entry[V]] = {}
        self._sweep_at = 1
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, parts: Iterable[object], make: Callable[[], V]) -> V:
        """Return the value of a key; call `make` unless its parts are the same objects."""
        # A living object has one weak reference without a callback, so `is` compares parts.
        now = tuple(map(weakref.ref, parts))
        if not now:
            return make()
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and _same(entry.parts, now):
                # The dict is in order of use: the last key is the most recently used.
                self._entries[key] = self._entries.pop(key)
                return entry.value
        value = make()
        entry = _Entry(now, value, _ENTRY_BYTES + _PART_BYTES * len(now) + self._size(value))
        with self._lock:
            self._drop(key)
            self._entries[key] = entry
            self.memory_bytes += entry.memory_bytes
            while self.memory_bytes > self._max_bytes and len(self._entries) > 1:
                self._drop(next(iter(self._entries)))
            if len(self._entries) > self._sweep_at:
                self._sweep()
        return value

    def unchanged_parts(self, key: K, parts: Iterable[P]) -> list[P]:
        """Return the parts among these that the value of a key was computed from. O(parts).

        Examples
        --------
        >>> class Pane:
        ...     pass
        >>> cache, old, new = PartsCache(10_000, len), Pane(), Pane()
        >>> _ = cache.get("a", [old], lambda: "computed")
        >>> cache.unchanged_parts("a", [new, old]) == [old]
        True
        """
        with self._lock:
            entry = self._entries.get(key)
        if entry is None:
            return []
        known = {id(part()) for part in entry.parts}
        return [part for part in parts if id(part) in known]

    def _sweep(self) -> None:
        """Drop values with a collected part; sweep again at twice the size. O(parts)."""
        for key, entry in list(self._entries.items()):
            if any(part() is None for part in entry.parts):
                self._drop(key)
        self._sweep_at = 2 * len(self._entries)

    def _drop(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.memory_bytes -= entry.memory_bytes


def _same(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    return len(before) == len(now) and all(map(is_, before, now))
