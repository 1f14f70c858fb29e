"""A log with crossed segment keys and annotations replays unchanged.

`data/server_log_v6` was written by make_server_log_v6.py at version 0.1 and is never written
again.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streameval_server._log.checkpoint import FORMAT
from streameval_server._log.entries import Format, Kind

if TYPE_CHECKING:
    from types import ModuleType

DATA = Path(__file__).parent / "data" / "server_log_v6"
STATE_HASH = "423cc475f1bdf2317ae29231486f1c8fa96f003f6ceb65de9d3381753732c5bd"
"""The hash of the state that this version computes from that log, as for version 1's."""


@pytest.fixture
def log(tmp_path: Path, log_facts: ModuleType) -> Path:
    """Return a copy of the log."""
    return log_facts.copied(DATA, tmp_path)


def test_the_log_has_every_new_format(log: Path, log_facts: ModuleType) -> None:
    """Marks; crossed keys that a creation and an update declare; a manifest that says so."""
    rows, parts = log_facts.rows_and_parts(log)
    with closing(sqlite3.connect(log)) as connection:
        (manifest,) = connection.execute("SELECT data FROM manifest").fetchone()
    written = {(row.kind, row.format) for row in rows}
    assert (Kind.CHANGE_MARKS, Format.MARK_CHANGE) in written
    assert (Kind.CREATE_STREAM, Format.CROSSED_STREAM_REQUEST) in written
    assert (Kind.UPDATE_STREAM, Format.CROSSED_STREAM_REQUEST) in written
    assert "annotations/0/crossed" in parts
    assert json.loads(manifest[4:])["format"] == FORMAT
    assert b'"crosses_keys":true' in parts["stream/crossed"]


@pytest.mark.parametrize("checkpoint", [True, False])
def test_the_log_of_version_6_replays(log: Path, log_facts: ModuleType, checkpoint: bool) -> None:
    """From its checkpoint and from its first row: every slice and every annotation."""
    log_facts.check_replay(
        log, DATA, STATE_HASH, checkpoint=checkpoint, annotations=log_facts.mark_facts
    )


def test_the_figures_are_not_trivial(log_facts: ModuleType) -> None:
    """Marks before and after the checkpoint, one deleted; slices of crossed values."""
    expected = log_facts.expected(DATA)
    marks = expected["annotations"]
    assert [(each[0], each[2]) for each in marks["crossed"]] == [
        (2, "new features"),
        (3, "v5 deployed"),
    ]
    assert [each[0] for each in marks["crossed-later"]] == [1]
    assert "BR*web" in json.dumps(expected["streams"]["crossed"])
