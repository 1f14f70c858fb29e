"""Every release's log replays to the same content as in that release.

`data/server_log_v1/log.db` was written by make_server_log.py at version 0.1 and is
never written again: a change that cannot replay it would lose its users' counts.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from streameval_server._core.recovery import open_core
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.limits import Limits

DATA = Path(__file__).parent / "data" / "server_log_v1"
STATE_HASH = "da3d73689d3fa556a749bf43a8fbcf0fe24e6c1eeb599df6e87062aca47e3506"
"""The hash of the state that this version computes from that log. A version with another
format of states changes this hash; the counts below never change."""


@pytest.mark.parametrize("checkpoint", [True, False])
def test_the_log_of_version_1_replays(tmp_path, checkpoint):
    """From its first row: its checkpoint lacks panes, so the log must restore them."""
    path = tmp_path / "log.db"
    shutil.copy(DATA / "log.db", path)
    if not checkpoint:
        with sqlite3.connect(path) as connection:
            connection.execute("DELETE FROM manifest")
        connection.close()
    expected = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
    core = open_core(SqliteStorage(path), Limits(max_cells=100))
    wanted = "the checkpoint has format 1, which has no panes" if checkpoint else None
    assert core.recovery.checkpoint_error == wanted
    assert core.recovery.checkpoint_revision == 0
    assert core.engine.revision == core.recovery.revision == expected["revision"]
    assert [info.name for info in core.engine.streams()] == sorted(expected["streams"])
    for info in core.engine.streams():
        wanted = expected["streams"][info.name]
        assert info.create_us == wanted["create_us"]
        assert info.create_revision == wanted["create_revision"]
        evaluator = core.engine.view(info.name).evaluator
        # When this file was written, `num_cases` was the name of what is now `num_scored`.
        assert evaluator.num_scored == wanted["num_cases"]
        for name in ("num_positive_ref", "num_negative_ref"):
            assert getattr(evaluator, name) == wanted[name]
        for name in ("auc_roc", "average_precision"):
            value = getattr(evaluator, name)()
            assert value == pytest.approx(float(wanted[name]), rel=1e-12, nan_ok=True)
    for producer, mark in expected["marks"].items():
        assert list(core.committer.marks.get(producer)[:3]) == mark
    refusals = {name: core.committer.marks.get(name).refusals for name in expected["marks"]}
    assert [each.sequence for each in refusals["golden ü"]] == [3]
    assert refusals["golden ü"][0].refused.message == "score must be finite, got nan at index 0"
    assert refusals["unary"] == ()
    assert core.engine.state_hash() == STATE_HASH
    core.storage.close()
