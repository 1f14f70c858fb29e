"""Two segment keys crossed: ``country*channel``, with values such as ``BR*web``.

A stream declares a crossed key in addition to its two keys. Rows never name it: when a row is
applied, the crossed value is computed from the row's two values. So slices, panes, waiting
predictions and alarms treat it as any key. A row that lacks one of the two has no crossed value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streameval.checks import quoted, segment_key_problem
from streameval.wire import SegmentCodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_PAIRS = 1 << 16
"""Most pairs of values of a batch that are counted in a table; more are sorted."""


CROSS = "*"
"""Between the two keys of a crossed segment key, and between the values of one."""


def declared_key_problem(key: str, noun: str = "a segment key") -> str | None:
    """Return why a stream cannot declare `key`; None when it can: a key, or two keys crossed.

    Examples
    --------
    >>> declared_key_problem("country"), declared_key_problem("country*channel")
    (None, None)
    >>> declared_key_problem("a*b*c")
    "a segment key crosses two keys at most, got 'a*b*c'"
    >>> declared_key_problem("a*a")
    "a segment key crosses two different keys, got 'a*a'"
    """
    parts = key.split(CROSS)
    if len(parts) > 2:
        return f"{noun} crosses two keys at most, got {quoted(key)}"
    if len(set(parts)) < len(parts):
        return f"{noun} crosses two different keys, got {quoted(key)}"
    problems = (segment_key_problem(part, noun) for part in parts)
    return next((problem for problem in problems if problem is not None), None)


def parents_of(key: str) -> tuple[str, str] | None:
    """Return the two keys that a key crosses; None for a plain one.

    Examples
    --------
    >>> parents_of("country*channel"), parents_of("country")
    (('country', 'channel'), None)
    """
    one, cross, other = key.partition(CROSS)
    return (one, other) if cross else None


def crossed_value(one: str, other: str) -> str:
    r"""Return the crossed value of two; "" where one of them is absent.

    A star or a backslash within a value is preceded by a backslash, so that other values have
    another crossed one.

    Examples
    --------
    >>> crossed_value("BR", "web"), crossed_value("BR", ""), crossed_value("a*b", "c")
    ('BR*web', '', 'a\\*b*c')
    """
    return f"{_escaped(one)}{CROSS}{_escaped(other)}" if one and other else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(CROSS, f"\\{CROSS}")


def crossed_column(key: str, columns: Sequence[SegmentCodes]) -> SegmentCodes | None:
    """Return the column of a crossed key; None where a batch lacks one of the two. O(rows)."""
    parents = parents_of(key)
    assert parents is not None
    sides = [next((each for each in columns if each.key == parent), None) for parent in parents]
    one, other = sides
    if one is None or other is None:
        return None
    pairs = one.codes.astype(np.int64) * len(other.values) + other.codes
    size = len(one.values) * len(other.values)
    if size <= MAX_PAIRS:
        used = np.flatnonzero(np.bincount(pairs, minlength=size))
        places = np.zeros(size, dtype=np.uint32)
        places[used] = np.arange(used.size, dtype=np.uint32)
        codes = places[pairs]
    else:
        used, inverse = np.unique(pairs, return_inverse=True)
        codes = inverse.astype(np.uint32)
    values = tuple(
        crossed_value(one.values[pair // len(other.values)], other.values[pair % len(other.values)])
        for pair in used.tolist()
    )
    return SegmentCodes(key, values, codes)


def with_crossed(given: Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
    """Return one row's value of each key, and compute the values of crossed keys. O(keys)."""
    found = dict(given)
    for key in keys:
        parents = parents_of(key)
        if parents is not None:
            found[key] = crossed_value(*(given.get(parent, "") for parent in parents))
    return found
