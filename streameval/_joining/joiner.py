"""Predictions and labels, joined by id in either order.

`Joiner` applies the table of `rules` to columns, or to one row. Time is an argument,
so the same calls in the same order have the same outcome.

Cost: O(1) an id, about 1 us in columns (`bench/join.py`).
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from streameval._common.frame import raise_corrupt
from streameval._counts.weights import WEIGHT_UNITS, every_unit, unless_one
from streameval._joining.operations import Operations, split_rounds
from streameval._joining.rules import (
    ACTS_TWICE,
    COUNTS,
    CREATES,
    EARLY_NEGATIVE,
    EARLY_POSITIVE,
    JOIN_COUNTERS,
    KEEPS,
    LABELLED_NEGATIVE,
    LABELLED_POSITIVE,
    NO_EFFECT,
    PENDING,
    SCHEDULES,
    STORES,
    UNKNOWN,
    Due,
    JoinCounts,
    JoinSettings,
    Op,
    Rules,
)
from streameval._joining.table import JoinTable
from streameval._time.effects import NO_EFFECTS, Effects
from streameval._time.times import MAX_TIME_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streameval._common.arrays import BoolArray, FloatArray, IntArray
    from streameval._joining.expiry_index import SlotArray
    from streameval._time.effects import CodeArray, KindArray

_EXPIRED_EARLY = JOIN_COUNTERS.index("expired_early")
_FORGOTTEN_EARLY = JOIN_COUNTERS.index("forgotten_early")

# Plain integers: looking up a member of an enumeration takes longer than comparing it.
_TTL_AFTER_EVENT, _TTL_AFTER_NOW = int(Due.TTL_AFTER_EVENT), int(Due.TTL_AFTER_NOW)
_PREDICT, _LABEL_NEGATIVE = int(Op.PREDICT), int(Op.LABEL_NEGATIVE)
_FULL_NEGATIVE = int(Op.FULL_NEGATIVE)
_FIRST_RULES = np.arange(len(Op)) * Rules.STATES
"""The place of each operation's first rule."""

_IS_LABEL = np.isin(np.arange(len(Op)), range(Op.LABEL_NEGATIVE, Op.RETRACT))
_HAS_LABEL = np.isin(np.arange(Rules.STATES), range(LABELLED_NEGATIVE, EARLY_POSITIVE + 1))
_REPEAT_OF = np.array(
    [
        Op.LABEL_POSITIVE if state in {LABELLED_POSITIVE, EARLY_POSITIVE} else Op.LABEL_NEGATIVE
        for state in range(Rules.STATES)
    ],
    dtype=np.uint8,
)
"""For each state with a label, the operation that repeats this label."""
_IS_EARLY = np.isin(np.arange(Rules.STATES), (EARLY_NEGATIVE, EARLY_POSITIVE))
_SETS_UNITS = (_IS_LABEL[:, None] & ~_HAS_LABEL).ravel()
"""Whether a rule gives an id its first label: then it takes the label's weight."""


class EffectRow(NamedTuple):
    """One row of `Effects`, without segment codes."""

    kind: int
    event_us: int
    score: float
    group: CodeArray | None = None
    """Of the cluster, one number; None without clusters."""
    units: int = WEIGHT_UNITS
    at_us: int | None = None
    """When its label became known; None where that is when it arrived."""


