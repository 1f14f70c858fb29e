"""How many predictions of a pane have their label: additive counts, overall and by score.

A cell counts how often each `Effect` happened to the predictions of one pane. Labels
are rarely missing at random, so it also counts, by band of score, the predictions
that could have a label and the predictions that have one. All counts are sums, so cells merge
in any order and retracting a label is exact. Band edges are fixed: one band for each
doubling of the score's magnitude from 2^-16 to 2^-4, then four for each up to 2^16
(on the probability scale up to 1/2, mirrored above it). A cell stores the bands from
its lowest used one to its highest.

Cost: 0.7 KB a cell of probabilities, 1.5 KB of scores from -8 to 8; O(rows) to
add, O(bands) to merge.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from streameval._common.coverage import Coverage
from streameval._common.frame import Frame, raise_corrupt
from streameval._common.result import Result
from streameval._counts.cell_layout import cell_keys
from streameval._time.effects import COVERAGE, Effect

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray, IntArray
    from streameval._counts.resolution import Scale
    from streameval._time.effects import KindArray

FRAME = Frame(b"SVEC", 1, "a coverage cell")
_HEADER = struct.Struct(f"<{len(Effect)}qHH")

LABELABLE = COVERAGE["predictions"] - COVERAGE["retracted"]
"""What each effect adds to the predictions that could have a label: all but retracted ones."""
LABELLED = COVERAGE["labelled"]
"""What each effect adds to the predictions that have a label."""
_TABLES = np.stack(list(COVERAGE.values())).astype(np.int64)
_IS_BANDED = (LABELABLE != 0) | (LABELLED != 0)


def _edges(scale: Scale) -> FloatArray:
    highest = 16 if scale == "plain" else -1
    coarse = [2.0**exponent for exponent in range(-16, -4)]
    octaves = [2.0**exponent for exponent in range(-4, highest)]
    fine = [octave * quarter for octave in octaves for quarter in (1.0, 1.25, 1.5, 1.75)]
    below = np.array([*coarse, *fine, 2.0**highest])
    other = -below if scale == "plain" else 1.0 - below
    return np.unique(np.concatenate((below, other)))


EDGES: dict[Scale, FloatArray] = {"plain": _edges("plain"), "probability": _edges("probability")}
"""The lower edge of each band but the first, which has none."""
_EDGE_LISTS = {scale: edges.tolist() for scale, edges in EDGES.items()}

_LEADING_BITS = 14
"""Bits of a score's key that determine its band: sign, exponent, and two bits of the fraction."""
_DROPPED_BITS = np.int64(64 - _LEADING_BITS)


def _bands(scale: Scale) -> IntArray:
    """Return, for each number of `_LEADING_BITS` bits, the band of its lowest score."""
    numbers = np.arange(1 << _LEADING_BITS)
    signed = np.where(numbers >> (_LEADING_BITS - 1), numbers - numbers.size, numbers)
    edges = cell_keys(EDGES[scale], scale) >> _DROPPED_BITS
    return np.searchsorted(edges, signed, side="right")


_BANDS: dict[Scale, IntArray] = {"plain": _bands("plain"), "probability": _bands("probability")}


@dataclass(frozen=True, slots=True, eq=False)
class ScoreBand(Result):
    """Predictions of similar scores.

    Attributes
    ----------
    lower, upper : float
        Scores in [lower, upper); -inf and inf at the ends.
    predictions : int
        Predictions in the band, without retracted ones.
    labelled : int
        Predictions among them that have a label now.
    """

    lower: float
    upper: float
    predictions: int
    labelled: int

    @property
    def labelled_share(self) -> float:
        """Labelled predictions divided by predictions; nan without predictions."""
        return self.labelled / self.predictions if self.predictions else float("nan")


