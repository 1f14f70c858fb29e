"""``streameval serve``: hands over to the server, which is an extra of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval._errors import StreamEvalError

if TYPE_CHECKING:
    from pathlib import Path


def serve(*, listen: str, data: Path | None, memory: bool, insecure: bool) -> None:
    """Run the server until it is told to stop."""
    try:
        from streameval_server import Settings, run  # noqa: PLC0415 - the extra may be absent
    except ModuleNotFoundError as error:
        message = f"{error.name} is missing; pip install 'streameval[server]'"
        raise StreamEvalError(message) from error
    run(Settings(listen=listen, data=data, memory=memory, insecure=insecure))
