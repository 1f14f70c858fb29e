"""The Helm chart of deploy/helm, rendered and checked without a cluster.

Kubernetes' schemas check fields and their types; the tests check that the parts fit
each other, the image and the server's settings.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import streameval
from streameval.cli._connection import ConnectionOptions
from streameval.client import Client
from streameval_server import Settings, configure, create_token
from streameval_server._web import metrics
from streameval_server.testing import running_server

from ..contract.security import Certificates
from ..distributions import TABLES
from ..docs.test_links import anchors
from .monitoring import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

    Rendered = dict[str, dict[str, Any]]
    Validate = Callable[[Iterable[dict[str, Any]], str], None]
    Helm = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm"
EXAMPLES = {path.stem: path for path in sorted((CHART / "examples").iterdir())}
PAGE = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
VERSIONS = [f"1.{minor}" for minor in range(29, 38)]
"""Before these ReadWriteOncePod is not stable; after them there is no schema yet."""
RELEASE = "evals"
OPERATORS = "monitoring.coreos.com/"
"""The kinds whose schemas are not Kubernetes' own."""
COMBINED = ("mtls", "monitoring", "consumer", "intake")
VALUES = [(), *((name,) for name in EXAMPLES), COMBINED]
"""The values that are rendered: the defaults, each example, and some together."""


