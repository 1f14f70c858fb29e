"""The server's time: the wall clock as long as it can be believed, a monotonic clock otherwise.

What a wrong time does can be final: ids expire, panes are dropped, producers are forgotten.
So the wall clock is believed only within `Limits.max_clock_step_us` of where the monotonic
clock puts it. Beyond that the clock is *in doubt*: time passes by the monotonic clock, and the
committer holds the log (`log_time`). Doubt ends when both agree again, or when an operator
confirms the wall clock with `accept`.

No monotonic clock covers the time in which the server was stopped. At a start the wall clock is
compared with the log's last time instead:

==========================================  ===================================================
wall clock, against the log's last time     the server's time
==========================================  ===================================================
at most `max_clock_step_us` before it       the wall clock
up to `max_downtime_us` after it            the wall clock: the server was stopped for that long
later than that                             the wall clock, in doubt until `accept`
earlier than that                           in doubt: goes on from the log's last time
==========================================  ===================================================

A log that was held already is released only by a wall clock within `max_clock_step_us` of its
last time: a restart does not turn a step of the clock into downtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streameval_server._model.errors import Code, RequestError

if TYPE_CHECKING:
    from streameval_server._model.limits import Limits

_MIN_ANCHOR_AGE_US = 3600 * 1_000_000
"""Age at which a reading replaces the anchor, which later readings of the wall clock are compared
with. Until then small corrections add up to at most one step."""


class ClockReading(NamedTuple):
    """The time at one moment.

    Attributes
    ----------
    time_us : int
        The server's time, in microseconds since 1970.
    disputed_us : int or None
        What the time is otherwise, while the clock is in doubt; None while it is not.
    """

    time_us: int
    disputed_us: int | None


class EngineClock:
    """The server's time. Any thread may read it.

    Parameters
    ----------
    limits
        The server's.

    Examples
    --------
    >>> from streameval_server._model.limits import Limits
    >>> minute = 60_000_000
    >>> clock = EngineClock(Limits(max_clock_step_us=5 * minute))
    >>> clock.start(100 * minute, 0, last_us=100 * minute, held_us=None)
    >>> clock.read(104 * minute, 3 * minute)  # a minute ahead
    ClockReading(time_us=6240000000, disputed_us=None)
    >>> clock.read(900 * minute, 4 * minute)
    ClockReading(time_us=6240000000, disputed_us=54000000000)
    >>> clock.accept(900 * minute, 4 * minute)
    >>> clock.read(901 * minute, 5 * minute)
    ClockReading(time_us=54060000000, disputed_us=None)
    """

    def __init__(self, limits: Limits) -> None:
        self._max_step_us = limits.max_clock_step_us
        self._max_downtime_us = limits.max_downtime_us
        # The wall clock minus the monotonic one, and the latter's time when that was found:
        # one tuple, so that a read in another thread is consistent.
        self._anchor = (0, 0)
        # The log's time minus the monotonic clock, while only `accept` can end the doubt.
        self._unconfirmed_us: int | None = None

    def start(self, wall_us: int, monotonic_us: int, *, last_us: int, held_us: int | None) -> None:
        """Begin at a log's end.

        Parameters
        ----------
        wall_us, monotonic_us
            Both clocks now; the monotonic one begins anywhere.
        last_us
            The log's last time; 0 for an empty log.
        held_us
            The time up to which things fell due, in a held log; None in any other.
        """
        ahead_us = wall_us - last_us
        jumped_us = 0 if held_us is None else last_us - held_us
        believed_us = self._max_downtime_us if held_us is None else self._max_step_us
        by_wall, by_log = wall_us - monotonic_us, last_us - monotonic_us
        self._unconfirmed_us = None
        if not last_us or (
            -self._max_step_us <= ahead_us <= max(believed_us, self._max_step_us)
            and jumped_us <= self._max_downtime_us
        ):
            self._anchor = (by_wall, monotonic_us)
        elif held_us is None and ahead_us > 0:
            # Far more likely a long stop than a wrong clock, so the wall clock dates the rows.
            self._anchor = (by_wall, monotonic_us)
            self._unconfirmed_us = by_log
        else:
            self._anchor = (by_log, monotonic_us)
            if held_us is not None and jumped_us > self._max_downtime_us:
                self._unconfirmed_us = held_us - monotonic_us

    def read(self, wall_us: int, monotonic_us: int) -> ClockReading:
        """Return the time, given both clocks. O(1)."""
        offset_us, found_us = self._anchor
        time_us = monotonic_us + offset_us
        if abs(wall_us - time_us) > self._max_step_us:
            return ClockReading(time_us, wall_us)
        if self._unconfirmed_us is not None:
            return ClockReading(wall_us, monotonic_us + self._unconfirmed_us)
        if monotonic_us - found_us >= _MIN_ANCHOR_AGE_US:
            self._anchor = (wall_us - monotonic_us, monotonic_us)
        return ClockReading(wall_us, None)

    def accept(self, wall_us: int, monotonic_us: int) -> None:
        """Believe the wall clock, because an operator confirms it.

        Raises
        ------
        RequestError
            FAILED_PRECONDITION when the log is far ahead of it since a start with a wrong
            clock: releasing it would do what the hold prevented.
        """
        behind_us = monotonic_us + self._anchor[0] - wall_us
        if self._unconfirmed_us is not None and behind_us > self._max_step_us:
            raise RequestError(
                Code.FAILED_PRECONDITION,
                f"the log is {in_days(behind_us)} ahead of the wall clock, since the server was "
                "started with a wrong one: stop the server, and mend the log with "
                "'streameval admin repair'",
                reason="LOG_AHEAD_OF_CLOCK",
            )
        self._unconfirmed_us = None
        self._anchor = (wall_us - monotonic_us, monotonic_us)

    def problem(self, reading: ClockReading) -> str | None:
        """Return why the clock is in doubt, and what to do; None while it is not."""
        time_us, disputed_us = reading
        if disputed_us is None:
            return None
        apart = in_days(abs(disputed_us - time_us))
        if self._unconfirmed_us is not None and disputed_us < time_us:
            doubt = f"the wall clock was {apart} after the log's last entry when the server started"
        elif disputed_us > time_us:
            doubt = f"the wall clock is {apart} ahead of the server's time"
        else:
            doubt = f"the wall clock is {apart} behind the server's time"
        return (
            f"the clock is in doubt, and nothing expires: {doubt}. Correct the clock; or, if it is "
            "right, confirm it with 'streameval admin clock accept'"
        )


def in_days(span_us: int) -> str:
    """Return a span of time in the largest unit that fits.

    Examples
    --------
    >>> in_days(90_000_000), in_days(36 * 3600 * 1_000_000)
    ('1.5 min', '1.5 d')
    """
    for size_us, unit in ((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min")):
        if span_us >= size_us:
            return f"{span_us / size_us:.3g} {unit}"
    return f"{span_us / 1e6:.3g} s"
