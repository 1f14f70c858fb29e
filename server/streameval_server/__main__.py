"""``python -m streameval_server``: the server without the command line's extra."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from streameval._errors import StreamEvalError
from streameval_server import Settings, run


def main() -> int:
    """Run the server; return the exit code: 0 when told to stop, 1 when it failed."""
    parser = argparse.ArgumentParser(prog="streameval_server", description="The streameval server.")
    parser.add_argument("--listen", default="127.0.0.1:50051", metavar="HOST:PORT")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where the log is kept")
    parser.add_argument("--memory", action="store_true", help="keep nothing on disk")
    parser.add_argument("--insecure", action="store_true", help="listen beyond this machine")
    arguments = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        run(Settings(**vars(arguments)))
    except StreamEvalError as error:
        print(f"streameval_server: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
