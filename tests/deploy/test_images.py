"""The image as a user gets it, in containers: docker-compose.yml with podman.

The image is built from the Dockerfile; its services run with the compose file's own
settings, on this machine's loopback. Prometheus and Alertmanager are Debian's.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from streameval.client import AccessError, Client

from ..release import unpack_release
from .engine import BASE, COMPOSE, MAX_FILES, ROOT, Engine, Stack, until
from .tagged import TAG, git, make_tagged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]

IMAGE = COMPOSE["services"]["server"]["image"]
LAST_IMAGE = "localhost/streameval:last"
MAX_IMAGE_BYTES = 100_000_000
"""What the image may add to its base."""
DEBIAN_MONITORING = f"""
FROM {BASE}
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends prometheus prometheus-alertmanager \
 && install -d -o 65534 -g 65534 /prometheus /alertmanager
USER 65534
"""
"""Debian's packages, where the images of the projects themselves have their files."""
BATCHES = 40
ROWS = 500


@pytest.fixture(scope="module")
def engine(tmp_path_factory, require, require_command) -> Iterator[Engine]:
    """Return an engine with the image, and those of Debian."""
    require("podman_compose")
    folder = tmp_path_factory.mktemp("engine")
    engine = Engine(folder, require_command)
    empty = folder / "empty"
    empty.mkdir()
    (folder / "Monitoring").write_text(DEBIAN_MONITORING)
    try:
        engine.make_base()
        with ThreadPoolExecutor() as builds:
            for done in [
                builds.submit(engine.build, f"localhost/{IMAGE}", ROOT),
                builds.submit(
                    engine.build, "localhost/monitoring", empty, "--file", folder / "Monitoring"
                ),
            ]:
                done.result()
        yield engine
    finally:
        engine.close()


@pytest.fixture(scope="module")
def stack(engine, free_port) -> Iterator[Stack]:
    """Return a stack whose `setup` has run and whose server serves."""
    stack = Stack(engine, "image", free_port)
    stack.compose("run", "--rm", "-T", "--no-deps", "setup")
    stack.start()
    yield stack
    stack.down()


def contents(stack: Stack) -> dict[str, bytes]:
    """Return the files that `setup` made."""
    files = (
        (f"{name}/{path.name}", path)
        for name in ("server", "clients", "monitoring")
        for path in stack.volume(name).iterdir()
        if path.name != ".done"
    )
    return {name: path.read_bytes() for name, path in files}


def send(client: Client, stream: str, batches: int = BATCHES) -> None:
    """Send batches of cases, each acknowledged."""
    for batch in range(batches):
        scores = [(batch * ROWS + row) % 997 / 997 for row in range(ROWS)]
        client.stream(stream).add_cases(labels=[score > 0.7 for score in scores], scores=scores)
        client.flush()


def send_and_log(client: Client, stream: str) -> None:
    """Send batches of cases, and predictions of which the labels come later."""
    send(client, stream)
    client.stream(stream).log_cases(ids=["a", "b"], scores=[0.2, 0.8])
    client.flush()


def row_of(stack: Stack, stream: str) -> dict[str, object]:
    """Return the figures of a stream once its predictions, which came last, are counted."""
    with stack.client("query") as reader:
        of = reader.stream(stream)
        until(lambda: of.snapshot().coverage.predictions == 2, "predictions are counted")
        return of.snapshot().to_row()


def num_cases(stack: Stack, stream: str) -> int:
    """Return what the server has counted."""
    with stack.client("query") as reader:
        return reader.stream(stream).snapshot().num_cases


def answers(true: Callable[[], bool]) -> bool:
    """Whether a condition holds; not while a container does not answer, or is not ready yet."""
    try:
        return true()
    except httpx.HTTPError:
        return False


def test_the_image_is_small(engine, capsys):
    """At most 100 MB beyond its base; neither pip nor a compiler is in what it adds."""
    added = engine.inspect(IMAGE)["Size"] - engine.inspect(BASE)["Size"]
    with capsys.disabled():
        print(f"\nthe image takes {added / 1e6:.0f} MB beyond its base")
    assert 0 < added <= MAX_IMAGE_BYTES
    listed = engine.podman(
        *f"run --rm --network none --entrypoint find {IMAGE} /opt/streameval".split()
    ).splitlines()
    assert [path for path in listed if path.endswith("/bin/streameval")]
    assert not [path for path in listed if re.search(r"/(pip\d?|gcc|cc)$", path)]


