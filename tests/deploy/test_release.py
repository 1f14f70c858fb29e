"""The scripts of tools/release, as the workflow runs them, against an index of this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

import streameval

from ..distributions import PROJECTS, ROOT, TABLES
from .tagged import TAG, commit, git, make_tagged

if TYPE_CHECKING:
    from collections.abc import Callable

SCRIPTS = ROOT / "tools" / "release"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())
FORMS = ROOT / ".github" / "ISSUE_TEMPLATE"


def run(*command: object, code: int = 0, **variables: str) -> str:
    """Run a command to its end; return what it prints."""
    done = subprocess.run(
        [str(word) for word in command],
        check=False,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the repository of a release."""
    folder = tmp_path_factory.mktemp("repository")
    make_tagged(folder)
    return folder


@pytest.fixture
def clone(repository: Path, tmp_path: Path) -> Path:
    """Return a clone of it."""
    git(tmp_path, "clone", "-q", repository, "clone")
    return tmp_path / "clone"


@pytest.fixture
def commands_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the commands of the tests' environment on the path."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    "command",
    [
        ["actionlint", *WORKFLOWS],
        ["shellcheck", "--external-sources", "--source-path=SCRIPTDIR"]
        + [SCRIPTS / name for name in ("lib", "packages", "image", "try")],
        *(
            ["check-jsonschema", "--builtin-schema", f"vendor.github-{schema}", *files]
            for schema, files in {
                "workflows": WORKFLOWS,
                "issue-forms": sorted({*FORMS.iterdir()} - {FORMS / "config.yml"}),
                "issue-config": [FORMS / "config.yml"],
            }.items()
        ),
    ],
    ids=lambda command: Path(command[-1]).name,
)
@pytest.mark.usefixtures("commands_of_tests")
def test_lint(command: list[object], require_command: Callable[[str], str]) -> None:
    """The linters find nothing in workflows, scripts and forms."""
    run(require_command(str(command[0])), *command[1:])


def test_the_workflow_runs_every_script() -> None:
    """What is published is made by the scripts that are tried here, and by no other command."""
    text = (ROOT / ".github/workflows/release.yml").read_text()
    scripts = {path.name for path in SCRIPTS.iterdir() if os.access(path, os.X_OK)}
    assert scripts == set(re.findall(r"tools/release/(\w+)", text))


def test_each_tool_of_a_release_has_one_version() -> None:
    """The constraints pin what the group `release` and the build itself require."""
    text = (SCRIPTS / "constraints.txt").read_text()
    pinned = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))
    table = TABLES["streameval"]
    for text in table["dependency-groups"]["release"] + table["build-system"]["requires"]:
        wanted = Requirement(text)
        assert wanted.specifier.contains(pinned[wanted.name]), text


@pytest.mark.parametrize("name", ["packages", "image", "try"])
def test_a_script_says_what_it_takes(name: str) -> None:
    """Without arguments, and does nothing."""
    said = run(SCRIPTS / name, code=2)
    assert f"\n  tools/release/{name} " in said
    assert "set -euo" not in said


@pytest.mark.slow
@pytest.mark.parametrize("script", [["packages", "TAG", "OUT"], ["image", "TAG", "OUT", "x/y"]])
def test_only_a_tag_of_its_version_is_released(
    script: list[str], clone: Path, tmp_path: Path
) -> None:
    """Its name, the version and the changelog agree; otherwise nothing is written."""
    out = tmp_path / "out"

    def refused(tag: str) -> str:
        words = [{"TAG": tag, "OUT": out}.get(word, word) for word in script[1:]]
        said = run(clone / "tools/release" / script[0], *words, code=2)
        assert not out.exists()
        return said

    assert "no tag v0.0.9; git fetch --tags" in refused("v0.0.9")
    assert "no tag main" in refused("main")
    git(clone, "tag", "v9.9.9")
    assert f'the tag is v9.9.9, but streameval/__init__.py says "{TAG[1:]}"' in refused("v9.9.9")
    changelog = clone / "CHANGELOG.md"
    changelog.write_text(
        re.sub(r"^(## \S+ -) .*", r"\1 unreleased", changelog.read_text(), flags=8)
    )
    commit(clone)
    assert f'no line "## {TAG[1:]} - YEAR-MONTH-DAY"' in refused(TAG)


@pytest.fixture(scope="module")
def release(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the release, built where it was committed."""
    folder = tmp_path_factory.mktemp("release")
    run(repository / "tools/release/packages", TAG, folder)
    return folder


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_clone_elsewhere_gives_the_same_bytes(release: Path, clone: Path, tmp_path: Path) -> None:
    """Later, in another zone, with private files, and with what was left in the checkout."""
    (clone / "streameval/left.py").write_text("")
    (clone / "README.md").write_text("changed")
    build = 'umask 077; exec "$0" "$@"'
    script = clone / "tools/release/packages"
    run("sh", "-c", build, script, TAG, tmp_path / "again", TZ="Asia/Tokyo", LC_ALL="C")
    sums = [(folder / "SHA256SUMS").read_text() for folder in (release, tmp_path / "again")]
    assert sums[0] == sums[1]
    assert len(sums[0].splitlines()) == 5
    assert "is there already" in run(script, TAG, tmp_path / "again", code=2)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_bill_names_what_the_image_installs(release: Path) -> None:
    """The packages of the constraints and both of ours, with versions; no path of the build."""
    text = (release / "sbom.json").read_text()
    pinned = (ROOT / "deploy/docker/constraints.txt").read_text()
    wanted = dict(re.findall(r"^([\w.-]+)==(.+)$", pinned, re.MULTILINE))
    wanted |= dict.fromkeys(PROJECTS, streameval.__version__)
    found = {
        re.sub(r"[._]", "-", each["name"]).lower(): each["version"]
        for each in json.loads(text)["components"]
    }
    assert found == wanted
    assert "file:" not in text


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("commands_of_tests")
def test_a_release_from_an_index_does_what_the_readme_says(
    release: Path,
    tmp_path: Path,
    free_port: Callable[[], int],
    require_command: Callable[[str], str],
) -> None:
    """Uploaded as to any index; what it requires comes from where pip finds it."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    index = [require_command("pypi-server"), "run", "-i", "127.0.0.1", "-p", str(port)]
    upload = [require_command("twine"), "upload", "--non-interactive"]
    with subprocess.Popen([*index, "-P", ".", "-a", ".", tmp_path]) as server:
        try:
            files = sorted((release / "dist").iterdir())
            login = ["-u", "a", "-p", "a", "--repository-url", address]
            run("curl", "-sf", "--retry", 20, "--retry-connrefused", f"{address}/simple/")
            run(*upload, *login, *files)
            assert sorted(path.name for path in tmp_path.iterdir()) == [each.name for each in files]
            pip = ("--no-cache-dir", "--index-url", f"{address}/simple/")
            said = run(SCRIPTS / "try", streameval.__version__, *pip)
        finally:
            server.terminate()
    assert "1 of 1 predictions labelled" in said
