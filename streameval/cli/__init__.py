"""The ``streameval`` command (needs the ``cli`` extra)."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

from streameval._common.program import begin_program


def main() -> None:
    """Run the ``streameval`` command; exit code 2 means wrong input."""
    begin_program(sorts="serve" in sys.argv[1:])
    # A process that was started with a closed output has none: then nothing is written.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - to the end
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115 - to the end
    for stream in (sys.stdout, sys.stderr):
        # What the console's encoding lacks is escaped: names are the user's.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if "health" in sys.argv[1:]:
        from streameval.cli._probe import run_probe  # noqa: PLC0415 - for one command

        run_probe(sys.argv[1:])
    try:
        from streameval.cli._app import app  # noqa: PLC0415 - the extra may be absent
    except ModuleNotFoundError as error:
        sys.exit(f"streameval: {error.name} is missing; pip install 'streameval[cli]'")
    try:
        try:
            # The names of the variables of shell completion come from the program's name.
            app(prog_name="streameval")
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:
            raise
        # The interpreter flushes again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        sys.exit(f"streameval: {error.strerror or error}: the output is incomplete")
