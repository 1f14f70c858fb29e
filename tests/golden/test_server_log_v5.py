"""A log with pairs replays unchanged.

`data/server_log_v5` was written by make_server_log_v5.py at version 0.1 and is never written
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

DATA = Path(__file__).parent / "data" / "server_log_v5"
STATE_HASH = "ff0621c025deba4069d44a12748b213039e25143e26661118af926dea6e9e319"
"""The hash of the state that this version computes from that log, as for version 1's."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    for end in ("", "-acked"):
        shutil.copy(DATA / f"log.db{end}", tmp_path / f"log.db{end}")
    return tmp_path / "log.db"


def test_the_log_has_every_new_format(log: Path) -> None:
    """Pairs are made and deleted, and the checkpoint has every kind of their parts."""
    with closing(sqlite3.connect(log)) as connection:
        rows = [LogRow._make(row) for row in connection.execute("SELECT * FROM log")]
        parts = dict(connection.execute("SELECT part, data FROM part WHERE revision > 0"))
    assert {row.format for row in rows} >= {Format.CREATE_PAIR_REQUEST, Format.DELETE_PAIR_REQUEST}
    assert {row.kind for row in rows} >= {Kind.CREATE_PAIR, Kind.DELETE_PAIR}
    kinds = {part.partition("/")[0] for part in parts}
    assert kinds >= {"pair", "pairall", "pairpane", "pairids"}


@pytest.mark.parametrize("checkpoint", [True, False])
def test_the_log_of_version_5_replays(log: Path, log_facts, checkpoint: bool) -> None:
    """From its checkpoint and from its first row: every count, mark and pair."""
    if not checkpoint:
        with closing(sqlite3.connect(log)) as connection:
            connection.execute("DELETE FROM manifest")
            connection.commit()
    expected = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
    core = open_core(SqliteStorage(log), log_facts.LIMITS)
    assert core.recovery.checkpoint_error is None
    assert (core.recovery.checkpoint_revision > 0) is checkpoint
    found = log_facts.facts(core) | {"pairs": log_facts.pair_facts(core)}
    log_facts.same(json.loads(json.dumps(found)), expected)
    assert core.engine.state_hash() == STATE_HASH
    core.storage.close()


def test_the_figures_are_not_trivial() -> None:
    """One pair is decided and has panes in cells; the other has lost ids and has clusters."""
    pairs = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))["pairs"]
    assert set(pairs) == {"champion challenger", "burst/a burst/b"}
    champion = pairs["champion challenger"]
    assert [each[0] for each in champion["evidence"]] == ["auc_pr", "auc_roc", "average_precision"]
    assert any(pane and pane["is_cut"] for pane in champion["panes"].values())
    assert champion["counters"]["relabelled"] == "32"
    assert len(champion["slices"]) == 3
    burst = pairs["burst/a burst/b"]
    assert burst["settings"]["cluster_groups"] == 8
    assert int(burst["counters"]["expiredEarly"]) > 0
