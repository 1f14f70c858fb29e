"""A log with pairs replays unchanged.

`data/server_log_v5` was written by make_server_log_v5.py at version 0.1 and is never written
again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streameval_server._log.entries import Format, Kind

if TYPE_CHECKING:
    from types import ModuleType

DATA = Path(__file__).parent / "data" / "server_log_v5"
STATE_HASH = "ff0621c025deba4069d44a12748b213039e25143e26661118af926dea6e9e319"
"""The hash of the state that this version computes from that log, as for version 1's."""


@pytest.fixture
def log(tmp_path: Path, log_facts: ModuleType) -> Path:
    """Return a copy of the log."""
    return log_facts.copied(DATA, tmp_path)


def test_the_log_has_every_new_format(log: Path, log_facts: ModuleType) -> None:
    """Pairs are made and deleted, and the checkpoint has every kind of their parts."""
    rows, parts = log_facts.rows_and_parts(log)
    assert {row.format for row in rows} >= {Format.CREATE_PAIR_REQUEST, Format.DELETE_PAIR_REQUEST}
    assert {row.kind for row in rows} >= {Kind.CREATE_PAIR, Kind.DELETE_PAIR}
    kinds = {part.partition("/")[0] for part in parts}
    assert kinds >= {"pair", "pairall", "pairpane", "pairids"}


@pytest.mark.parametrize("checkpoint", [True, False])
def test_the_log_of_version_5_replays(log: Path, log_facts: ModuleType, checkpoint: bool) -> None:
    """From its checkpoint and from its first row: every count, mark and pair."""
    log_facts.check_replay(log, DATA, STATE_HASH, checkpoint=checkpoint, pairs=log_facts.pair_facts)


def test_the_figures_are_not_trivial(log_facts: ModuleType) -> None:
    """One pair is decided and has panes in cells; the other has lost ids and has clusters."""
    pairs = log_facts.expected(DATA)["pairs"]
    assert set(pairs) == {"champion challenger", "burst/a burst/b"}
    champion = pairs["champion challenger"]
    assert [each[0] for each in champion["evidence"]] == ["auc_pr", "auc_roc", "average_precision"]
    assert any(pane and pane["is_cut"] for pane in champion["panes"].values())
    assert champion["counters"]["relabelled"] == "32"
    assert len(champion["slices"]) == 3
    burst = pairs["burst/a burst/b"]
    assert burst["settings"]["cluster_groups"] == 8
    assert int(burst["counters"]["expiredEarly"]) > 0
