"""What was computed from some immutable parts, until one of them is another object.

Panes are immutable, so the same objects are the same counts, and what was
computed from them still holds. Parts are held weakly: an answer does not keep
in memory what it was made of, and goes itself, some time after one of them did:
nobody can ask for it any more. What is made of nothing would stay, and is not kept.

Cost: O(parts) to find out that none changed, and amortised to keep a new value. Any
thread may ask; two that ask for the same at once may both compute it.
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


class _Entry(NamedTuple, Generic[V]):
    parts: tuple[weakref.ref[object], ...]
    value: V
    cost: int


class PartsCache(Generic[K, V]):
    """Values by name; those that were not used for longest leave first.

    Parameters
    ----------
    max_cost : int
        What all of them may cost together, besides the newest.
    cost : callable
        Returns what a value costs, for instance its bytes.

    Examples
    --------
    >>> class Pane:
    ...     pass
    >>> cache = PartsCache(100, len)
    >>> pane = Pane()
    >>> cache.get("a", [pane], lambda: "computed"), cache.get("a", [pane], lambda: "again")
    ('computed', 'computed')
    >>> cache.get("a", [Pane()], lambda: "anew")
    'anew'
    """

    def __init__(self, max_cost: int, cost: Callable[[V], int]) -> None:
        self._max_cost = max_cost
        self._cost_of = cost
        self._entries: dict[K, _Entry[V]] = {}
        self._cost = 0
        self._sweep_at = 1
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, parts: Iterable[object], make: Callable[[], V]) -> V:
        """Return the value of a name; made anew unless its parts are the same objects."""
        # An object has one such reference as long as it lives, so references can be compared.
        now = tuple(map(weakref.ref, parts))
        if not now:
            return make()
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and _same(entry.parts, now):
                # Last in the order of the dictionary is the most recently used.
                self._entries[key] = self._entries.pop(key)
                return entry.value
        value = make()
        entry = _Entry(now, value, self._cost_of(value))
        with self._lock:
            self._drop(key)
            self._entries[key] = entry
            self._cost += entry.cost
            while self._cost > self._max_cost and len(self._entries) > 1:
                self._drop(next(iter(self._entries)))
            if len(self._entries) > self._sweep_at:
                self._sweep()
        return value

    def unchanged_parts(self, key: K, parts: Iterable[P]) -> list[P]:
        """Return those of the parts that the last value of a name was made of. O(parts).

        Examples
        --------
        >>> class Pane:
        ...     pass
        >>> cache, old, new = PartsCache(100, len), Pane(), Pane()
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
        """Drop what had a part that is gone; again when there are twice as many. O(parts)."""
        for key, entry in list(self._entries.items()):
            if any(part() is None for part in entry.parts):
                self._drop(key)
        self._sweep_at = 2 * len(self._entries)

    def _drop(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._cost -= entry.cost


def _same(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    return len(before) == len(now) and all(map(is_, before, now))