class Joiner:
    """Joins columns of predictions and labels; returns their effects.

    Parameters
    ----------
    settings : JoinSettings
    keys : int
        How many segment codes each prediction carries.
    has_clusters : bool
        Whether each prediction carries the group of its cluster. The table keeps it as the
        first of the row's codes.
    table : JoinTable or None
        Where ids are kept; None makes a new one.

    Attributes
    ----------
    now_us : int
        The latest time of any call.
    due_limit_us : int
        Nothing falls due after it, even if `now_us` is later; the caller may set it.

    Notes
    -----
    Rows of one call are applied in order, at one instant, so one call for each row has
    the same effects. Only `max_pending` applies to a call as a whole: ids above it
    expire at its end.
    """

    COUNTERS: ClassVar = JOIN_COUNTERS
    """The names of what `tally` counts, in its order."""

    def __init__(
        self,
        settings: JoinSettings,
        keys: int = 0,
        *,
        has_clusters: bool = False,
        table: JoinTable | None = None,
    ) -> None:
        self.settings = settings
        self.keys = keys
        self.has_clusters = has_clusters
        self.now_us = 0
        self.due_limit_us = MAX_TIME_US
        self.table = JoinTable(keys + has_clusters) if table is None else table
        self.tally: IntArray = np.zeros(len(self.COUNTERS) + 1, dtype=np.int64)
        self._rules = Rules.of(settings)
        self._bucket_us = settings.bucket_us

    def __len__(self) -> int:
        """How many ids are kept: pending, early, or labelled within `relabel_ttl`."""
        return len(self.table)

    @property
    def counts(self) -> JoinCounts:
        """Operations without an effect, and ids that expired early."""
        return JoinCounts(*self.tally[: len(self.COUNTERS)].tolist())

    def predict(
        self,
        ids: Sequence[bytes],
        *,
        scores: FloatArray,
        event_us: IntArray,
        now_us: int,
        codes: CodeArray | None = None,
        knows_labels_times: bool = False,
    ) -> Effects:
        """Take predictions. O(n).

        Parameters
        ----------
        ids : sequence of bytes
        scores : float64[n]
        event_us : int64[n]
            When each was made; it expires `ttl_us` later.
        now_us : int
            When they arrived. A time before the latest one counts as the latest.
        codes : uint16[n, k] or None
            Segment codes, after the group of the cluster if there are clusters; None is 0 for all.
        knows_labels_times : bool
            Whether labels that wait for these predictions came with `at_us`, which is then
            when they became known, instead of now.
        """
        ops = np.zeros(len(ids), dtype=np.uint8)  # Op.PREDICT
        if codes is None:
            codes = self._no_codes(len(ids))
        at_us = np.full(len(ids), now_us) if knows_labels_times else None
        return self._join(Operations(ids, ops, scores, event_us, codes, at_us=at_us), now_us)

    def label(
        self,
        ids: Sequence[bytes],
        *,
        positives: BoolArray,
        now_us: int,
        event_us: IntArray | None = None,
        scores: FloatArray | None = None,
        units: IntArray | None = None,
        at_us: IntArray | None = None,
    ) -> Effects:
        """Take labels. O(n).

        An id's label keeps its weight as long as the id is kept: a label with another one
        changes nothing, and counts as a repeated label.

        Parameters
        ----------
        ids : sequence of bytes
        positives : bool[n]
        now_us : int
            When they arrived.
        event_us : int64[n] or None
            Event times of the predictions, if known; they decide the pane of an orphan.
        scores : float64[n] or None
            Scores of the predictions, if known, with `event_us`: the label then
            stands for its prediction too.
        units : int64[n] or None
            The weight of each, in units of 2**-16; None where each weighs 1.
        at_us : int64[n] or None
            When each became known; None where that is now. A label that waits for its
            prediction keeps it as its event time, unless that is given.
        """
        ops = positives.astype(np.uint8)
        ops += _LABEL_NEGATIVE if scores is None else _FULL_NEGATIVE
        if scores is None:
            scores = np.full(len(ids), np.nan)
        if event_us is None:
            event_us = at_us
        if event_us is None:
            event_us = np.full(len(ids), max(now_us, self.now_us), dtype=np.int64)
        codes = self._no_codes(len(ids))
        return self._join(Operations(ids, ops, scores, event_us, codes, units, at_us), now_us)

    def retract(self, ids: Sequence[bytes], *, now_us: int) -> Effects:
        """Retract predictions, labelled or not. O(n)."""
        ops = np.full(len(ids), Op.RETRACT, dtype=np.uint8)
        scores, times = np.zeros(len(ids)), np.zeros(len(ids), dtype=np.int64)
        return self._join(Operations(ids, ops, scores, times, self._no_codes(len(ids))), now_us)

    def advance(self, now_us: int) -> Effects:
        """Advance to a time; return the effects of what fell due. O(ids that are due)."""
        self.now_us = max(self.now_us, now_us)
        due = min(self.now_us, self.due_limit_us) // self._bucket_us
        oldest = self.table.oldest_bucket()
        if oldest is None or oldest >= due:
            return NO_EFFECTS
        return self._expire(self.table.pop_due(due))

    def join_one(
        self,
        op: Op,
        id_: bytes,
        *,
        score: float,
        event_us: int,
        group: int = 0,
        units: int = WEIGHT_UNITS,
    ) -> list[EffectRow]:
        """Apply one operation at `now_us`; return its effects. `group` is of its cluster.

        The caller calls `advance` before it and `settle` after it.
        """
        return [row[0] for row in self._join_row(op, id_, score, event_us, group, units)]

    def settle(self) -> Effects:
        """Expire what the last operations made due; return the effects.

        That is predictions that arrived after their ttl, and ids above `max_pending`.
        """
        due = self.advance(self.now_us)
        if len(self.table) <= self.settings.max_pending:
            return due
        return Effects.concat([due, self._make_room()])

    @staticmethod
    def check_stored(states: KindArray, units: IntArray | None = None) -> None:
        """Refuse stored ids in unknown states, and weights that they cannot have. O(n).

        Raises
        ------
        CorruptStateError
        """
        if states.size and states.max() > EARLY_POSITIVE:
            raise_corrupt("the joiner has ids in unknown states")
        if units is not None:
            JoinTable.check_units(units, states != PENDING)

    def copy(self) -> Joiner:
        """Return an independent joiner. O(n)."""
        table = self.table.copy()
        other = Joiner(self.settings, self.keys, has_clusters=self.has_clusters, table=table)
        other.now_us = self.now_us
        other.tally = self.tally.copy()
        return other

    def _no_codes(self, rows: int) -> CodeArray:
        return np.zeros((rows, self.table.codes.shape[1]), dtype=np.uint16)

    def _join(self, rows: Operations, now_us: int) -> Effects:
        parts = []
        rounds, rest = split_rounds(rows)
        for distinct in rounds:
            parts += [self.advance(now_us), self._join_distinct(distinct)]
        if rest is not None:
            parts += [self.advance(now_us), *self._join_in_order(rest)]
        parts.append(self.settle())
        return Effects.concat(parts)

    def _join_distinct(self, rows: Operations) -> Effects:
        """Apply one operation to each of distinct ids, as columns."""
        ids, table, rules = rows.ids, self.table, self._rules
        slots = table.find(ids)
        known = slots >= 0
        states = np.empty(len(ids), dtype=np.uint8)
        states.fill(UNKNOWN)
        states[known] = table.state[slots[known]]
        if rows.units is not None or table.has_weights:
            held = np.full(len(ids), WEIGHT_UNITS)
            held[known] = table.units_at(slots[known])
            rows = rows._replace(ops=_without_reweighted(rows, states, held))
        rule = _FIRST_RULES[rows.ops] + states
        does = rules.does[rule]
        some, every = int(np.bitwise_or.reduce(does)), int(np.bitwise_and.reduce(does))
        if some & COUNTS:
            self.tally += np.bincount(rules.counter[rule], minlength=self.tally.size)
        if some & CREATES:
            new = (does & CREATES).nonzero()[0]
            all_new = every & CREATES
            slots[new] = table.add(ids if all_new else [ids[row] for row in new.tolist()])
        at_us = self._label_times(rows, slots, states)
        if some & STORES:
            self._store(rows, slots, (does & STORES).nonzero()[0])
        if rows.units is not None:
            first = np.flatnonzero(_SETS_UNITS[rule])
            table.set_units(slots[first], rows.units[first])
        effects = self._effects_at(slots, rules.first_effect[rule], at_us)
        if some & ACTS_TWICE:
            second = self._effects_at(slots, rules.second_effect[rule], at_us)
            effects = Effects.concat([effects, second])
        after = rules.after[rule]
        kept = slice(None) if every & KEEPS else after != UNKNOWN
        table.state[slots[kept]] = after[kept]
        for due, bit in SCHEDULES.items():
            if some & bit:
                self._schedule(slots if every & bit else slots[(does & bit) != 0], due)
        if not every & KEEPS:
            table.drop(slots[known & (after == UNKNOWN)])
        return effects

    def _store(self, rows: Operations, slots: SlotArray, stored: IntArray) -> None:
        """Store the columns of some rows at their slots."""
        table, at = self.table, slots[stored]
        table.score[at] = rows.scores[stored] + 0.0  # -0.0 is 0.0
        table.event_us[at] = rows.event_us[stored]
        table.codes[at] = rows.codes[stored]

    def _label_times(
        self, rows: Operations, slots: SlotArray, states: KindArray
    ) -> IntArray | None:
        """Return when the label of each row became known, before rows are stored."""
        if rows.at_us is None:
            return None
        early = (rows.ops == _PREDICT) & _IS_EARLY[states]
        return np.where(early, self.table.event_us[slots], rows.at_us)

    def _join_in_order(self, rows: Operations) -> Iterator[Effects]:
        """Apply operations one by one, in order; ids may repeat."""
        happened: list[tuple[EffectRow, CodeArray]] = []
        ids, ops, scores, event_us, codes, units, at_us = rows
        weights = every_unit(units, len(ids)).tolist()
        times = repeat(None, len(ids)) if at_us is None else at_us.tolist()
        columns = (ops.tolist(), ids, scores.tolist(), event_us.tolist(), codes, weights, times)
        for row in zip(*columns, strict=True):
            happened += self._join_row(*row)
            late = self.advance(self.now_us)
            if len(late):
                yield self._effects_of_rows(happened)
                yield late
                happened = []
        yield self._effects_of_rows(happened)

    def _effects_of_rows(self, happened: list[tuple[EffectRow, CodeArray]]) -> Effects:
        if not happened:
            return NO_EFFECTS
        return Effects(
            np.array([row.kind for row, _ in happened], dtype=np.uint8),
            np.array([row.event_us for row, _ in happened], dtype=np.int64),
            np.array(
                [self.now_us if row.at_us is None else row.at_us for row, _ in happened],
                dtype=np.int64,
            ),
            np.array([row.score for row, _ in happened]),
            *self._split(np.array([codes for _, codes in happened], dtype=np.uint16)),
            units=unless_one(np.array([row.units for row, _ in happened], dtype=np.int64)),
        )

    def _split(self, codes: CodeArray) -> tuple[CodeArray, CodeArray | None]:
        """Return the segment codes of rows of the table, and the groups of their clusters."""
        return (codes[..., 1:], codes[..., 0]) if self.has_clusters else (codes, None)

    def _join_row(  # noqa: PLR0917 - a row of `Operations`
        self,
        op: int,
        id_: bytes,
        score: float,
        event_us: int,
        codes: CodeArray | int,
        units: int = WEIGHT_UNITS,
        at_us: int | None = None,
    ) -> list[tuple[EffectRow, CodeArray]]:
        """Apply one operation: as `_join_distinct`, without columns."""
        table = self.table
        slot = table.find_one(id_)
        state = UNKNOWN if slot < 0 else int(table.state[slot])
        op = self._without_reweighting(op, state, slot, units)
        rule = self._rules.rules[op * Rules.STATES + state]
        assert rule is not None, (op, state)
        if rule.counter is not None:
            self.tally[self.COUNTERS.index(rule.counter)] += 1
        if state == UNKNOWN:
            if rule.after == UNKNOWN:
                return []
            slot = int(table.add([id_])[0])
        if at_us is not None and op == Op.PREDICT and _IS_EARLY[state]:
            at_us = int(table.event_us[slot])
        if rule.stores:
            table.score[slot] = score + 0.0
            table.event_us[slot] = event_us
            table.codes[slot] = codes
        units = self._set_unit(slot, units, is_first=bool(_SETS_UNITS[op * Rules.STATES + state]))
        event_us, score = int(table.event_us[slot]), float(table.score[slot])
        group = self._split(table.codes[slot])[1]
        happened = [
            (EffectRow(int(kind), event_us, score, group, units, at_us), table.codes[slot].copy())
            for kind in rule.effects
        ]
        if rule.after == UNKNOWN:
            table.drop(np.array([slot]))
            return happened
        table.state[slot] = rule.after
        if rule.due != Due.UNCHANGED:
            table.schedule_one(slot, self._due_bucket(rule.due, event_us))
        return happened

    def _without_reweighting(self, op: int, state: int, slot: int, units: int) -> int:
        """Return the operation; one that would change a label's weight becomes a repeat."""
        is_again = _IS_LABEL[op] and _HAS_LABEL[state]
        if not is_again or self.table.unit_at(slot) == units:
            return op
        return int(_REPEAT_OF[state])

    def _set_unit(self, slot: int, units: int, *, is_first: bool) -> int:
        """Set the weight of an id's label if it is the first; return the label's weight."""
        if is_first and units != self.table.unit_at(slot):
            self.table.set_units(np.array([slot]), np.array([units]))
        return self.table.unit_at(slot)

    def _effects_at(
        self, slots: SlotArray, kinds: KindArray, at_us: IntArray | None = None
    ) -> Effects:
        rows = (kinds != NO_EFFECT).nonzero()[0]
        if not rows.size:
            return NO_EFFECTS
        if rows.size < slots.size:
            slots, kinds = slots[rows], kinds[rows]
            at_us = None if at_us is None else at_us[rows]
        table = self.table
        if at_us is None:
            at_us = np.empty(slots.size, dtype=np.int64)
            at_us.fill(self.now_us)
        return Effects(
            kinds,
            table.event_us[slots],
            at_us,
            table.score[slots],
            *self._split(table.codes[slots]),
            units=table.held_units(slots),
        )

    def _schedule(self, slots: SlotArray, due: int) -> None:
        if due != _TTL_AFTER_EVENT:
            self.table.schedule(slots, self._due_bucket(due, 0))
            return
        event_us = self.table.event_us[slots]
        if np.count_nonzero(event_us == event_us[0]) == event_us.size:
            self.table.schedule(slots, self._due_bucket(due, int(event_us[0])))
            return
        due_us = event_us + self.settings.ttl_us
        buckets = np.minimum(np.maximum(due_us // self._bucket_us, 0), self.table.LAST_BUCKET)
        self.table.schedule(slots, buckets.astype(np.uint32))

    def _due_bucket(self, due: int, event_us: int) -> int:
        settings = self.settings
        if due == _TTL_AFTER_EVENT:
            due_us = event_us + settings.ttl_us
        else:
            ttl_us = settings.ttl_us if due == _TTL_AFTER_NOW else settings.relabel_ttl_us
            due_us = self.now_us + ttl_us
        return min(max(due_us // self._bucket_us, 0), self.table.LAST_BUCKET)

    def _expire(self, slots: SlotArray) -> Effects:
        """Drop slots that are due from the table; return the effects."""
        kinds = self._rules.first_effect[Op.FALL_DUE * Rules.STATES + self.table.state[slots]]
        effects = self._effects_at(slots, kinds)
        self.table.drop(slots)
        return effects

    def _make_room(self) -> Effects:
        """Expire the ids that are due first, in whole buckets, down to `max_pending` ids."""
        slots = self.table.pop_due(
            self.table.LAST_BUCKET + 1, len(self.table) - self.settings.max_pending
        )
        pending = int((self.table.state[slots] == PENDING).sum())
        self.tally[_EXPIRED_EARLY] += pending
        self.tally[_FORGOTTEN_EARLY] += slots.size - pending
        return self._expire(slots)

    def count_waiting(self) -> tuple[int, int]:
        """Return how many predictions wait for their label, and labels for their prediction.

        O(capacity), some 0.2 ms a million.
        """
        state = self.table.state
        early = (state == EARLY_NEGATIVE) | (state == EARLY_POSITIVE)
        return int((state == PENDING).sum()), int(early.sum())

    def waiting(self, span_us: tuple[int, int] | None = None) -> SlotArray:
        """Return the slots of predictions that wait for their label. O(capacity).

        Parameters
        ----------
        span_us : (start, end) or None
            Only those made in [start, end).
        """
        table = self.table
        found = table.state == PENDING
        if span_us is not None:
            found &= (table.event_us >= span_us[0]) & (table.event_us < span_us[1])
        return np.flatnonzero(found)

    def _check(self) -> None:
        """Assert all invariants. O(n)."""
        self.table._check()
        assert len(self.table) <= self.settings.max_pending
        oldest = self.table.oldest_bucket()
        passed_us = min(self.now_us, self.due_limit_us)
        assert oldest is None or oldest >= passed_us // self._bucket_us


def _without_reweighted(rows: Operations, states: KindArray, held: IntArray) -> KindArray:
    """Return the operations; one that would change a label's weight becomes a repeat. O(n)."""
    is_again = _IS_LABEL[rows.ops] & _HAS_LABEL[states]
    refused = is_again & (held != every_unit(rows.units, held.size))
    return np.where(refused, _REPEAT_OF[states], rows.ops)
