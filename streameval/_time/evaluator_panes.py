"""Panes of evaluators: the state of a `WindowedEvaluator`, with its bytes.

All panes have the settings of one empty evaluator. The counts of all panes together
stay below 2**62, so that coarsening panes and summing windows cannot overflow.

Layout, little-endian: pane, retention and now in microseconds, number of panes;
the empty evaluator; then for each pane that is not empty its start and its
evaluator. Each evaluator is its length, then the bytes of `Evaluator.to_bytes`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from streameval._common.errors import InvalidInputError
from streameval._common.frame import Frame, raise_corrupt
from streameval._counts.codec import decode_evaluator
from streameval._counts.exact import MAX_TOTAL, too_many
from streameval._counts.weights import MAX_WEIGHTED_CASES, WEIGHT_UNITS, too_many_weighted
from streameval._evaluator import Evaluator
from streameval._time.panes import Grid, Panes
from streameval._time.times import MAX_TIME_US

if TYPE_CHECKING:
    from streameval._common.frame import Reader

FRAME = Frame(b"SVEW", 1, "a windowed evaluator")
_HEADER = struct.Struct("<qqqq")
_PANE = struct.Struct("<q")
_LENGTH = struct.Struct("<q")


class EvaluatorPanes(Panes[Evaluator]):
    """Panes of evaluators with the same settings.

    Parameters
    ----------
    pane_us, retention_us : int
        As for `Grid.tiers_of`.
    empty : Evaluator
        Has no counts; a new pane is a copy of it.

    Attributes
    ----------
    pane_us, retention_us : int
    empty : Evaluator
    """

    def __init__(self, pane_us: int, retention_us: int, empty: Evaluator) -> None:
        super().__init__(Grid.tiers_of(pane_us, retention_us), empty.copy)
        self.pane_us = pane_us
        self.retention_us = retention_us
        self.empty = empty
        self._bound = Totals()
        self._unit_bound = 0

    def check_room(self, added: int, units: int | None = None) -> None:
        """Reserve room for `added` references; raise InvalidInputError if there is none.

        O(1) amortised: `_bound` plus `_unit_bound` cases of weight 1 is an upper bound,
        recomputed only when it reaches a limit.

        Parameters
        ----------
        added : int
        units : int or None
            What they weigh together, in units of 2**-16; None if each weighs 1.
        """
        bound = self._bound
        if units is not None:
            self._reserve(Totals().with_weighted(added, units))
        elif not bound.has_weights and bound.references + self._unit_bound + added < MAX_TOTAL:
            self._unit_bound += added
        else:
            self._reserve(Totals.of_unit_cases(added))

    def _reserve(self, added: Totals) -> None:
        after = self._bound + Totals.of_unit_cases(self._unit_bound) + added
        if after.excess() is not None:
            after = self._total() + added
            excess = after.excess()
            if excess is not None:
                raise excess
        self._bound, self._unit_bound = after, 0

    def merge(self, other: EvaluatorPanes) -> None:
        """Add the counts of another, pane by pane. O(S log S).

        Raises
        ------
        InvalidInputError
            When their settings differ. Nothing has changed then.
        """
        if other.tiers != self.tiers:
            raise InvalidInputError("pane and retention must be the same to merge", field="pane")
        if other.empty != self.empty:
            raise InvalidInputError(
                "resolution, scale, max_cells, cluster_groups and min_label_probability must be "
                "the same to merge",
                field="resolution",
            )
        self._reserve(other._total())
        self.advance(other.now_us)
        for pane in list(other):
            if pane.start_us >= self.grid.oldest_us:
                self.at(self.grid.start_of(pane.start_us)).merge(pane.content)

    def copy(self) -> EvaluatorPanes:
        """Return independent panes with the same content. O(panes)."""
        twin = EvaluatorPanes(self.pane_us, self.retention_us, self.empty)
        twin.advance(self.now_us)
        for pane in self:
            twin.put(pane.start_us, pane.content.copy())
        twin._bound, twin._unit_bound = self._bound, self._unit_bound
        return twin

    def _total(self) -> Totals:
        """Return what all panes count together. O(panes), after the merge of their changes."""
        return sum((Totals.of(pane.content) for pane in self), Totals())

    def non_empty(self) -> list[tuple[int, Evaluator]]:
        """Return the starts and evaluators of the panes that are not empty. O(cells)."""
        return [(pane.start_us, pane.content) for pane in self if pane.content != self.empty]

    def same_content(self, other: EvaluatorPanes) -> bool:
        """Return whether both have the same settings, time and counts. O(cells)."""
        return (
            self.pane_us == other.pane_us
            and self.retention_us == other.retention_us
            and self.now_us == other.now_us
            and self.empty == other.empty
            and self.non_empty() == other.non_empty()
        )

    def to_bytes(self) -> bytes:
        """Return the content as bytes; equal panes have equal bytes. O(cells)."""
        counted = self.non_empty()
        header = _HEADER.pack(self.pane_us, self.retention_us, self.now_us, len(counted))
        parts = [header, *_with_length(self.empty)]
        for start_us, evaluator in counted:
            parts += [_PANE.pack(start_us), *_with_length(evaluator)]
        return FRAME.sealed(*parts)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> EvaluatorPanes:
        """Return the panes that `to_bytes` wrote. O(cells).

        Raises
        ------
        CorruptStateError
            When the bytes are not exactly that.
        """
        reader = FRAME.reader(data)
        pane_us, retention_us, now_us, count = reader.fields(_HEADER)
        empty = _read_evaluator(reader)
        if (
            min(pane_us, retention_us) <= 0
            or not 0 <= now_us <= MAX_TIME_US
            or num_references(empty)
        ):
            raise_corrupt("the windowed evaluator has unknown settings")
        try:
            panes = cls(pane_us, retention_us, empty)
        except InvalidInputError as error:
            raise_corrupt(f"the windowed evaluator has unknown settings: {error}")
        panes.advance(now_us)
        last_us = panes.grid.oldest_us - 1
        for _ in range(count):
            (start_us,) = reader.fields(_PANE)
            if not last_us < start_us <= MAX_TIME_US or panes.grid.start_of(start_us) != start_us:
                raise_corrupt(f"the windowed evaluator has a pane at {start_us} us")
            last_us = start_us
            panes.put(start_us, _check_pane(_read_evaluator(reader), empty))
        reader.end()
        if count < 0:
            raise_corrupt(f"the windowed evaluator announces {count} panes")
        try:
            panes._reserve(panes._total())
        except InvalidInputError:
            raise_corrupt("the windowed evaluator's counts together are out of range")
        return panes


class Totals(NamedTuple):
    """What some references are together.

    Attributes
    ----------
    references : int
        How many, misses included.
    units : int
        What they weigh, in units of 2**-16.
    has_weights : bool
        Whether one may weigh other than 1: then the limits of weighted states apply.
    """

    references: int = 0
    units: int = 0
    has_weights: bool = False

    @classmethod
    def of_unit_cases(cls, references: int) -> Totals:
        """Return the totals of references of weight 1. O(1)."""
        return cls(references, references * WEIGHT_UNITS)

    @classmethod
    def of(cls, evaluator: Evaluator) -> Totals:
        """Return the totals of an evaluator. O(1), after the merge of its changes."""
        references, state = num_references(evaluator), evaluator._view()
        if state.weighted is None:
            return cls.of_unit_cases(references)
        return cls(references, state.total, has_weights=True)

    def __add__(self, other: Totals) -> Totals:  # type: ignore[override]  # sums, not joins
        return Totals(
            self.references + other.references,
            self.units + other.units,
            self.has_weights or other.has_weights,
        )

    def with_weighted(self, references: int, units: int) -> Totals:
        """Return these with references that may weigh other than 1. O(1)."""
        return self + Totals(references, units, has_weights=True)

    def excess(self) -> InvalidInputError | None:
        """Return the error if the limits of exact sums are exceeded. O(1)."""
        if not self.has_weights:
            return too_many() if self.references >= MAX_TOTAL else None
        fits = self.references < MAX_WEIGHTED_CASES and self.units < MAX_TOTAL
        return None if fits else too_many_weighted()


def num_references(evaluator: Evaluator) -> int:
    """Return how many references an evaluator counts. O(1)."""
    return evaluator.num_positive_ref + evaluator.num_negative_ref


def _with_length(evaluator: Evaluator) -> tuple[bytes, bytes]:
    data = evaluator.to_bytes()
    return _LENGTH.pack(len(data)), data


def _read_evaluator(reader: Reader) -> Evaluator:
    (length,) = reader.fields(_LENGTH)
    return Evaluator._of(decode_evaluator(reader.blob(length)))


def _check_pane(evaluator: Evaluator, empty: Evaluator) -> Evaluator:
    """Return a pane that can have started as a copy of `empty`; raise CorruptStateError if not."""
    bits, most = evaluator.resolution, empty.resolution
    if (
        evaluator.scale != empty.scale
        or evaluator.max_cells != empty.max_cells
        or evaluator.cluster_groups != empty.cluster_groups
        or evaluator.min_label_probability != empty.min_label_probability
        or (bits is None) > (most is None)
        or (bits is not None and most is not None and bits > most)
        or evaluator == empty
    ):
        raise_corrupt("a pane of the windowed evaluator has other settings, or is empty")
    return evaluator
