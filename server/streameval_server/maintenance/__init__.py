"""Work on a data directory or a backup without a server.

- `verify` checks a log and its checkpoint (`verification`).
- `backup` copies a log to a file, `restore` makes a data directory of it (`backups`).
- `repair` mends a log that was written while the clock was ahead (`repair`).
- `compact` drops the log before a checkpoint and shrinks the file (`compaction`).
- `replay_until` and `state_hash` give the state at an earlier revision (`history`),
  `snapshot_then` a stream's snapshot there (`snapshot_at_revision`), `sample_then` a draw of
  predictions to label (`sample_at_revision`).

All but `restore`, `repair` and `compact` only read the log, and a server may be running on it.
"""

from streameval_server._log.data_directory import LOG_NAME
from streameval_server.maintenance.backups import Backup, backup, restore
from streameval_server.maintenance.compaction import CompactedLog, compact
from streameval_server.maintenance.history import replay_until, state_hash
from streameval_server.maintenance.repair import RepairedLog, repair
from streameval_server.maintenance.sample_at_revision import sample_then
from streameval_server.maintenance.snapshot_at_revision import snapshot_then
from streameval_server.maintenance.verification import Finding, Verification, verify

__all__ = [
    "LOG_NAME",
    "Backup",
    "CompactedLog",
    "Finding",
    "RepairedLog",
    "Verification",
    "backup",
    "compact",
    "repair",
    "replay_until",
    "restore",
    "sample_then",
    "snapshot_then",
    "state_hash",
    "verify",
]
