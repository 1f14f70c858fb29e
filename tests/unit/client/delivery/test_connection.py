"""Verbs that are written once, as coroutines, for blocking and asyncio classes."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from streameval.client._delivery.connection import AsyncVerbs, BlockingVerbs, run_blocking, verb


class Verbs:
    """One verb."""

    @verb
    async def double(self, number: int, *, plus: int = 0) -> int:
        """Return twice a number."""
        if number < 0:
            raise ValueError("negative")
        return 2 * number + plus


class Blocking(Verbs, BlockingVerbs):
    """The verb as a function."""


class Async(Verbs, AsyncVerbs):
    """The verb as a coroutine function."""


def test_a_verb_blocks_in_one_class_and_is_a_coroutine_in_the_other() -> None:
    """Both return the same result and raise the same error."""
    assert Blocking().double(3, plus=1) == 7
    assert asyncio.run(Async().double(3, plus=1)) == 7
    with pytest.raises(ValueError, match=r"^negative$"):
        Blocking().double(-1)
    with pytest.raises(ValueError, match=r"^negative$"):
        asyncio.run(Async().double(-1))


def test_a_verb_looks_like_the_method_that_was_written() -> None:
    """Name, documentation and signature are the same; only one is a coroutine function."""
    for kind in (Blocking, Async):
        assert inspect.isfunction(kind.double)
        assert kind.double.__name__ == "double"
        assert kind.double.__doc__ == "Return twice a number."
        assert list(inspect.signature(kind.double).parameters) == ["self", "number", "plus"]
        assert list(inspect.signature(kind().double).parameters) == ["number", "plus"]
    assert not inspect.iscoroutinefunction(Blocking.double)
    assert inspect.iscoroutinefunction(Async.double)


def test_a_blocking_coroutine_must_not_suspend() -> None:
    """Waiting for an event loop there is a bug: RuntimeError, and the coroutine is closed."""
    with pytest.raises(RuntimeError, match="suspended"):
        run_blocking(asyncio.sleep(0))
