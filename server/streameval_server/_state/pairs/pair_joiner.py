"""Predictions of two streams and labels joined by id, in any order.

A label that either stream receives is the id's label. An id counts once both streams have
predicted it and it has a label, at the time of its first prediction. The pair keeps an id for
`label_ttl` after its first row. Once the id counts, the pair keeps it for `relabel_ttl`, in
which it can be relabelled or retracted.

Cost: two dict operations a row, the rest vectorised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from streameval.kernel import WEIGHT_UNITS, JoinSettings
from streameval_server._state.pairs.pair_table import (
    BY_A,
    BY_B,
    BY_BOTH,
    LABELLED,
    NEGATIVE,
    POSITIVE,
    PairIds,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval_server._model.arrays import BoolArray, CodeArray, FloatArray, IntArray
    from streameval_server._model.pair_settings import PairSettings
    from streameval_server._state.pairs.pair_links import StreamSlots

TALLIES = (
    "repeated_predictions",
    "repeated_labels",
    "relabelled",
    "retracted",
    "expired",
    "expired_early",
    "weighted_labels",
)
"""The fields of `PairCounters` that a joiner counts."""


class Predictions(NamedTuple):
    """Predictions of one stream that arrived together.

    Attributes
    ----------
    ids : sequence of bytes
    scores : float64[n]
    event_us : int64[n]
    codes : uint16[n, keys]
        Segment codes; the cluster's group stands before them if clusters are declared.
    """

    ids: Sequence[bytes]
    scores: FloatArray
    event_us: IntArray
    codes: CodeArray

    def at(self, rows: IntArray) -> Predictions:
        """Return some of the rows."""
        ids = [self.ids[row] for row in rows.tolist()]
        return Predictions(ids, self.scores[rows], self.event_us[rows], self.codes[rows])


class CountedRows(NamedTuple):
    """Ids that start or stop counting.

    Attributes
    ----------
    event_us : int64[n]
    positive : bool[n]
    a, b : float64[n]
    signs : int64[n]
        1 or -1.
    codes : uint16[n, keys]
        Segment codes; the cluster's group stands before them if clusters are declared.
    units : int64[n] or None
        The weight of each in units of 2**-16, above 0; None where each weighs 1.
    """

    event_us: IntArray
    positive: BoolArray
    a: FloatArray
    b: FloatArray
    signs: IntArray
    codes: CodeArray
    units: IntArray | None = None

    @classmethod
    def joined(cls, parts: Sequence[CountedRows]) -> Self:
        """Return all rows as one. O(rows)."""
        *columns, units = zip(*parts, strict=True)
        joined_units: IntArray | None = None
        if any(each is not None for each in units):
            joined_units = np.concatenate([part.every_unit() for part in parts])
        event_us, positive, a, b, signs, codes = map(np.concatenate, columns)
        return cls(event_us, positive, a, b, signs, codes, joined_units)

    def ordered(self) -> CountedRows:
        """Return the rows in order of a's scores, in which they are counted. O(n log n)."""
        order = np.argsort(self.a)
        return CountedRows(
            self.event_us[order],
            self.positive[order],
            self.a[order],
            self.b[order],
            self.signs[order],
            self.codes[order],
            None if self.units is None else self.units[order],
        )

    def every_unit(self) -> IntArray:
        """Return the weight of each row in units. O(n)."""
        if self.units is None:
            return np.full(self.signs.size, WEIGHT_UNITS, dtype=np.int64)
        return self.units


class PredictedRows(NamedTuple):
    """Predictions that were added or retracted.

    Attributes
    ----------
    event_us : int64[n]
    by : uint8[n, 3]
        Whether a has predicted the id with it, whether b has, and whether both have now.
    signs : int64[n]
    codes : uint16[n, keys]
    """

    event_us: IntArray
    by: CodeArray
    signs: IntArray
    codes: CodeArray


@dataclass(slots=True)
class PairEffects:
    """What operations did."""

    counted: list[CountedRows]
    predicted: list[PredictedRows]


