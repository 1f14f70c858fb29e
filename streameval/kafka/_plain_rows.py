"""Rows of the simplest messages: JSON objects with scalars where a plain mapping looks for them.

They are what most topics have, and reading one as `read_rows` does takes seven times as long as
parsing it. Whatever is not as simple is left to `read_rows`, with the same result.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval.payloads import PayloadMapping

_KEYS = {"score", "label", "id", "time"}
_BODY = "body."
_MAX_ID_CHARS = 32
"""A character has at most four bytes, so that such an id is short enough."""


class PlainRows:
    """Reads messages by a plain mapping: one stream, and fields of the body by their names.

    Attributes
    ----------
    mapping : PayloadMapping
    """

    def __init__(self, mapping: PayloadMapping) -> None:
        self.mapping = mapping
        fields = {
            name: each.expression.removeprefix(_BODY) for name, each in mapping.selectors.items()
        }
        self._score = fields.get("score")
        self._label = fields.get("label")
        self._time = fields.get("time")
        self._id = fields["id"]

    @staticmethod
    def of(mappings: Sequence[PayloadMapping]) -> PlainRows | None:
        """Return a reader if the first mapping is plain and takes every message; else None."""
        mapping = mappings[0]
        is_plain = (
            "{" not in mapping.stream
            and not (mapping.types or mapping.classes or mapping.segments)
            and mapping.class_ is None
            and mapping.positive is None
            and mapping.selectors.keys() <= _KEYS
            and all(
                each.expression.startswith(_BODY)
                and each.expression.removeprefix(_BODY).isidentifier()
                for each in mapping.selectors.values()
            )
        )
        return PlainRows(mapping) if is_plain else None

    def read(self, value: bytes) -> tuple[str, float | None, bool | None] | None:
        """Return id, score and label of a message without headers; None to read it otherwise."""
        try:
            body: Any = json.loads(value)
        except (ValueError, RecursionError):
            return None
        if type(body) is not dict:
            return None
        id_, score, label = self._scalars(body)
        is_plain = (
            type(id_) is str
            and 0 < len(id_) <= _MAX_ID_CHARS
            and id_.isprintable()  # a lone surrogate is not
            # x - x is 0 for a finite number only.
            and (score is None or (type(score) is float and score - score == 0))
            and (label is None or type(label) is bool or (type(label) is int and label in (0, 1)))
            and (score is not None or label is not None)
            and (self._time is None or body.get(self._time) is None)
        )
        return (id_, score, None if label is None else bool(label)) if is_plain else None

    def _scalars(self, body: dict[str, Any]) -> tuple[Any, Any, Any]:
        return (
            body.get(self._id),
            None if self._score is None else body.get(self._score),
            None if self._label is None else body.get(self._label),
        )
