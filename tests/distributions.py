"""The two distributions of this repository, as their pyproject.toml describe them."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
FOLDERS = {"streameval": ROOT, "streameval-server": ROOT / "server"}
TABLES = {
    name: tomllib.loads((folder / "pyproject.toml").read_text()) for name, folder in FOLDERS.items()
}
PROJECTS = {name: table["project"] for name, table in TABLES.items()}


def requirements(name: str, *extras: str) -> list[Requirement]:
    """Return what a distribution requires with extras, and what the other adds if it is one."""
    found = []
    parts = [(name, extra) for extra in ("", *extras)]
    for each, extra in parts:
        project = PROJECTS[each]
        for text in project["optional-dependencies"][extra] if extra else project["dependencies"]:
            found.append(Requirement(text))
            if found[-1].name in PROJECTS:
                added = [(found[-1].name, part) for part in ("", *found[-1].extras)]
                parts += [part for part in added if part not in parts]
    return found
