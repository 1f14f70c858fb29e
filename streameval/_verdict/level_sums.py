"""Sums by hour, and by day after 29 days, in which a search finds when a change began.

A row keeps thirteen bytes: the cases of each class, means and spreads of their placements among
the base's other class, the predictions with and without a label, and the mean rank of scores.
Rounding is below what chance does to an hour: counts from 4,096 on to 12 bits, means to 1/65535.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from streameval._drift.watches import UNITS
from streameval._verdict.search import StepSums

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common.arrays import FloatArray

LevelName = Literal["order", "scores", "prevalence", "labelled_share"]
HOUR_US: Final = 3_600_000_000
DAY_US: Final = 24 * HOUR_US
HOURS_FOR_US: Final = 29 * DAY_US
MAX_FINE: Final = 30 * 24
MAX_DAYS: Final = 32
"""Rows of days; of more, the two oldest are merged."""
ROW: Final = np.dtype(
    [
        ("positives", "<u2"),
        ("negatives", "<u2"),
        ("positive_mean", "<u2"),
        ("negative_mean", "<u2"),
        ("positive_spread", "u1"),
        ("negative_spread", "u1"),
        ("predictions", "<u2"),
        ("rank", "u1"),
    ]
)
SPANNED: Final = np.dtype([("start", "<u4"), ("end", "<u4"), ("row", ROW)])
"""A row of days, with its time in hours."""
_MANTISSA_BITS: Final = 12
_MAX_EXPONENT: Final = 15
_OCTET: Final = 255
_RANK_VARIANCE: Final = 1 / 12


class Level(NamedTuple):
    """Sums over some time, exact until they are rounded to a row.

    Attributes
    ----------
    positives, negatives, predictions, labelled : int
        Predictions are 0 where they are not known.
    positive_total, negative_total, rank_total : int
        Sums of placements of each class, and of the ranks of all cases, in units.
    positive_squares, negative_squares : int
        Sums of the placements' squares, in squared units.
    """

    positives: int = 0
    negatives: int = 0
    predictions: int = 0
    labelled: int = 0
    positive_total: int = 0
    negative_total: int = 0
    rank_total: int = 0
    positive_squares: int = 0
    negative_squares: int = 0

    def plus(self, other: Level) -> Level:
        """Return the sums over both times."""
        return Level(*(mine + its for mine, its in zip(self, other, strict=True)))

    def row(self) -> npt.NDArray[Any]:
        """Return it rounded to a row."""
        P, N = self.positives, self.negatives
        return np.array(
            (
                _packed(P),
                _packed(N),
                _mean(self.positive_total, P),
                _mean(self.negative_total, N),
                _spread(self.positive_total, self.positive_squares, P),
                _spread(self.negative_total, self.negative_squares, N),
                _packed(self.predictions),
                (_OCTET * self.rank_total) // max((P + N) * UNITS, 1),
            ),
            dtype=ROW,
        )

    @classmethod
    def of(cls, row: Any) -> Level:
        """Return the sums of a row, as far as it has them."""
        P, N = _unpacked(int(row["positives"])), _unpacked(int(row["negatives"]))
        predictions, rank = _unpacked(int(row["predictions"])), int(row["rank"])
        totals, squares = [], []
        for count, name in ((P, "positive"), (N, "negative")):
            mean, spread = int(row[f"{name}_mean"]), int(row[f"{name}_spread"])
            deviation = spread * UNITS // (2 * _OCTET)
            totals.append(count * mean)
            squares.append(count * (mean * mean + deviation * deviation))
        return cls(
            P,
            N,
            predictions,
            min(P + N, predictions),
            totals[0],
            totals[1],
            (P + N) * rank * UNITS // _OCTET,
            squares[0],
            squares[1],
        )


class LevelSums:
    """The rows since a base.

    Parameters
    ----------
    width_us : int
        The width of fine rows: an hour, or the pane if it is longer.
    origin_us : int
        The end of the base, a multiple of the width.

    Attributes
    ----------
    first : int
        The number of the first fine row, in widths since 1970.
    fine : ROW[n]
        One for each width from `first` on, also where there are no cases.
    days : SPANNED[m]
        What is older, or was observed in wider panes.
    open : Level
        Of the width that is not over, number `first` + n.
    until_us : int
        The end of what was added or closed.
    """

    def __init__(self, width_us: int, origin_us: int) -> None:
        self.width_us = width_us
        self.first = origin_us // width_us
        self.fine: npt.NDArray[Any] = np.zeros(0, dtype=ROW)
        self.days: npt.NDArray[Any] = np.zeros(0, dtype=SPANNED)
        self.open = Level()
        self.until_us = origin_us

    def add(self, start_us: int, end_us: int, level: Level) -> None:
        """Add the sums of a pane; panes come in ascending order."""
        if end_us - start_us <= self.width_us:
            self.close(start_us)
            self.open = self.open.plus(level)
            self.until_us = end_us
            return
        self.close(start_us)
        self._fold(len(self.fine))
        self._add_days(start_us, end_us, level)
        self.first, self.until_us = end_us // self.width_us, end_us

    def close(self, until_us: int) -> None:
        """Round what is over at a time; fold days that are older than 29 days."""
        self.until_us = until_us
        missing = until_us // self.width_us - (self.first + len(self.fine))
        if missing <= 0:
            return
        self.fine = np.append(self.fine, self.open.row())
        self.open = Level()
        oldest = (until_us - HOURS_FOR_US) // DAY_US * DAY_US // self.width_us
        self._fold(min(max(oldest - self.first, 0), len(self.fine)))
        if not len(self.fine):
            self.first = max(self.first, oldest)
        missing = until_us // self.width_us - (self.first + len(self.fine))
        self.fine = np.append(self.fine, np.zeros(missing, dtype=ROW))

    def sums(self, name: LevelName) -> StepSums:
        """Return what a search reads: one series, of placements one for each class. O(rows).

        The row that is not over ends where the last pane did, so that a change is seen at once.
        """
        opened = self.first + len(self.fine)
        fine = np.arange(self.first, opened + 1) * self.width_us
        until_us = max(self.until_us, opened * self.width_us)
        starts = np.concatenate((self.days["start"].astype(np.int64) * HOUR_US, fine))
        ends = np.concatenate((self.days["end"].astype(np.int64) * HOUR_US, fine[1:], [until_us]))
        rows = np.concatenate((self.days["row"], self.fine, self.open.row()[None]))
        counts, totals, squares = _series(rows, name)
        sums = StepSums(starts, ends, counts, totals, squares)
        return sums.part(sums.counts.sum(axis=0) > 0)

    def _fold(self, number: int) -> None:
        """Make days of the first rows."""
        rows, self.fine = self.fine[:number], self.fine[number:]
        starts = (self.first + np.arange(number)) * self.width_us
        self.first += number
        for day in np.unique(starts // DAY_US).tolist():
            here = np.flatnonzero(starts // DAY_US == day)
            level = Level()
            for at in here.tolist():
                level = level.plus(Level.of(rows[at]))
            start_us = int(starts[here[0]])
            self._add_days(start_us, int(starts[here[-1]]) + self.width_us, level)

    def _add_days(self, start_us: int, end_us: int, level: Level) -> None:
        if not level.positives + level.negatives:
            return
        row = np.array([(start_us // HOUR_US, -(-end_us // HOUR_US), level.row())], dtype=SPANNED)
        self.days = np.concatenate((self.days, row))
        if len(self.days) > MAX_DAYS:
            # The two neighbours that are together the narrowest for their age.
            ends = self.days["end"].astype(np.int64)
            spans = ends[1:] - self.days["start"][:-1]
            at = int(np.argmin(spans / (ends[-1] - ends[1:] + 24)))
            both = Level.of(self.days["row"][at]).plus(Level.of(self.days["row"][at + 1]))
            self.days[at] = (self.days["start"][at], self.days["end"][at + 1], both.row())
            self.days = np.delete(self.days, at + 1)


def steps_of(level: Level, span_us: tuple[int, int], name: LevelName) -> StepSums:
    """Return one step with the sums of a time."""
    starts, ends = (np.array([each]) for each in span_us)
    return StepSums(starts, ends, *_series(np.array([level.row()]), name))


def _series(rows: npt.NDArray[Any], name: LevelName) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the counts, totals and squares of a figure, from 0 to 1."""
    P, N = (_unpacked_all(rows[key]) for key in ("positives", "negatives"))
    if name == "order":
        counts = np.stack((P, N))
        means, spreads = (
            np.stack([rows[f"{each}_{what}"] / top for each in ("positive", "negative")])
            for what, top in (("mean", UNITS), ("spread", 2 * _OCTET))
        )
        return counts, counts * means, counts * (means**2 + spreads**2)
    if name == "prevalence":
        return (P + N)[None], P[None], P[None]
    if name == "scores":
        means = rows["rank"] / _OCTET
        return (P + N)[None], ((P + N) * means)[None], ((P + N) * (means**2 + _RANK_VARIANCE))[None]
    counts = _unpacked_all(rows["predictions"])
    labelled = np.minimum(P + N, counts)
    return counts[None], labelled[None], labelled[None]


