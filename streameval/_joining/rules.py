"""The rules of joining, as a table: the outcome of each operation in each state of an id.

::

    (unknown) --predict--> PENDING --label--> labelled --relabel_ttl--> (unknown)
        |                     `--ttl after its event time--> expired, (unknown)
        `--label--> EARLY --predict--> labelled
                      `--ttl after its arrival--> orphan, (unknown)

A label that carries its prediction's score and event time needs no prediction. An
operation without an effect on any count is counted in `JoinCounts`, so that no
operation is dropped silently.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.result import Result
from streameval._time.effects import Effect

if TYPE_CHECKING:
    from streameval._time.effects import KindArray

PENDING, LABELLED_NEGATIVE, LABELLED_POSITIVE, EARLY_NEGATIVE, EARLY_POSITIVE, UNKNOWN = range(6)
"""States of an id: a prediction without a label, a labelled prediction, a label without a
prediction, or not in the table. All numbers but `UNKNOWN` are written to disk."""

NO_EFFECT = 255
"""Stands for "no effect" in columns of `Effect`."""

KEEPS, CREATES, STORES, COUNTS, ACTS_TWICE = 1, 2, 4, 8, 16
"""Bits of what a rule does: the id is in the table afterwards, and was not before; its columns
are stored; a counter counts; it has two effects."""

_BUCKETS_PER_TTL = 128
_SECOND_US = 1_000_000


class Op(enum.IntEnum):
    """An operation on an id."""

    PREDICT = 0
    LABEL_NEGATIVE = 1
    LABEL_POSITIVE = 2
    FULL_NEGATIVE = 3
    """A label that carries the score and event time of its prediction."""
    FULL_POSITIVE = 4
    RETRACT = 5
    FALL_DUE = 6


class Due(enum.IntEnum):
    """When an id falls due, as an operation sets it."""

    UNCHANGED = 0
    TTL_AFTER_EVENT = 1
    TTL_AFTER_NOW = 2
    RELABEL_TTL_AFTER_NOW = 3


SCHEDULES = {int(due): 16 << due for due in Due if due != Due.UNCHANGED}
"""The bit of a rule that sets when its id falls due, by how."""


@dataclass(frozen=True, slots=True)
class JoinSettings:
    """How long ids are kept, and the outcome for those whose other half never arrives.

    Attributes
    ----------
    ttl_us : int
        How long after its event time a prediction waits for its label, and how
        long after its arrival a label waits for its prediction.
    relabel_ttl_us : int
        How long a labelled id can be relabelled or retracted.
    max_pending : int
        The most ids that are kept; above it the ids that fall due first expire early.
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
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise InvalidInputError(f"{name} must be an integer, got {value!r}", field=name)
            if value <= 0:
                raise InvalidInputError(f"{name} must be positive, got {value}", field=name)
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


@dataclass(frozen=True, slots=True, eq=False)
class JoinCounts(Result):
    """Operations without an effect on any count, and ids that expired early.

    Totals since the joiner was made.

    Attributes
    ----------
    duplicate_predictions : int
        Predictions of an id that already had one; the first one counts.
    duplicate_labels : int
        Labels that repeated the id's label, replaced one that still waits for
        its prediction, or had another weight than it and changed nothing.
    relabelled : int
        Labels that changed the label of a prediction.
    unknown_retractions : int
        Retractions of unknown ids.
    retracted_early_labels : int
        Retractions of labels that still waited for their prediction.
    expired_early : int
        Predictions that expired early, because `max_pending` ids were kept.
    forgotten_early : int
        Labels that waited for their prediction, and labelled ids within
        `relabel_ttl`, that were dropped early for the same reason.
    beyond_retention : int
        Effects on predictions whose pane was past retention; they are in
        `Coverage`, and in no window.
    """

    duplicate_predictions: int = 0
    duplicate_labels: int = 0
    relabelled: int = 0
    unknown_retractions: int = 0
    retracted_early_labels: int = 0
    expired_early: int = 0
    forgotten_early: int = 0
    beyond_retention: int = 0


JOIN_COUNTERS = tuple(each.name for each in fields(JoinCounts))


