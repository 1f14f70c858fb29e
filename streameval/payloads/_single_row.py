"""The row of an event that has one, with a value of the common type in each place.

Most events are such ones. Reading one as `_extraction` reads any event takes three times as long;
whatever is not as simple is left to it, with the same result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streameval._common.names import MAX_ID_BYTES
from streameval.payloads._rows import PayloadRow, RowError, time_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streameval.payloads._mapping import PayloadMapping


def read_single_row(mapping: PayloadMapping, selected: Mapping[str, Any]) -> PayloadRow | None:
    """Return the only row of an event, or None where it has to be read as any event is. O(1).

    Parameters
    ----------
    mapping : PayloadMapping
        With plain rows.
    selected : dict of str to object
        What its selectors gave.

    Examples
    --------
    >>> from streameval.payloads import PayloadMapping
    >>> mapping = PayloadMapping.of({"preset": "ndjson", "stream": "s"})
    >>> read_single_row(mapping, {"score": [0.5], "id": "a"})
    PayloadRow(stream='s', id='a', score=0.5, label=None, time_us=None, segments={}, weight=None, \
cluster=None, label_time_us=None)
    >>> read_single_row(mapping, {"score": "0.5", "id": "a"})
    """
    id_, score = selected["id"], selected.get("score")
    # ASCII: as many bytes as characters, and no half of a surrogate pair.
    if type(id_) is not str or not 0 < len(id_) <= MAX_ID_BYTES or not id_.isascii():
        return None
    if type(score) is list and len(score) == 1:
        score = score[0]
    label = selected.get("label")
    if label is not None:
        if mapping.positive is not None or (
            type(label) is not bool and (type(label) is not int or label not in (0, 1))
        ):
            return None
        label = bool(label)
    # x - x is 0 for a finite number only.
    if (label is None or score is not None) and (type(score) is not float or score - score != 0):
        return None
    time_us = None
    if selected.get("time") is not None:
        try:
            time_us = time_of(selected["time"], mapping.time_unit)
        except RowError:
            return None
    return PayloadRow(mapping.stream, id_, score, label, time_us)
