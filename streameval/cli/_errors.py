"""Errors of the commands as one line; imports nothing slow, for `_app` and ``health``."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streameval._common.errors import StreamEvalError
from streameval._common.redaction import printable, redact_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

WRONG_INPUT = 2
_MAX_LINE_CHARS = 400

_EXTRAS = {"pyarrow": "files", "jmespath": "payloads", "streameval_server": "server"}
"""The extra of a package that is not in `cli`."""


class NoAnswerError(StreamEvalError):
    """A server that does not answer a probe; with the name of the gRPC status, as a client's."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = ""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Print an error of streameval, the file system or a missing extra as one line; exit with 2."""
    remedy = ""
    try:
        yield
    except StreamEvalError as error:
        from streameval.cli._remedies import remedy_of  # noqa: PLC0415 - slow to import

        reason, remedy = remedy_of(error)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not package or (package.startswith("streameval") and error.name != "streameval_server"):
            raise
        extra = _EXTRAS.get(package, "cli")
        reason = f"{package} is missing; pip install 'streameval[{extra}]'"
    except OSError as error:
        if error.filename is None:
            raise
        reason = f"{error.filename}: {error.strerror}"
    else:
        return
    # A token that was given for an address or a file must not get into a terminal's log.
    line = one_line(redact_tokens(reason))
    # A command is not cut, so that it can be run as it is.
    line += f"; run: {printable(redact_tokens(remedy))}" if remedy else ""
    print(f"streameval: {line}", file=sys.stderr)
    raise SystemExit(WRONG_INPUT)


def one_line(text: str) -> str:
    r"""Return a text as one line of limited length without control characters.

    Names and values come from files and may hold newlines, escape sequences or a
    megabyte of text.

    Examples
    --------
    >>> print(one_line("no column 'score'; it has \x1b[2J"))
    no column 'score'; it has \x1b[2J
    """
    if len(text) > _MAX_LINE_CHARS:
        text = f"{text[: _MAX_LINE_CHARS // 2]} [...] {text[-_MAX_LINE_CHARS // 2 :]}"
    return printable(text)