class PairJoiner:
    """Joins the rows of two streams.

    Attributes
    ----------
    ids : PairIds
    tally : dict of str to int
        By the names of `TALLIES`.
    weighed : int
        Weights of all labels that had one, in units of 2**-16.
    effects : PairEffects
        What was done since they were taken.
    """

    def __init__(self, settings: PairSettings) -> None:
        self.ids = PairIds(settings)
        self.tally = dict.fromkeys(TALLIES, 0)
        self.effects = PairEffects([], [])
        self._ttl_us = settings.label_ttl_us
        self._relabel_ttl_us = settings.relabel_ttl_us
        self._most = settings.max_pending
        self._expired_negative = settings.expired_negative
        self._counts_weights = not settings.cluster_groups
        self.weighed = 0
        self.bucket_us = JoinSettings(
            ttl_us=self._ttl_us, relabel_ttl_us=self._relabel_ttl_us, max_pending=self._most
        ).bucket_us

    def take_effects(self) -> PairEffects:
        """Return what was done since the last call."""
        effects, self.effects = self.effects, PairEffects([], [])
        return effects

    @property
    def due_us(self) -> int | None:
        """When the next id may fall due; None without ids. O(1)."""
        oldest = self.ids.table.oldest_bucket()
        return None if oldest is None else (oldest + 1) * self.bucket_us

    # -- operations; each ends with `settle`

    def predict(
        self,
        side: int,
        rows: Predictions,
        now_us: int,
        *,
        found: StreamSlots | None = None,
        is_told_again: bool = False,
    ) -> None:
        """Take predictions of one stream: `BY_A` or `BY_B`. O(n).

        Parameters
        ----------
        side, rows, now_us
            The stream's side, its predictions, and its time.
        found
            The ids in the table of their stream, if they are known.
        is_told_again
            Whether they came with labels, so that repeated ones are none of a producer's.
        """
        if len(set(rows.ids)) < len(rows.ids):  # the first prediction of an id counts
            backwards = range(len(rows.ids) - 1, -1, -1)
            first = dict(zip(reversed(rows.ids), backwards, strict=True))
            if not is_told_again:
                self.tally["repeated_predictions"] += len(rows.ids) - len(first)
            rows = rows.at(np.sort(np.fromiter(first.values(), np.int64)))
        ids, scores, event_us, codes = rows
        table = self.ids.table
        slots = self._of_predictions(ids, event_us, found)
        states = table.state[slots]
        fresh = (states & side) == 0
        if not fresh.all():
            if not is_told_again:
                self.tally["repeated_predictions"] += int((~fresh).sum())
            slots, states = slots[fresh], states[fresh]
            scores, event_us, codes = scores[fresh], event_us[fresh], codes[fresh]
        first = (states & BY_BOTH) == 0
        own = table.score if side == BY_A else table.score_b
        own[slots] = scores + 0.0  # -0.0 is 0.0
        at = slots[first]
        table.event_us[at], table.codes[at] = event_us[first], codes[first]
        self._schedule(at, event_us[first] + self._ttl_us)
        states = table.state[slots] = states | np.uint8(side)
        is_shared = ~first
        by = np.zeros((slots.size, 3), dtype=np.uint16)
        by[:, 0 if side == BY_A else 1] = 1
        by[:, 2] = is_shared
        signs = np.ones(slots.size, dtype=np.int64)
        self.effects.predicted.append(
            PredictedRows(table.event_us[slots], by, signs, table.codes[slots])
        )
        counting = slots[is_shared & ((states & LABELLED) != 0)]
        self._count(counting, 1)
        self._schedule_all(counting, now_us + self._relabel_ttl_us)

    def label(
        self,
        ids: Sequence[bytes],
        positive: BoolArray,
        now_us: int,
        units: IntArray | None,
        *,
        found: StreamSlots | None = None,
    ) -> None:
        """Take labels of either stream; `units` is None where each weighs 1. O(n).

        `found`: as of predictions.

        An id keeps the weight of its first label: a label with another one is a mere repeat.
        """
        if units is not None and not self._has_room(units):
            self.tally["weighted_labels"] += int((units != WEIGHT_UNITS).sum())
            ids, positive, _ = _chosen(ids, positive, units, units == WEIGHT_UNITS)
            units = None
        if units is not None or self.ids.table.has_weights:
            if units is None:
                units = np.full(len(ids), WEIGHT_UNITS, dtype=np.int64)
            same = units == self._held_units(ids, units)
            self.tally["repeated_labels"] += int((~same).sum())
            ids, positive, units = _chosen(ids, positive, units, same)
        if len(set(ids)) == len(ids):
            self._label(ids, positive, positive, now_us, units, found=found)
            return
        first: dict[bytes, bool] = {}
        now: dict[bytes, bool] = {}
        for id_, is_positive in zip(ids, positive.tolist(), strict=True):
            if id_ in first:
                name = "repeated_labels" if now[id_] == is_positive else "relabelled"
                self.tally[name] += 1
            else:
                first[id_] = is_positive
            now[id_] = is_positive
        told, final = (np.fromiter(each.values(), np.bool_) for each in (first, now))
        if units is not None:
            units = np.fromiter(dict(zip(ids, units.tolist(), strict=True)).values(), np.int64)
        self._label(list(first), told, final, now_us, units)

    def _has_room(self, units: IntArray) -> bool:
        """Return whether labels with these weights count, and note what they weigh."""
        weighed = self.weighed + int(units[units != WEIGHT_UNITS].sum())
        if not self._counts_weights or weighed > _MAX_WEIGHED_UNITS:
            return False
        self.weighed = weighed
        return True

    def _held_units(self, ids: Sequence[bytes], units: IntArray) -> IntArray:
        """Return the weight of each id's kept label, else of its first label here. O(n)."""
        table = self.ids.table
        first = dict(zip(reversed(ids), reversed(units.tolist()), strict=True))
        held = np.fromiter((first[id_] for id_ in ids), np.int64, len(ids))
        slots = table.find(ids)
        known = np.flatnonzero(slots >= 0)
        known = known[(table.state[slots[known]] & LABELLED) != 0]
        held[known] = table.units_at(slots[known])
        return held

    def _label(
        self,
        ids: Sequence[bytes],
        first: BoolArray,
        last: BoolArray,
        now_us: int,
        units: IntArray | None,
        *,
        found: StreamSlots | None = None,
    ) -> None:
        """Take the first and the last label of each of distinct ids."""
        table = self.ids.table
        slots = self._of_labels(ids, now_us, found)
        states = table.state[slots]
        before = states & LABELLED
        label = np.where(last, POSITIVE, NEGATIVE).astype(np.uint8)
        told = label if first is last else np.where(first, POSITIVE, NEGATIVE)
        self.tally["repeated_labels"] += int((before == told).sum())
        self.tally["relabelled"] += int(((before != 0) & (before != told)).sum())
        changed = before != label
        is_shared = (states & BY_BOTH) == BY_BOTH
        self._count(slots[is_shared & changed & (before != 0)], -1)
        table.state[slots] = (states & BY_BOTH) | label
        if units is not None:
            table.set_units(slots, units)
        self._count(slots[is_shared & changed], 1)
        counting = slots[is_shared & (changed | (before != told))]
        self._schedule_all(counting, now_us + self._relabel_ttl_us)

    def retract(self, ids: Sequence[bytes]) -> None:
        """Forget ids, whatever is known of them. O(n)."""
        table = self.ids.table
        slots = np.unique(table.find(ids))
        slots = slots[slots >= 0]
        self.tally["retracted"] += slots.size
        states = table.state[slots]
        self._count(slots[((states & BY_BOTH) == BY_BOTH) & ((states & LABELLED) != 0)], -1)
        predicted = slots[(states & BY_BOTH) != 0]
        if predicted.size:
            states = table.state[predicted]
            has_a, has_b = (states & BY_A) != 0, (states & BY_B) != 0
            by = np.column_stack((has_a, has_b, has_a & has_b)).astype(np.uint16)
            signs = np.full(predicted.size, -1, dtype=np.int64)
            self.effects.predicted.append(
                PredictedRows(table.event_us[predicted], by, signs, table.codes[predicted])
            )
        table.drop(slots)

    def settle(self, due_us: int, budget: int | None = None) -> int:
        """Expire what is due, at most `budget` ids, and what is above the cap; return how many."""
        table = self.ids.table
        expired = 0
        before = due_us // self.bucket_us
        oldest = table.oldest_bucket()
        if oldest is not None and oldest < before:
            table.budget = budget
            try:
                expired += self._expire(table.pop_due(before))
            finally:
                table.budget = None
        above = len(table) - self._most
        if above > 0:
            slots = table.pop_due(table.UNLISTED_BUCKET, above)  # in whole buckets
            self.tally["expired_early"] += slots.size
            expired += self._expire(slots)
        return expired

    def _expire(self, slots: IntArray) -> int:
        """Count slots that were removed from the index as expired, and drop them."""
        table = self.ids.table
        states = table.state[slots]
        is_shared, is_labelled = (states & BY_BOTH) == BY_BOTH, (states & LABELLED) != 0
        self.tally["expired"] += int((~(is_shared & is_labelled)).sum())
        if self._expired_negative:
            unlabelled = slots[is_shared & ~is_labelled]
            table.state[unlabelled] |= NEGATIVE
            self._count(unlabelled, 1)
        table.drop(slots)
        return slots.size

    def _of_predictions(
        self, ids: Sequence[bytes], event_us: IntArray, found: StreamSlots | None
    ) -> IntArray:
        """Return the slots of distinct ids, and link the stream's to them."""
        table = self.ids.table
        slots = self._with_new(ids, event_us, table.find(ids))
        if found is not None and found.ids is ids:
            found.links.put(found.slots, slots, table)
        return slots

    def _of_labels(self, ids: Sequence[bytes], now_us: int, found: StreamSlots | None) -> IntArray:
        """Return the slots of distinct ids, by the stream's links where they are known."""
        table = self.ids.table
        if found is None or found.ids is not ids:  # some of a batch's rows
            slots = table.find(ids)
        else:
            slots = table.find_linked(ids, found.links.pair_slots(found.slots, table))
        return self._with_new(ids, np.full(len(ids), now_us, dtype=np.int64), slots)

    def _with_new(self, ids: Sequence[bytes], event_us: IntArray, slots: IntArray) -> IntArray:
        """Return the slots found; new ids are added, with an empty state, and scheduled."""
        table = self.ids.table
        new = np.flatnonzero(slots < 0)
        if new.size:
            added = table.add(ids if new.size == len(ids) else [ids[row] for row in new.tolist()])
            slots[new] = added
            table.state[added] = 0
            table.score[added] = table.score_b[added] = np.nan
            table.event_us[added] = event_us[new]
            table.codes[added] = 0
            self._schedule(added, event_us[new] + self._ttl_us)
        return slots

    def _count(self, slots: IntArray, sign: int) -> None:
        """Start or stop counting ids that have everything; ids of weight 0 never count."""
        table = self.ids.table
        if table.has_weights:
            slots = slots[table.units[slots] > 0]
        if slots.size:
            self.effects.counted.append(
                CountedRows(
                    table.event_us[slots],
                    (table.state[slots] & POSITIVE) != 0,
                    table.score[slots],
                    table.score_b[slots],
                    np.full(slots.size, sign, dtype=np.int64),
                    table.codes[slots],
                    table.held_units(slots),
                )
            )

    def _schedule_all(self, slots: IntArray, due_us: int) -> None:
        """Let all of these slots fall due at one time."""
        bucket = min(max(due_us // self.bucket_us, 0), self.ids.table.LAST_BUCKET)
        self.ids.table.schedule(slots, bucket)

    def _schedule(self, slots: IntArray, due_us: IntArray) -> None:
        if slots.size:
            buckets = np.clip(due_us // self.bucket_us, 0, self.ids.table.LAST_BUCKET).astype(
                np.uint32
            )
            self.ids.table.schedule(slots, buckets)


_MAX_WEIGHED_UNITS = 1 << 61
"""What the weighted labels of a pair weigh together at most: half of what sums hold exactly. Each
of its streams holds as much again, and no label is refused once its stream has it."""


def _chosen(
    ids: Sequence[bytes], positive: BoolArray, units: IntArray, chosen: BoolArray
) -> tuple[Sequence[bytes], BoolArray, IntArray]:
    """Return some of the rows of labels. O(n)."""
    if chosen.all():
        return ids, positive, units
    rows = np.flatnonzero(chosen)
    return [ids[row] for row in rows.tolist()], positive[rows], units[rows]
