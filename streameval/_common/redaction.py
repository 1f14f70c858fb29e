"""Cuts secrets out of texts that are printed or logged."""

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
