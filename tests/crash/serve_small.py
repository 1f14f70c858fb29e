"""Run a server whose checkpoints are small and frequent, so that kills land in them too."""

import sys
from pathlib import Path

from streameval_server import Limits, Settings, run

run(
    Settings(
        listen="127.0.0.1:0",
        data=Path(sys.argv[1]),
        limits=Limits(checkpoint_bytes=256 << 10, max_commit_bytes=64 << 10),
    )
)