class JoinRule(NamedTuple):
    """The outcome of one operation in one state."""

    after: int
    effects: tuple[Effect, ...] = ()
    due: Due = Due.UNCHANGED
    counter: str | None = None
    stores: bool = False
    """Whether the row's score, event time and segment codes are stored."""


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """All rules as columns, indexed by ``operation * STATES + state``."""

    STATES = UNKNOWN + 1

    rules: tuple[JoinRule | None, ...]
    after: KindArray = field(init=False)
    first_effect: KindArray = field(init=False)
    """The first effect, or `NO_EFFECT`."""
    second_effect: KindArray = field(init=False)
    due: KindArray = field(init=False)
    counter: KindArray = field(init=False)
    """An index into `JOIN_COUNTERS`, or its length for none."""
    does: KindArray = field(init=False)
    """The bits of what each does: a batch skips what none of its rows does."""

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, settings: JoinSettings) -> Rules:
        """Return the rules under these settings; streams with equal ones share them."""
        known = _rules(settings)
        return cls(tuple(known.get((op, state)) for op in Op for state in range(cls.STATES)))

    def __post_init__(self) -> None:
        rows = [rule or JoinRule(UNKNOWN) for rule in self.rules]
        columns = {
            "after": [rule.after for rule in rows],
            "first_effect": [(*rule.effects, NO_EFFECT)[0] for rule in rows],
            "second_effect": [(*rule.effects, NO_EFFECT, NO_EFFECT)[1] for rule in rows],
            "due": [rule.due for rule in rows],
            "counter": [(*JOIN_COUNTERS, None).index(rule.counter) for rule in rows],
            "does": [_does(rule, place % self.STATES) for place, rule in enumerate(rows)],
        }
        for name, column in columns.items():
            object.__setattr__(self, name, np.array(column, dtype=np.uint8))


def _does(rule: JoinRule, state: int) -> int:
    keeps = rule.after != UNKNOWN
    return (
        KEEPS * keeps
        | CREATES * (keeps and state == UNKNOWN)
        | STORES * rule.stores
        | COUNTS * (rule.counter is not None)
        | ACTS_TWICE * (len(rule.effects) > 1)
        | SCHEDULES.get(rule.due, 0)
    )


def _rules(settings: JoinSettings) -> dict[tuple[Op, int], JoinRule]:
    labelled = (Effect.LABELLED_NEGATIVE, Effect.LABELLED_POSITIVE)
    unlabelled = (Effect.UNLABELLED_NEGATIVE, Effect.UNLABELLED_POSITIVE)
    missed = (Effect.MISSED_NEGATIVE, Effect.MISSED_POSITIVE)
    drops_expired = settings.expired == "drop"
    expired = Effect.EXPIRED if drops_expired else Effect.EXPIRED_NEGATIVE
    rules = {
        (Op.PREDICT, UNKNOWN): JoinRule(
            PENDING, (Effect.PREDICTED,), Due.TTL_AFTER_EVENT, stores=True
        ),
        (Op.PREDICT, PENDING): JoinRule(PENDING, counter="duplicate_predictions"),
        (Op.RETRACT, PENDING): JoinRule(UNKNOWN, (Effect.RETRACTED,)),
        (Op.RETRACT, UNKNOWN): JoinRule(UNKNOWN, counter="unknown_retractions"),
        (Op.FALL_DUE, PENDING): JoinRule(UNKNOWN, (expired,)),
    }
    for label in (0, 1):
        other, same, early = 1 - label, LABELLED_NEGATIVE + label, EARLY_NEGATIVE + label
        bare, full = Op(Op.LABEL_NEGATIVE + label), Op(Op.FULL_NEGATIVE + label)
        joined = JoinRule(
            same, (Effect.PREDICTED, labelled[label]), Due.RELABEL_TTL_AFTER_NOW, stores=True
        )
        orphaned = Effect.ORPHANED if settings.orphans == "drop" else missed[label]
        rules |= {
            (Op.PREDICT, same): JoinRule(same, counter="duplicate_predictions"),
            (Op.PREDICT, early): joined,
            (bare, UNKNOWN): JoinRule(early, due=Due.TTL_AFTER_NOW, stores=True),
            (full, UNKNOWN): joined,
            (Op.RETRACT, same): JoinRule(UNKNOWN, (unlabelled[label], Effect.RETRACTED)),
            (Op.RETRACT, early): JoinRule(UNKNOWN, counter="retracted_early_labels"),
            (Op.FALL_DUE, same): JoinRule(UNKNOWN),
            (Op.FALL_DUE, early): JoinRule(UNKNOWN, (orphaned,)),
        }
        for op in (bare, full):
            rules |= {
                (op, PENDING): JoinRule(same, (labelled[label],), Due.RELABEL_TTL_AFTER_NOW),
                (op, same): JoinRule(same, counter="duplicate_labels"),
                (op, LABELLED_NEGATIVE + other): JoinRule(
                    same,
                    (unlabelled[other], labelled[label]),
                    Due.RELABEL_TTL_AFTER_NOW,
                    "relabelled",
                ),
            }
        for held in (EARLY_NEGATIVE, EARLY_POSITIVE):
            rules[bare, held] = JoinRule(early, counter="duplicate_labels")
            rules[full, held] = joined._replace(counter="duplicate_labels")
    return rules
