"""Which module may import which: downward only, without circles, through stated seams.

Imports for type checkers count: a type is a dependency too. The order is the one
that docs/packages.md explains.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from ..distributions import PROJECTS, requirements

ROOT = Path(__file__).parents[2]
SOURCES = {
    "streameval": ROOT / "streameval",
    "streameval_server": ROOT / "server/streameval_server",
}

# The ground first. A package stands for its modules that have no entry of their own.
ORDER = (
    "streameval.v1",
    "streameval._common",
    "streameval._counts",
    "streameval._metrics",
    # What the rows of the table of metrics are made of.
    "streameval._uncertainty.student",
    "streameval._uncertainty.limits",
    "streameval._uncertainty.unseen_cases",
    "streameval._uncertainty.interval",
    "streameval._uncertainty.design_effect",
    "streameval._uncertainty.sampling_variance",
    "streameval._uncertainty.cell_orders",
    "streameval._uncertainty.cell_limits",
    "streameval._uncertainty.cell_variance",
    "streameval._uncertainty.rules",
    "streameval._uncertainty.area_rules",
    "streameval._uncertainty.error_costs",
    "streameval._uncertainty.calibration",
    "streameval._metric_registry",
    "streameval._uncertainty",
    "streameval._evaluator_queries",
    "streameval._snapshot",
    "streameval._evaluator",
    "streameval._paired_evaluator",
    "streameval._breakdown",
    "streameval._time",
    "streameval._drift",
    "streameval._projection",
    "streameval._verdict",
    "streameval._time.windowed",
    "streameval._sampling",
    "streameval._joining",
    "streameval._row_codec",
    "streameval.functional",
    "streameval.checks",
    "streameval.wire",
    "streameval.statistics",
    "streameval.kernel",
    "streameval",
    "streameval.payloads",
    "streameval.client._errors",
    "streameval.client._buffer",
    "streameval.client._wire",
    "streameval.client._delivery",
    "streameval.client",
    "streameval.display",
    "streameval.adapters",
    "streameval.spark",
    "streameval.kafka",
    "streameval_server._model.arrays",
    "streameval_server._model.limits",
    "streameval_server._model.errors",
    "streameval_server._model.threads",
    # Bytes, numbers, checksums: the log knows neither streams nor what its rows do to them.
    "streameval_server._log",
    "streameval_server._model",
    "streameval_server._state",
    "streameval_server._batch",
    "streameval_server._core",
    "streameval_server._ingest",
    "streameval_server._queries",
    "streameval_server._runtime",
    "streameval_server._security",
    "streameval_server._grpc",
    "streameval_server._payloads",
    "streameval_server._web",
    "streameval_server.maintenance",
    "streameval_server._service",
    "streameval_server",
    "streameval_server.commands",
    "streameval_server.testing",
    "streameval_server.__main__",
    "streameval.cli",
    "streameval.__main__",
)

SEAM = ("streameval.checks", "streameval.wire", "streameval.statistics", "streameval.kernel")
"""What the library offers to the server besides what it offers to all."""

PUBLIC = ("streameval", "streameval.payloads", "streameval.v1")
"""What it offers to all, and the server uses."""

MAX_SEAM_NAMES = 100


class Import(NamedTuple):
    """One import statement's target, and where it stands."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{path_of(self.importer)}:{self.line} imports {self.imported}"


@cache
def modules() -> dict[str, Path]:
    """Return every module of the project, generated ones left out."""
    found = {}
    for package, directory in SOURCES.items():
        for path in sorted(directory.rglob("*.py")):
            parts = path.relative_to(directory).with_suffix("").parts
            if parts[0] == "v1":
                continue
            names = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join((package, *names))] = path
    return found


def path_of(module: str) -> Path:
    return modules()[module].relative_to(ROOT)


@cache
def imports() -> tuple[Import, ...]:
    """Return every import of a module of the project by another."""
    found = []
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}:{node.lineno} is a relative import"
                base = node.module or ""
                names = [
                    f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules() else base
                    for alias in node.names
                ]
            else:
                continue
            found += [
                Import(module, name, node.lineno)
                for name in dict.fromkeys(names)
                if name.partition(".")[0] in SOURCES and name != module
            ]
    return tuple(found)


