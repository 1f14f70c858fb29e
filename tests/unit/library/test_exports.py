"""The public names: each package's `__all__` is sorted, complete and correct."""

from __future__ import annotations

import importlib
import types
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("package", "needs"),
    [
        ("streameval", "numpy"),
        ("streameval.client", "grpc"),
        ("streameval.display", "matplotlib"),
        ("streameval_server", "grpc"),
    ],
)
def test_all_is_sorted_and_complete(
    package: str, needs: str, require: Callable[[str], types.ModuleType]
) -> None:
    """`__all__` is sorted, every name in it exists, and no public name is missing."""
    require(needs)
    module = importlib.import_module(package)
    assert module.__all__ == sorted(module.__all__)
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and getattr(value, "__module__", "").split(".")[0] == package.split(".", maxsplit=1)[0]
    }
    assert public == {
        name for name in module.__all__ if not isinstance(getattr(module, name), types.ModuleType)
    }