@pytest.fixture(scope="module")
def helm(require_command: Callable[[str], str]) -> Helm:
    """Return a function that runs helm on the chart with examples and further options."""
    command = require_command("helm")

    @cache
    def run(verb: str, examples: tuple[str, ...] = (), *options: str) -> Any:
        release = [RELEASE] if verb == "template" else ["--strict"]
        files = [f"--values={EXAMPLES[name]}" for name in examples]
        return subprocess.run(
            # A helm that was built from its module takes itself for one of Kubernetes 1.20.
            [command, verb, *release, CHART, f"--kube-version={VERSIONS[0]}", *files, *options],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def render(helm: Helm, examples: tuple[str, ...] = (), *options: str) -> Rendered:
    """Return the resources of the chart by kind and name without the release's."""
    done = helm("template", examples, *options)
    assert done.returncode == 0, done.stderr
    found = [each for each in yaml.safe_load_all(done.stdout) if each is not None]
    names = [each["kind"] + each["metadata"]["name"].removeprefix(RELEASE) for each in found]
    assert len(set(names)) == len(names)
    assert all(each["metadata"]["name"].startswith(RELEASE) for each in found)
    return dict(zip(names, found, strict=True))


def pods(rendered: Rendered) -> dict[str, dict[str, Any]]:
    """Return the pods' templates by component."""
    job = rendered.get("CronJob-backup")
    owners = [each for each in rendered.values() if each["kind"] in {"StatefulSet", "Deployment"}]
    if job is not None:
        owners.append(job["spec"]["jobTemplate"])
    templates = [each["spec"]["template"] for each in owners]
    return {each["metadata"]["labels"]["app.kubernetes.io/component"]: each for each in templates}


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


def ports(template: dict[str, Any]) -> dict[str, int]:
    """Return the ports of its container by name."""
    return {each["name"]: each["containerPort"] for each in container(template)["ports"]}


@pytest.fixture(scope="module")
def validate(require: Callable[[str], ModuleType]) -> Validate:
    """Return a function that validates resources by the schemas of a version of Kubernetes.

    Unknown fields are errors, in the fields of the operator's kinds too.
    """
    schemas, jsonschema = require("kubernetes_validate"), require("jsonschema")
    fields = json.loads(Path(__file__).with_name("operator.schema.json").read_text())

    def check(resources: Iterable[dict[str, Any]], version: str) -> None:
        for resource in resources:
            if resource["apiVersion"].startswith(OPERATORS):
                jsonschema.validate(resource, fields)
            else:
                assert schemas.validate(resource, version, strict=True) == version

    return check


@pytest.mark.parametrize("examples", VALUES, ids="+".join)
@pytest.mark.nightly
def test_the_manifests_are_ones(helm: Helm, validate: Validate, examples: tuple[str, ...]) -> None:
    """Helm finds nothing in the chart; every field is of each version, and of its type."""
    linted = helm("lint", examples)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert f"Kubernetes {VERSIONS[0]} to {VERSIONS[-1]}" in PAGE
    for version in VERSIONS:
        validate(render(helm, examples).values(), version)


@pytest.mark.nightly
def test_what_the_values_choose(helm: Helm) -> None:
    """By default one server; the examples add to it."""
    server = {"Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy"}
    assert render(helm).keys() == server
    assert render(helm, ("backup",)).keys() - server == {
        "CronJob-backup",
        "PersistentVolumeClaim-backups",
    }
    assert render(helm, COMBINED).keys() - server == {
        *("CronJob-backup", "PersistentVolumeClaim-backups", "ConfigMap"),
        *("Deployment-consumer", "ConfigMap-consumer", "NetworkPolicy-consumer"),
        *("ServiceMonitor", "PodMonitor-consumer", "PrometheusRule"),
    }


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("containerPort: 50051", "containerport: 50051"),  # a name, deep inside
        ('value: "1000000000"', "value: 1000000000"),  # a number where there must be text
        ("replicas: 1\n", "replicas: one\n"),
        ("apiVersion: apps/v1\nkind: StatefulSet", "apiVersion: apps/v2\nkind: StatefulSet"),
        ("concurrencyPolicy: Forbid", "concurrency: Forbid"),
        ("targetPort: grpc", "targetport: grpc"),
        ("unhealthyPodEvictionPolicy", "unhealthyPodPolicy"),
        ("jobLabel:", "joblabel:"),
        ("keySecret:", "key:"),
        ("for: 30d", "for: 30 days"),
        ("scheme: https\n", "scheme: tls\n"),
    ],
)
@pytest.mark.nightly
def test_a_mistake_is_seen(
    helm: Helm, validate: Validate, require: Callable[[str], ModuleType], right: str, wrong: str
) -> None:
    """The schemas detect it."""
    ours, theirs = require("kubernetes_validate"), require("jsonschema")
    refusals = (ours.ValidationError, ours.SchemaNotFoundError, theirs.ValidationError)
    manifest = helm("template", COMBINED).stdout
    assert manifest.count(right) == 1
    mistaken = yaml.safe_load_all(manifest.replace(right, wrong))
    with pytest.raises(refusals):
        validate(mistaken, VERSIONS[-1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set=replicas=2"], "additional properties 'replicas' not allowed"),
        (["--set=maxStateBytes=1000000000"], "'/maxStateBytes': got number, want string"),
        (["--set=tls=false"], "'/tokens': value must be false"),
        (["--set=mutualTls=true,tls=false"], "'/mutualTls': value must be false"),
        (["--set=consumer.enabled=true"], "'/consumer/image': minLength: got 0, want 1"),
        (["--set=intake=true"], "'/config': minLength: got 0, want 1"),
        (["--set=disruptionBudget.maxUnavailable=2"], "value must be one of 0, 1"),
        (["--set-json=networkPolicy.clients=[]"], "'/networkPolicy/clients': minItems"),
        (["--set=monitoring.repository=example.org"], "'/monitoring/repository'"),
        (["--set=backup.size=20GiB"], "'/backup/size'"),
    ],
)
@pytest.mark.nightly
def test_wrong_values_are_refused(helm: Helm, options: list[str], message: str) -> None:
    """By the schema of the values, before anything is applied."""
    done = helm("template", (), *options)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize("examples", VALUES, ids="+".join)
@pytest.mark.nightly
def test_the_servers_parts_fit_together(
    helm: Helm, examples: tuple[str, ...], tmp_path: Path
) -> None:
    """Volumes, ports and user; each variable is a setting, and the settings are valid."""
    rendered = render(helm, examples)
    server = pods(rendered)["server"]
    volumes = [each["name"] for each in server["spec"]["volumes"]] + [
        each["metadata"]["name"] for each in rendered["StatefulSet"]["spec"]["volumeClaimTemplates"]
    ]
    paths = mounts(server)
    assert sorted(volumes) == sorted(paths)

    variables = environment(server)
    config = Path(variables.pop("STREAMEVAL_CONFIG", ""))
    given = None
    if config.name:
        assert str(config.parent) == paths["config"]
        given = tmp_path / config.name
        given.write_text(rendered["ConfigMap"]["data"][config.name])
    made = configure({}, config=given, environment=variables)
    assert set(variables) <= set(made.sources.values())
    settings = made.settings
    for path, volume in (
        (settings.tls_certificate, "tls"),
        (settings.tls_key, "tls"),
        (settings.tls_client_ca, "tls"),
        (settings.tokens, "tokens"),
    ):
        assert path is None or path.is_relative_to(paths[volume])
    assert settings.insecure == ("trial" in examples)
    listens = [settings.listen, settings.http_address(), settings.intake]
    assert list(ports(server).values()) == [
        int(each.rpartition(":")[2]) for each in listens if each is not None
    ]
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"STREAMEVAL_DATA=(\S+)", image) == [paths["data"]]
    for template in pods(rendered).values():
        user = template["spec"]["securityContext"]["runAsUser"]
        assert re.findall(r"^USER (\d+)", image, re.MULTILINE) == [str(user)]


