"""docker-compose.yml without a container engine: the same steps, as processes.

Its variables, commands and volumes are read from the file itself; a volume is a
folder, and a path in a container is that folder's.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from streameval.client import AccessError, Client
from streameval_server import Settings

from ..distributions import PROJECTS, requirements

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
WRITES = re.compile(r'open(?:at)?\((?:\S+, )?"([^"]+)", \S*(?:O_WRONLY|O_RDWR|O_CREAT)\S*.*= \d+$')


def mounts(service: dict[str, Any], volumes: Path) -> list[tuple[str, str]]:
    """Return (path in the container, folder here) of a service, longest path first."""
    pairs = []
    for mount in service["volumes"]:
        source, target = mount.split(":")[:2]
        here = ROOT / source if source.startswith(".") else volumes / source
        pairs.append((target, str(here)))
    return sorted(pairs, key=lambda pair: -len(pair[0]))


def here(text: str, service: dict[str, Any], volumes: Path) -> str:
    """Return a command's argument with the container's paths mapped to this machine's."""
    for target, folder in mounts(service, volumes):
        if text.startswith(target):
            return folder + text[len(target) :]
    return text


def test_the_constraints_of_the_image_permit_what_the_project_requires():
    """Every direct dependency of the parts in the image has one version, which it accepts."""
    lines = (ROOT / "deploy/docker/constraints.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    wanted = [
        each
        for each in requirements("streameval", "server", "client", "cli")
        if each.name not in PROJECTS
    ]
    assert len(wanted) > 15
    for each in wanted:
        assert each.specifier.contains(pinned[each.name]), each


