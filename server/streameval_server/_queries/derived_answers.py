"""Bounds what states keep of the answers computed from them.

A state caches its groups, ranks and answers, because the next query needs most of them: up to
three times the memory of its counts, for as long as the state lives. Here the states that
queries used are remembered, weakly, by recent use; those beyond a limit forget what was
computed.

Cost: O(cached objects of a state) for each window that is asked for.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from streameval.kernel import State

_ENTRY_BYTES = 300


class _Measured(NamedTuple):
    state: weakref.ref[State]
    size: int
    num_derived: int


class DerivedAnswers:
    """The states that have answers, the least recently used first. Any thread may call it.

    Parameters
    ----------
    max_bytes : int
        The most that the answers of all states may take; the newest state may exceed it alone.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # By state: its size, and how many answers it had when it was measured.
        self._sizes: dict[int, _Measured] = {}
        self._bytes = 0
        # Reentrant: a state may be collected, which drops its entry, while the lock is held.
        self._lock = threading.RLock()
        self._in_use = threading.local()

    @property
    def memory_bytes(self) -> int:
        """Memory of the answers of all states. O(1)."""
        return self._bytes

    def use(self, state: State) -> None:
        """Note that this thread computes from a state; measure the one that it used before."""
        before: weakref.ref[State] | None = getattr(self._in_use, "state", None)
        self._in_use.state = weakref.ref(state)
        done = None if before is None else before()
        if done is not None and done is not state:
            self._measure(done)

    def end(self) -> None:
        """Measure the state that this thread used last: it computes no further."""
        before: weakref.ref[State] | None = getattr(self._in_use, "state", None)
        self._in_use.state = None
        state = None if before is None else before()
        if state is not None:
            self._measure(state)

    def _measure(self, state: State) -> None:
        key, num_derived = id(state), state.num_derived
        with self._lock:
            known = self._sizes.get(key)
            if known is not None and known.num_derived == num_derived:
                # Nothing was computed since: as large as before, and now the most recent.
                self._sizes[key] = self._sizes.pop(key)
                return
        size = _ENTRY_BYTES + state.derived_bytes()
        forgotten = []
        with self._lock:
            self._drop(key)
            self._sizes[key] = _Measured(
                weakref.ref(state, lambda _: self._drop(key)), size, num_derived
            )
            self._bytes += size
            while self._bytes > self._max_bytes and len(self._sizes) > 1:
                oldest = next(iter(self._sizes))
                found = self._sizes[oldest].state()
                self._drop(oldest)
                if found is not None:
                    forgotten.append(found)
        for each in forgotten:
            each.forget()

    def _drop(self, key: int) -> None:
        with self._lock:
            entry = self._sizes.pop(key, None)
            if entry is not None:
                self._bytes -= entry.size
