"""A log with event time, ids, slices, merges, ticks and changed settings replays unchanged.

`data/server_log_v2/log.db` was written by make_server_log_v2.py at version 0.1 and is
never written again.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from streameval_server._core.recovery import open_core
from streameval_server._log.entries import Kind
from streameval_server._log.sqlite import SqliteStorage

DATA = Path(__file__).parent / "data" / "server_log_v2"

STATE_HASH = "49fd455b87bbfc94e8c6e0b9aca9aca608a41f084cb8fe1f75015db4c273eaf5"
"""The hash of the state that this version computes from that log, as for version 1's."""

KINDS = {kind for kind in Kind if kind <= Kind.MERGE}
"""Every kind of entry in this log."""


@pytest.fixture
def log(tmp_path) -> Path:
    path = tmp_path / "log.db"
    shutil.copy(DATA / "log.db", path)
    return path


def test_the_log_has_every_kind(log):
    """The log has the entries that the script wrote."""
    with sqlite3.connect(log) as connection:
        kinds = {kind for (kind,) in connection.execute("SELECT DISTINCT kind FROM log")}
        parts = {part for (part,) in connection.execute("SELECT DISTINCT part FROM part")}
    connection.close()
    assert kinds == KINDS
    assert {part.partition("/")[0] for part in parts} >= {"stream", "slice", "pane", "join"}


@pytest.mark.parametrize("checkpoint", [True, False])
def test_the_log_of_version_2_replays(log, log_facts, checkpoint):
    """From its checkpoint and from its first row: every count, slice, pane and pending id."""
    if not checkpoint:
        with sqlite3.connect(log) as connection:
            connection.execute("DELETE FROM manifest")
        connection.close()
    expected = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
    core = open_core(SqliteStorage(log), log_facts.LIMITS)
    assert core.recovery.checkpoint_error is None
    assert (core.recovery.checkpoint_revision > 0) == checkpoint
    found = json.loads(json.dumps(log_facts.facts(core)))
    log_facts.same(found, expected)
    (refusal,) = core.committer.marks.get(log_facts.PRODUCERS[0]).refusals
    assert refusal.refused.message == "id must not be empty at index 0"
    assert core.engine.state_hash() == STATE_HASH
    core.storage.close()


def test_the_figures_are_not_trivial():
    """The log covers slices, panes, pending ids, merges and late labels."""
    streams = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))["streams"]
    assert set(streams) == {"few", "fraud/v4", "gone", "probabilities"}
    fraud = streams["fraud/v4"]
    assert {"country=US", "country=__other__", "country=", "plan=pro"} <= set(fraud["slices"])
    assert fraud["sources"] == {"edge-1": 3}
    whole = fraud["slices"][""]
    assert len(whole["panes"]) > 2
    covered = whole["all_time"]["coverage"]
    assert all(covered[name] for name in ("predictions", "labelled", "expired", "retracted"))
    assert covered["orphans"]
    for name in ("duplicate_predictions", "relabelled", "unknown_retractions", "other_values"):
        assert fraud["counters"][name], name
    assert fraud["counters"]["kept_ids"]
    assert streams["few"]["counters"]["expired_early"]
    assert streams["probabilities"]["slices"][""]["all_time"]["coverage"]["expired"]
    assert streams["gone"]["create_revision"] > 10
