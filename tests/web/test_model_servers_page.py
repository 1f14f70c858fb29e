"""docs/model-servers.md: its commands print what it shows, and what it says to paste is valid."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import run
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("jmespath", reason="needs the extra payloads")
pytest.importorskip("typer", reason="needs the extra cli")
from streameval_server import configure
from streameval_server.testing import running_service

from ..pages import codes

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

PAGE = (Path(__file__).parents[2] / "docs" / "model-servers.md").read_text(encoding="utf-8")
SERVERS = ["kserve", "seldon", "bentoml"]
SENDERS = {
    "kserve": "url: (.*)/\n",
    "seldon": "url: (.*)/\n",
    "bentoml": '"endpoint": "(.*)/v1/logs"',
}
"""Where each sender has the server's address."""


@pytest.mark.parametrize("name", SERVERS)
def test_its_commands_print_what_it_shows(
    tmp_path: Path, require_command: Callable[[str], str], name: str
) -> None:
    """In order, against a server with the part's own configuration; `...` matches any text."""
    require_command("curl")
    checker = doctest.OutputChecker()
    (mappings,) = codes(PAGE, "toml", name)
    (tmp_path / "streameval.toml").write_text(mappings)
    for record in codes(PAGE, "json", name):
        (tmp_path / "record.json").write_text(record)
    made = configure({}, config=tmp_path / "streameval.toml", environment={}).settings
    assert made.intake == "127.0.0.1:8081"
    (console,) = codes(PAGE, "console", name)
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE)
    assert len(steps) >= 3
    settings = replace(made, listen="127.0.0.1:0", intake="127.0.0.1:0", memory=True)
    with running_service(settings) as addresses:
        assert addresses.intake is not None
        for command, shown in steps:
            here = command.replace("http://127.0.0.1:8081", addresses.intake)
            python = shlex.quote(sys.executable)
            here = re.sub(r"^streameval ", f"COLUMNS=100 {python} -m streameval ", here)
            done = run(
                ["sh", "-c", here],
                check=False,
                cwd=tmp_path,
                env={**os.environ, "STREAMEVAL_SERVER": addresses.grpc},
                capture_output=True,
                text=True,
                timeout=30,
            )
            options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            printed = f"{done.stdout.rstrip()}\n"
            assert checker.check_output(shown, printed, options), printed + done.stderr


def test_what_it_says_to_paste(require: Callable[[str], ModuleType], tmp_path: Path) -> None:
    """Its manifests are valid, its configuration is one, and the senders have its address."""
    yaml, schemas = require("yaml"), require("kubernetes_validate")
    (manifests,) = codes(PAGE, "yaml", "server")
    found = {each["kind"]: each for each in yaml.safe_load_all(manifests)}
    for each in found.values():
        schemas.validate(each, "1.29", strict=True)
    file = tmp_path / "streameval.toml"
    file.write_text(found["ConfigMap"]["data"]["streameval.toml"])
    assert configure({}, config=file, environment={}).settings.intake == "0.0.0.0:8081"
    (port,) = found["Service"]["spec"]["ports"]
    service = (
        f"http://{found['Service']['metadata']['name']}.{found['Namespace']['metadata']['name']}"
    )
    for name, pattern in SENDERS.items():
        (pasted,) = codes(PAGE, "python" if name == "bentoml" else "yaml", name)
        assert re.search(pattern, pasted)[1] == f"{service}:{port['port']}"
    container = found["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    dockerfile = (Path(__file__).parents[2] / "Dockerfile").read_text()
    assert f"VOLUME {mounts['data']}\n" in dockerfile
    assert container["args"] == ["serve", "--config", f"{mounts['configuration']}/streameval.toml"]


@pytest.mark.parametrize("name", ["kserve", "seldon"])
def test_what_it_says_to_paste_is_yaml(require: Callable[[str], ModuleType], name: str) -> None:
    """Of kinds whose schemas are their operators'."""
    (pasted,) = codes(PAGE, "yaml", name)
    found: Any = require("yaml").safe_load(pasted)
    assert found["kind"] == {"kserve": "InferenceService", "seldon": "SeldonDeployment"}[name]
