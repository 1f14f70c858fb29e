"""``streameval serve``: hands over to the server, which is an extra of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._common.errors import StreamEvalError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def serve(flags: Mapping[str, object], *, config: Path | None, only_print: bool) -> None:
    """Run the server until it is told to stop, or print how it would run."""
    try:
        from streameval_server import configure, run  # noqa: PLC0415 - the extra may be absent
    except ModuleNotFoundError as error:
        message = f"{error.name} is missing; pip install 'streameval[server]'"
        raise StreamEvalError(message) from error
    configuration = configure(flags, config=config)
    if only_print:
        print(configuration)
    else:
        run(configuration.settings)


def create_token(path: Path, id_: str, scopes: list[str], streams: list[str] | None) -> None:
    """Add a token to a file and print it, once and for all."""
    try:
        from streameval_server import create_token as create  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        message = f"{error.name} is missing; pip install 'streameval[server]'"
        raise StreamEvalError(message) from error
    print(create(path, id_, scopes, streams))
