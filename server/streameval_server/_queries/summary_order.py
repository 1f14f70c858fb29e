"""Puts the summaries of streams in an order, groups them, and finds the place of a page.

Every row, a stream or the head of a group, has a key by which rows are sorted. A page token is
the key of the last row of a page, so a page begins behind that place whatever has changed since:
a stream whose key stays the same is listed exactly once.

Cost: O(streams log streams), about 40 ms for 10,000.
"""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streameval.checks import quoted
from streameval.statistics import BY_NAME, HEADLINE
from streameval_server._model.errors import invalid
from streameval_server._queries.summary_entry import STATES
from streameval_server._queries.summary_table import FIGURES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streameval_server._queries.summary_entry import SummaryEntry

DEFAULT_ORDER = "alarms"

_DESCENDING = {"volume", *(name for name in FIGURES if BY_NAME[name].better == "lower")}
"""Orders in which the greatest value comes first."""

ORDERS = (DEFAULT_ORDER, "change", "name", "volume", "newest", "coverage", "projected", *FIGURES)

_MAX_TOKEN_BYTES = 4_096

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """An order of streams; `by` is one of `ORDERS`."""

    by: str = DEFAULT_ORDER
    is_reversed: bool = False

    def key(self, entry: SummaryEntry) -> Key:
        """Return the sort key of a stream, which ends with its name. O(1)."""
        sign = -1 if self.is_reversed else 1
        if self.by == "name":
            return (_backwards(entry.name) if self.is_reversed else entry.name,)
        if self.by == DEFAULT_ORDER:
            change = entry.values.get("change")
            is_quiet = not entry.num_open_alarms
            has_fallen = "worse" in entry.states
            is_last = is_quiet and not has_fallen and change is None
            value = entry.values.get(HEADLINE)
            return (
                *(is_last, sign * is_quiet, sign * (not has_fallen), sign * (change or 0.0)),
                *(value is None, sign * (value or 0.0), entry.name),
            )
        value = entry.values.get(self.by)
        if value is None:
            return (True, 0.0, entry.name)
        return (False, (-sign if self.by in _DESCENDING else sign) * value, entry.name)


def _backwards(name: str) -> Key:
    """Return a key that sorts names the other way round. O(characters)."""
    return (*(-ord(character) for character in name), 1)


@dataclass(slots=True)
class Group:
    """Streams whose names have the same first part.

    Attributes
    ----------
    name : str
    entries : list of (Key, SummaryEntry)
        In order.
    """

    name: str
    entries: list[tuple[Key, SummaryEntry]]

    def num_in(self, state: str) -> int:
        """Return how many of its streams are in a state. O(streams)."""
        return sum(state in entry.states for _, entry in self.entries)

    @property
    def figures(self) -> list[float]:
        """The headline of its streams that have one. O(streams)."""
        return [entry.values[HEADLINE] for _, entry in self.entries if HEADLINE in entry.values]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a list: a stream, or the head of a group."""

    key: Key
    entry: SummaryEntry | None
    group: Group | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """Streams in an order. Immutable.

    Attributes
    ----------
    entries : tuple of SummaryEntry
        In order; only those in the state that is asked for.
    rows : tuple of Row
    keys : tuple of Key
        The key of each row.
    groups : tuple of Group
        Empty where streams are not grouped.
    num_in : dict of str to int
        How many streams are in each of `STATES`, whichever is asked for.
    num_pending, num_failed : int
        Of streams in any state: a stream that is not read yet could be in the one asked for.
    num_covered : int
    """

    entries: tuple[SummaryEntry, ...]
    rows: tuple[Row, ...]
    keys: tuple[Key, ...]
    groups: tuple[Group, ...]
    num_in: dict[str, int]
    num_pending: int
    num_failed: int
    num_covered: int

    def page(self, after: Key | None, size: int) -> tuple[tuple[Row, ...], bool]:
        """Return the rows behind a key, and whether more follow. O(log(rows) + size)."""
        begin = 0
        if after is not None:
            try:
                begin = bisect_right(self.keys, after)
            except TypeError:  # a key of other types
                raise invalid("page_token", _WRONG_PLACE) from None
        return self.rows[begin : begin + size], begin + size < len(self.rows)


def ranking(
    entries: Iterable[SummaryEntry],
    order: Order,
    num_covered: int,
    state: str = "",
    open_groups: frozenset[str] | None = None,
) -> Ranking:
    """Return streams in an order. O(n log n).

    Parameters
    ----------
    entries
    order
    num_covered
        Streams that the token covers, whatever is searched for.
    state
        Only streams in this one of `STATES`; empty for all.
    open_groups
        The groups whose streams are listed; None does not group.
    """
    found = list(entries)
    num_in = {each: sum(each in entry.states for entry in found) for each in STATES}
    ordered = sorted(
        ((order.key(entry), entry) for entry in found if not state or state in entry.states),
        key=lambda pair: pair[0],
    )
    groups: dict[str, Group] = {}
    rows = [Row(key, entry) for key, entry in ordered]
    if open_groups is not None:
        for pair in ordered:
            group = groups.setdefault(pair[1].group, Group(pair[1].group, []))
            group.entries.append(pair)
        rows = [row for group in groups.values() for row in _rows(group, open_groups)]
    return Ranking(
        tuple(entry for _, entry in ordered),
        tuple(rows),
        tuple(row.key for row in rows),
        tuple(groups.values()),
        num_in,
        sum(entry.is_pending for entry in found),
        sum(bool(entry.problem) for entry in found),
        num_covered,
    )


def _rows(group: Group, open_groups: frozenset[str]) -> list[Row]:
    """Return the head of a group, and its streams if it is open."""
    place = group.entries[0][0]  # of its first stream
    rows = [Row((place, ()), None, group)]
    if group.name in open_groups:
        rows += [Row((place, key), entry, group) for key, entry in group.entries]
    return rows


# -- page tokens

_WRONG_PLACE = "page_token must be the next_page_token of a page before, in the same order"


def encode_token(order: Order, row: Row) -> str:
    """Return the token of the page behind a row."""
    text = json.dumps([order.by, order.is_reversed, row.group is not None, row.key])
    return base64.urlsafe_b64encode(text.encode()).decode()


def decode_token(token: str, order: Order, *, is_grouped: bool, path: str = "") -> Key | None:
    """Return the key of the last row of the page before; None for the first page.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT for what is no token of this order.
    """
    if not token:
        return None
    field = f"{path}page_token"
    if len(token) > _MAX_TOKEN_BYTES:
        raise invalid(field, f"{_WRONG_PLACE}, got {len(token)} characters")
    try:
        text = base64.b64decode(token.encode(), altchars=b"-_", validate=True)
        by, is_reversed, has_groups, key = json.loads(text)
        asked = (order.by, order.is_reversed, is_grouped)
        if (by, is_reversed, has_groups) == asked and isinstance(key, list):
            return _tuples(key)
    except (binascii.Error, ValueError, TypeError, RecursionError):
        pass
    raise invalid(field, f"{_WRONG_PLACE}, got {quoted(token)}")


def _tuples(value: list[Any]) -> Key:
    return tuple(_tuples(each) if isinstance(each, list) else each for each in value)