def _packed(count: int) -> int:
    """Return a count in 16 bits: exact below 4,096, then with 12 bits.

    >>> [_unpacked(_packed(count)) for count in (0, 4095, 4097, 1_000_000)]
    [0, 4095, 4096, 999936]
    """
    exponent = max(count.bit_length() - _MANTISSA_BITS, 0)
    if exponent > _MAX_EXPONENT:
        return (1 << 16) - 1
    return (exponent << _MANTISSA_BITS) | (count >> exponent)


def _unpacked(code: int) -> int:
    return (code & ((1 << _MANTISSA_BITS) - 1)) << (code >> _MANTISSA_BITS)


def _unpacked_all(codes: npt.NDArray[Any]) -> FloatArray:
    wide = codes.astype(np.int64)
    mantissa: FloatArray = (wide & ((1 << _MANTISSA_BITS) - 1)).astype(np.float64)
    counts: FloatArray = np.ldexp(mantissa, wide >> _MANTISSA_BITS)
    return counts


def _mean(total: int, count: int) -> int:
    return (2 * total + count) // (2 * count) if count else 0


def _spread(total: int, squares: int, count: int) -> int:
    """Return the standard deviation, of which 255 is 1/2."""
    if not count:
        return 0
    variance = max(squares * count - total * total, 0)
    return min(2 * _OCTET * math.isqrt(variance) // (count * UNITS), _OCTET)
