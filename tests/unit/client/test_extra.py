"""Importing an optional part without the packages of its extra."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("part", "name", "missing", "extra"),
    [
        ("streameval.client", "Client", "grpc", "client"),
        ("streameval.client", "Client", "google.protobuf", "client"),
        ("streameval.client", "Client", "google.rpc", "client"),
        ("streameval_server", "run", "starlette", "server"),
        ("streameval_server", "run", "platformdirs", "server"),
        ("streameval.spark", "evaluate", "pyspark", "spark"),
    ],
)
@pytest.mark.slow
def test_the_error_names_the_extra(part: str, name: str, missing: str, extra: str) -> None:
    """It is one that callers expect of an import, and it says what to install."""
    script = f"""
import sys
sys.modules[{missing!r}] = None
try:
    from {part} import {name}
except ModuleNotFoundError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    package = missing.partition(".")[0]
    assert run.stdout == f"{package} is missing; pip install 'streameval[{extra}]'\n"
