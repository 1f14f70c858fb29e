"""Rows of text in aligned columns, for printing and for notebooks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from streameval._common.redaction import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._uncertainty.interval import Interval


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, names: int = 1) -> str:
    """Return a table as text: the first `names` columns left-aligned, others right-aligned.

    Control characters, which names of groups may have, are escaped.

    Examples
    --------
    >>> print(text_table(["group", "cases"], [["DE", "12"], ["US", "1,204"]]))
      group  cases
      DE        12
      US     1,204
    """
    header, rows = list(map(printable, header)), [list(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if place < names else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return "\n".join(lines)


def html_table(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, names: int = 1
) -> str:
    """Return the same as HTML for a notebook."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f'<{tag} style="text-align:{"left" if place < names else "right"}">'
            f"{html.escape(cell)}</{tag}>"
            for place, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        '<table style="font-variant-numeric:tabular-nums;border-collapse:collapse">'
        f'<caption style="text-align:left;padding-bottom:.4em">{html.escape(caption)}</caption>'
        f"<thead><tr>{cells('th', header)}</tr></thead><tbody>{body}</tbody></table>"
    )


def shown_interval(interval: Interval) -> str:
    """Return an interval as a table's cell; the estimate alone where there are no limits."""
    if interval.estimate != interval.estimate:
        return "undefined"
    return f"{interval.estimate:.3f}" if interval.reason else f"{interval:.3f}"