class CoverageCell:
    """Counts of the effects on the predictions of one pane.

    Parameters
    ----------
    scale : {"plain", "probability"}
        Selects its bands of score.

    Attributes
    ----------
    effect_counts : int64[len(Effect)]
        How often each effect happened.
    first : int
        The lowest band that is stored.
    bands : int64[2, n]
        By band, the predictions that could have a label, and the predictions that have one.
    """

    __slots__ = ("bands", "effect_counts", "first", "scale")

    def __init__(self, scale: Scale = "plain") -> None:
        self.scale: Scale = scale
        self.effect_counts: IntArray = np.zeros(len(Effect), dtype=np.int64)
        self.first = 0
        self.bands: IntArray = np.zeros((2, 0), dtype=np.int64)

    @classmethod
    def of(
        cls,
        effect_counts: IntArray,
        bands: IntArray,
        labelable: IntArray,
        labelled: IntArray,
        *,
        scale: Scale,
    ) -> Self:
        """Return the cell of these counts. O(bands).

        Parameters
        ----------
        effect_counts : int64[len(Effect)]
            How often each effect happened; the cell keeps it.
        bands : int64[n]
            Ascending and distinct.
        labelable, labelled : int64[n]
            What each band counts.
        """
        cell = cls.__new__(cls)
        cell.scale = scale
        cell.effect_counts = effect_counts
        cell.first, width = 0, 0
        if bands.size:
            cell.first = int(bands[0])
            width = int(bands[-1]) - cell.first + 1
        cell.bands = np.zeros((2, width), dtype=np.int64)
        places = bands - cell.first
        cell.bands[0, places] = labelable
        cell.bands[1, places] = labelled
        return cell

    @property
    def coverage(self) -> Coverage:
        """The counts as a public `Coverage`."""
        return Coverage(**dict(zip(COVERAGE, (_TABLES @ self.effect_counts).tolist(), strict=True)))

    def add(self, kinds: KindArray, scores: FloatArray) -> None:
        """Count effects. O(n + bands)."""
        self.effect_counts += np.bincount(kinds, minlength=len(Effect))
        rows = np.flatnonzero(_IS_BANDED[kinds])
        if rows.size:
            kinds = kinds[rows]
            self.add_bands(bands_of(scores[rows], self.scale), LABELABLE[kinds], LABELLED[kinds])

    def add_one(self, kind: int, score: float) -> None:
        """Count one effect. O(1) amortised."""
        self.effect_counts[kind] += 1
        if _IS_BANDED[kind]:
            band = bisect_right(_EDGE_LISTS[self.scale], score)
            self._make_room(band, band + 1)
            self.bands[0, band - self.first] += LABELABLE[kind]
            self.bands[1, band - self.first] += LABELLED[kind]

    def add_bands(self, bands: IntArray, labelable: IntArray, labelled: IntArray) -> None:
        """Add signed counts to bands, which may repeat. O(n + bands)."""
        self._make_room(int(bands.min()), int(bands.max()) + 1)
        np.add.at(self.bands[0], bands - self.first, labelable)
        np.add.at(self.bands[1], bands - self.first, labelled)

    def merge(self, *others: CoverageCell) -> None:
        """Add the counts of other cells. O(bands) each."""
        for other in others:
            self.effect_counts += other.effect_counts
            width = other.bands.shape[1]
            if width:
                self._make_room(other.first, other.first + width)
                start = other.first - self.first
                self.bands[:, start : start + width] += other.bands

    def by_score(self, at_most: int = 10) -> tuple[ScoreBand, ...]:
        """Return up to `at_most` bands of about equal size, lowest scores first. O(bands)."""
        return tuple(ScoreBand(*row) for row in self.band_rows(at_most))

    def band_rows(self, at_most: int) -> list[tuple[float, float, int, int]]:
        """Return the fields of each of the bands that `by_score` returns. O(bands)."""
        # flatnonzero is five times as fast on booleans as on integers.
        used = np.flatnonzero(self.bands[0] != 0)
        if not used.size:
            return []
        bands = self.bands[:, used]
        through = bands[0].cumsum()
        # A fine band joins the group of its middle rank; integers, so exact on any machine.
        middles = 2 * through
        middles -= bands[0]
        middles *= at_most
        middles //= 2 * int(through[-1])
        cuts = np.flatnonzero(middles[1:] != middles[:-1]) + 1
        inner = EDGES[self.scale][used[cuts] + (self.first - 1)].tolist()
        groups = np.add.reduceat(bands, np.concatenate(([0], cuts)), axis=1)
        return list(zip([-math.inf, *inner], [*inner, math.inf], *groups.tolist(), strict=True))

    def copy(self) -> CoverageCell:
        """Return an independent cell."""
        other = CoverageCell(self.scale)
        other.merge(self)
        return other

    def to_bytes(self) -> bytes:
        """Return the content as bytes; equal cells have equal bytes. O(bands)."""
        used = np.flatnonzero(self.bands.any(axis=0))
        first, end = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 0)
        start = self.first + first if used.size else 0
        header = _HEADER.pack(*self.effect_counts.tolist(), start, end - first)
        return FRAME.sealed(header, self.bands[:, first:end].astype("<i8").tobytes())

    @classmethod
    def from_bytes(
        cls, data: bytes | bytearray | memoryview, scale: Scale = "plain"
    ) -> CoverageCell:
        """Return the cell that `to_bytes` wrote.

        Raises
        ------
        CorruptStateError
            When the bytes are not exactly that.
        """
        reader = FRAME.reader(data)
        *counts, first, width = reader.fields(_HEADER)
        bands = reader.column("<i8", 2 * width).reshape(2, width)
        reader.end()
        cell = cls(scale)
        if first + width > EDGES[scale].size + 1 or (width == 0 and first):
            raise_corrupt(f"the coverage cell has bands {first} to {first + width}")
        cell.effect_counts[:] = counts
        cell.first, cell.bands = first, bands.astype(np.int64)
        if not cell.is_consistent():
            raise_corrupt("the coverage cell's counts contradict one another")
        if cell.to_bytes() != bytes(data):
            raise_corrupt("the coverage cell has bands that count nothing")
        return cell

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CoverageCell):
            return NotImplemented
        return self.scale == other.scale and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]  # it changes, so it must not be a key

    def __repr__(self) -> str:
        return f"<CoverageCell: {self.coverage}>"

    def _make_room(self, first: int, end: int) -> None:
        """Make room for bands [first, end)."""
        width = self.bands.shape[1]
        if not width:
            self.first = first
        before, after = max(0, self.first - first), max(0, end - self.first - width)
        if before or after:
            wider = np.zeros((len(self.bands), before + width + after), dtype=self.bands.dtype)
            wider[:, before : before + width] = self.bands
            self.bands = wider
            self.first -= before

    def is_consistent(self) -> bool:
        """Return whether the counts agree with one another. O(bands)."""
        coverage = self.coverage
        return bool(
            self.effect_counts.min() >= 0
            and coverage.pending >= 0
            and (self.bands[1] >= 0).all()
            and (self.bands[1] <= self.bands[0]).all()
            and self.bands[0].sum() == coverage.predictions - coverage.retracted
            and self.bands[1].sum() == coverage.labelled
        )

    def _check(self) -> None:
        """Assert all invariants. O(bands)."""
        assert self.is_consistent(), (self.effect_counts, self.bands)


def bands_of(scores: FloatArray, scale: Scale) -> IntArray:
    """Return the band of each score. O(n).

    An edge has at most two bits after its first one, so the leading bits of a score's key say
    which band it is in: a table is eight times as fast as a search among the edges.
    """
    places = cell_keys(scores, scale) >> _DROPPED_BITS
    # The mask makes the bits of negative keys the greatest numbers, as `_bands` has them.
    places &= np.int64(len(_BANDS[scale]) - 1)
    return _BANDS[scale].take(places)
