"""examples/go, generated and built by Go and run against a real server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
import trustme

from streameval import Evaluator
from streameval.client import Client
from streameval_server import Settings, create_token
from streameval_server.testing import running_server

ROOT = Path(__file__).parents[2]
NUM_EVENTS = 1500

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900)]


def score_of(i: int) -> float:
    noise = ((i * 7919) % 1000) / 1000
    return 0.35 + 0.6 * noise if i % 10 == 0 else 0.7 * noise


def lines(events: Iterable[int]) -> str:
    """Return each event's prediction, and its label three lines later or earlier."""
    rows = []
    for i in events:
        prediction = {"id": f"order-{i}", "score": score_of(i)}
        label = {"id": f"order-{i}", "label": i % 10 == 0}
        rows += [label, prediction] if i % 7 == 0 else [prediction, label]
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def monitor(tmp_path_factory, require_command) -> Path:
    """Return the program, built as its page says from a copy without generated files."""
    go = require_command("go")
    require_command("protoc")
    root = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "proto", root / "proto")
    there = root / "examples" / "go"
    shutil.copytree(ROOT / "examples" / "go", there, ignore=shutil.ignore_patterns("streamevalv1"))
    for command in (
        ["./generate.sh"],
        [go, "vet", "."],
        [go, "build", "-o", "monitor", "."],
    ):
        done = subprocess.run(
            command, check=False, cwd=there, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, (command, done.stderr)
    unformatted = subprocess.run(
        [Path(go).with_name("gofmt"), "-l", "."],
        check=True,
        cwd=there,
        capture_output=True,
        text=True,
    )
    assert unformatted.stdout == ""
    return there / "monitor"


@pytest.fixture
def events(tmp_path) -> Path:
    path = tmp_path / "events.ndjson"
    path.write_text(lines(range(NUM_EVENTS)))
    return path


def run(
    monitor: Path, address: str, source: Path, *flags: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [monitor, "-address", address, *flags, source],
        check=False,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def expected() -> Evaluator:
    ev = Evaluator()
    for i in range(NUM_EVENTS):
        ev.add_case(i % 10 == 0, score_of(i))
    return ev


def test_predictions_labels_and_a_snapshot(monitor, events):
    """Go prints the figures of an evaluator with the same cases, also when run again."""
    ev = expected()
    with running_server() as address:
        first = run(monitor, address, events)
        again = run(monitor, address, events)
    assert (first.returncode, first.stderr) == (0, "")
    printed = dict(line.split(" ", 1) for line in first.stdout.splitlines())
    for name in ("auc_pr", "auc_roc", "average_precision"):
        value, limits = printed[name].split(" ", 1)
        assert float(value) == pytest.approx(getattr(ev, name)(), abs=1e-12)
        lower, upper = json.loads(limits)
        interval = ev.interval(name)
        assert (lower, upper) == pytest.approx((interval.lower, interval.upper), abs=1e-12)
    assert printed["labelled"] == f"{NUM_EVENTS} of {NUM_EVENTS}"
    assert "refused" not in printed
    assert again.stdout == first.stdout


@pytest.mark.parametrize("pieces", [1, 4, 9])
def test_a_killed_producer_continues_where_the_log_ends(monitor, events, free_address, pieces):
    """Killed after some pieces of 100 lines and started again, it counts each row once."""
    settings = Settings(listen=free_address, memory=True)
    flags = ["-address", free_address, "-batch", "100", "-producer", "orders"]
    with running_server(settings), Client(free_address) as client:
        process = subprocess.Popen(
            [monitor, *flags, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            process.stdin.write(lines(range(50 * pieces)))
            process.stdin.flush()
            stream = client.stream("go/example")
            while not any(info.name == "go/example" for info in client.list_streams()):
                pass
            while stream.snapshot().num_cases < 50 * pieces:
                pass
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        done = run(monitor, free_address, events, "-batch", "100", "-producer", "orders")
        assert done.returncode == 0, done.stderr
        snapshot = stream.snapshot()
    assert snapshot.num_cases == NUM_EVENTS
    assert snapshot.coverage.orphans == 0
    assert snapshot.auc_pr == expected().auc_pr()


def test_it_outlives_its_server(monitor, tmp_path, free_address):
    """After a restart of the server it sends what was not durable, and nothing counts twice."""
    settings = Settings(listen=free_address, data=tmp_path / "data")
    process = subprocess.Popen(
        [monitor, "-address", free_address, "-batch", "100", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with running_server(settings), Client(free_address) as client:
            process.stdin.write(lines(range(500)))
            process.stdin.flush()
            while not client.list_streams():
                pass
        process.stdin.write(lines(range(500, NUM_EVENTS)))
        with running_server(settings):
            output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert f"labelled {NUM_EVENTS} of {NUM_EVENTS}" in output
        assert f"auc_pr {expected().auc_pr()}" in output
        assert "connecting again" in errors
    finally:
        process.kill()
        process.wait()


def test_a_token_over_tls(monitor, events, tmp_path):
    """With a token and the authority it works; without the token the refusal is on stderr."""
    authority = trustme.CA()
    pair = authority.issue_cert("localhost", "127.0.0.1")
    names = ca, certificate, key = [tmp_path / name for name in ("ca.pem", "tls.crt", "tls.key")]
    sources = (authority.cert_pem, pair.cert_chain_pems[0], pair.private_key_pem)
    for source, path in zip(sources, names, strict=True):
        source.write_to_path(path)
    tokens = tmp_path / "tokens.json"
    secret = create_token(tokens, "go", scopes=["ingest", "query"], streams=["go"])
    settings = Settings(
        listen="127.0.0.1:0",
        memory=True,
        tokens=tokens,
        tls_certificate=certificate,
        tls_key=key,
    )
    with running_server(settings) as address:
        trusted = {"STREAMEVAL_ROOT_CERTIFICATES": str(ca)}
        done = run(monitor, address, events, STREAMEVAL_TOKEN=secret, **trusted)
        refused = run(monitor, address, events, **trusted)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"labelled {NUM_EVENTS} of {NUM_EVENTS}" in done.stdout
    assert refused.returncode == 1
    assert "token" in refused.stderr


def test_a_bad_line_names_its_number(monitor, tmp_path):
    """Nothing is invented for a line that has neither a score nor a label."""
    path = tmp_path / "events.ndjson"
    path.write_text(lines([1]) + '{"id": "order-2"}\n')
    with running_server() as address:
        done = run(monitor, address, path)
    assert done.returncode == 1
    assert "line 3 needs a score or a label, not both" in done.stderr
