"""Clients that tools generate from /openapi.json, used behind a proxy with a prefix."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import httpx
import pytest

from streameval_server._web.openapi import _DEMANDED, description
from streameval_server._web.routes import ROUTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .conftest import Site

STREAM = "generated/v1"
PREFIX = "/tools/streameval"
HERE = Path(__file__).parent / "typescript"
DOCUMENT: dict[str, Any] = json.loads(description())
VALUES = {
    "kind": "CURVE_KIND_HULL",
    "step": "60s",
    "selection.between.startTime": "2026-01-01T00:00:00Z",
    "selection.between.endTime": "2026-01-01T01:00:00Z",
    "a.stream": STREAM,
    "b.stream": "generated/v2",
    "a": STREAM,
    "b": "generated/v2",
    "size": 3,
    "number": 1,
    "text": "a mark",
    "updateMask": "settings.labelTtl",
    "pair": {"a": STREAM, "b": "generated/v2"},
    "stream": {"name": STREAM},
}
"""A value of each field that a server demands."""


@pytest.fixture(scope="module")
def filled(served: Site) -> Site:
    """Return a server with two streams."""
    for name in (STREAM, "generated/v2"):
        served.show(name, "++-+--+-")
    return served


@contextmanager
def proxied(target: str) -> Iterator[str]:
    """Serve a server below a prefix, as nginx's `location` with `proxy_pass` does."""

    class Handler(BaseHTTPRequestHandler):
        def forward(self) -> None:
            if not self.path.startswith(f"{PREFIX}/"):
                self.send_error(404)
                return
            size = int(self.headers.get("content-length", 0))
            kind = {"content-type": self.headers["content-type"]} if size else {}
            answer = httpx.request(
                self.command,
                target + self.path.removeprefix(PREFIX),
                content=self.rfile.read(size),
                headers=kind,
                timeout=20,
            )
            self.send_response(answer.status_code)
            self.send_header("content-type", answer.headers["content-type"])
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_DELETE = do_PATCH = forward  # noqa: N815 - the names of http.server

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}{PREFIX}"
        finally:
            server.shutdown()
            thread.join()


