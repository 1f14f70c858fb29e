"""The ``streameval`` command (needs the ``cli`` extra)."""

from __future__ import annotations

import io
import sys

from streameval._common.grpc_log import silence_grpc_log
from streameval._common.slow_sort import restart_with_fast_sort


def main() -> None:
    """Run the ``streameval`` command; exit code 2 means wrong input."""
    silence_grpc_log()
    for stream in (sys.stdout, sys.stderr):
        # What the console's encoding lacks is escaped: names are the user's.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if "health" in sys.argv[1:]:
        from streameval.cli._probe import run_probe  # noqa: PLC0415 - for one command

        run_probe(sys.argv[1:])
    if "serve" in sys.argv[1:]:
        restart_with_fast_sort()
    try:
        from streameval.cli._app import app  # noqa: PLC0415 - the extra may be absent
    except ModuleNotFoundError as error:
        sys.exit(f"streameval: {error.name} is missing; pip install 'streameval[cli]'")
    # The name of the variables of shell completion comes from the name of the program.
    app(prog_name="streameval")
