"""The manifest of docs/kubernetes.md, checked without a cluster.

Kubernetes' schemas check fields and their types; the tests check that the parts fit
each other, the image and the server's settings.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from streameval_server import configure

from ..pages import codes

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
MANIFEST = "\n---\n".join(codes(PAGE, "yaml"))
VERSIONS = [f"1.{minor}" for minor in range(29, 38)]
"""Before these ReadWriteOncePod is not stable; after them there is no schema yet."""


def resources(manifest: str) -> list[dict[str, Any]]:
    """Return the resources of a manifest."""
    return list(yaml.safe_load_all(manifest))


@pytest.fixture(scope="module")
def schemas(require: Callable[[str], ModuleType]) -> ModuleType:
    """Return Kubernetes' schemas; in strict mode unknown fields are errors."""
    return require("kubernetes_validate")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_manifest_is_one(schemas: ModuleType, version: str) -> None:
    """Every field is of that version and type, and no required one is missing."""
    assert f"Kubernetes {VERSIONS[0]} to {VERSIONS[-1]}" in PAGE
    (manifest,) = resources(MANIFEST)
    assert manifest["kind"] == "StatefulSet"
    assert schemas.validate(manifest, version, strict=True) == version


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("containerPort: 8080", "containerport: 8080"),  # a name, deep inside
        ('value: "1000000000"', "value: 1000000000"),  # a number where there must be text
        ("replicas: 1", "replicas: one"),
        ("  serviceName: streameval\n  selector:", "  serviceName: streameval\n  selectors:"),
        ("apiVersion: apps/v1", "apiVersion: apps/v2"),
        ("kind: StatefulSet", "kind: StatefulSets"),
    ],
)
def test_a_mistake_is_seen(schemas: ModuleType, right: str, wrong: str) -> None:
    """The schemas detect it."""
    assert MANIFEST.count(right) == 1
    (mistaken,) = resources(MANIFEST.replace(right, wrong))
    with pytest.raises((schemas.ValidationError, schemas.SchemaNotFoundError)):
        schemas.validate(mistaken, VERSIONS[-1], strict=True)


def test_its_parts_fit_together() -> None:
    """Labels, volumes, ports and user; each variable is a setting, and the settings are valid."""
    (manifest,) = resources(MANIFEST)
    spec, template = manifest["spec"], manifest["spec"]["template"]
    assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    pod = template["spec"]
    (container,) = pod["containers"]
    volumes = [each["name"] for each in pod["volumes"]] + [
        each["metadata"]["name"] for each in spec["volumeClaimTemplates"]
    ]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert sorted(volumes) == sorted(mounts)

    environment = {each["name"]: each["value"] for each in container["env"]}
    made = configure({}, environment=environment)
    assert set(made.sources.values()) - {"default"} == set(environment)
    settings = made.settings
    for path, volume in (
        (settings.tls_certificate, "tls"),
        (settings.tls_key, "tls"),
        (settings.tokens, "tokens"),
    ):
        assert path is not None
        assert path.is_relative_to(mounts[volume])
    listens = {int(each.rpartition(":")[2]) for each in (settings.listen, settings.http_address())}
    assert listens == {each["containerPort"] for each in container["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert settings.http_address().endswith(f":{asked['port']}")
        assert asked["scheme"] == "HTTPS"

    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"STREAMEVAL_DATA=(\S+)", image) == [mounts["data"]]
    assert re.findall(r"^USER (\d+)", image, re.MULTILINE) == [
        str(pod["securityContext"]["runAsUser"])
    ]
