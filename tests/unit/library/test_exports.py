"""The public names: each package's `__all__` is sorted, complete and correct."""

from __future__ import annotations

import ast
import importlib
import types
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


SEAM = ["streameval.checks", "streameval.kernel", "streameval.statistics", "streameval.wire"]


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
    for name in module.__all__:  # some packages import a name when it is first used
        getattr(module, name)
    assert set(module.__all__) <= set(dir(module))
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


@pytest.mark.parametrize("package", ["streameval", *SEAM])
def test_lazy_exports_are_what_type_checkers_see(package: str) -> None:
    """The imports for type checkers and those at run time are the same, and all public."""
    module = importlib.import_module(package)
    tree = ast.parse(Path(module.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))  # if TYPE_CHECKING
    seen = {node.module: sorted(alias.name for alias in node.names) for node in block.body}
    assert seen == {name: sorted(names) for name, names in module._EXPORTS.items()}
    assert sorted(chain(*seen.values())) == sorted(module.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name fails as it does in any module."""
    with pytest.raises(AttributeError, match="module 'streameval' has no attribute 'Evaluater'"):
        importlib.import_module("streameval").Evaluater  # noqa: B018 - the access is the test
