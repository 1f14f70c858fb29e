"""Predictions and labels, joined by id in either order: the rules.

Nothing is silent. A label that never meets its prediction, a prediction that
never meets its label, one that comes twice: each is an effect or is counted.
Time is an argument, so the same calls in the same order have the same outcome.

An id goes through these states::

    (unknown) --predict--> PENDING --label--> labelled --relabel_ttl--> (unknown)
        |                     `--ttl after its event time--> expired, (unknown)
        `--label--> EARLY --predict--> labelled
                      `--ttl after it came--> orphan, (unknown)

Cost: O(1) an id, about 1 us (`bench/join.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

import numpy as np

from streameval._effects import Effect, Effects
from streameval._errors import InvalidInputError
from streameval._join_table import JoinTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streameval._effects import CodeArray, KindArray
    from streameval._groups import FloatArray, IntArray
    from streameval._join_table import BucketArray, SlotArray
    from streameval._multiset import BoolArray

PENDING, NEGATIVE, POSITIVE, EARLY_NEGATIVE, EARLY_POSITIVE = range(5)

_BUCKETS_PER_TTL = 128
_SECOND_US = 1_000_000
_LAST_BUCKET = 2**32 - 1


@dataclass(frozen=True, slots=True)
class JoinSettings:
    """What happens to ids whose other half does not come.

    Attributes
    ----------
    ttl_us : int
        How long after its event time a prediction waits for its label, and how
        long after its arrival a label waits for its prediction.
    relabel_ttl_us : int
        How long a labelled id can be relabelled or retracted.
    max_pending : int
        The most ids that are kept; above it what falls due first goes early.
    orphans : {"drop", "miss"}
        Whether a label without a prediction is dropped or is a miss.
    expired : {"drop", "negative"}
        Whether a prediction without a label is dropped or is a negative case.
    """

    ttl_us: int
    relabel_ttl_us: int = 3_600 * _SECOND_US
    max_pending: int = 2_000_000
    orphans: Literal["drop", "miss"] = "drop"
    expired: Literal["drop", "negative"] = "drop"

    def __post_init__(self) -> None:
        for name in ("ttl_us", "relabel_ttl_us", "max_pending"):
            if getattr(self, name) <= 0:
                message = f"{name} must be positive, got {getattr(self, name)}"
                raise InvalidInputError(message, field=name)
        for name, known in (("orphans", ("drop", "miss")), ("expired", ("drop", "negative"))):
            if getattr(self, name) not in known:
                message = f"{name} must be one of {known}, got {getattr(self, name)!r}"
                raise InvalidInputError(message, field=name)
        if self.orphans == "miss" and self.expired == "negative":
            raise InvalidInputError(
                "orphans='miss' with expired='negative' would count a late positive twice: "
                "as a negative case when its prediction expires and as a miss when its label comes",
                field="orphans",
            )

    @property
    def bucket_us(self) -> int:
        """Width of an expiry bucket: expiry is late by at most this."""
        return max(_SECOND_US, min(self.ttl_us, self.relabel_ttl_us) // _BUCKETS_PER_TTL)


@dataclass(slots=True)
class JoinCounts:
    """What had no effect on any count, and what went early. All from the start on."""

    duplicate_predictions: int = 0
    duplicate_labels: int = 0
    relabelled: int = 0
    unknown_retractions: int = 0
    retracted_early_labels: int = 0
    expired_early: int = 0

    def values(self) -> list[int]:
        """Return the counts in the order of the fields."""
        return [getattr(self, field.name) for field in fields(self)]


class Joiner:
    """Joins columns of predictions and labels; returns their effects.

    Parameters
    ----------
    settings : JoinSettings
    keys : int
        How many segment codes each prediction carries.
    """

    def __init__(self, settings: JoinSettings, keys: int = 0) -> None:
        self.settings = settings
        self.counts = JoinCounts()
        self.now_us = 0
        self._table = JoinTable(keys)
        self._keys = keys

    def __len__(self) -> int:
        """How many ids are kept: pending, early or labelled not long ago."""
        return len(self._table)

    def predict(
        self,
        ids: Sequence[bytes],
        *,
        scores: FloatArray,
        event_us: IntArray,
        now_us: int,
        codes: CodeArray | None = None,
    ) -> Effects:
        """Take predictions. O(n).

        Parameters
        ----------
        ids : sequence of bytes
        scores : float64[n]
        event_us : int64[n]
            When each was made; with `ttl_us` it decides when it expires.
        now_us : int
            When they arrived; time never runs backwards.
        codes : uint16[n, keys] or None
            Segment codes; None is 0 for all.
        """
        if codes is None:
            codes = np.zeros((len(ids), self._keys), dtype=np.uint16)
        parts = [self.advance(now_us)]
        for rows in _distinct_runs(ids):
            parts.append(self._predict(ids[rows], scores[rows], event_us[rows], codes[rows]))
            parts.append(self._make_room())
        return Effects.concat(parts)

    def label(
        self,
        ids: Sequence[bytes],
        *,
        positives: BoolArray,
        now_us: int,
        event_us: IntArray | None = None,
        scores: FloatArray | None = None,
    ) -> Effects:
        """Take labels. O(n).

        Parameters
        ----------
        ids : sequence of bytes
        positives : bool[n]
        now_us : int
            When they arrived.
        event_us : int64[n] or None
            Event times of the predictions, if known: the pane of an orphan.
        scores : float64[n] or None
            Scores of the predictions, if known, with `event_us`: an unknown id
            then needs no prediction.
        """
        parts = [self.advance(now_us)]
        if event_us is None:
            event_us = np.full(len(ids), self.now_us, dtype=np.int64)
        for rows in _distinct_runs(ids):
            known = None if scores is None else scores[rows]
            parts.append(self._label(ids[rows], positives[rows], event_us[rows], known))
            parts.append(self._make_room())
        return Effects.concat(parts)

    def retract(self, ids: Sequence[bytes], *, now_us: int) -> Effects:
        """Take predictions back, labelled or not. O(n)."""
        parts = [self.advance(now_us)]
        for rows in _distinct_runs(ids):
            slots = self._table.find(ids[rows])
            self.counts.unknown_retractions += int((slots < 0).sum())
            slots = slots[slots >= 0]
            states = self._table.state[slots]
            self.counts.retracted_early_labels += int((states >= EARLY_NEGATIVE).sum())
            labelled = (states == NEGATIVE) | (states == POSITIVE)
            parts.append(self._effects(slots[labelled], _UNLABELLED[states[labelled]]))
            parts.append(self._effects(slots[states <= POSITIVE], Effect.RETRACTED))
            self._table.drop(slots)
        return Effects.concat(parts)

    def advance(self, now_us: int) -> Effects:
        """Let time pass; return what fell due. O(what is due)."""
        self.now_us = max(self.now_us, now_us)
        due = self.now_us // self.settings.bucket_us
        oldest = self._table.oldest_bucket()
        if oldest is None or oldest >= due:
            return Effects()
        return Effects.concat([self._expire(slots) for slots in self._table.pop_due(due)])

    def _predict(
        self, ids: Sequence[bytes], scores: FloatArray, event_us: IntArray, codes: CodeArray
    ) -> Effects:
        table = self._table
        slots = table.find(ids)
        fresh = slots < 0
        new = np.flatnonzero(fresh)
        table.add(
            ids if new.size == len(ids) else [ids[row] for row in new.tolist()],
            state=PENDING,
            score=scores[new],
            event_us=event_us[new],
            due=self._due(event_us[new] + self.settings.ttl_us),
            codes=codes[new],
        )
        predicted = self._rows(Effect.PREDICTED, event_us[new], scores[new], codes[new])
        if new.size == len(ids):
            return predicted
        met = np.flatnonzero(~fresh)
        early = met[table.state[slots[met]] >= EARLY_NEGATIVE]
        self.counts.duplicate_predictions += met.size - early.size
        if not early.size:
            return predicted
        where = slots[early]
        states = table.state[where] - np.uint8(EARLY_NEGATIVE - NEGATIVE)
        table.state[where] = states
        table.score[where] = scores[early]
        table.event_us[where] = event_us[early]
        table.codes[where] = codes[early]
        self._schedule(where, self.now_us + self.settings.relabel_ttl_us)
        return Effects.concat(
            [
                predicted,
                self._effects(where, Effect.PREDICTED),
                self._effects(where, _LABELLED[states]),
            ]
        )

    def _label(
        self,
        ids: Sequence[bytes],
        positives: BoolArray,
        event_us: IntArray,
        scores: FloatArray | None,
    ) -> Effects:
        table, settings = self._table, self.settings
        slots = table.find(ids)
        parts = []

        unknown = np.flatnonzero(slots < 0)
        if unknown.size:
            waits = scores is None
            codes = np.zeros((unknown.size, self._keys), dtype=np.uint16)
            known = np.full(unknown.size, np.nan) if scores is None else scores[unknown]
            ttl_us = settings.ttl_us if waits else settings.relabel_ttl_us
            table.add(
                [ids[row] for row in unknown.tolist()],
                state=(positives[unknown] + (EARLY_NEGATIVE if waits else NEGATIVE)).astype(
                    np.uint8
                ),
                score=known,
                event_us=event_us[unknown],
                due=self._due(np.full(unknown.size, self.now_us + ttl_us)),
                codes=codes,
            )
            if not waits:
                labelled = _LABELLED[positives[unknown] + NEGATIVE]
                arrived = self._rows(Effect.PREDICTED, event_us[unknown], known, codes)
                parts += [arrived, self._rows(labelled, event_us[unknown], known, codes)]

        met = np.flatnonzero(slots >= 0)
        where, wanted = slots[met], positives[met].astype(np.uint8)
        states = table.state[where]

        early = states >= EARLY_NEGATIVE
        self.counts.duplicate_labels += int(early.sum())
        table.state[where[early]] = wanted[early] + EARLY_NEGATIVE

        pending = states == PENDING
        changed = ~early & ~pending & (states != wanted + NEGATIVE)
        self.counts.relabelled += int(changed.sum())
        self.counts.duplicate_labels += int((~early & ~pending & ~changed).sum())
        if changed.any():
            parts.append(self._effects(where[changed], _UNLABELLED[states[changed]]))
        now_labelled = pending | changed
        if now_labelled.any():
            chosen = where[now_labelled]
            table.state[chosen] = wanted[now_labelled] + NEGATIVE
            self._schedule(chosen, self.now_us + settings.relabel_ttl_us)
            parts.append(self._effects(chosen, _LABELLED[table.state[chosen]]))
        return Effects.concat(parts)

    def _expire(self, slots: SlotArray) -> Effects:
        """Take what is due out of the table; return what that means."""
        states = self._table.state[slots]
        pending = slots[states == PENDING]
        early = states >= EARLY_NEGATIVE
        expired = Effect.EXPIRED if self.settings.expired == "drop" else Effect.EXPIRED_NEGATIVE
        if self.settings.orphans == "drop":
            orphaned = np.full(int(early.sum()), Effect.ORPHANED, dtype=np.uint8)
        else:
            orphaned = _MISSED[states[early]]
        effects = Effects.concat(
            [self._effects(pending, expired), self._effects(slots[early], orphaned)]
        )
        self._table.drop(slots)
        return effects

    def _make_room(self) -> Effects:
        """Let what is due first go early, while there are too many ids."""
        parts = []
        while len(self._table) > self.settings.max_pending:
            oldest = self._table.oldest_bucket()
            assert oldest is not None, "ids are kept that never fall due"
            for slots in self._table.pop_due(oldest + 1):
                self.counts.expired_early += int((self._table.state[slots] == PENDING).sum())
                parts.append(self._expire(slots))
        return Effects.concat(parts)

    def _due(self, due_us: IntArray) -> BucketArray:
        return np.clip(due_us // self.settings.bucket_us, 0, _LAST_BUCKET).astype(np.uint32)

    def _schedule(self, slots: SlotArray, due_us: int) -> None:
        self._table.reschedule(slots, self._due(np.full(slots.size, due_us)))

    def _effects(self, slots: SlotArray, kinds: KindArray | Effect) -> Effects:
        table = self._table
        return self._rows(kinds, table.event_us[slots], table.score[slots], table.codes[slots])

    def _rows(
        self, kinds: KindArray | Effect, event_us: IntArray, scores: FloatArray, codes: CodeArray
    ) -> Effects:
        if isinstance(kinds, Effect):
            kinds = np.full(event_us.size, kinds, dtype=np.uint8)
        at_us = np.full(event_us.size, self.now_us, dtype=np.int64)
        return Effects(kinds, event_us, at_us, scores, codes)

    def _check(self) -> None:
        """Assert everything that must hold. O(n)."""
        self._table._check()
        assert len(self._table) <= self.settings.max_pending


def _by_state(effects: dict[int, Effect]) -> KindArray:
    return np.array([effects.get(state, 255) for state in range(EARLY_POSITIVE + 1)], np.uint8)


_LABELLED = _by_state(
    {NEGATIVE: Effect.LABELLED_NEGATIVE, POSITIVE: Effect.LABELLED_POSITIVE},
)
_UNLABELLED = _by_state(
    {NEGATIVE: Effect.UNLABELLED_NEGATIVE, POSITIVE: Effect.UNLABELLED_POSITIVE},
)
_MISSED = _by_state(
    {EARLY_NEGATIVE: Effect.MISSED_NEGATIVE, EARLY_POSITIVE: Effect.MISSED_POSITIVE},
)


def _distinct_runs(ids: Sequence[bytes]) -> Iterator[slice]:
    """Cut a batch so that no id occurs twice in a run: rows count one after the other."""
    if len(set(ids)) == len(ids):
        if ids:
            yield slice(0, len(ids))
        return
    start, seen = 0, set[bytes]()
    for row, id_ in enumerate(ids):
        if id_ in seen:
            yield slice(start, row)
            start = row
            seen.clear()
        seen.add(id_)
    yield slice(start, len(ids))
