"""Limits the rows a second of senders that no token identifies: a token bucket."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from streameval_server._model.errors import Code, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

_BURST_S = 10.0
"""Seconds of the rate that may come at once."""


class RowBudget:
    """The rows that may come now.

    Parameters
    ----------
    rows_per_s : float
        The rate in the long run. Ten seconds of it may come at once.
    monotonic
        The clock, in seconds.

    Examples
    --------
    >>> budget = RowBudget(2.0, lambda: 0.0)
    >>> budget.check()
    >>> budget.spend(25)
    >>> budget.check()
    Traceback (most recent call last):
        ...
    streameval_server._model.errors.RequestError: more than 2 rows a second: send it again later
    """

    def __init__(self, rows_per_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._rows_per_s = rows_per_s
        self._monotonic = monotonic
        self._left = self._burst = rows_per_s * _BURST_S
        self._owed = 0.0
        self._at_s = monotonic()

    def check(self) -> None:
        """Return when a request may come; before its body is read, so that refusing costs little.

        A request counts as one row, whatever is in it.

        Raises
        ------
        RequestError
            RESOURCE_EXHAUSTED, with the time until one may.
        """
        now_s = self._monotonic()
        self._left = min(self._left + (now_s - self._at_s) * self._rows_per_s, self._burst)
        self._left, self._owed = self._left - self._owed, 0.0
        self._at_s = now_s
        self._refuse_below(1)
        self._left -= 1

    def spend(self, rows: int) -> None:
        """Count the rows of a request beyond its first; they may exceed what is left.

        Raises
        ------
        RequestError
            As `check`, when other requests have exceeded it meanwhile.
        """
        self._refuse_below(0)
        self._left -= max(0, rows - 1)

    def spend_time(self, seconds: float) -> None:
        """Count processor time that reading a request took, also one that was refused.

        A second of it costs a second of the rate: whatever bodies hold, reading them takes no
        more than one processor in the long run. The next request waits for it, not this one.
        """
        self._owed += seconds * self._rows_per_s

    def _refuse_below(self, minimum: int) -> None:
        if self._left < minimum:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                f"more than {self._rows_per_s:g} rows a second: send it again later",
                reason="RATE_LIMITED",
                retry_after_s=(minimum - self._left) / self._rows_per_s,
            )
