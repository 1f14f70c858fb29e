"""The two distributions: one version, what each requires of the other, their licences."""

from __future__ import annotations

import re

import pytest

import streameval

from ..distributions import FOLDERS, PROJECTS, ROOT, TABLES, requirements

EXTRAS = PROJECTS["streameval"]["optional-dependencies"]


def test_both_have_the_version_of_the_library() -> None:
    """It is in one module, and each requires the other in exactly this version."""
    paths = {
        (FOLDERS[name] / table["tool"]["hatch"]["version"]["path"]).resolve()
        for name, table in TABLES.items()
    }
    assert paths == {ROOT / "streameval/__init__.py"}
    of_one_another = {
        (each.name, str(each.specifier))
        for each in requirements("streameval", *EXTRAS)
        if each.name == "streameval-server" or (each.name == "streameval" and each.specifier)
    }
    assert of_one_another == {(name, f"=={streameval.__version__}") for name in PROJECTS}
    assert f"\nversion: {streameval.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_only_extras_with_a_server_require_it() -> None:
    """A client, a command line and a consumer of topics are installed without one."""
    found = {
        extra
        for extra in ("", *EXTRAS)
        if any(
            each.name == "streameval-server"
            for each in requirements("streameval", *filter(None, [extra]))
        )
    }
    assert found == {"all", "server"}


def test_extras_are_what_users_install() -> None:
    """Each is in the table of dependencies; what tests, benches, releases want is a group."""
    page = (ROOT / "docs/dependencies.md").read_text().partition("\n## ")[0]
    rows = re.findall(r"^\| [\w-]+ \| ([\w, ]+) \|", page, re.MULTILINE)
    assert {extra for row in rows for extra in row.split(", ")} == {*EXTRAS} - {"all"} | {"extra"}


def test_only_systems_that_checks_run_on_are_claimed() -> None:
    """docs/support.md says which are not run."""
    for project in PROJECTS.values():
        systems = [each for each in project["classifiers"] if each.startswith("Operating System")]
        assert systems == ["Operating System :: POSIX :: Linux"]


def test_both_run_on_the_same_pythons() -> None:
    """`.ci/pythons` reads the versions of one of them."""
    library, server = (
        (project["requires-python"], {each for each in project["classifiers"] if "Python" in each})
        for project in PROJECTS.values()
    )
    assert library == server


@pytest.mark.parametrize("name", FOLDERS)
def test_licences_and_types_are_in_the_package(name: str) -> None:
    """Both have this project's licence and are typed; the server names its charts' licences too."""
    folder, project = FOLDERS[name], PROJECTS[name]
    (package,) = TABLES[name]["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert (folder / package / "py.typed").exists()
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    others = {
        path.relative_to(folder).as_posix()
        for path in (folder / package).rglob("*")
        if path.name.startswith(("LICENSE", "NOTICE"))
    }
    assert {*project["license-files"]} == {"LICENSE", *others}
    assert project["license"] == ("Apache-2.0 AND BSD-3-Clause" if others else "Apache-2.0")
