"""Predictions now, labels later, by id: each case counts when its label arrives.

`Joiner` decides the outcome of each operation, `EffectCounter` counts it. `LabelJoiner`
checks the arguments and cuts columns where the passing of time matters.
"""

from __future__ import annotations

import math
import struct
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.frame import Frame, raise_corrupt
from streameval._common.keywords import by_keyword
from streameval._common.names import check_id, check_ids
from streameval._counts.cluster_keys import check_cluster, check_clusters
from streameval._counts.columns import (
    check_label,
    check_labels,
    check_length,
    check_score,
    check_scores,
)
from streameval._counts.weight_columns import check_unit, check_units
from streameval._counts.weights import WEIGHT_UNITS, every_unit
from streameval._evaluator import Evaluator
from streameval._joining import codec
from streameval._joining.effect_counter import (
    EffectCounter,
    effect_counter_for,
    read_effect_counter,
)
from streameval._joining.joiner import Joiner
from streameval._joining.kept_weights import check_weights_kept
from streameval._joining.outcomes import JoinOutcomes
from streameval._joining.rules import PENDING, JoinSettings, Op
from streameval._time.times import (
    check_none_older,
    column_us,
    span_us,
    to_us,
    too_old_error,
)
from streameval._time.windowed import WindowedEvaluator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from streameval._common.arrays import IntArray
    from streameval._common.spans import Span

_HAS_DELAYS = 1
"""The flag of a joiner with the delays of labels at its end."""
FRAME = Frame(b"SVET", 1, "a label joiner", flags=_HAS_DELAYS)
_SIZE = struct.Struct("<q")


