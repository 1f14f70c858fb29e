"""A server with a log, and pushes in small pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("typer", reason="needs the extra cli")

from streameval.cli import _pieces
from streameval_server import Settings
from streameval_server.testing import running_server

from .bad_rows import BAD_CASES, good_cases, mixed, write
from .killed_push import PIECE_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut files as the killed commands do."""
    monkeypatch.setattr(_pieces, "PIECE_ROWS", PIECE_ROWS)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Yield the address of a server with a log."""
    with running_server(Settings(listen="127.0.0.1:0", data=tmp_path / "data")) as address:
        yield address


@pytest.fixture
def dirty(tmp_path: Path) -> Path:
    """Return a directory of three files with bad rows, 390 good ones in all."""
    for number in range(3):
        rows = mixed(good_cases(130, number), BAD_CASES)
        write(tmp_path / "dirty" / f"{number}.ndjson", [row for row, _ in rows])
    return tmp_path / "dirty"
