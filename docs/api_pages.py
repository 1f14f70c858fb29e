"""Write the reference of the Python API, the commands and the contract: pages that are not tall.

``conf.py`` calls `write`, `write_commands` and `write_contract` before Sphinx reads the pages. A
reference page lists its objects in comments such as ``<!-- api: streameval.Evaluator -->``; a
module stands for its ``__all__``.
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
MAX_HELP_LINES = 220
"""Of the help of a command on one page."""
MAX_PROTO_LINES = 250
"""Of a proto file on one page."""
_OBJECT_LINES = 4
_OWN = {"streameval", "streameval_server"}


class Block(NamedTuple):
    """A directive of autodoc or a text, the name that it documents, and how long that is."""

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


def write_commands(docs: Path, help_text: str) -> str:
    """Write a page of each command below docs/api; return the page above them."""
    first, *verbs = re.split(r"^(?=## )", help_text, flags=re.MULTILINE)
    names = []
    for verb in verbs:
        for number, page in enumerate(command_pages(verb), 1):
            name = re.findall(r"`streameval (\w+)", page)[0]
            names.append(f"api/command-{name}-{number}")
            (docs / f"{names[-1]}.md").write_text(page)
    return "\n".join([first, "```{toctree}", ":hidden:", ":titlesonly:", "", *names, "```", ""])


def command_pages(verb: str) -> list[str]:
    """Cut the help of a command with commands of its own; each page begins with a title."""
    title, *_ = verb.removeprefix("## ").splitlines()
    sections = re.split(r"^(?=### )", verb, flags=re.MULTILINE)
    blocks = [Block(each, "", each.count("\n")) for each in sections]
    pages = []
    for number, part in enumerate(parts(blocks, MAX_HELP_LINES), 1):
        text = re.sub(r"^#(?=#)", "", "".join(each.directive for each in part), flags=re.MULTILINE)
        pages.append(text if number == 1 else f"# {title}, page {number}\n\n{text}")
    return pages


def write_contract(docs: Path, protos: Path) -> None:
    """Write the pages of every proto file, below docs/api."""
    for proto in protos.glob("*.proto"):
        for number, part in enumerate(parts(proto_blocks(proto), MAX_PROTO_LINES), 1):
            lines = f"{part[0].directive.partition('-')[0]}-{part[-1].directive.partition('-')[2]}"
            title = f"{proto.name}: {part[0].name} to {part[-1].name}"
            path = docs / "api" / f"proto-{proto.stem}-{number}.rst"
            path.write_text(
                f"{title}\n{'=' * len(title)}\n\n"
                f".. literalinclude:: ../../{proto.relative_to(docs.parent)}\n"
                f"   :language: protobuf\n   :lines: {lines}\n"
            )


def proto_blocks(proto: Path) -> list[Block]:
    """Return each service, message and enumeration of a proto file as a range of its lines."""
    blocks = []
    begin, name = 1, ""
    lines = proto.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if found := re.match(r"(?:service|message|enum) (\w+)", line):
            name = found[1]
        if name and re.match(r"\}|\w.*\}$", line):
            blocks.append(Block(f"{begin}-{number}", name, number + 1 - begin))
            begin, name = number + 1, ""
    return blocks


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


def parts(blocks: list[Block], most: int = MAX_LINES) -> list[list[Block]]:
    """Cut blocks into runs of at most `most` lines; a longer block is a run of its own."""
    found: list[list[Block]] = []
    left = 0
    for block in blocks:
        if not found or block.lines > left:
            found.append([])
            left = most
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
