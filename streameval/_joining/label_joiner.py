"""Predictions now, labels later, by id: each case counts when its label comes.

`Joiner` decides what happens to each id, `Joined` counts it. Here is what the two
are told: checked, with time as an argument.
"""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.frame import Frame, raise_corrupt
from streameval._common.names import check_id, check_ids
from streameval._counts.columns import (
    check_label,
    check_labels,
    check_length,
    check_score,
    check_scores,
)
from streameval._evaluator import Evaluator
from streameval._joining import codec
from streameval._joining.joined import Joined, joined_with, read_joined
from streameval._joining.joiner import Joiner
from streameval._joining.rules import PENDING, JoinSettings, Op
from streameval._time.times import check_none_older, column_us, span_us, to_datetime, to_us, too_old
from streameval._time.windowed import WindowedEvaluator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from streameval._common.arrays import IntArray
    from streameval._common.coverage import Coverage
    from streameval._joining.rules import JoinCounts
    from streameval._time.coverage import CoverageCell, ScoreBand
    from streameval._time.window import Window

FRAME = Frame(b"SEVT", 1, "a label joiner")
_SIZE = struct.Struct("<q")


class LabelJoiner:
    """Joins predictions and labels by id, in either order, into an evaluator.

    A prediction waits for its label, a label for its prediction; when they meet, a
    case is counted in the pane of the prediction's time. Nothing is lost in
    silence: `coverage` and `counts` say what became of everything.

    Parameters
    ----------
    into : WindowedEvaluator or Evaluator
        Where cases are counted. Others may be added to it; those that are joined
        must not be taken away from it.
    ttl : timedelta
        How long after its time a prediction waits for its label, and a label for
        its prediction. At most the retention of a `WindowedEvaluator`.
    relabel_ttl : timedelta
        How long a labelled id can be relabelled or retracted.
    max_pending : int
        The most ids that are kept, about 150 B each; above it those that fall due
        first go early.
    orphans : {"drop", "miss"}
        What becomes of a label whose prediction never came: nothing, or a
        reference that was never scored.
    expired : {"drop", "negative"}
        What becomes of a prediction whose label never came: nothing, or a negative
        case. The latter is biased wherever labels are missing for a reason.

    Raises
    ------
    InvalidInputError
        When a setting is out of range, or settings contradict one another.

    Notes
    -----
    Ids are text or bytes, 1 to 128 bytes of UTF-8; an id may come back once it is
    forgotten. Time never runs backwards: an event may come late, but now is the
    latest time that was told. Expiry is late by up to 1/128 of the shorter ttl, or
    a second. A call that raises has changed nothing. With `max_cells` a relabelled
    or retracted case may leave its pane with fewer bits than it would have had
    without it. One thread may change it.

    Examples
    --------
    >>> from datetime import datetime, timedelta, timezone
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    >>> ev = WindowedEvaluator()
    >>> joiner = LabelJoiner(ev, ttl=timedelta(days=7))
    >>> joiner.predict("order-17", 0.93, at=noon)
    >>> joiner.predict("order-18", 0.12, at=noon)
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
        ttl: timedelta,
        relabel_ttl: timedelta = timedelta(hours=1),
        max_pending: int = 2_000_000,
        orphans: Literal["drop", "miss"] = "drop",
        expired: Literal["drop", "negative"] = "drop",
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
        joined = joined_with(into)
        if not _fits(settings, joined):
            message = f"ttl must be at most the evaluator's retention, got {ttl}"
            raise InvalidInputError(message, field="ttl")
        self._begin(Joiner(settings), joined)

    def _begin(self, joiner: Joiner, joined: Joined) -> None:
        self._joiner = joiner
        self._joined = joined

    # -- what came -----------------------------------------------------------

    def predict(self, id_: str | bytes, /, score: float, *, at: datetime) -> None:
        """Take a prediction.

        Parameters
        ----------
        id_ : str or bytes
            Unique while its label is awaited; the first prediction of an id counts.
        score : float
            As for `Evaluator.add_case`.
        at : datetime
            When it was made: its case will count in the pane of this time.

        Raises
        ------
        InvalidInputError
            When a value is not such, or `at` is older than retention.

        Notes
        -----
        O(1), some 10 us. Columns take a tenth of that: `predict_cases`.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.predict("order-17", 0.9, at=noon)
        >>> joiner.coverage().pending
        1
        """
        key, at_us = check_id(id_), to_us(at)
        value = check_score(score, scale=self._joined.overall.scale)
        oldest_us = self._joined.oldest_us(at_us)
        if at_us < oldest_us:
            raise too_old(at_us, oldest_us)
        self._one(Op.PREDICT, key, value, at_us)

    def predict_cases(self, *, ids: Any, scores: Any, at: Any) -> None:
        """Take columns of predictions, all or none.

        Parameters
        ----------
        ids : column of str or bytes
        scores : column of float
        at : datetime, sequence of datetime, or datetime64[n]
            When each was made: one time for all rows, or one per row.

        Raises
        ------
        InvalidInputError
            With the first row at fault; also for a time older than retention.

        Notes
        -----
        O(n), about 1 us a row. Rows count one after the other.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.predict_cases(ids=["a", "b"], scores=[0.9, 0.4], at=noon)
        >>> joiner.coverage().pending
        2
        """
        keys = check_ids(ids)
        values = check_scores(scores, scale=self._joined.overall.scale)
        check_length("scores", values.size, like="ids", length=len(keys))
        times_us = column_us(at, len(keys))
        if keys:
            check_none_older(times_us, self._joined.oldest_us(int(times_us.max())))
        for rows, now_us in self._runs(times_us):
            self._joined.take(
                self._joiner.predict(
                    keys[rows], scores=values[rows], event_us=times_us[rows], now_us=now_us
                )
            )

    def label(self, id_: str | bytes, /, positive: bool, *, at: datetime) -> None:
        """Take a label. It may come before its prediction, or replace an earlier one.

        Parameters
        ----------
        id_ : str or bytes
            That of the prediction.
        positive : bool
            Whether the reference is positive.
        at : datetime
            When the label came; the case counts at the time of its prediction.

        Raises
        ------
        InvalidInputError
            When a value is not such.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.predict("order-17", 0.9, at=noon)
        >>> joiner.label("order-17", True, at=noon + timedelta(days=2))
        >>> joiner.evaluator.between(noon, noon + timedelta(hours=1)).num_positive_ref
        1
        """
        key, is_positive = check_id(id_), check_label(positive)
        op = Op.LABEL_POSITIVE if is_positive else Op.LABEL_NEGATIVE
        self._one(op, key, math.nan, to_us(at))

    def label_cases(self, *, ids: Any, labels: Any, at: Any) -> None:
        """Take columns of labels, all or none.

        Parameters
        ----------
        ids : column of str or bytes
        labels : column of bool or of 0 and 1
        at : datetime, sequence of datetime, or datetime64[n]
            When each came: one time for all rows, or one per row.

        Raises
        ------
        InvalidInputError
            With the first row at fault.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.predict_cases(ids=["a", "b"], scores=[0.9, 0.4], at=noon)
        >>> joiner.label_cases(ids=["a", "b"], labels=[1, 0], at=noon + timedelta(days=2))
        >>> joiner.coverage().labelled
        2
        """
        keys = check_ids(ids)
        positives = check_labels(labels)
        check_length("labels", positives.size, like="ids", length=len(keys))
        times_us = column_us(at, len(keys))
        for rows, now_us in self._runs(times_us):
            self._joined.take(
                self._joiner.label(
                    keys[rows], positives=positives[rows], event_us=times_us[rows], now_us=now_us
                )
            )

    def retract(self, id_: str | bytes, /, *, at: datetime) -> None:
        """Take a prediction back, labelled or not; one that is unknown is counted.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.predict("order-17", 0.9, at=noon)
        >>> joiner.retract("order-17", at=noon)
        >>> joiner.coverage().retracted
        1
        """
        self._one(Op.RETRACT, check_id(id_), 0.0, to_us(at))

    def retract_cases(self, *, ids: Any, at: Any) -> None:
        """Take a column of predictions back, all or none; as `retract`.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.predict_cases(ids=["a", "b"], scores=[0.9, 0.4], at=noon)
        >>> joiner.retract_cases(ids=["a", "b"], at=noon)
        >>> joiner.num_ids
        0
        """
        keys = check_ids(ids)
        for rows, now_us in self._runs(column_us(at, len(keys))):
            self._joined.take(self._joiner.retract(keys[rows], now_us=now_us))

    def advance(self, now: datetime) -> None:
        """Let time pass: what waited too long expires, panes coarsen. O(what changes).

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.predict("order-17", 0.9, at=noon)
        >>> joiner.advance(noon + timedelta(days=8))
        >>> joiner.coverage().expired
        1
        """
        now_us = to_us(now, field="now")
        self._joined.check_room(len(self._joiner))
        self._pass_time(now_us)

    # -- what became of it ---------------------------------------------------

    @property
    def evaluator(self) -> WindowedEvaluator | Evaluator:
        """Where cases are counted."""
        return self._joined.evaluator

    @property
    def now(self) -> datetime:
        """The latest time that was told; 1970 before any."""
        return to_datetime(self._joiner.now_us)

    @property
    def num_ids(self) -> int:
        """How many ids are kept: they wait for the other half, or can be relabelled."""
        return len(self._joiner)

    @property
    def counts(self) -> JoinCounts:
        """What had no effect on any case, and what went early. O(1)."""
        return replace(self._joiner.counts, beyond_retention=self._joined.beyond_retention)

    def coverage(self, window: Window | None = None) -> Coverage:
        """Return how much of the truth has been seen.

        Parameters
        ----------
        window : Window, optional
            One that the evaluator gave: predictions by their time, orphans by that
            of the label. All time by default.

        Raises
        ------
        InvalidInputError
            When a window is asked for, and cases go into a plain `Evaluator`.

        Notes
        -----
        O(panes).

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.predict_cases(ids=["a", "b"], scores=[0.9, 0.4], at=noon)
        >>> joiner.label("a", True, at=noon)
        >>> joiner.coverage().labelled_share
        0.5
        """
        return self._cell(window).coverage

    def coverage_by_score(self, window: Window | None = None) -> tuple[ScoreBand, ...]:
        """Return the coverage in up to ten bands of score, lowest first.

        Labels are rarely missing at random: a figure of the labelled cases says
        less about bands with a low labelled share. Bands hold about as many
        predictions each, as far as a quarter of a doubling of the score allows.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(Evaluator(), ttl=timedelta(days=7))
        >>> joiner.predict_cases(ids=["a", "b", "c"], scores=[0.2, 0.3, 0.9], at=noon)
        >>> joiner.label("c", True, at=noon)
        >>> [(band.predictions, band.labelled) for band in joiner.coverage_by_score()]
        [(1, 0), (1, 0), (1, 1)]
        """
        return self._cell(window).by_score()

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
        return self._of(self._joiner.copy(), self._joined.copy())

    def to_bytes(self) -> bytes:
        """Return the ids that are kept, the coverage and the evaluator as bytes.

        Versioned, checksummed, the same on every machine; equal joiners have equal
        bytes. O(n log n) for n ids.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.predict("order-17", 0.9, at=noon)
        >>> LabelJoiner.from_bytes(joiner.to_bytes()) == joiner
        True
        """
        joiner = codec.encode_joiner(self._joiner)
        return FRAME.sealed(_SIZE.pack(len(joiner)), joiner, *self._joined.parts())

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Return the joiner that `to_bytes` wrote; `evaluator` has what it counts into.

        Raises
        ------
        CorruptStateError
            When the bytes are truncated, altered, or of an unknown format.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.predict("order-17", 0.9, at=noon)
        >>> LabelJoiner.from_bytes(joiner.to_bytes()).num_ids
        1
        """
        reader = FRAME.reader(data)
        (size,) = reader.fields(_SIZE)
        joiner = codec.decode_joiner(reader.blob(size))
        joined = read_joined(reader)
        reader.end()
        if not _fits(joiner.settings, joined) or not _agree(joiner, joined):
            raise_corrupt("the label joiner's ids, coverage and evaluator contradict one another")
        return cls._of(joiner, joined)

    @classmethod
    def _of(cls, joiner: Joiner, joined: Joined) -> Self:
        self = cls.__new__(cls)
        self._begin(joiner, joined)
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

    # -- the machinery ---------------------------------------------------------

    def _one(self, op: Op, key: bytes, score: float, at_us: int) -> None:
        self._joined.check_room(len(self._joiner) + 1)
        self._pass_time(at_us)
        self._joined.take_rows(self._joiner.one(op, key, score=score, event_us=at_us))
        self._joined.take(self._joiner.settle())

    def _pass_time(self, now_us: int) -> None:
        self._joined.advance(now_us)
        self._joined.take(self._joiner.advance(now_us))

    def _runs(self, times_us: IntArray) -> Iterator[tuple[slice, int]]:
        """Cut rows where time makes a difference to expiry; yield each run with its now."""
        self._joined.check_room(len(self._joiner) + times_us.size)
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
            self._joined.advance(now_us)
            yield slice(start, end), now_us

    def _cell(self, window: Window | None) -> CoverageCell:
        if window is None:
            return self._joined.overall
        return self._joined.between(
            to_us(window.start, field="window"), to_us(window.end, field="window")
        )

    def _check(self) -> None:
        """Assert everything that must hold. O(n)."""
        self._joiner._check()
        self._joined._check()
        assert _fits(self._joiner.settings, self._joined)
        assert _agree(self._joiner, self._joined)


def _fits(settings: JoinSettings, joined: Joined) -> bool:
    """Tell whether no prediction can wait longer than its pane is kept."""
    return joined.retention_us is None or settings.ttl_us <= joined.retention_us


def _agree(joiner: Joiner, joined: Joined) -> bool:
    """Tell whether what waits is what coverage says."""
    return int((joiner.table.state == PENDING).sum()) == joined.overall.coverage.pending
