"""The page about Spark: its examples run, in their order, in one session."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streameval.client import Client
from streameval_server.testing import running_server

if TYPE_CHECKING:
    import pytest

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def examples(kind: str) -> list[str]:
    """Return the blocks of a kind."""
    return re.findall(rf"^```python {kind}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_examples(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page shows is what happens; the live query counts one file, and is stopped."""
    monkeypatch.chdir(tmp_path)
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    with running_server() as address:
        names: dict[str, Any] = {"spark": spark}
        for code in examples("spark"):
            exec(code.replace("127.0.0.1:50051", address), names)
        row = '{"version": "v3", "country": "US", "score": 0.5, "fraud": true}\n'
        (incoming / "0.json").write_text(row)
        (code,) = examples("sparkstream")
        exec(code.replace('"incoming"', repr(str(incoming))), names)
        query = names["query"]
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        with Client(address) as client:
            assert client.stream("fraud/v3").snapshot().num_cases == 5
