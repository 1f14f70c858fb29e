"""The manifests of deploy/kubernetes, checked without a cluster.

Kubernetes' schemas check fields and their types; the tests check that the parts fit
each other, the image and the server's settings.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from streameval.cli._connection import ConnectionOptions
from streameval.client import Client
from streameval_server import Settings, configure, create_token
from streameval_server._web import metrics
from streameval_server.testing import running_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
PAGE = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
MANIFEST = "\n---\n".join(
    (FOLDER / name).read_text(encoding="utf-8") for name in KUSTOMIZATION["resources"]
)
VERSIONS = [f"1.{minor}" for minor in range(29, 38)]
"""Before these ReadWriteOncePod is not stable; after them there is no schema yet."""
OPERATORS = "ServiceMonitor"
"""The kind whose schema is not Kubernetes' own."""


def resources(manifest: str) -> list[dict[str, Any]]:
    """Return the resources of a manifest."""
    return [each for each in yaml.safe_load_all(manifest) if each is not None]


RESOURCES = {each["kind"]: each for each in resources(MANIFEST)}
SERVER = RESOURCES["StatefulSet"]["spec"]["template"]
JOB = RESOURCES["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]


def container(template: dict[str, Any]) -> dict[str, Any]:
    """Return the only container of a pod."""
    (found,) = template["spec"]["containers"]
    return found


def environment(template: dict[str, Any]) -> dict[str, str]:
    """Return the variables of its container."""
    return {each["name"]: each["value"] for each in container(template)["env"]}


def mounts(template: dict[str, Any]) -> dict[str, str]:
    """Return the paths of its volumes."""
    return {each["name"]: each["mountPath"] for each in container(template)["volumeMounts"]}


@pytest.fixture(scope="module")
def schemas(require: Callable[[str], ModuleType]) -> ModuleType:
    """Return Kubernetes' schemas; in strict mode unknown fields are errors."""
    return require("kubernetes_validate")


def validate(schemas: ModuleType, found: list[dict[str, Any]], version: str) -> None:
    """Validate resources by the schemas of a version."""
    for resource in found:
        if resource["kind"] != OPERATORS:
            assert schemas.validate(resource, version, strict=True) == version


@pytest.mark.parametrize("version", VERSIONS)
def test_the_manifests_are_ones(schemas: ModuleType, version: str) -> None:
    """Every field is of that version and type, and no required one is missing."""
    assert f"Kubernetes {VERSIONS[0]} to {VERSIONS[-1]}" in PAGE
    assert list(RESOURCES) == [
        "Service",
        "StatefulSet",
        "ServiceMonitor",
        "CronJob",
        "PersistentVolumeClaim",
    ]
    validate(schemas, list(RESOURCES.values()), version)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("containerPort: 8080", "containerport: 8080"),  # a name, deep inside
        ('value: "1000000000"', "value: 1000000000"),  # a number where there must be text
        ("replicas: 1", "replicas: one"),
        ("  serviceName: streameval\n  selector:", "  serviceName: streameval\n  selectors:"),
        ("apiVersion: apps/v1", "apiVersion: apps/v2"),
        ("kind: StatefulSet", "kind: StatefulSets"),
        ("concurrencyPolicy: Forbid", "concurrency: Forbid"),
        ("restartPolicy: Never", "restartPolicy: [Never]"),
        ("targetPort: grpc", "targetport: grpc"),
    ],
)
def test_a_mistake_is_seen(schemas: ModuleType, right: str, wrong: str) -> None:
    """The schemas detect it."""
    assert MANIFEST.count(right) == 1
    mistaken = resources(MANIFEST.replace(right, wrong))
    with pytest.raises((schemas.ValidationError, schemas.SchemaNotFoundError)):
        validate(schemas, mistaken, VERSIONS[-1])


def test_the_servers_parts_fit_together() -> None:
    """Labels, volumes, ports and user; each variable is a setting, and the settings are valid."""
    spec, pod = RESOURCES["StatefulSet"]["spec"], SERVER["spec"]
    assert spec["selector"]["matchLabels"].items() <= SERVER["metadata"]["labels"].items()
    volumes = [each["name"] for each in pod["volumes"]] + [
        each["metadata"]["name"] for each in spec["volumeClaimTemplates"]
    ]
    paths = mounts(SERVER)
    assert sorted(volumes) == sorted(paths)

    made = configure({}, environment=environment(SERVER))
    assert set(made.sources.values()) - {"default"} == set(environment(SERVER))
    settings = made.settings
    for path, volume in (
        (settings.tls_certificate, "tls"),
        (settings.tls_key, "tls"),
        (settings.tokens, "tokens"),
    ):
        assert path is not None
        assert path.is_relative_to(paths[volume])
    ports = {each["name"]: each["containerPort"] for each in container(SERVER)["ports"]}
    listens = (settings.listen, settings.http_address())
    assert [ports["grpc"], ports["http"]] == [int(each.rpartition(":")[2]) for each in listens]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container(SERVER)[probe]["httpGet"]
        assert asked["port"] == ports["http"]
        assert asked["scheme"] == "HTTPS"

    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"STREAMEVAL_DATA=(\S+)", image) == [paths["data"]]
    users = {str(each["spec"]["securityContext"]["runAsUser"]) for each in (SERVER, JOB)}
    assert users == {re.findall(r"^USER (\d+)", image, re.MULTILINE)[0].partition(":")[0]}


