"""The evidence of all processes of a detector, by when a change may have begun.

Evidence of the whole is kept by *blocks* of the time at which its bets began: the
evidence is the sum over its beginnings, so the share of each block says how likely a
change began in it. Blocks are an hour where they are new; older ones are merged, so that
ten of them cover any time. Segments and companions keep e-processes: a bet that begins in
pane t has a weight, and all weights add up to 1, so that the mean of their evidence is at
most 1 at any time that data may choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streameval._drift.evidence import FRACTIONS, advanced, bet_of
from streameval._drift.watches import UNITS

if TYPE_CHECKING:
    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._drift.side_table import PaneSums

MAX_BLOCKS: Final = 10
SUMMARIES: Final = 5
"""Numbers kept for each block and side: rows, the sum of means times rows, and sums of squares
for a variance."""
HOUR_US: Final = 3_600_000_000
MAX_E_VALUE: Final = 1e100
"""E-processes stop here: nothing restarts them while the whole raises no alarm."""
_FRACTIONS = np.array(FRACTIONS)
_BETS: Final = len(FRACTIONS)


class _Means(NamedTuple):
    """The means of one pane: whether there is one, and what it is counted with."""

    seen: BoolArray
    elapsed: IntArray
    bets: FloatArray
    thetas: FloatArray
    z: FloatArray


class Processes:
    """The evidence of the whole, of segments and of companions.

    Parameters
    ----------
    thetas : float64[parts, sides]
        Of the whole first, then of segments; 0 where nothing is watched. The last
        `companions` sides raise no alarm.
    companions : int
    pane_us : int
    mean_panes : int
        The panes of the mean time to a false alarm.
    max_blocks : int
        How many beginnings are told apart; 1 where another search tells since when.

    Attributes
    ----------
    fine : float64[sides, bets, blocks]
        Evidence of the whole by pane, by the block in which its bets began.
    coarse : float64[sides, bets]
        Evidence of the whole by hour: the bets of the hourly copy.
    hour : int
        The hour whose observations `hour_sums` and `hour_counts` hold; -1 before any.
    parts : float64[parts, sides, bets]
        E-processes of companions (part 0) and of segments.
    last : int64[parts, sides]
        The pane of the newest observation or restart; -1 before any.
    restarts : int64[sides]
        The pane since which a side's e-processes run; -1 before any.
    starts : int64[blocks]
        The first pane of each block, ascending.
    summaries : float64[SUMMARIES, sides, blocks]
    """

    def __init__(
        self,
        thetas: FloatArray,
        companions: int,
        pane_us: int,
        mean_panes: int,
        max_blocks: int = MAX_BLOCKS,
    ) -> None:
        parts, sides = thetas.shape
        self.thetas = thetas
        self._max_blocks = max_blocks
        self.num_watched = sides - companions
        # Companions of the whole, and watches of segments.
        self._has_e_process = np.arange(sides) < self.num_watched
        self._has_e_process = self._has_e_process ^ (np.arange(parts) == 0)[:, None]
        self.panes_an_hour = max(1, HOUR_US // pane_us)
        self.mean_panes = mean_panes
        self.fine = np.zeros((self.num_watched, _BETS, 0))
        self.coarse = np.zeros((self.num_watched, _BETS))
        self.hour = -1
        self.hour_sums = np.zeros(self.num_watched)
        self.hour_counts = np.zeros(self.num_watched, dtype=np.int64)
        self.parts = np.zeros((parts, sides, _BETS))
        self.last = np.full((parts, sides), -1, dtype=np.int64)
        self.restarts = np.full(sides, -1, dtype=np.int64)
        self.starts = np.zeros(0, dtype=np.int64)
        self.summaries = np.zeros((SUMMARIES, self.num_watched, 0))

    @property
    def has_coarse(self) -> bool:
        """Whether there is an hourly copy: where panes are shorter than an hour."""
        return self.panes_an_hour > 1

    def observe(
        self,
        pane: int,
        sums: PaneSums,
        independent: IntArray,
        is_open: BoolArray | bool = False,
        start: int | None = None,
    ) -> None:
        """Count the means of one pane. Panes come in ascending order. O(parts x sides).

        Parameters
        ----------
        pane : int
        sums : PaneSums
        independent : int64[parts, sides]
            How many independent observations each mean is of.
        is_open : bool or bool[sides]
            Whether an alarm is open on a side: then its segments' running bets go on, and no
            more begin.
        start : int, optional
            The first pane of the time that the cases are of, where it is longer than a pane.
        """
        seen = (sums.counts > 0) & (self.thetas > 0)
        z = sums.sums / (np.maximum(sums.counts, 1) * float(UNITS))
        start = pane if start is None else start
        most = max(self.panes_an_hour, pane - start + 1)
        elapsed = np.where(self.last < 0, pane - start + 1, np.minimum(pane - self.last, most))
        thetas = np.where(seen, self.thetas, 0.0)
        bets = bet_of(_FRACTIONS, np.maximum(independent, 1)[..., None], thetas[..., None])
        self.restarts = np.where(self.restarts < 0, pane, self.restarts)
        means = _Means(seen, elapsed, bets, thetas, z)
        self._observe_parts(pane, means, is_open)
        self._begin_block(start)
        self._observe_whole(means)
        self._summarise(seen[0], sums.counts[0], z[0])
        self.last = np.where(seen, pane, self.last)
        if self.has_coarse:
            watched = seen[0, : self.num_watched]
            counts = np.where(watched, independent[0, : self.num_watched], 0)
            self.hour = pane // self.panes_an_hour
            self.hour_sums += counts * z[0, : self.num_watched]
            self.hour_counts += counts

    def close_hour(self) -> None:
        """Count the means of the hour in the coarse copy. O(sides)."""
        seen = (self.hour_counts > 0) & (self.thetas[0, : self.num_watched] > 0)
        z = self.hour_sums / np.maximum(self.hour_counts, 1)
        theta = np.where(seen, self.thetas[0, : self.num_watched], 0.0)[:, None]
        bets = bet_of(_FRACTIONS, np.maximum(self.hour_counts, 1)[:, None], theta)
        end = (self.hour + 1) * self.panes_an_hour
        elapsed = np.clip(end - self.restarts[: self.num_watched], 0, self.panes_an_hour)
        new = advanced(self.coarse, elapsed[:, None], bets, theta, z[:, None])
        self.coarse = np.where(seen[:, None], new, self.coarse)
        self.hour_sums[:] = 0
        self.hour_counts[:] = 0
        self.hour = -1

    def evidence(self, sides: slice) -> float:
        """Return the evidence of one process: the mean over its sides, bets and copies. O(1)."""
        active = int((self.thetas[0, sides] > 0).sum())
        if not active:
            return 0.0
        total = float(self.fine[sides].sum()) + float(self.coarse[sides].sum())
        return total / (active * _BETS * (2 if self.has_coarse else 1))

    def part_values(self, sides: slice) -> FloatArray:
        """Return the e-value of each part: the mean over the sides that it watches. O(parts)."""
        active = (self.thetas[:, sides] > 0).sum(axis=1)
        sums: FloatArray = self.parts[:, sides].sum(axis=(1, 2))
        values: FloatArray = sums / np.maximum(active * _BETS, 1)
        return values

    def restart_whole(self, sides: slice, pane: int) -> None:
        """Drop the evidence of watched sides of the whole; new bets begin after a pane."""
        self.fine[sides] = 0
        self.coarse[sides] = 0
        self.hour_sums[sides] = 0
        self.hour_counts[sides] = 0
        self.summaries[:, sides] = 0
        self.last[0, sides] = pane
        self.restarts[sides] = pane

    def restart_companions(self, pane: int) -> None:
        """Drop the e-processes of companions; new bets begin after a pane."""
        self.parts[:, self.num_watched :] = 0
        self.last[:, self.num_watched :] = pane
        self.restarts[self.num_watched :] = pane

    def restart_segments(self, sides: slice, pane: int) -> None:
        """Drop the e-processes of segments: of the weights of bets, the rest remains."""
        self.parts[1:, sides] = 0
        self.last[1:, sides] = pane

    def _observe_parts(self, pane: int, means: _Means, is_open: BoolArray | bool) -> None:
        """Advance e-processes: weights of the first mean time are half of all, then a sixth, ..."""
        epoch = np.maximum(pane - self.restarts, 0) // self.mean_panes
        weights = means.elapsed / (self.mean_panes * (epoch + 1.0) * (epoch + 2.0))
        weights = np.where(is_open, 0.0, weights)
        new = advanced(
            self.parts,
            weights[..., None],
            means.bets,
            means.thetas[..., None],
            means.z[..., None],
        )
        is_changed = (means.seen & self._has_e_process)[..., None]
        self.parts = np.where(is_changed, np.minimum(new, MAX_E_VALUE), self.parts)

    def _observe_whole(self, means: _Means) -> None:
        elapsed, bets, theta, z, seen = (
            each[0, : self.num_watched]
            for each in (means.elapsed, means.bets, means.thetas, means.z, means.seen)
        )
        panes = np.zeros(self.starts.size)
        panes[-1] = 1
        new = advanced(
            self.fine,
            elapsed[:, None, None] * panes,
            bets[..., None],
            theta[:, None, None],
            z[:, None, None],
        )
        self.fine = np.where(seen[:, None, None], new, self.fine)

    def _summarise(self, seen: BoolArray, counts: IntArray, z: FloatArray) -> None:
        rows = np.where(seen, counts, 0)[: self.num_watched].astype(np.float64)
        mean = z[: self.num_watched]
        total = rows * mean
        self.summaries[:, :, -1] += (rows, total, rows * rows, rows * total, total * total)

    def _begin_block(self, pane: int) -> None:
        """Begin a block with the first observation of an hour, and merge two if there are many."""
        width = self.panes_an_hour
        is_same_hour = self.starts.size and pane // width == self.starts[-1] // width
        if is_same_hour or self.starts.size == self._max_blocks == 1:
            return
        if self.starts.size == self._max_blocks:
            # Of the two blocks that are merged, together the narrowest for their age.
            ends = self.starts[2:]
            spans = (ends - self.starts[:-2]) / (pane - ends + width)
            at = int(np.argmin(spans))
            self.starts = np.delete(self.starts, at + 1)
            self.fine = _merged(self.fine, at)
            self.summaries = _merged(self.summaries, at)
        self.starts = np.append(self.starts, pane)
        self.fine = _widened(self.fine)
        self.summaries = _widened(self.summaries)


def _merged(columns: npt.NDArray[np.float64], at: int) -> npt.NDArray[np.float64]:
    """Return columns with the one after `at` added to it."""
    left = columns.copy()
    left[..., at] += left[..., at + 1]
    return np.delete(left, at + 1, axis=-1)


def _widened(columns: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.concatenate((columns, np.zeros((*columns.shape[:-1], 1))), axis=-1)
