"""The examples of the Spark page run, in order, in one session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streameval.client import Client
from streameval_server.testing import running_server

from ..pages import codes

pytestmark = pytest.mark.heavy

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


def test_examples(spark: Any, tmp_path: Path) -> None:
    """All examples run; the streaming query counts one file, and is stopped."""

    def placed(code: str, address: str) -> str:
        """Return the code with absolute folders: Spark resolves relative ones elsewhere."""
        for name in ("incoming", "states", "checkpoints/fraud"):
            code = code.replace(f'"{name}"', repr(str(tmp_path / name)))
        return code.replace("127.0.0.1:50051", address)

    incoming = tmp_path / "incoming"
    incoming.mkdir()
    with running_server() as address:
        names: dict[str, Any] = {"spark": spark}
        for code in codes(PAGE, "python", "spark"):
            exec(placed(code, address), names)
        row = '{"version": "v3", "country": "US", "score": 0.5, "fraud": true}\n'
        (incoming / "0.json").write_text(row)
        (code,) = codes(PAGE, "python", "sparkstream")
        exec(placed(code, address), names)
        query = names["query"]
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        with Client(address) as client:
            assert client.stream("fraud/v3").snapshot().num_cases == 5
