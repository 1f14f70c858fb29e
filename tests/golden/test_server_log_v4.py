"""A log with weights, clusters, label delays and detectors replays unchanged.

`data/server_log_v4` was written by make_server_log_v4.py at version 0.1 and is never written
again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streameval_server._log.entries import Format, Kind

if TYPE_CHECKING:
    from types import ModuleType

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
def log(tmp_path: Path, log_facts: ModuleType) -> Path:
    """Return a copy of the log."""
    return log_facts.copied(DATA, tmp_path)


def test_the_log_has_every_new_format(log: Path, log_facts: ModuleType) -> None:
    rows, parts = log_facts.rows_and_parts(log)
    assert {row.format for row in rows} >= FORMATS
    assert Kind.CHANGE_ALARM in {row.kind for row in rows}
    assert "alarms/0/watched" in parts


@pytest.mark.parametrize("checkpoint", [True, False])
def test_the_log_of_version_4_replays(log: Path, log_facts: ModuleType, checkpoint: bool) -> None:
    """From its checkpoint and from its first row: every count, mark and alarm."""
    log_facts.check_replay(
        log, DATA, STATE_HASH, checkpoint=checkpoint, alarms=log_facts.alarm_facts
    )


def test_the_figures_are_not_trivial(log_facts: ModuleType) -> None:
    """One detector has alarms, one of them seen and sent; the other waits and says why."""
    alarms = log_facts.expected(DATA)["alarms"]
    watched = alarms["watched"]
    assert [each["acknowledged_at"] is None for each in watched["alarms"]][:2] == [False, True]
    assert watched["delivered"] == [1]
    assert watched["alarms"][0]["segments"][0]["segment"] == "country=BR"
    assert alarms["created-watching"]["waits_for"].startswith("the reference has no rows")
