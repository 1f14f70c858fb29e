"""Blocks of code in a page of the documentation.

The word after a block's language names the library or command that it needs, besides
those of streameval.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_BLOCK = re.compile(r"^```(\w+) ?(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block, and the line of the page where it begins."""

    language: str
    needs: str
    code: str
    line: int


def blocks(page: str) -> list[Block]:
    """Return all blocks of a page's text, in their order."""
    return [
        Block(*match.groups(), page.count("\n", 0, match.start()) + 1)
        for match in _BLOCK.finditer(page)
    ]


def codes(page: str, language: str, needs: str = "") -> list[str]:
    """Return the code of the blocks in one language that need one thing."""
    return [block.code for block in blocks(page) if block[:2] == (language, needs)]