def test_the_service_is_what_the_others_connect_to() -> None:
    """Its selector, its ports by name, and its own name."""
    service = RESOURCES["Service"]
    name, spec = service["metadata"]["name"], service["spec"]
    assert RESOURCES["StatefulSet"]["spec"]["serviceName"] == name
    assert spec["selector"].items() <= SERVER["metadata"]["labels"].items()
    assert not spec["selector"].items() <= JOB["metadata"]["labels"].items()
    named = {each["name"]: each["containerPort"] for each in container(SERVER)["ports"]}
    assert {each["targetPort"]: each["port"] for each in spec["ports"]} == named

    monitor = RESOURCES["ServiceMonitor"]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] in named
    assert (endpoint["path"], endpoint["scheme"]) == ("/metrics", "https")
    assert int(endpoint["interval"].removesuffix("s")) > metrics._MAX_AGE_S
    assert endpoint["tlsConfig"]["serverName"] == name
    script = container(JOB)["args"][0]
    assert f" {name}:{named['grpc']}\n" in script


def secrets_used() -> set[tuple[str, str]]:
    """Return the secrets, and the file of each, that the manifests use."""
    settings = configure({}, environment=environment(SERVER)).settings
    used = set()
    for path in (settings.tls_certificate, settings.tls_key, settings.tokens):
        assert path is not None
        (volume,) = (name for name, at in mounts(SERVER).items() if path.is_relative_to(at))
        used.add((secret_of(SERVER, volume)["secretName"], path.name))
    for name, value in environment(JOB).items():
        assert name.removeprefix("STREAMEVAL_").lower() in ConnectionOptions.__slots__
        (volume,) = (v for v, at in mounts(JOB).items() if Path(value).is_relative_to(at))
        secret = secret_of(JOB, volume)
        assert [each["path"] for each in secret["items"]] == [Path(value).name]
        used |= {(secret["secretName"], each["key"]) for each in secret["items"]}
    (endpoint,) = RESOURCES["ServiceMonitor"]["spec"]["endpoints"]
    for key in (endpoint["authorization"]["credentials"], endpoint["tlsConfig"]["ca"]["secret"]):
        used.add((key["name"], key["key"]))
    return used


def secret_of(template: dict[str, Any], volume: str) -> dict[str, Any]:
    """Return the secret of a volume."""
    (found,) = (each for each in template["spec"]["volumes"] if each["name"] == volume)
    return found["secret"]


def test_the_page_makes_the_secrets() -> None:
    """Each file that a manifest reads, and no other."""
    made = {
        (name, file)
        for name, files in re.findall(r"kubectl create secret generic (\S+) (.*)", PAGE)
        for file in re.findall(r"--from-file=(\S+)", files)
    }
    assert made == secrets_used()


def test_kustomize_joins_them(require_command: Callable[[str], str]) -> None:
    """The files listed are all there are, and the image has this version's tag."""
    assert sorted([*KUSTOMIZATION["resources"], "kustomization.yaml"]) == sorted(
        path.name for path in FOLDER.iterdir()
    )
    done = subprocess.run(
        [require_command("kubectl"), "kustomize", str(FOLDER)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    built = {each["kind"]: each for each in resources(done.stdout)}
    assert sorted(built) == sorted(RESOURCES)
    (image,) = KUSTOMIZATION["images"]
    tagged = f"{image['newName']}:{image['newTag']}"
    assert container(built["StatefulSet"]["spec"]["template"])["image"] == tagged
    job = built["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]
    assert container(job)["image"] == tagged


def test_the_backup_is_a_verified_file(tmp_path: Path) -> None:
    """The job's script, run as it is but for address and folder: good copies, old ones deleted."""
    backups, tokens = tmp_path / "backups", tmp_path / "tokens.toml"
    backups.mkdir()
    (tmp_path / "token").write_text(create_token(tokens, "backup", ["admin"]))
    writer = create_token(tokens, "writer", ["ingest"])
    for name in ("streameval-old.db", "streameval-old.db.damaged"):
        (backups / name).touch()
        os.utime(backups / name, (0, 0))
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "streameval").write_text(f'#!/bin/sh\nexec {sys.executable} -m streameval "$@"\n')
    (commands / "streameval").chmod(0o755)
    shell, *options = container(JOB)["command"]
    settings = Settings(listen="127.0.0.1:0", data=tmp_path / "data", tokens=tokens)
    with running_server(settings) as address:
        with Client(address, token=writer) as client:
            client.stream("s").add_cases(labels=[1, 0], scores=[0.9, 0.1])
        script = container(JOB)["args"][0]
        script = script.replace("streameval:50051", address).replace("/backups", str(backups))

        def run(script: str) -> int:
            variables = {
                "PATH": f"{commands}:{os.environ['PATH']}",
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                "STREAMEVAL_TOKEN_FILE": str(tmp_path / "token"),
            }
            command = [shutil.which(shell) or shell, *options, script]
            return subprocess.run(
                command, env=variables, cwd=tmp_path, capture_output=True, timeout=60, check=False
            ).returncode

        assert run(script) == 0
        kept = {path.name for path in backups.iterdir()}
        (made,) = kept - {"streameval-old.db.damaged"}
        assert re.fullmatch(r"streameval-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.db", made)
        # A copy that cannot be verified is kept under another name, and fails the job.
        (backups / made).unlink()
        spoilt = script.replace("streameval admin verify", 'truncate -s 4096 "$file"; false #')
        assert run(spoilt.replace('# "$file" ||', "||")) == 1
        assert [path.suffix for path in backups.iterdir()] == [".damaged", ".damaged"]