@pytest.mark.nightly
def test_probes_ask_what_they_can(helm: Helm) -> None:
    """Over HTTP by the scheme of the server; where it wants a certificate, by the command."""
    for examples, scheme in (((), "HTTPS"), (("trial",), "HTTP")):
        found = container(pods(render(helm, examples))["server"])
        for probe, path in (
            ("startup", "/readyz"),
            ("readiness", "/readyz"),
            ("liveness", "/healthz"),
        ):
            asked = found[f"{probe}Probe"]["httpGet"]
            assert asked == {"path": path, "port": "http", "scheme": scheme}
    found = container(pods(render(helm, ("mtls",)))["server"])
    assert found["startupProbe"]["exec"] == found["readinessProbe"]["exec"]
    assert found["livenessProbe"]["tcpSocket"] == {"port": "http"}


@pytest.mark.nightly
def test_selectors_choose_the_pods_that_they_mean(helm: Helm) -> None:
    """Each selector chooses one component, of this release only; its ports are this pod's."""
    rendered = render(helm, COMBINED)
    templates = pods(rendered)
    assert templates.keys() == {"server", "backup", "consumer"}

    def chosen(labels: dict[str, str]) -> list[str]:
        assert labels["app.kubernetes.io/instance"] == RELEASE
        return [
            component
            for component, each in templates.items()
            if labels.items() <= each["metadata"]["labels"].items()
        ]

    def specs(*kinds: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, each in rendered.items():
            if each["kind"] in kinds:
                yield ("consumer" if name.endswith("consumer") else "server"), each["spec"]

    for component, spec in specs("StatefulSet", "Deployment", "PodDisruptionBudget", "PodMonitor"):
        assert chosen(spec["selector"]["matchLabels"]) == [component]
    service = rendered["Service"]["spec"]
    assert chosen(service["selector"]) == ["server"]
    assert {each["targetPort"]: each["port"] for each in service["ports"]} == ports(
        templates["server"]
    )
    for component, spec in specs("NetworkPolicy"):
        assert chosen(spec["podSelector"]["matchLabels"]) == [component]
        opened = {port["port"] for rule in spec["ingress"] for port in rule["ports"]}
        assert opened == ports(templates[component]).keys()
    *_, own = rendered["NetworkPolicy"]["spec"]["ingress"]
    assert chosen(own["from"][0]["podSelector"]["matchLabels"]) == [*templates]
    monitored = rendered["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= rendered["Service"]["metadata"]["labels"].items()


@pytest.mark.nightly
def test_a_drain_moves_the_server_or_waits(helm: Helm) -> None:
    """As the value says; one that is not ready never holds it up."""
    assert render(helm)["StatefulSet"]["spec"]["replicas"] == 1
    for most, options in ((1, ()), (0, ("--set=disruptionBudget.maxUnavailable=0",))):
        budget = render(helm, (), *options)["PodDisruptionBudget"]["spec"]
        assert budget["maxUnavailable"] == most
        assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


@pytest.mark.nightly
def test_prometheus_gets_new_figures_from_the_service(helm: Helm) -> None:
    """Over TLS by its name, with a job that the rules know; the consumer's port is its own."""
    rendered = render(helm, COMBINED)
    monitor = rendered["ServiceMonitor"]["spec"]
    (endpoint,) = monitor["endpoints"]
    assert (endpoint["port"], endpoint["path"], endpoint["scheme"]) == ("http", "/metrics", "https")
    assert int(endpoint["interval"].removesuffix("s")) > metrics._MAX_AGE_S
    assert endpoint["tlsConfig"]["serverName"] == rendered["Service"]["metadata"]["name"]
    job = rendered["Service"]["metadata"]["labels"][monitor["jobLabel"]]
    assert f'job="{job}"' in RULES.read_text()
    consumer = pods(rendered)["consumer"]
    (measured,) = rendered["PodMonitor-consumer"]["spec"]["podMetricsEndpoints"]
    config = tomllib.loads(rendered["ConfigMap-consumer"]["data"]["consumer.toml"])
    assert config["kafka"]["metrics"] == f"0.0.0.0:{ports(consumer)[measured['port']]}"
    assert container(consumer)["args"][-1] == f"{mounts(consumer)['config']}/consumer.toml"
    plain = render(helm, ("trial",), "--set=monitoring.enabled=true")["ServiceMonitor"]["spec"]
    assert not plain["endpoints"][0].keys() & {"authorization", "tlsConfig"}
    assert plain["endpoints"][0]["scheme"] == "http"


@pytest.mark.nightly
def test_the_rules_are_ours_and_name_their_runbooks(
    helm: Helm, require_command: Callable[[str], str], tmp_path: Path
) -> None:
    """The groups of deploy/prometheus and of the values; each alert has a page."""
    address = "https://github.example/streameval"
    for options, prefix in (
        ((), ""),
        (
            (f"--set=monitoring.repository={address}/",),
            f"{address}/blob/v{streameval.__version__}/",
        ),
    ):
        groups = render(helm, ("monitoring",), *options)["PrometheusRule"]["spec"]["groups"]
        path = tmp_path / "rules.yml"
        path.write_text(yaml.safe_dump({"groups": groups}))
        promtool = [
            require_command("promtool"),
            "check",
            "rules",
            "--lint=all",
            "--lint-fatal",
            path,
        ]
        subprocess.run(promtool, capture_output=True, timeout=60, check=True)
        *shipped, own = groups
        assert own["rules"][0]["record"] == "streameval:auc_pr:floor"
        alerts = [rule for group in shipped for rule in group["rules"]]
        for rule in alerts:
            page, _, anchor = rule["annotations"].pop("runbook_url").partition("#")
            runbook = ROOT / page.removeprefix(prefix)
            assert page.startswith(prefix)
            assert anchor in anchors(runbook)
            assert f"`{rule['alert']}`" in runbook.read_text()
        assert shipped == yaml.safe_load(RULES.read_text())["groups"]


def test_the_chart_is_of_this_version() -> None:
    """The chart, its image by default, and the address of the repository."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == streameval.__version__
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["image"]["tag"] == ""
    setting = TABLES["streameval"]["tool"]["streameval"]["repository"]
    assert values["monitoring"]["repository"] == setting


def secrets_used(rendered: Rendered) -> set[tuple[str, str]]:
    """Return the secrets, and the files of each, that the pods and Prometheus read."""
    used = set()
    for component, template in pods(rendered).items():
        secrets = {
            each["name"]: each["secret"] for each in template["spec"]["volumes"] if "secret" in each
        }
        files = {
            (volume, Path(value).name)
            for value in environment(template).values()
            for volume, path in mounts(template).items()
            if volume in secrets and Path(value).is_relative_to(path)
        }
        used |= {(secrets[volume]["secretName"], name) for volume, name in files}
        if component != "server":
            given = {
                (volume, item["path"]) for volume in secrets for item in secrets[volume]["items"]
            }
            assert given == files
            names = {name.removeprefix("STREAMEVAL_").lower() for name in environment(template)}
            assert names <= set(ConnectionOptions.__slots__)
    (endpoint,) = rendered["ServiceMonitor"]["spec"]["endpoints"]
    tls = endpoint["tlsConfig"]
    keys = [endpoint["authorization"]["credentials"], tls["ca"]["secret"]]
    keys += [tls["cert"]["secret"], tls["keySecret"]] if "cert" in tls else []
    return used | {(each["name"], each["key"]) for each in keys}


@pytest.mark.nightly
def test_the_page_makes_the_secrets(helm: Helm) -> None:
    """Each file that is read, and no other; with mTLS the clients' certificate too."""
    made = {
        (name.replace("streameval", RELEASE, 1), file)
        for name, files in re.findall(r"kubectl create secret generic (\S+) (.*)", PAGE)
        for file in re.findall(r"--from-file=(\S+)", files)
    }
    used = secrets_used(render(helm, ("backup", "monitoring", "consumer")))
    assert made == used
    added = secrets_used(render(helm, COMBINED)) - used
    assert added == {(f"{RELEASE}-clients", name) for name in ("client.crt", "client.key")}


@dataclass
class Server:
    """A server with mTLS and tokens, and the chart's own clients here instead of in pods."""

    folder: Path
    address: str
    pods: dict[str, dict[str, Any]]

    def here(self, text: str) -> str:
        """Return a text of the chart with the addresses and folders of this machine."""
        text = text.replace("/etc/streameval/", f"{self.folder}/")
        text = text.replace("/backups", f"{self.folder}/backups")
        return re.sub(rf"\b(localhost|{RELEASE}):50051", self.address, text)

    def run(self, component: str, words: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command of a pod with its variables."""
        variables = environment(self.pods[component]) if component != "server" else {}
        variables = {name: self.here(value) for name, value in variables.items()}
        variables["PATH"] = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        variables["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
        command = shutil.which(words[0], path=variables["PATH"]) or words[0]
        return subprocess.run(
            [command, *words[1:]],
            env=variables,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def server(helm: Helm, tmp_path: Path) -> Iterator[Server]:
    """Return a server whose files are where the secrets of the chart would be, with one row."""
    for name in ("backups", "bin", "tls", "clients"):
        (tmp_path / name).mkdir()
    tokens, made = tmp_path / "tokens.toml", Certificates.made(tmp_path / "made")
    certificate, key = made.client()
    for path, source in {
        "tls/ca.crt": made.root,
        "tls/tls.crt": made.certificate,
        "tls/tls.key": made.key,
        "clients/client.crt": certificate,
        "clients/client.key": key,
    }.items():
        shutil.copy(source, tmp_path / path)
    writer = create_token(tokens, "writer", ["ingest"])
    (tmp_path / "clients/backup.token").write_text(create_token(tokens, "backup", ["admin"]))
    command = tmp_path / "bin" / "streameval"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m streameval "$@"\n')
    command.chmod(0o755)
    settings = Settings(
        listen="127.0.0.1:0",
        data=tmp_path / "data",
        tokens=tokens,
        tls_certificate=made.certificate,
        tls_key=made.key,
        tls_client_ca=made.root,
    )
    with (
        running_server(settings) as address,
        Client(
            address,
            token=writer,
            root_certificates=made.root,
            client_certificate=certificate,
            client_key=key,
        ) as client,
    ):
        client.stream("s").add_cases(labels=[1, 0], scores=[0.9, 0.1])
        client.flush()
        yield Server(tmp_path, address, pods(render(helm, ("mtls",))))


@pytest.mark.nightly
def test_the_probe_of_mtls_is_answered(server: Server) -> None:
    """The command has a certificate that the server accepts."""
    probe = container(server.pods["server"])["readinessProbe"]["exec"]["command"]
    asked = server.run("server", [server.here(word) for word in probe])
    assert (asked.returncode, asked.stdout) == (0, "SERVING\n"), asked.stderr


@pytest.mark.nightly
def test_the_backup_is_a_verified_file(server: Server) -> None:
    """The job's script, run as it is but for address and folders: good copies, old ones deleted."""
    backups = server.folder / "backups"
    for name in ("streameval-old.db", "streameval-old.db.damaged"):
        (backups / name).touch()
        os.utime(backups / name, (0, 0))
    job = container(server.pods["backup"])
    (script,) = map(server.here, job["args"])
    done = server.run("backup", [*job["command"], script])
    assert done.returncode == 0, done.stderr
    (copied,) = {path.name for path in backups.iterdir()} - {"streameval-old.db.damaged"}
    assert re.fullmatch(r"streameval-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.db", copied)
    # A copy that cannot be verified is kept under another name, and fails the job.
    (backups / copied).unlink()
    spoilt = script.replace("streameval admin verify", 'truncate -s 4096 "$file"; false #')
    done = server.run("backup", [*job["command"], spoilt.replace('# "$file" ||', "||")])
    assert done.returncode == 1
    assert [path.suffix for path in backups.iterdir()] == [".damaged", ".damaged"]
