"""examples/node, run by Node against a real server."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import trustme

from streameval import Evaluator
from streameval.client import Client
from streameval_server import Settings, create_token
from streameval_server.testing import running_server

ROOT = Path(__file__).parents[2]

# Sends a batch of labelled predictions, and another when a line arrives on stdin.
HARNESS = """
import {{ createInterface }} from "node:readline";
import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";
import {{ Producer }} from "./producer.mjs";
const definition = protoLoader.loadSync("streameval/v1/ingest.proto", {{
  includeDirs: ["{proto}"], keepCase: true, longs: String, defaults: true, oneofs: true }});
const {{ v1 }} = grpc.loadPackageDefinition(definition).streameval;
const client = new v1.IngestService("{address}", grpc.credentials.createInsecure());
const producer = new Producer(client, new grpc.Metadata());
const send = async () => {{
  producer.send("node/harness", {{ cases: {{ scores: [0.9, 0.2], positives: [true, false] }} }});
  await producer.flush();
  console.log("durable");
}};
await send();
for await (const line of createInterface({{ input: process.stdin }})) await send();
await producer.close();
client.close();
"""


@pytest.fixture(scope="module")
def example(tmp_path_factory, require_command) -> Path:
    """Return a copy of the example with its packages installed, beside a copy of proto/."""
    require_command("node")
    npm = require_command("npm")
    root = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "proto", root / "proto")
    there = root / "examples" / "node"
    shutil.copytree(
        ROOT / "examples" / "node", there, ignore=shutil.ignore_patterns("node_modules")
    )
    ci = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(ci, check=False, cwd=there, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return there


def run(example: Path, address: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", "monitor.mjs", address, "node/example"],
        check=False,
        cwd=example,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_predictions_labels_and_a_snapshot(example):
    """Node prints the figures of an evaluator with the same cases."""
    ev = Evaluator()
    for i in range(1000):
        noise = ((i * 7919) % 1000) / 1000
        ev.add_case(i % 10 == 0, 0.35 + 0.6 * noise if i % 10 == 0 else 0.7 * noise)
    with running_server() as address:
        done = run(example, address)
    assert (done.returncode, done.stderr) == (0, "")
    printed = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    for name in ("auc_pr", "auc_roc", "average_precision"):
        value, limits = printed[name].split(" ", 1)
        assert float(value) == pytest.approx(getattr(ev, name)(), abs=1e-12)
        interval = ev.interval(name)
        assert limits == f"[{interval.lower}, {interval.upper}]"
    assert printed["labelled"] == "1000 of 1000"
    assert printed["refused"] == "0"


def test_a_token_lets_node_in(example, tmp_path):
    """With a token it works; without, the server's message is on stderr."""
    tokens = tmp_path / "tokens.json"
    secret = create_token(tokens, "node", scopes=["ingest", "query"], streams=["node"])
    settings = Settings(listen="127.0.0.1:0", memory=True, tokens=tokens)
    with running_server(settings) as address:
        assert run(example, address, STREAMEVAL_TOKEN=secret).returncode == 0
        refused = run(example, address)
    assert refused.returncode == 1
    assert "token" in refused.stderr


def test_a_producer_outlives_its_server(example, tmp_path, free_address):
    """After a restart it continues at the log's end, and nothing counts twice."""
    (example / "harness.mjs").write_text(
        HARNESS.format(proto=example.parents[1] / "proto", address=free_address)
    )
    settings = Settings(listen=free_address, data=tmp_path / "data")
    node = None
    try:
        with running_server(settings):
            node = subprocess.Popen(
                ["node", "harness.mjs"],
                cwd=example,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert node.stdout.readline() == "durable\n"
        with running_server(settings):
            node.stdin.write("again\n")
            node.stdin.close()
            assert node.stdout.readline() == "durable\n"
            assert node.wait(30) == 0
            with Client(free_address) as client:
                client.list_streams()  # waits until the rows are visible to other clients
                assert client.stream("node/harness").snapshot().num_cases == 4
    finally:
        if node is not None:
            node.kill()
            node.wait()
            node.stdout.close()


def test_node_speaks_tls(example, tmp_path):
    """It trusts the authority that it is given, sends its token, and nothing without TLS."""
    authority = trustme.CA()
    pair = authority.issue_cert("localhost", "127.0.0.1")
    names = ca, certificate, key = [tmp_path / name for name in ("ca.pem", "tls.crt", "tls.key")]
    sources = (authority.cert_pem, pair.cert_chain_pems[0], pair.private_key_pem)
    for source, path in zip(sources, names, strict=True):
        source.write_to_path(path)
    tokens = tmp_path / "tokens.json"
    secret = create_token(tokens, "node", scopes=["ingest", "query"], streams=["node"])
    settings = Settings(
        listen="127.0.0.1:0",
        memory=True,
        tokens=tokens,
        tls_certificate=certificate,
        tls_key=key,
    )
    with running_server(settings) as address:
        named = address.replace("127.0.0.1", "localhost")
        done = run(example, named, STREAMEVAL_TOKEN=secret, STREAMEVAL_ROOT_CERTIFICATES=str(ca))
        assert (done.returncode, done.stderr) == (0, "")
        assert "labelled 1000 of 1000" in done.stdout
