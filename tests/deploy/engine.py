"""A container engine of its own for tests: buildah, podman and podman-compose, as root.

Images, containers, volumes and networks are in one folder, apart from those of the
machine's own engine. Nothing is pulled from a registry of images: the base of the
Dockerfile is made from Debian's packages and carries its tag.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from streameval.client import Client

from ..conftest import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
BASE = "docker.io/library/python:3.13-slim"
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates,openssl"
SUITE = "trixie"
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
COMMANDS = ("buildah", "podman", "runc", "debootstrap", "iptables")
HELPERS = ("netavark", "aardvark-dns")
"""Programs that podman runs; they are not on the path."""
MAX_FILES = 1_024
"""The limit on open files in a container, the least that engines set by default."""
WITHIN_S = 120.0


def until(true: Callable[[], object], what: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < deadline, f"{what} within {WITHIN_S:g} s"
        time.sleep(0.05)


class Engine:
    """Runs the engine's commands with settings of its own, until `close`."""

    def __init__(self, folder: Path, require_command: Callable[[str], str]) -> None:
        for command in COMMANDS:
            require_command(command)
        for helper in HELPERS:
            if not Path("/usr/lib/podman", helper).exists():
                refuse(f"{helper} is not installed")
        if os.geteuid():
            refuse("containers need root here")
        self.folder = folder
        files = {
            "storage.conf": f"""
[storage]
driver = "overlay"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
""",
            # crun refuses the cgroups of a machine that has both versions.
            "containers.conf": f"""
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
tmp_dir = "{folder}/tmp"
volume_path = "{folder}/volumes"
[containers]
log_driver = "k8s-file"
default_ulimits = ["nofile={MAX_FILES}:{MAX_FILES}", "nproc={MAX_FILES}:{MAX_FILES}"]
[network]
network_backend = "netavark"
network_config_dir = "{folder}/networks"
""",
            # Builds trust what this machine trusts.
            "registries.conf": '[[registry]]\nlocation = "127.0.0.1"\ninsecure = true\n',
            "pip.conf": "[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n",
        }
        for name, text in files.items():
            (folder / name).write_text(text)
        self._environment = {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(folder / "registries.conf"),
        }

    def run(
        self, *command: object, check: bool = True, cwd: Path | None = None, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the engine."""
        words = [str(word) for word in command]
        done = subprocess.run(
            words,
            check=False,
            env=self._environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert not (check and done.returncode), f"{words}: {done.stdout}{done.stderr}"
        return done

    def podman(self, *arguments: object) -> str:
        """Run podman; return what it prints."""
        return self.run("podman", *arguments).stdout.strip()

    def inspect(self, name: str) -> dict[str, Any]:
        """Return what the engine knows of a container or an image."""
        (found,) = json.loads(self.podman("inspect", name))
        return found

    def make_base(self) -> None:
        """Make the Dockerfile's base of Debian's packages."""
        tree = self.folder / "base"
        done = self.run(
            *f"debootstrap --variant=minbase --include={PACKAGES} {SUITE} {tree}".split(),
            check=False,
        )
        if done.returncode:
            refuse(f"debootstrap makes no base here: {done.stdout[-500:]}{done.stderr[-500:]}")
        shutil.rmtree(tree / "var/cache/apt/archives")
        (tree / "usr/bin/python").symlink_to("python3")
        archive = self.folder / "base.tar"
        self.run("tar", "-C", tree, "-cf", archive, ".")
        self.podman("import", archive, BASE)
        shutil.rmtree(tree)
        archive.unlink()

    @property
    def build_options(self) -> tuple[str, ...]:
        """Return the options of `buildah bud` that this machine needs."""
        return (
            *("--isolation", "chroot", "--pull-never", "--format", "docker"),
            *("--volume", "/etc/ssl/certs:/etc/ssl/certs:ro"),
            *("--volume", f"{self.folder}/pip.conf:/etc/pip.conf:ro"),
        )

    def build(self, tag: str, context: Path, *options: object) -> None:
        """Build an image."""
        self.run("buildah", "bud", *self.build_options, *options, "--tag", tag, context)

    def close(self) -> None:
        """Remove every container and image, and the folder."""
        self.podman("rm", "--all", "--force", "--time", 0)
        self.podman("network", "prune", "--force")
        self.podman("rmi", "--all", "--force")
        self.run("umount", self.folder / "graph" / "overlay", check=False)
        shutil.rmtree(self.folder)


class Stack:
    """The services of docker-compose.yml under a project's name, on free ports.

    Parameters
    ----------
    project
        Its volumes and containers are apart from those of other projects.
    free_port
        Finds a port of this machine.
    """

    def __init__(self, engine: Engine, project: str, free_port: Callable[[], int]) -> None:
        self.engine, self.project = engine, project
        self.folder = ROOT  # where the compose file is
        self.ports = {
            int(port.split(":")[-1]): free_port()
            for service in COMPOSE["services"].values()
            for port in service.get("ports", ())
        }
        self._override = engine.folder / f"{project}.yml"
        self.change({})

    def change(self, changes: dict[str, dict[str, Any]]) -> None:
        """Set what differs from the file besides ports, by service; lists replace the file's."""
        services = {name: dict(change) for name, change in changes.items()}
        for name, service in COMPOSE["services"].items():
            inside = [int(port.split(":")[-1]) for port in service.get("ports", ())]
            published = [f"127.0.0.1:{self.ports[port]}:{port}" for port in inside]
            if published:
                services.setdefault(name, {})["ports"] = published
        lines = ["services:"]
        for name, change in services.items():
            lines.append(f"  {name}:")
            for key, value in change.items():
                # Without the tag a list would extend the file's.
                replaced = isinstance(value, list) and key in COMPOSE["services"].get(name, ())
                lines.append(f"    {key}: {'!override ' if replaced else ''}{json.dumps(value)}")
        self._override.write_text("\n".join(lines))

    def compose(self, *arguments: object, check: bool = True) -> str:
        """Run podman-compose as the pages run docker compose; return what it prints."""
        files = ("-f", "docker-compose.yml", "-f", self._override)
        command = (sys.executable, "-m", "podman_compose", "-p", self.project, *files)
        return self.engine.run(*command, *arguments, check=check, cwd=self.folder).stdout

    def container(self, service: str) -> str:
        """Return a container's name."""
        return f"{self.project}_{service}_1"

    def up(self, service: str) -> None:
        """Start a service from its image."""
        self.compose("up", "--detach", "--no-deps", "--no-build", service)

    def start(self) -> None:
        """Start the server, and wait until its own health command passes."""
        self.up("server")
        until(self.healthy, "health")

    def healthy(self) -> bool:
        """Run the compose file's health command in the server's container."""
        name = self.container("server")
        return self.engine.run("podman", "healthcheck", "run", name, check=False).returncode == 0

    def process(self) -> int:
        """Return the server's process id on this machine; 0 while it is stopped."""
        return int(self.engine.inspect(self.container("server"))["State"]["Pid"])

    def volume(self, name: str) -> Path:
        """Return a volume's folder on this machine."""
        found = self.engine.podman("volume", "inspect", f"{self.project}_{name}")
        return Path(json.loads(found)[0]["Mountpoint"])

    def address(self, port: int = 50051) -> str:
        """Return where a container's port is published."""
        return f"localhost:{self.ports[port]}"

    def client(self, name: str) -> Client:
        """Return a client with a token that `setup` made."""
        clients = self.volume("clients")
        token = (clients / f"{name}.token").read_text().strip()
        return Client(self.address(), token=token, root_certificates=clients / "ca.pem")

    def down(self) -> None:
        """Stop and remove the containers; volumes stay."""
        self.compose("down", "--timeout", 60)