def floor_of(module: str) -> int:
    """Return the place in ORDER of the longest entry that holds the module."""
    name = module
    while name not in ORDER:
        name = name.rpartition(".")[0]
    assert name == module or name not in SOURCES, f"{module} has no place in ORDER: give it one"
    return ORDER.index(name)


def listed(found: list[Import]) -> str:
    return "\n".join(map(str, found))


def test_imports_point_downward() -> None:
    """No module imports from a package that stands above its own."""
    upward = [each for each in imports() if floor_of(each.importer) < floor_of(each.imported)]
    assert not upward, f"imports from a package above:\n{listed(upward)}"


def test_no_circle_of_files() -> None:
    """No modules import each other in a loop, directly or through others."""
    graph = defaultdict(set)
    for each in imports():
        if each.imported in modules():
            graph[each.importer].add(each.imported)
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail("a circle of imports:\n" + "\n".join(error.args[1]))


def test_the_server_imports_what_the_seam_lists() -> None:
    """Nothing else of the library, and the seam lists nothing that the server does not import."""
    used = defaultdict(set)
    for each in taken_from_the_library():
        used[each.imported].add(each.name)
    assert set(used) <= {*SEAM, *PUBLIC}
    assert {module: used[module] for module in SEAM} == listed_names()


def test_the_seam_is_narrow() -> None:
    """It lists few names, in order, and no module nor a name with an underscore."""
    names = [(module, name) for module, listed in listed_names().items() for name in listed]
    assert len(names) <= MAX_SEAM_NAMES
    assert not [name for _, name in names if name.startswith("_")]
    assert not [
        name
        for module, name in names
        if isinstance(getattr(import_module(module), name), ModuleType)
    ]


def test_no_private_name_crosses_the_seam() -> None:
    """The server imports no name with an underscore, dunders apart."""
    private = [each for each in taken_from_the_library() if re.match("_(?!_)", each.name)]
    assert not private


def test_the_server_reads_no_attribute_that_only_the_library_may() -> None:
    """Names that flake8-self lets pass are the library's own, but for checks of invariants."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    exempt = {*settings["tool"]["ruff"]["lint"]["flake8-self"]["extend-ignore-names"]} - {"_check"}
    found = [
        f"{path}:{node.lineno} reads {node.attr}"
        for module, path in modules().items()
        if is_from(module, "streameval_server")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in exempt
        and ast.unparse(node.value) not in {"self", "cls"}
    ]
    assert exempt
    assert not found


class Taken(NamedTuple):
    """A name that the server imports from the library."""

    importer: str
    imported: str
    name: str


@cache
def taken_from_the_library() -> tuple[Taken, ...]:
    return tuple(
        Taken(module, node.module, alias.name)
        for module, path in modules().items()
        if is_from(module, "streameval_server")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and is_from(node.module or "", "streameval")
        for alias in node.names
    )


def listed_names() -> dict[str, set[str]]:
    return {module: set(import_module(module).__all__) for module in SEAM}


def test_the_command_line_enters_the_server_by_one_door() -> None:
    """The library imports the server's commands, and for type checkers what they return."""
    doors = {"streameval_server.commands", "streameval_server.maintenance"}
    others = [
        each
        for each in imports()
        if is_from(each.importer, "streameval")
        and is_from(each.imported, "streameval_server")
        and each.imported not in doors
    ]
    assert not others, f"imports of the server:\n{listed(others)}"


@pytest.mark.slow
def test_the_demo_needs_what_make_installs() -> None:
    """Its modules can be imported without the packages that other extras install."""
    extras = PROJECTS["streameval"]["optional-dependencies"]
    installed = re.search(r"LIBRARY\)\[(.+)\]", (ROOT / "Makefile").read_text())
    assert installed is not None
    every, of_demo = (
        {each.name for each in requirements("streameval", *names)}
        for names in (extras, installed[1].split(","))
    )
    absent = every - of_demo
    assert {"confluent-kafka", "pyspark"} <= absent
    names = [name.replace("-", "_") for name in absent]
    hidden = f"import sys; sys.modules |= dict.fromkeys({names})"
    found = f"sys.path.insert(0, {str(ROOT / 'demo')!r})"
    done = subprocess.run(
        [sys.executable, "-c", f"{hidden}; {found}; import fill, story"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def is_from(module: str, package: str) -> bool:
    return module.partition(".")[0] == package
