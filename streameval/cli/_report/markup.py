"""Builds HTML from escaped parts: users' values are always text, never markup."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_EMPTY_TAGS = frozenset({"img", "meta"})


class Markup(str):
    """Text that is markup already; every other text is escaped."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element. O(length).

    Parameters
    ----------
    name
    *children
        Markup, texts and numbers; None is left out.
    **attributes
        ``class_`` is ``class``, other underscores are dashes; None is left out.

    Examples
    --------
    >>> tag("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY_TAGS:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(children)}</{name}>")


def joined(children: Iterable[object]) -> Markup:
    """Return parts as one, escaped where they are not markup."""
    return Markup(
        "".join(
            each if isinstance(each, Markup) else escape(str(each))
            for each in children
            if each is not None
        )
    )


def table(
    caption: str, columns: Iterable[tuple[str, bool]], rows: Iterable[Iterable[object]]
) -> Markup:
    """Return a table; a column is its title and whether it is numeric."""
    heads = list(columns)
    kinds = ["number" if numeric else None for _, numeric in heads]
    return tag(
        "table",
        tag("caption", caption),
        tag(
            "thead",
            tag(
                "tr",
                *(
                    tag("th", title, scope="col", class_=kind)
                    for (title, _), kind in zip(heads, kinds, strict=True)
                ),
            ),
        ),
        tag(
            "tbody",
            *(
                tag(
                    "tr",
                    *(
                        each if is_cell(each) else tag("td", each, class_=kind)
                        for each, kind in zip(row, kinds, strict=True)
                    ),
                )
                for row in rows
            ),
        ),
    )


def is_cell(each: object) -> bool:
    """Whether a part is a table's cell already."""
    return isinstance(each, Markup) and each.startswith(("<td", "<th"))
