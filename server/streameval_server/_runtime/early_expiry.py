"""What is said of predictions that expired early, because their stream kept `max_pending` ids."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streameval_server._core.engine import Engine

_log = logging.getLogger(__name__)

_PAUSE_S = 60.0
"""Between two lines of the log."""

_MAX_NAMES = 5
"""Streams that a warning names."""


class EarlyExpiry:
    """Tells of early expiry since the server started.

    Parameters
    ----------
    engine
        As it was recovered: what expired before is not told again.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._at_start = engine.expired_early.copy()
        self._told = self._at_start
        self._told_at_s: float | None = None

    def warnings(self) -> list[str]:
        """Return a text for each stream with any since the start. Any thread may call it."""
        return self._texts(self._at_start)

    def tell(self, now_s: float) -> None:
        """Log what expired since the last line, unless that was just now. O(streams with any)."""
        if self._engine.expired_early == self._told:  # as a rule both are empty
            return
        if self._told_at_s is None or now_s - self._told_at_s >= _PAUSE_S:
            for text in self._texts(self._told):
                _log.error("%s", text)
            self._told, self._told_at_s = self._engine.expired_early.copy(), now_s

    def _texts(self, before: dict[str, int]) -> list[str]:
        found = {
            name: number - before.get(name, 0)
            for name, number in self._engine.expired_early.copy().items()
            if number > before.get(name, 0)
        }
        names = sorted(found, key=lambda name: -found[name])
        texts = [
            f"stream {name}: {found[name]:,} predictions expired before their label_ttl, because "
            "more ids waited than its max_pending: their labels do not count. Send labels sooner, "
            f"or let it keep more: 'streameval streams update {name} --max-pending'"
            for name in names[:_MAX_NAMES]
        ]
        more = sum(found[name] for name in names[_MAX_NAMES:])
        if more:
            texts.append(
                f"{len(names) - _MAX_NAMES} more streams: {more:,} predictions expired before "
                "their label_ttl"
            )
        return texts
