"""What an optional part says when the packages of its extra are not installed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from streameval._common.errors import StreamEvalError

if TYPE_CHECKING:
    from collections.abc import Iterator


class MissingExtraError(StreamEvalError, ModuleNotFoundError):
    """A package of an extra is not installed; the message is the command that installs it."""


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Name the extra when an import in the block finds another project's package missing.

    Raises
    ------
    MissingExtraError
        With the missing module as its `name`.

    Examples
    --------
    >>> with needs_extra("client"):
    ...     import absent.part
    Traceback (most recent call last):
    streameval._common.extras.MissingExtraError: absent is missing; pip install 'streameval[client]'
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not package or package.startswith("streameval"):
            raise
        message = f"{package} is missing; pip install 'streameval[{extra}]'"
        raise MissingExtraError(message, name=error.name) from error
