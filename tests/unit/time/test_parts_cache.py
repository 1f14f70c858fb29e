"""Cached values are dropped after their parts."""

from __future__ import annotations

from streameval.kernel import PartsCache


class Part:
    """An object that may be collected."""


def test_values_go_some_time_after_their_parts() -> None:
    """A value with a collected part is swept, before the cache is full."""
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
    alone: PartsCache[int, str] = PartsCache(1, len)
    alone.get(-1, [kept], lambda: "kept")
    assert cache.memory_bytes < 3 * len(cache) * alone.memory_bytes
    assert cache.get(-1, [kept], lambda: "anew") == "kept"


def test_values_of_living_parts_stay() -> None:
    """Values whose parts are alive are kept, however many there are."""
    cache: PartsCache[int, int] = PartsCache(1_000_000, lambda _: 1)
    parts = [Part() for _ in range(500)]
    for number, part in enumerate(parts):
        cache.get(number, [part], lambda number=number: number)
    assert [cache.get(i, [part], lambda: -1) for i, part in enumerate(parts)] == list(range(500))


def test_unchanged_parts_are_the_same_objects() -> None:
    """They are in the order of the argument; there are none for a key without a value."""
    cache: PartsCache[str, int] = PartsCache(10_000, lambda _: 1)
    a, b, c = Part(), Part(), Part()
    assert cache.unchanged_parts("x", [a, b]) == []
    cache.get("x", [a, b, Part()], lambda: 0)
    assert cache.unchanged_parts("x", [c, b, a]) == [b, a]
    assert cache.unchanged_parts("y", [a, b]) == []


def test_a_value_without_parts_is_not_cached() -> None:
    """It would never be swept."""
    cache: PartsCache[int, int] = PartsCache(10_000, lambda _: 1)
    assert [cache.get(0, [], lambda each=each: each) for each in range(3)] == [0, 1, 2]
    assert len(cache) == 0


def test_all_that_it_holds_is_within_the_limit() -> None:
    """Values, keys and references; the newest value may be larger alone."""
    parts = [Part() for _ in range(50)]
    cache: PartsCache[int, bytes] = PartsCache(100_000, len)
    for number in range(200):
        cache.get(number, parts, lambda: bytes(1_000))
        assert cache.memory_bytes <= 100_000
    assert len(cache) == 100_000 // (cache.memory_bytes // len(cache))
    cache.get(-1, parts, lambda: bytes(200_000))
    assert (len(cache), cache.memory_bytes > 200_000) == (1, True)
