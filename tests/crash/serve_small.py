"""Run a server whose checkpoints and transactions have many steps, so kills hit between them."""

import sys
from pathlib import Path

from streameval_server import Limits, Settings, run
from streameval_server._log import sqlite as sqlite_log

sqlite_log._MAX_INSERT_ROWS = 2

run(
    Settings(
        listen="127.0.0.1:0",
        data=Path(sys.argv[1]),
        limits=Limits(checkpoint_bytes=256 << 10, max_commit_bytes=64 << 10),
        log_level="warning",  # a stop is silent, or something is wrong
    )
)