def test_every_part_of_the_image_answers(engine):
    """Help, an exact and a resampled interval, in the image's own libraries and bytecode."""
    run = f"run --rm --network none {IMAGE}".split()
    assert "serve" in engine.podman(*run, "--help")
    program = """
import sys
from importlib.metadata import distributions
from pathlib import Path
import numpy
from streameval import Evaluator
import streameval_server.commands
table = numpy.eye(64) + 1 / 64
assert abs(numpy.linalg.inv(table) @ table - numpy.eye(64)).max() < 1e-12
ev = Evaluator()
ev.add_cases(labels=[1, 0] * 50, scores=numpy.arange(100) / 100)
assert ev.interval("auc_roc").lower < ev.auc_roc()
assert ev.interval("auc_pr", method="bootstrap", resamples=100).lower < ev.auc_pr()
ours = [each for name, each in sys.modules.items() if name.startswith("streameval")]
without_times = [Path(each.__cached__).read_bytes()[4] == 1 for each in ours]
assert len(without_times) > 100 and all(without_times)
"""
    words = ["run", "--rm", "--network", "none", "--entrypoint", "python", IMAGE, "-c", program]
    engine.podman(*words)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_release_has_the_same_layers_again(engine, tmp_path, require_command, free_port):
    """From two clones, pushed to a registry; what is pulled from there is the tag's image."""
    make_tagged(tmp_path / "first")
    git(tmp_path, "clone", "-q", tmp_path / "first", "second")
    port = free_port()
    settings = tmp_path / "registry.yml"
    settings.write_text(f"""
version: 0.1
storage: {{filesystem: {{rootdirectory: {tmp_path}/registry}}}}
http: {{addr: "127.0.0.1:{port}"}}
""")
    layers = []
    with subprocess.Popen([require_command("docker-registry"), "serve", settings]) as registry:
        try:
            for name in ("first", "second"):
                image = f"127.0.0.1:{port}/{name}"
                script = tmp_path / name / "tools/release/image"
                words = (TAG, tmp_path / f"{name}-out", image, *engine.build_options)
                pushed = engine.run(script, *words, timeout=600).stdout.splitlines()[-1]
                engine.podman("rmi", f"{image}:{TAG[1:]}")
                engine.podman("pull", pushed)
                found = engine.inspect(pushed)
                assert found["Labels"]["org.opencontainers.image.version"] == TAG[1:]
                layers.append(found["RootFS"]["Layers"])
        finally:
            registry.terminate()
    assert layers[0] == layers[1]


def test_the_server_runs_with_the_least_it_needs(stack):
    """Read-only, as another user, without capabilities and new privileges, with 1,024 files."""
    status = Path(f"/proc/{stack.process()}/status").read_text()
    assert re.search(r"^Uid:\t10001\t10001\t10001\t10001$", status, re.MULTILINE)
    for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert re.search(rf"^{name}:\t0+$", status, re.MULTILINE), status
    assert "\nNoNewPrivs:\t1\n" in status
    assert "\nSeccomp:\t2\n" in status
    limits = Path(f"/proc/{stack.process()}/limits").read_text()
    assert re.search(rf"^Max open files +{MAX_FILES} +{MAX_FILES} ", limits, re.MULTILINE)
    refused = stack.engine.run(
        "podman", "exec", stack.container("server"), "touch", "/opt/streameval/new", check=False
    )
    assert "Read-only file system" in refused.stderr


def test_health_is_known_by_its_own_command(stack):
    """It fails while the server does not answer, and passes again."""
    assert stack.healthy()
    process = stack.process()
    os.kill(process, signal.SIGSTOP)
    try:
        assert not stack.healthy()
    finally:
        os.kill(process, signal.SIGCONT)
    until(stack.healthy, "health")


def test_a_kill_loses_nothing(stack):
    """The engine starts the server again; the same client goes on; each row counts once."""
    with stack.client("ingest") as sender:
        send(sender, "shop/killed", 3)
        rest = threading.Thread(target=send, args=(sender, "shop/killed"))
        rest.start()
        killed = stack.process()
        os.kill(killed, signal.SIGKILL)
        until(lambda: stack.process() not in {0, killed}, "a new process")
        rest.join()
    until(stack.healthy, "health")  # all may have been acknowledged before
    assert num_cases(stack, "shop/killed") == (3 + BATCHES) * ROWS


def test_a_stop_is_in_order_and_the_volume_stays(stack):
    """SIGTERM ends it with code 0; a container made anew finds the data and tokens."""
    with stack.client("ingest") as sender:
        send(sender, "shop/kept", 3)
    name = stack.container("server")
    stack.compose("stop", "server")
    assert stack.engine.inspect(name)["State"]["ExitCode"] == 0
    stack.down()
    assert stack.engine.run("podman", "inspect", name, check=False).returncode
    stack.start()
    assert num_cases(stack, "shop/kept") == 3 * ROWS


def test_setup_twice_and_renewal(stack):
    """A second run changes nothing; without .done all is new, for the running server too."""
    before = contents(stack)
    process = stack.process()
    stack.compose("run", "--rm", "-T", "--no-deps", "setup")
    assert contents(stack) == before
    old = stack.client("query")
    with stack.client("ingest") as sender:
        send(sender, "shop/renewed", 1)
    assert old.stream("shop/renewed").snapshot().num_cases == ROWS
    for command in ("setup rm /etc/streameval/.done", "setup"):
        stack.compose("run", "--rm", "-T", "--no-deps", *command.split())
    after = contents(stack)
    assert after.keys() == before.keys()
    assert not [name for name in after if after[name] == before[name]]

    def refused() -> bool:
        try:
            old.stream("shop/renewed").snapshot()
        except AccessError:
            return True
        return False

    until(refused, "the end of the old token")
    old.close()
    until(stack.healthy, "health, by the new authority")
    assert num_cases(stack, "shop/renewed") == ROWS
    assert stack.process() == process


