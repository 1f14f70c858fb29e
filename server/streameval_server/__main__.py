"""``python -m streameval_server``: the server, without the ``cli`` extra."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn

from streameval import StreamEvalError
from streameval.checks import begin_program, redact_tokens


class _Parser(argparse.ArgumentParser):
    """Prints errors, which quote arguments, without the secrets of mistyped tokens."""

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with 2."""
        super().error(redact_tokens(message))


def main() -> int:
    """Run the server; return the exit code: 0 after SIGTERM or SIGINT, 1 after a failure."""
    begin_program(sorts=True)
    from streameval_server import configure, run  # noqa: PLC0415 - imports gRPC
    from streameval_server._service.configuration import (  # noqa: PLC0415 - as above
        FLAGS,
        flag_of,
        is_switch,
    )

    parser = _Parser(
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
            print(configuration.to_text(sys.stdout.encoding))
        else:
            run(configuration.settings)
    except StreamEvalError as error:
        print(redact_tokens(f"streameval_server: {error}"), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
