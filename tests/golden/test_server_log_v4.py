"""A log with weights, clusters, label delays and detectors replays unchanged.

`data/server_log_v4` was written by make_server_log_v4.py at version 0.1 and is never written
again.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from streameval_server._core.recovery import open_core
from streameval_server._log.entries import Format, Kind, LogRow
from streameval_server._log.sqlite import SqliteStorage

DATA = Path(__file__).parent / "data" / "server_log_v4"
STATE_HASH = "3766afe4f6ce37c1f3a8d22e9aa0e02fba3f5d90fd20dc3be89bbe601e3edec3"
"""The hash of the state that this version computes from that log, as for version 1's."""

FORMATS = {
    Format.CHECKED_EXTENDED_INGEST_REQUEST,
    Format.CHECKED_EXTENDED_INGEST_BATCH_REQUEST,
    Format.CLUSTERED_STREAM_REQUEST,
    Format.DELAYS_INGEST_REQUEST,
    Format.DELAYS_INGEST_BATCH_REQUEST,
    Format.ALARMS_CREATE_STREAM_REQUEST,
    Format.ALARMS_UPDATE_STREAM_REQUEST,
    Format.ALARM_CHANGE,
}
"""Those that came after version 3."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    for end in ("", "-acked"):
        shutil.copy(DATA / f"log.db{end}", tmp_path / f"log.db{end}")
    return tmp_path / "log.db"


def test_the_log_has_every_new_format(log: Path) -> None:
    with closing(sqlite3.connect(log)) as connection:
        rows = [LogRow._make(row) for row in connection.execute("SELECT * FROM log")]
        parts = dict(connection.execute("SELECT part, data FROM part WHERE revision > 0"))
    assert {row.format for row in rows} >= FORMATS
    assert Kind.CHANGE_ALARM in {row.kind for row in rows}
    assert "alarms/0/watched" in parts


@pytest.mark.parametrize("checkpoint", [True, False])
def test_the_log_of_version_4_replays(log: Path, log_facts, checkpoint: bool) -> None:
    """From its checkpoint and from its first row: every count, mark and alarm."""
    if not checkpoint:
        with closing(sqlite3.connect(log)) as connection:
            connection.execute("DELETE FROM manifest")
            connection.commit()
    expected = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
    core = open_core(SqliteStorage(log), log_facts.LIMITS)
    assert core.recovery.checkpoint_error is None
    assert (core.recovery.checkpoint_revision > 0) is checkpoint
    found = log_facts.facts(core) | {"alarms": log_facts.alarm_facts(core)}
    log_facts.same(json.loads(json.dumps(found)), expected)
    assert core.engine.state_hash() == STATE_HASH
    core.storage.close()


def test_the_figures_are_not_trivial() -> None:
    """One detector has alarms, one of them seen and sent; the other waits and says why."""
    alarms = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))["alarms"]
    watched = alarms["watched"]
    assert [each["acknowledged_at"] is None for each in watched["alarms"]][:2] == [False, True]
    assert watched["delivered"] == [1]
    assert watched["alarms"][0]["segments"][0]["segment"] == "country=BR"
    assert alarms["created-watching"]["waits_for"].startswith("the reference has no rows")
