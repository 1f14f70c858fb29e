"""``python -m streameval_server``: the server, without the ``cli`` extra."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from streameval import StreamEvalError
from streameval_server import configure, run
from streameval_server._service.configuration import FLAGS, flag_of, is_switch


def main() -> int:
    """Run the server; return the exit code: 0 after SIGTERM or SIGINT, 1 after a failure."""
    parser = argparse.ArgumentParser(
        prog="streameval_server", description="The streameval server.", allow_abbrev=False
    )
    for name, purpose in FLAGS.items():
        if is_switch(name):
            parser.add_argument(
                flag_of(name), dest=name, help=purpose, action=argparse.BooleanOptionalAction
            )
        else:
            parser.add_argument(flag_of(name), dest=name, help=purpose, metavar="VALUE")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings, in TOML")
    parser.add_argument(
        "--print-config", action="store_true", help="print every setting with its source, and end"
    )
    flags = vars(parser.parse_args())
    config, only_print = flags.pop("config"), flags.pop("print_config")
    try:
        configuration = configure(flags, config=config)
        if only_print:
            print(configuration)
        else:
            run(configuration.settings)
    except StreamEvalError as error:
        print(f"streameval_server: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