def run(*command: str, cwd: Path | None = None, **environment: str) -> str:
    """Return what a command prints; it must succeed."""
    done = subprocess.run(
        command,
        check=False,
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def base_of(address: str) -> tuple[str, bytes]:
    """Return where the description says that the server is, and the description."""
    url = f"{address}/openapi.json"
    document = httpx.get(url, timeout=20).content
    (server,) = json.loads(document)["servers"]
    return urljoin(url, server["url"]).rstrip("/"), document


@pytest.mark.parametrize("prefix", ["", PREFIX, "/a"])
def test_servers_are_relative_to_the_description(prefix: str) -> None:
    """At the root and below any prefix."""
    (server,) = DOCUMENT["servers"]
    url = urljoin(f"https://example.org{prefix}/openapi.json", server["url"])
    assert url.rstrip("/") == f"https://example.org{prefix}"


def demanded(route: Any) -> list[str]:
    """Return the names of what the description requires beyond the path."""
    operation = DOCUMENT["paths"][route.path][route.verb.lower()]
    if "requestBody" in operation:
        reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        schema = DOCUMENT["components"]["schemas"][reference.rpartition("/")[2]]
        return list(schema.get("required", []))
    parameters = operation["parameters"]
    return [each["name"] for each in parameters if each.get("required") and each["in"] == "query"]


def answered(one: Site, route: Any, fields: dict[str, Any]) -> httpx.Response:
    """Call a route with these fields."""
    url = route.path.replace("{name}", STREAM)
    if route.verb in {"POST", "PATCH"}:
        return one.http.request(route.verb, url, json=fields)
    return one.http.request(route.verb, url, params=fields)


@pytest.mark.parametrize(
    "route",
    [each for each in ROUTES if not each.event],
    ids=lambda each: f"{each.verb} {each.path}",
)
def test_what_the_server_demands_is_required(filled: Site, route: Any) -> None:
    """Without one of them each request is refused; with all of them none is called missing."""
    name = route.method.rpartition("/")[2]
    names = demanded(route)
    assert set(names) == set(_DEMANDED.get(name, ()))
    for missing in names:
        fields = {each: VALUES[each] for each in names if each != missing}
        answer = answered(filled, route, fields)
        assert answer.status_code in {400, 404}, answer.text
    if name in {"DeleteStream", "DeletePair"}:
        return
    answer = answered(filled, route, {each: VALUES[each] for each in names})
    text = answer.text if answer.status_code == 400 else ""
    assert not re.search(r"must not be empty|must be positive|needs its span|got 0\b", text), text


def test_a_python_client(filled: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """openapi-python-client: typed calls by the base that the description names."""
    # In a directory of its own: it wants an older typer.
    tools = tmp_path / "tools"
    install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(tools)]
    run(*install, "--disable-pip-version-check", "openapi-python-client>=0.29,<0.30")
    with proxied(str(filled.http.base_url).rstrip("/")) as address:
        base, document = base_of(address)
        assert base == address
        (tmp_path / "openapi.json").write_bytes(document)
        run(
            *(sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"),
            *("--path", str(tmp_path / "openapi.json")),
            *("--output-path", str(tmp_path / "generated_client")),
            PYTHONPATH=str(tools),
        )
        monkeypatch.syspath_prepend(tmp_path)
        generated = importlib.import_module("generated_client")
        query = "generated_client.api.query_service"
        curve = importlib.import_module(f"{query}.get_curve")
        models = importlib.import_module("generated_client.models")
        with generated.Client(base_url=base) as client:
            with pytest.raises(TypeError, match="kind"):
                curve.sync(STREAM, client=client)
            found = curve.sync(STREAM, client=client, kind=models.CurveKind.CURVE_KIND_HULL)
            assert (found.num_positive_ref, found.num_negative_ref) == ("4", "4")
            assert len(found.curve.thresholds) == len(found.curve.tp)
            compare = importlib.import_module(f"{query}.compare_streams")
            compared = compare.sync(client=client, a_stream=STREAM, b_stream="generated/v2")
            assert compared.comparison.difference.value == 0.0
            mark = importlib.import_module("generated_client.api.stream_service.create_mark")
            body = models.CreateMarkRequestInput(text="from Python")
            assert mark.sync(STREAM, client=client, body=body).mark.text == "from Python"
            get = importlib.import_module("generated_client.api.stream_service.get_stream")
            said = get.sync("none", client=client).message
            assert said.startswith("there is no stream none: ListStreams")


def test_a_typescript_client(
    filled: Site, require_command: Callable[[str], str], tmp_path: Path
) -> None:
    """openapi-typescript: what the server demands is an error of the compiler when it is absent."""
    require_command("node")
    npm = require_command("npm")
    there = tmp_path / "typescript"
    shutil.copytree(HERE, there, ignore=shutil.ignore_patterns("node_modules"))
    run(npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=there)
    with proxied(str(filled.http.base_url).rstrip("/")) as address:
        base, document = base_of(address)
        (there / "openapi.json").write_bytes(document)
        tools = there / "node_modules" / ".bin"
        run(str(tools / "openapi-typescript"), "openapi.json", "-o", "api.d.ts", cwd=there)
        run(str(tools / "tsc"), cwd=there)
        said = json.loads(run("node", "out/use.js", base, STREAM, cwd=there))
    assert said.pop("metrics")[:2] == ["precision", "recall"]
    assert "from TypeScript" in said.pop("marks")
    status, message = said.pop("none")
    assert (status, message.partition(":")[0]) == (404, "there is no stream none")
    assert said == {
        "positives": "4",
        "thresholds": 5,
        "gone": 200,
    }
