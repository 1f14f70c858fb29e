"""Tables for printing and for notebooks: rows of text below a caption."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, NamedTuple

from streameval._common.redaction import printable

if TYPE_CHECKING:
    from collections.abc import Sequence


class Table(NamedTuple):
    """Rows of text below a caption, and above notes.

    The first `names` columns are left-aligned, others right-aligned; `header` may be empty.
    As text, control characters, which names of groups may have, are escaped. HTML has no colours
    of its own, so that it can be read on a dark and on a light page, and no scripts.

    Examples
    --------
    >>> table = Table("Cases", ["group", "cases"], [["DE", "12"], ["US", "1,204"]])
    >>> print(table.as_text())
    Cases
      group  cases
      DE        12
      US     1,204
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    names: int = 1

    def as_text(self) -> str:
        """Return the caption, the rows in aligned columns, and the notes. O(size)."""
        shown = [self.header, *self.rows] if self.header else self.rows
        cells = [list(map(printable, row)) for row in shown]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)] if cells else []
        lines = [self.caption] if self.caption else []
        for row in cells:
            aligned = [
                cell.ljust(width) if place < self.names else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append(f"  {'  '.join(aligned)}".rstrip())
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def as_html(self) -> str:
        """Return the same as HTML. O(size)."""

        def cells(tag: str, row: Sequence[str]) -> str:
            return "".join(
                f'<{tag} style="padding:.2em .6em;text-align:{side}">{html.escape(cell)}</{tag}>'
                for cell, side in zip(row, sides, strict=True)
            )

        width = max(map(len, (self.header, *self.rows)), default=0)
        sides = ["left" if place < self.names else "right" for place in range(width)]
        head = f"<thead><tr>{cells('th', self.header)}</tr></thead>" if self.header else ""
        body = "".join(f"<tr>{cells('td', row)}</tr>" for row in self.rows)
        table = (
            '<table style="font-variant-numeric:tabular-nums;border-collapse:collapse">'
            f"{head}<tbody>{body}</tbody></table>"
        )
        above, below = map(_lines, (self.caption.splitlines(), self.notes))
        return f"{above}{table if self.rows else ''}{below}"


def _lines(lines: Sequence[str]) -> str:
    return "".join(f'<div style="font-size:12px">{html.escape(line)}</div>' for line in lines)