class LabelJoiner(JoinOutcomes):
    """Joins predictions and labels by id, in either order, into an evaluator.

    A prediction waits for its label, a label for its prediction; when both are there, a
    case is counted in the pane of the prediction's time. Nothing is dropped silently:
    `coverage` and `counts` have the outcome of every prediction and label.

    Parameters
    ----------
    into : WindowedEvaluator or Evaluator
        The evaluator that counts the cases. The caller may add other cases to it, but
        must not remove joined ones. If it declares clusters, predictions carry them.
    ttl : timedelta or text
        How long after its time a prediction waits for its label, and a label for
        its prediction. At most the retention of a `WindowedEvaluator`.
    relabel_ttl : timedelta or text
        How long a labelled id can be relabelled or retracted.
    max_pending : int
        The most ids that are kept, about 60 B each, 150 B with ids of 36 bytes; above it
        the ids that fall due first expire early.
    orphans : {"drop", "miss"}
        Whether a label whose prediction never arrived is dropped, or counts as a
        reference that was never scored. Such a label has no cluster, so an evaluator with
        clusters takes none.
    expired : {"drop", "negative"}
        Whether a prediction whose label never arrived is dropped, or counts as a
        negative case. The latter is biased unless labels are missing at random.
    keep_delays : bool
        Whether to keep, by pane and score, how long labels took: `projection` needs it.
        About 20 B for each cell of score, class and bucket of delay in use. Not with
        clusters: the interval of a projection takes predictions as independent.

    Raises
    ------
    InvalidInputError
        When a setting is out of range, or settings contradict one another.

    Notes
    -----
    Ids are text or bytes, 1 to 128 bytes of UTF-8; an id can be used again once the
    joiner has dropped it. Time never runs backwards: an event may be late, but `now` is
    the latest time of any call. Expiry is late by up to 1/128 of the shorter ttl, or
    a second. A call that raises has changed nothing. With `max_cells` a relabelled
    or retracted case may leave its pane with fewer bits than it would have had
    without it. Only one thread at a time may change it.

    Examples
    --------
    >>> from datetime import datetime, timedelta, timezone
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    >>> ev = WindowedEvaluator()
    >>> joiner = LabelJoiner(ev, ttl=timedelta(days=7))
    >>> joiner.log("order-17", 0.93, at=noon)
    >>> joiner.log("order-18", 0.12, at=noon)
    >>> joiner.label("order-17", True, at=noon + timedelta(days=2))
    >>> ev.between(noon, noon + timedelta(minutes=1)).num_positive_ref
    1
    >>> joiner.coverage().pending
    1
    """

    def __init__(
        self,
        into: WindowedEvaluator | Evaluator,
        *,
        ttl: Span,
        relabel_ttl: Span = timedelta(hours=1),
        max_pending: int = 2_000_000,
        orphans: Literal["drop", "miss"] = "drop",
        expired: Literal["drop", "negative"] = "drop",
        keep_delays: bool = False,
    ) -> None:
        if not isinstance(into, WindowedEvaluator | Evaluator):
            message = f"into must be a WindowedEvaluator or an Evaluator, got {into!r}"
            raise InvalidInputError(message, field="into")
        settings = JoinSettings(
            span_us(ttl, field="ttl"),
            span_us(relabel_ttl, field="relabel_ttl"),
            max_pending,
            orphans,
            expired,
        )
        if keep_delays and not isinstance(into, WindowedEvaluator):
            message = "keep_delays needs a WindowedEvaluator: delays are kept by pane"
            raise InvalidInputError(message, field="keep_delays")
        has_clusters = into.cluster_groups is not None
        if has_clusters and keep_delays:
            message = "the interval of a projection takes predictions as independent: "
            message += "keep_delays needs an evaluator without cluster_groups"
            raise InvalidInputError(message, field="keep_delays")
        if has_clusters and settings.orphans == "miss":
            message = "a label without a prediction has no cluster: with cluster_groups, "
            raise InvalidInputError(f"{message}orphans must be 'drop'", field="orphans")
        counter = effect_counter_for(into, keep_delays=keep_delays)
        if not _fits(settings, counter):
            message = f"ttl must be at most the evaluator's retention, got {ttl}"
            raise InvalidInputError(message, field="ttl")
        self._begin(Joiner(settings, has_clusters=has_clusters), counter)

    def _begin(self, joiner: Joiner, counter: EffectCounter) -> None:
        self._joiner = joiner
        self._counter = counter

    # -- predictions and labels ----------------------------------------------

    def log(
        self,
        id_: str | bytes | int,
        /,
        score: float,
        *,
        at: datetime,
        cluster: str | int | bytes | None = None,
    ) -> None:
        """Log a prediction.

        Parameters
        ----------
        id_ : str, bytes or int
            Unique while it waits for its label; the first prediction of an id counts.
        score : float
            As for `Evaluator.add_case`.
        at : datetime
            When it was made: its case will count in the pane of this time.
        cluster : str, int or bytes, optional
            Where the evaluator declares clusters: which one the prediction is of. Its
            label counts in the cluster of the prediction.

        Raises
        ------
        InvalidInputError
            When a value is invalid, or `at` is older than retention.

        Notes
        -----
        O(1), some 10 us. Columns take a tenth of that: `log_cases`.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.log("order-17", 0.9, at=noon)
        >>> joiner.coverage().pending
        1
        """
        key, at_us = check_id(id_), to_us(at)
        value = check_score(score, scale=self._counter.overall.scale)
        hashed = check_cluster(cluster, self._counter.evaluator.cluster_groups)
        oldest_us = self._counter.oldest_us(at_us)
        if at_us < oldest_us:
            raise too_old_error(at_us, oldest_us)
        group = 0 if hashed is None else int(hashed[0])
        self._apply_one(Op.PREDICT, key, value, at_us, group=group)

    @by_keyword
    def log_cases(self, *, ids: Any, scores: Any, at: Any, clusters: Any = None) -> None:
        """Log columns of predictions, all or none.

        Parameters
        ----------
        ids : column of str, bytes or int
        scores : column of float
        at : datetime, sequence of datetime, or datetime64[n]
            When each was made: one time for all rows, or one per row.
        clusters : column of str, int or bytes, optional
            Where the evaluator declares clusters: which one each row is of.

        Raises
        ------
        InvalidInputError
            With the first row at fault; also for a time older than retention.

        Notes
        -----
        O(n), about 1 us a row. Rows are applied in order.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.log_cases(ids=["a", "b"], scores=[0.9, 0.4], at=noon)
        >>> joiner.coverage().pending
        2
        >>> users = LabelJoiner(WindowedEvaluator(cluster_groups=32), ttl=timedelta(days=7))
        >>> users.log_cases(ids=["a", "b"], scores=[0.9, 0.4], at=noon, clusters=["ann", "bo"])
        """
        keys = check_ids(ids)
        values = check_scores(scores, scale=self._counter.overall.scale)
        check_length("scores", values.size, like="ids", length=len(keys))
        times_us = column_us(at, len(keys))
        num_groups = self._counter.evaluator.cluster_groups
        hashed = check_clusters(clusters, num_groups, len(keys), like="ids")
        codes = None if hashed is None else hashed[:, None]
        if keys:
            check_none_older(times_us, self._counter.oldest_us(int(times_us.max())))
        for rows, now_us in self._runs(times_us):
            self._counter.count(
                self._joiner.predict(
                    keys[rows],
                    scores=values[rows],
                    event_us=times_us[rows],
                    now_us=now_us,
                    codes=None if codes is None else codes[rows],
                )
            )

    def label(
        self,
        id_: str | bytes | int,
        /,
        positive: bool,
        *,
        at: datetime,
        weight: float | None = None,
        label_probability: float | None = None,
    ) -> None:
        """Add a label. It may arrive before its prediction, or replace an earlier label.

        Parameters
        ----------
        id_ : str, bytes or int
            The id of the prediction.
        positive : bool
            Whether the reference is positive.
        at : datetime
            When the label arrived; the case counts at the time of its prediction.
        weight, label_probability : float, optional
            What the case weighs, as in `Evaluator.add_case`. The weight belongs to the
            label: as long as the id is kept, a label that repeats or changes it must have
            the same. To change it, retract the id.

        Raises
        ------
        InvalidInputError
            When a value is invalid, the id has a label of another weight, or weights come
            where clusters are declared, delays are kept or orphans are misses.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.log("order-17", 0.9, at=noon)
        >>> joiner.label("order-17", True, at=noon + timedelta(days=2))
        >>> joiner.evaluator.between(noon, noon + timedelta(hours=1)).num_positive_ref
        1
        """
        key, is_positive = check_id(id_), check_label(positive)
        op = Op.LABEL_POSITIVE if is_positive else Op.LABEL_NEGATIVE
        at_us, units = to_us(at), WEIGHT_UNITS
        if weight is not None or label_probability is not None:
            self._check_takes_weights("weight")
            units = check_unit(weight, label_probability)
        if units != WEIGHT_UNITS or self._joiner.table.has_weights:
            check_weights_kept(
                self._joiner, [key], np.array([units]), np.array([at_us]), is_column=False
            )
        self._apply_one(op, key, math.nan, at_us, units=units)

    @by_keyword
    def label_cases(
        self,
        *,
        ids: Any,
        labels: Any,
        at: Any,
        weights: Any = None,
        label_probability: Any = None,
        positive: Any = None,
        negative: Any = None,
    ) -> None:
        """Add columns of labels, all or none.

        Parameters
        ----------
        ids : column of str, bytes or int
        labels : column of bool or of 0 and 1
        at : datetime, sequence of datetime, or datetime64[n]
            When each arrived: one time for all rows, or one per row.
        weights : column of float, optional
            What each case weighs, as in `Evaluator.add_cases`; as for `label`, an id
            keeps the weight of its label. The rows of one id must have one weight.
        label_probability : float or column of float, optional
            As in `Evaluator.add_cases`: for one label in ten, 0.1.
        positive, negative : object, optional
            The labels of the two classes, as in `Evaluator.add_cases`.

        Raises
        ------
        InvalidInputError
            With the first row at fault.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.log_cases(ids=["a", "b"], scores=[0.9, 0.4], at=noon)
        >>> joiner.label_cases(ids=["a", "b"], labels=[1, 0], at=noon + timedelta(days=2))
        >>> joiner.coverage().labelled
        2
        """
        keys = check_ids(ids)
        positives = check_labels(labels, positive=positive, negative=negative)
        check_length("labels", positives.size, like="ids", length=len(keys))
        times_us = column_us(at, len(keys))
        units: IntArray | None = None
        if weights is not None or label_probability is not None:
            self._check_takes_weights("weights")
            units = check_units(weights, label_probability, size=len(keys), counts=None)
        if units is not None or self._joiner.table.has_weights:
            check_weights_kept(self._joiner, keys, every_unit(units, len(keys)), times_us)
        for rows, now_us in self._runs(times_us, units):
            self._counter.count(
                self._joiner.label(
                    keys[rows],
                    positives=positives[rows],
                    event_us=times_us[rows],
                    now_us=now_us,
                    units=None if units is None else units[rows],
                )
            )

    def retract(self, id_: str | bytes | int, /, *, at: datetime) -> None:
        """Retract a prediction, labelled or not; `counts` counts unknown ids.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.log("order-17", 0.9, at=noon)
        >>> joiner.retract("order-17", at=noon)
        >>> joiner.coverage().retracted
        1
        """
        self._apply_one(Op.RETRACT, check_id(id_), 0.0, to_us(at))

    @by_keyword
    def retract_cases(self, *, ids: Any, at: Any) -> None:
        """Retract a column of predictions, all or none; as `retract`.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.log_cases(ids=["a", "b"], scores=[0.9, 0.4], at=noon)
        >>> joiner.retract_cases(ids=["a", "b"], at=noon)
        >>> joiner.num_ids
        0
        """
        keys = check_ids(ids)
        for rows, now_us in self._runs(column_us(at, len(keys))):
            self._counter.count(self._joiner.retract(keys[rows], now_us=now_us))

    def advance(self, now: datetime) -> None:
        """Advance to a time: ids past their ttl expire, panes coarsen. O(what changes).

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.log("order-17", 0.9, at=noon)
        >>> joiner.advance(noon + timedelta(days=8))
        >>> joiner.coverage().expired
        1
        """
        now_us = to_us(now, field="now")
        self._check_room(0, 0)
        self._pass_time(now_us)

    # -- copies and bytes ------------------------------------------------------

    def copy(self) -> Self:
        """Return an independent joiner, with an evaluator of its own. O(ids + panes).

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.copy() == joiner
        True
        """
        return self._of(self._joiner.copy(), self._counter.copy())

    def to_bytes(self) -> bytes:
        """Return the joiner as bytes: its ids, the coverage and the evaluator.

        Versioned, checksummed, the same on every machine; equal joiners have equal
        bytes. O(n log n) for n ids.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.log("order-17", 0.9, at=noon)
        >>> LabelJoiner.from_bytes(joiner.to_bytes()) == joiner
        True
        """
        joiner = codec.encode_joiner(self._joiner)
        flags = 0 if self._counter.delays is None else _HAS_DELAYS
        return FRAME.sealed(_SIZE.pack(len(joiner)), joiner, *self._counter.parts(), flags=flags)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Return the joiner that `to_bytes` wrote; its `evaluator` is restored too.

        Raises
        ------
        CorruptStateError
            When the bytes are truncated, altered, or of an unknown format.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.log("order-17", 0.9, at=noon)
        >>> LabelJoiner.from_bytes(joiner.to_bytes()).num_ids
        1
        """
        reader = FRAME.reader(data)
        (size,) = reader.fields(_SIZE)
        joiner = codec.decode_joiner(reader.blob(size))
        counter = read_effect_counter(reader, keep_delays=bool(reader.flags & _HAS_DELAYS))
        reader.end()
        if not _fits(joiner.settings, counter) or not _agree(joiner, counter):
            raise_corrupt("the label joiner's ids, coverage and evaluator contradict one another")
        return cls._of(joiner, counter)

    @classmethod
    def _of(cls, joiner: Joiner, counter: EffectCounter) -> Self:
        self = cls.__new__(cls)
        self._begin(joiner, counter)
        return self

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelJoiner):
            return NotImplemented
        return self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]  # it changes, so it must not be a key

    def __repr__(self) -> str:
        return f"<LabelJoiner: {self.num_ids} ids, {self.coverage()}>"

    # -- internals -------------------------------------------------------------

    def _apply_one(
        self,
        op: Op,
        key: bytes,
        score: float,
        at_us: int,
        *,
        group: int = 0,
        units: int = WEIGHT_UNITS,
    ) -> None:
        self._check_room(1, units)
        self._pass_time(at_us)
        rows = self._joiner.join_one(op, key, score=score, event_us=at_us, group=group, units=units)
        self._counter.count_rows(rows, self._joiner.now_us)
        self._counter.count(self._joiner.settle())

    def _check_room(self, added: int, units: int) -> None:
        """Refuse rows, and what they weigh, that all ids together may count too much with."""
        table = self._joiner.table
        if not table.has_weights and units == added * WEIGHT_UNITS:
            self._counter.check_room(len(self._joiner) + added)
        else:
            held = table.total_units or len(table) * WEIGHT_UNITS
            self._counter.check_room(len(table) + added, held + units)

    def _pass_time(self, now_us: int) -> None:
        self._counter.advance(now_us)
        self._counter.count(self._joiner.advance(now_us))

    def _runs(
        self, times_us: IntArray, units: IntArray | None = None
    ) -> Iterator[tuple[slice, int]]:
        """Yield runs of rows, each with its `now`, cut where a new bucket begins.

        Within a run all rows expire, and make ids due, in the same buckets, so it can
        be joined as one batch.
        """
        size = times_us.size
        self._check_room(size, int(every_unit(units, size).sum()))
        if not times_us.size:
            return
        settings = self._joiner.settings
        nows = np.maximum(np.maximum.accumulate(times_us), self._joiner.now_us)
        marks = [
            (nows + ttl_us) // settings.bucket_us
            for ttl_us in (0, settings.ttl_us, settings.relabel_ttl_us)
        ]
        moved = np.any([np.diff(mark) != 0 for mark in marks], axis=0)
        ends = [*(np.flatnonzero(moved) + 1).tolist(), times_us.size]
        for start, end in pairwise([0, *ends]):
            now_us = int(nows[end - 1])
            self._counter.advance(now_us)
            yield slice(start, end), now_us

    def _check(self) -> None:
        """Assert all invariants. O(n)."""
        self._joiner._check()
        self._counter._check()
        assert _fits(self._joiner.settings, self._counter)
        assert _agree(self._joiner, self._counter)


def _fits(settings: JoinSettings, counter: EffectCounter) -> bool:
    """Return whether no prediction can wait longer than its pane is kept."""
    return counter.retention_us is None or settings.ttl_us <= counter.retention_us


def _agree(joiner: Joiner, counter: EffectCounter) -> bool:
    """Return whether as many ids are pending as the coverage says, in groups that exist."""
    num_groups = counter.evaluator.cluster_groups
    if joiner.has_clusters != (num_groups is not None):
        return False
    table = joiner.table
    if num_groups is not None and (table.codes[table.state != table.FREE_SLOT] >= num_groups).any():
        return False
    return int((joiner.table.state == PENDING).sum()) == counter.overall.coverage.pending