@pytest.fixture(scope="module")
def environment(commands, tmp_path_factory) -> dict[str, str]:
    """Return the environment in which processes find the commands."""
    image = tmp_path_factory.mktemp("image")
    (image / "streameval-setup").symlink_to(ROOT / "deploy/docker/setup.sh")
    kept = {
        name: os.environ[name] for name in ("PYTHONPATH", "PYTHONSAFEPATH") if name in os.environ
    }
    return {**kept, "PATH": f"{image}:{commands}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def volumes(tmp_path_factory, environment, require_command) -> Path:
    """Return a folder of volumes in which the service `setup` has run."""
    require_command("openssl")
    volumes = tmp_path_factory.mktemp("volumes")
    for name in COMPOSE["volumes"]:
        (volumes / name).mkdir()
    run_setup(volumes, environment)
    return volumes


def run_setup(volumes: Path, environment: dict[str, str]) -> None:
    service = SERVICES["setup"]
    command = [here(word, service, volumes) for word in service["command"]]
    done = subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture(scope="module")
def server(
    volumes, environment, tmp_path_factory, require_command, free_port
) -> Iterator[dict[str, str]]:
    """Run the service `server` under strace; yield its addresses and its trace."""
    strace = require_command("strace")
    service = SERVICES["server"]
    settings = {k: here(v, service, volumes) for k, v in service["environment"].items()}
    ports = {"STREAMEVAL_LISTEN": free_port(), "STREAMEVAL_HTTP": free_port()}
    for name, port in ports.items():
        assert settings[name].startswith("0.0.0.0:")
        settings[name] = f"0.0.0.0:{port}"
    settings["STREAMEVAL_DATA"] = here("/var/lib/streameval", service, volumes)
    scratch = tmp_path_factory.mktemp("scratch")
    trace = scratch / "trace"
    process = subprocess.Popen(
        [*f"{strace} -f -qq -e trace=open,openat,creat -o {trace}".split(), "streameval", "serve"],
        env={**environment, **settings, "HOME": "/nonexistent", "TMPDIR": str(scratch)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
    )
    try:
        said = process.stdout.readline()
        assert str(ports["STREAMEVAL_LISTEN"]) in said, said
        yield {
            "address": f"localhost:{ports['STREAMEVAL_LISTEN']}",
            "trace": str(trace),
            "data": settings["STREAMEVAL_DATA"],
        }
        # strace keeps signals to itself.
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def token(volumes: Path, name: str) -> str:
    return (volumes / "clients" / f"{name}.token").read_text().strip()


def test_setup_keeps_what_it_finds(volumes, environment):
    """A second start changes no file; secrets are readable by their owner or by Prometheus only."""
    before = {path: path.read_bytes() for path in volumes.rglob("*") if path.is_file()}
    run_setup(volumes, environment)
    assert {path: path.read_bytes() for path in volumes.rglob("*") if path.is_file()} == before
    modes = {str(p.relative_to(volumes)): p.stat().st_mode & 0o777 for p in before}
    assert {mode for name, mode in modes.items() if not name.startswith("monitoring")} == {0o600}
    assert {mode for name, mode in modes.items() if name.startswith("monitoring")} == {0o444}


@pytest.fixture
def own_volumes(tmp_path, environment, require_command) -> Path:
    """Return a folder of volumes, for a test that changes them, in which `setup` has run."""
    require_command("openssl")
    for name in COMPOSE["volumes"]:
        (tmp_path / name).mkdir()
    run_setup(tmp_path, environment)
    return tmp_path


def contents(volumes: Path) -> dict[str, bytes]:
    files = (path for path in volumes.rglob("*") if path.is_file() and path.name != ".done")
    return {str(path.relative_to(volumes)): path.read_bytes() for path in files}


def verified(volumes: Path) -> bool:
    """Whether every copy of the authority signed the certificate, and the key is its key."""
    server = volumes / "server"

    def openssl(*arguments: object) -> str:
        return subprocess.run(
            ["openssl", *map(str, arguments)], check=True, capture_output=True, text=True
        ).stdout

    for place in ("server", "clients", "monitoring"):
        openssl("verify", "-CAfile", volumes / place / "ca.pem", server / "server.pem")
    public = openssl("x509", "-in", server / "server.pem", "-noout", "-pubkey")
    return public == openssl("pkey", "-in", server / "server.key", "-pubout")


def test_setup_renews(own_volumes, environment):
    """Without .done, a second run replaces every file, the read-only ones too."""
    before = contents(own_volumes)
    assert verified(own_volumes)
    (own_volumes / "server" / ".done").unlink()
    run_setup(own_volumes, environment)
    after = contents(own_volumes)
    assert after.keys() == before.keys()
    assert not [name for name in after if after[name] == before[name]]
    assert verified(own_volumes)
    assert {path.stat().st_mode & 0o777 for path in (own_volumes / "monitoring").iterdir()} == {
        0o444
    }


@pytest.mark.parametrize("part", ["openssl x509", "streameval", "openssl rand"])
def test_setup_that_fails_changes_nothing(own_volumes, environment, tmp_path_factory, part):
    """When a step fails, the old key, certificates and tokens stay, and fit each other."""
    before = contents(own_volumes)
    (own_volumes / "server" / ".done").unlink()
    command, _, verb = part.partition(" ")
    stubs = tmp_path_factory.mktemp("stubs")
    real = shutil.which(command, path=environment["PATH"])
    failing = stubs / command
    failing.write_text(f'#!/bin/sh\n[ "$1" = "{verb or "admin"}" ] && exit 1\nexec {real} "$@"\n')
    failing.chmod(0o755)
    broken = {**environment, "PATH": f"{stubs}:{environment['PATH']}"}
    command = [here(word, SERVICES["setup"], own_volumes) for word in SERVICES["setup"]["command"]]
    done = subprocess.run(command, check=False, env=broken, capture_output=True, timeout=60)
    assert done.returncode != 0
    assert contents(own_volumes) == before
    run_setup(own_volumes, environment)
    assert verified(own_volumes)
    assert contents(own_volumes).keys() == before.keys()


def test_the_health_check_passes_and_needs_no_token(server, volumes, environment, free_port):
    """The compose file's command, at this machine's port; at another port it fails."""
    service = SERVICES["server"]
    marker, *command = [here(word, service, volumes) for word in service["healthcheck"]["test"]]
    assert marker == "CMD"
    for address, code in ((server["address"], 0), (f"localhost:{free_port()}", 2)):
        done = subprocess.run(
            [*command[:-1], address],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stderr


def test_what_setup_made_lets_clients_in(server, volumes):
    """Each token has the scope of its name; without a token every call is refused."""
    authority = volumes / "clients" / "ca.pem"
    with Client(
        server["address"], token=token(volumes, "ingest"), root_certificates=authority
    ) as sender:
        sender.stream("shop/v1").add_cases(labels=[1, 0], scores=[0.9, 0.1])
        sender.flush()
    prometheus = (volumes / "monitoring" / "prometheus.token").read_text().strip()
    for query in (token(volumes, "query"), prometheus):
        with Client(server["address"], token=query, root_certificates=authority) as reader:
            assert reader.stream("shop/v1").snapshot().num_cases == 2
    with (
        Client(server["address"], token="sv1.no.one", root_certificates=authority) as stranger,
        pytest.raises(AccessError),
    ):
        stranger.stream("shop/v1").snapshot()


def test_nothing_is_written_but_the_data(server):
    """A read-only root suffices: files opened for writing are data or temporary."""
    written = set()
    for line in Path(server["trace"]).read_text(errors="replace").splitlines():
        if found := WRITES.search(line):
            written.add(found.group(1))
    inside = {path for path in written if path.startswith(server["data"])}
    temporary = (str(Path(server["trace"]).parent), "/dev/", "/tmp/", "/proc/")
    assert inside
    assert not {path for path in written - inside if not path.startswith(temporary)}


def test_every_file_that_is_mounted_is_there():
    """Prometheus and Grafana find the files that the compose file mounts."""
    mounted = [
        ROOT / mount.split(":")[0]
        for service in SERVICES.values()
        for mount in service["volumes"]
        if mount.startswith(".")
    ]
    assert len(mounted) >= 3
    assert not [path for path in mounted if not path.is_dir() or not any(path.iterdir())]


def test_only_loopback_is_published():
    """No port is open to other machines unless the file is changed."""
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_time_to_stop_is_one_number():
    """Code, pages, compose and Kubernetes agree on what calls get and what the process gets."""
    calls_s = f"{Settings().stop_grace_s:g}"
    pages = {
        name: (ROOT / "docs" / f"{name}.md").read_text()
        for name in ("server", "containers", "kubernetes")
    }
    said = {
        *re.findall(r"stop_grace`, (\d+) s", "".join(pages.values())),
        *re.findall(r"stop_grace, (\d+) s", (ROOT / "docker-compose.yml").read_text()),
    }
    assert said == {calls_s}
    assert f"| `stop_grace` | `{Settings().stop_grace}` |" in pages["server"]
    process_s = re.fullmatch(r"(\d+)s", SERVICES["server"]["stop_grace_period"])[1]
    values = (ROOT / "deploy" / "helm" / "values.yaml").read_text()
    for text in (pages["kubernetes"], values):
        assert set(re.findall(r"terminationGracePeriodSeconds: (\d+)", text)) == {process_s}
    assert f"Give a container {process_s} s" in pages["containers"]
    assert int(process_s) > float(calls_s)


@pytest.mark.parametrize(
    "command",
    [
        ["hadolint", "Dockerfile"],
        ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml"],
    ],
    ids=lambda command: command[0],
)
def test_lint(command, require_command, monkeypatch):
    """The linters find nothing."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    path = require_command(command[0])
    done = subprocess.run(
        [path, *command[1:]], check=False, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
