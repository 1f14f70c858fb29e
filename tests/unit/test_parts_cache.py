"""What was computed from parts goes when they do."""

from __future__ import annotations

from streameval._time.parts_cache import PartsCache


class Part:
    """Something that may go."""


def test_values_go_some_time_after_their_parts() -> None:
    """A name that nobody will use again does not stay until the cache is full."""
    cache: PartsCache[int, str] = PartsCache(1_000_000, len)
    kept = Part()
    cache.get(-1, [kept], lambda: "kept")
    most = 0
    for number in range(1_000):
        passing = Part()
        cache.get(number, [kept, passing], lambda: "value")
        del passing
        most = max(most, len(cache))
    assert most <= 5
    assert cache._cost == len("value") * len(cache) - 1
    assert cache.get(-1, [kept], lambda: "anew") == "kept"


def test_values_of_living_parts_stay() -> None:
    """However many come."""
    cache: PartsCache[int, int] = PartsCache(1_000_000, lambda _: 1)
    parts = [Part() for _ in range(500)]
    for number, part in enumerate(parts):
        cache.get(number, [part], lambda number=number: number)
    assert [cache.get(i, [part], lambda: -1) for i, part in enumerate(parts)] == list(range(500))
