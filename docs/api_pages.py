"""Write the reference of the Python API: pages of classes and functions, none of them tall.

``conf.py`` calls `write` before Sphinx reads the pages. A reference page lists its objects in
comments such as ``<!-- api: streameval.Evaluator -->``; a module stands for its ``__all__``.
"""

from __future__ import annotations

import inspect
import re
import shutil
from enum import Enum
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from sphinx.pycode import ModuleAnalyzer

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

MAX_LINES = 105
"""Of docstrings on one page, headings and signatures counted as lines: below 6,000 pixels."""
_OBJECT_LINES = 4
_OWN = {"streameval", "streameval_server"}


class Block(NamedTuple):
    """A directive of autodoc, the name that it documents, and how long that is."""

    directive: str
    name: str
    lines: int


def write(docs: Path) -> None:
    """Write the pages of every reference page, below docs/api."""
    target = docs / "api"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for page in sorted(docs.glob("reference-*.md")):
        names = re.findall(r"^<!-- api: (\S+) -->$", page.read_text(), re.MULTILINE)
        blocks = [block for name in names for block in blocks_of(name)]
        stem = page.stem.removeprefix("reference-")
        for number, part in enumerate(parts(blocks), 1):
            path = target / f"{stem}-{number:02}.rst"
            path.write_text("\n".join(rst(part)))


def blocks_of(name: str) -> list[Block]:
    """Return the blocks of a module's public names, a class and its members, or one object."""
    module_name, _, attribute = name.rpartition(".")
    thing = _found(module_name, attribute) if module_name else import_module(name)
    if inspect.ismodule(thing):
        return [block for each in _public(thing) for block in blocks_of(f"{name}.{each}")]
    if not inspect.getdoc(thing) or not callable(thing):
        return []
    if not inspect.isclass(thing):
        return [Block(f".. autofunction:: {name}", attribute, _lines(thing))]
    if issubclass(thing, Enum | tuple):
        members = "\n   :members:\n   :undoc-members:"
        return [Block(f".. autoclass:: {name}{members}", attribute, 2 * _lines(thing))]
    return [
        Block(f".. autoclass:: {name}", attribute, _lines(thing)),
        *(
            Block(f".. auto{kind}:: {name}.{key}", f"{attribute}.{key}", lines)
            for key, (kind, lines) in members_of(thing).items()
        ),
    ]


def members_of(thing: type) -> dict[str, tuple[str, int]]:
    """Return the kind and length of a class's documented public members, inherited ones last."""
    found: dict[str, tuple[str, int]] = {}
    for base in thing.__mro__:
        if base.__module__ == "builtins" or base.__module__.partition(".")[0] not in _OWN:
            continue
        described = ModuleAnalyzer.for_module(base.__module__).find_attr_docs()
        for key, value in vars(base).items():
            if key.startswith("_") or key in found:
                continue
            if (base.__qualname__, key) in described:
                lines = len(described[base.__qualname__, key]) + _OBJECT_LINES
                found[key] = ("attribute", lines)
            elif isinstance(value, property | cached_property) and inspect.getdoc(value):
                found[key] = ("property", _lines(value))
            elif inspect.isroutine(made := getattr(thing, key)) and inspect.getdoc(made):
                found[key] = ("method", _lines(made))
    return found


def parts(blocks: list[Block]) -> list[list[Block]]:
    """Cut blocks into runs of at most `MAX_LINES`."""
    found: list[list[Block]] = []
    left = 0
    for block in blocks:
        if not found or block.lines > left:
            found.append([])
            left = MAX_LINES
        found[-1].append(block)
        left -= block.lines
    return found


def rst(part: list[Block]) -> list[str]:
    """Return the lines of a page."""
    first, last = part[0].name, part[-1].name
    title = first if first == last else f"{first} to {last}"
    return [title, "=" * len(title), "", *(f"{block.directive}\n" for block in part)]


def _public(module: ModuleType) -> list[str]:
    """Return a module's public names; without a list of them, the ones that it defines."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    names: list[str] = getattr(module, "__all__", own)
    return [name for name in names if not inspect.ismodule(getattr(module, name))]


def _found(module_name: str, attribute: str) -> object:
    """Return a name of a module, which may be a module that nothing has imported yet."""
    module = import_module(module_name)
    if not hasattr(module, attribute):
        import_module(f"{module_name}.{attribute}")
    return getattr(module, attribute)


def _lines(thing: object) -> int:
    return len((inspect.getdoc(thing) or "").splitlines()) + _OBJECT_LINES
