"""Cuts secrets, and what terminals obey, out of texts that are printed or logged."""

from __future__ import annotations

import re

TOKEN_PREFIX = "sv1"  # noqa: S105 - what every token begins with
"""A token is ``sv1.ID.SECRET``; the id may be shown."""

_TOKEN = re.compile(rf"({TOKEN_PREFIX}\.[A-Za-z0-9_-]*\.)[A-Za-z0-9_-]+")


def redact_tokens(text: str) -> str:
    """Return a text with the secrets of everything that looks like a token cut out.

    Examples
    --------
    >>> redact_tokens("got sv1.web-1.K3jd-93")
    'got sv1.web-1....'
    """
    return _TOKEN.sub(r"\1...", text)


def printable(text: str) -> str:
    r"""Return a text with escapes in place of control characters, which a terminal obeys.

    Examples
    --------
    >>> print(printable("a\x1b[2J"))
    a\x1b[2J
    """
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
