"""A log of format 1 is opened with the state that it had, from its checkpoint and without it.

`data/log-1.db` was written by `write`: operations of every kind (`tests/crash/workload.py`), with
a checkpoint and rows after it. `data/log-1.json` has the hash of its state, which covers the bytes
of every part of a checkpoint: marks of producers, streams, ids, alarms, pairs; not of the evidence
of verdicts, which was not there yet. What evidence follows from the log has hashes of its own:
from its beginning, and from the checkpoint, which has none.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from streameval_server import Limits
from streameval_server._core.committer import Committer
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._state.checkpoint_parts import content_parts
from streameval_server._state.verdict.stream_evidence import VERDICT_PART, StreamEvidence

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parent / "data"
LOG, STATE = DATA / "log-1.db", DATA / "log-1.json"


def facts(core: ServerCore) -> dict[str, object]:
    """Return what is known of the state of a log."""
    engine = core.engine
    with patch.object(StreamEvidence, "to_parts", return_value=()):
        return {
            "revision": engine.revision,
            "hash": engine.state_hash(),
            "streams": [info.name for info in engine.streams()],
        }


def evidence_hash(core: ServerCore) -> str:
    """Return the hash of the evidence of all streams: a base, what was observed, and when."""
    found = hashlib.sha256()
    for name in sorted(info.name for info in core.engine.streams()):
        for part, data in content_parts(core.engine._streams[name]):
            if part.startswith(f"{VERDICT_PART}/"):
                found.update(b"%b %d " % (part.encode(), len(data)) + data)
    return found.hexdigest()


@contextmanager
def opened(folder: Path, *, keeps_checkpoint: bool) -> Iterator[ServerCore]:
    """Open a copy of the log, from its checkpoint or from its beginning."""
    path = Path(shutil.copy(LOG, folder / "log.db"))
    if not keeps_checkpoint:
        with closing(sqlite3.connect(path)) as log, log:
            log.execute("DELETE FROM manifest")
    core = open_core(SqliteStorage(path), Limits(checkpoint_bytes=1 << 30))
    try:
        yield core
    finally:
        core.storage.close()


def write() -> None:
    """Write the golden files."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "crash"))
    import workload

    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.db"
        core = open_core(SqliteStorage(path), workload.LIMITS)
        # A compacted log would lack most kinds of rows.
        with patch.object(Committer, "compact"):
            workload.Run(core, workload.Workload()).to_the_end()
        known = facts(core) | {"checkpoint": core.committer.checkpoint_revision}
        core.storage.close()
        LOG.write_bytes(path.read_bytes())
        known["evidence"] = {}
        for name in ("checkpoint", "beginning"):
            with opened(Path(folder), keeps_checkpoint=name == "checkpoint") as core:
                known["evidence"][name] = evidence_hash(core)
    STATE.write_text(json.dumps(known, indent=1) + "\n")


@pytest.mark.parametrize("keeps_checkpoint", [True, False])
def test_a_log_of_format_1_is_opened(tmp_path: Path, *, keeps_checkpoint: bool) -> None:
    known = json.loads(STATE.read_text())
    checkpoint, evidence = known.pop("checkpoint"), known.pop("evidence")
    if not keeps_checkpoint:
        checkpoint = 0
    with opened(tmp_path, keeps_checkpoint=keeps_checkpoint) as core:
        report = core.recovery
        assert (report.checkpoint_revision, report.checkpoint_error) == (checkpoint, None)
        assert report.replayed == known["revision"] - checkpoint > 0
        assert facts(core) == known
        assert evidence_hash(core) == evidence["checkpoint" if keeps_checkpoint else "beginning"]
        assert core.engine.stream("watched").settings.alarms.watches == (("auc_roc", 0.01),)