def test_an_upgrade_from_the_last_release(engine, free_port, tmp_path):
    """Killed as the last release, started as this one: one client, one volume, each row once."""
    print("the last release:", unpack_release(tmp_path))
    engine.build(LAST_IMAGE, tmp_path)
    stack = Stack(engine, "upgrade", free_port)
    stack.folder = tmp_path  # its compose file has the commands that it knows
    stack.change({name: {"image": LAST_IMAGE} for name in ("setup", "server")})
    stack.compose("run", "--rm", "-T", "--no-deps", "setup")
    stack.start()
    made = contents(stack)
    with stack.client("ingest") as sender:
        send_and_log(sender, "shop/upgraded")
        before = row_of(stack, "shop/upgraded")
        stack.engine.podman("kill", stack.container("server"))
        stack.down()
        stack.folder = ROOT
        stack.change({})
        stack.compose("run", "--rm", "-T", "--no-deps", "setup")
        stack.start()
        assert stack.engine.inspect(stack.container("server"))["ImageName"].endswith(IMAGE)
        after = row_of(stack, "shop/upgraded")
        # A release may compute limits otherwise, but no count and no figure.
        changed = {
            name: (each, before[name]) for name, each in after.items() if each != before[name]
        }
        assert all(name.endswith(("_lower", "_upper")) for name in changed), changed
        send_and_log(sender, "shop/begun-after")
        rows = [row_of(stack, name) for name in ("shop/upgraded", "shop/begun-after")]
        assert rows[0] | {"revision": 0} == rows[1] | {"revision": 0}
        sender.stream("shop/upgraded").label_cases(ids=["a", "b"], labels=[False, True])
        send(sender, "shop/upgraded", 1)
    assert num_cases(stack, "shop/upgraded") == (BATCHES + 1) * ROWS + 2
    assert contents(stack) == made
    stack.down()


def test_prometheus_and_alertmanager_beside_it(stack, tmp_path):
    """Scraped over TLS by its name in the network; an alert arrives, and ends, in Alertmanager."""
    deploy = tmp_path / "prometheus"
    shutil.copytree(ROOT / "deploy" / "prometheus", deploy)
    settings = deploy / "prometheus.yml"
    settings.write_text(settings.read_text().replace("15s", "1s"))
    rules = deploy / "streameval.rules.yml"
    rules.write_text(re.sub(r"for: \w+", "for: 0s", rules.read_text()))
    stack.change(
        {
            "prometheus": {
                "image": "localhost/monitoring",
                "entrypoint": ["prometheus"],
                "command": [
                    "--config.file=/etc/prometheus/prometheus.yml",
                    "--storage.tsdb.path=/prometheus",
                    # An alert that did not arrive is sent again after this, not after a minute.
                    "--rules.alert.resend-delay=1s",
                ],
                "volumes": [
                    f"{deploy}:/etc/prometheus:ro",
                    *COMPOSE["services"]["prometheus"]["volumes"][1:],
                ],
            },
            "alertmanager": {
                "image": "localhost/monitoring",
                "entrypoint": ["prometheus-alertmanager"],
                "volumes": [
                    f"{deploy}:/etc/alertmanager:ro",
                    *COMPOSE["services"]["alertmanager"]["volumes"][1:],
                ],
            },
        }
    )
    with stack.client("ingest") as sender:
        send(sender, "shop/scraped", 1)
    stack.up("alertmanager")
    stack.up("prometheus")

    def query(expression: str) -> list[str]:
        url = f"http://{stack.address(9090)}/api/v1/query"
        answer = httpx.get(url, params={"query": expression}, timeout=20).raise_for_status()
        return [each["value"][1] for each in answer.json()["data"]["result"]]

    def alerts() -> set[str]:
        url = f"http://{stack.address(9093)}/api/v2/alerts"
        answer = httpx.get(url, timeout=20).raise_for_status()
        return {each["labels"]["alertname"] for each in answer.json()}

    until(
        lambda: answers(lambda: query('up{job="streameval", instance="server:8080"}') == ["1"]),
        "a scrape",
    )
    until(lambda: query('streameval_references{stream="shop/scraped", window="all"}'), "figures")
    assert query("ALERTS") == []
    until(lambda: answers(lambda: alerts() == set()), "Alertmanager")
    stack.compose("stop", "server")
    until(lambda: answers(lambda: "StreamevalDown" in alerts()), "the alert")
    stack.start()
    until(lambda: answers(lambda: "StreamevalDown" not in alerts()), "the end of the alert")
    for name in ("prometheus", "alertmanager"):
        stack.compose("stop", name)
