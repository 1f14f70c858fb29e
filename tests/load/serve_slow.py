"""Run a server with a small queue and a disk of a given speed in bytes per second."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from streameval_server import Limits, Settings, run
from streameval_server._log.rows import LogRow
from streameval_server._log.sqlite import SqliteStorage

LIMITS = Limits(max_queue_bytes=512 << 10, max_inflight_bytes=256 << 10, max_commit_bytes=128 << 10)

at_once = SqliteStorage.append


def append(storage: SqliteStorage, rows: Sequence[LogRow]) -> None:
    """Write, and take as long as a slow disk would."""
    at_once(storage, rows)
    time.sleep(sum(len(row.payload) for row in rows) / int(sys.argv[2]))


if __name__ == "__main__":
    SqliteStorage.append = append  # type: ignore[method-assign]
    data = Path(sys.argv[1])
    run(Settings(listen="127.0.0.1:0", http="off", data=data, limits=LIMITS, log_level="warning"))
