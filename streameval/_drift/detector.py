"""The public detector: rows in, alarms out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.keywords import by_keyword
from streameval._common.values import shown
from streameval._counts.cluster_keys import check_clusters
from streameval._counts.columns import check_labels, check_length, check_scores, read_column
from streameval._drift.codec import decode_engine, encode_engine
from streameval._drift.engine import DriftEngine
from streameval._drift.frozen import FrozenReference
from streameval._drift.reference import ReferenceCases
from streameval._drift.settings import DriftSettings
from streameval._drift.side_table import CLUSTER_GROUPS, DriftRows, RowKind
from streameval._evaluator import Evaluator
from streameval._time.fall import checked_windows
from streameval._time.times import column_us, to_datetime, to_us
from streameval._time.window import Window, state_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import numpy.typing as npt

    from streameval._common.arrays import BoolArray, IntArray
    from streameval._common.spans import Span
    from streameval._drift.alarm import Alarm

MAX_SEGMENTS = 1_000

_CLUSTERS_PROBLEM = {
    True: "the detector declares clusters, so every row needs one: give clusters=",
    False: "the detector declares no clusters: make it with clusters=True, or leave them out",
}
"""By whether they are declared."""


class DriftDetector:
    """Alarms with a stated rate when a stream becomes worse than a frozen reference.

    While nothing has become worse than the reference by more than the tolerance, the mean
    time to a false alarm of the whole detector is at least `mean_time_to_false_alarm`, at
    any number of looks and of cases. It assumes that the means of panes do not depend on
    the panes before: take panes that are longer than a burst or the retries of an id last;
    `warnings` says where the reference shows that they may not be. Give `clusters` for cases
    of one pane that depend on one another.

    Parameters
    ----------
    reference : Evaluator or Window
        The cases to compare with, for instance the first mature week's; at least 30 of each
        class. Read once and not kept. A window's panes show bursts, so that its means are
        known to be uncertain.
    watch : str or sequence of str
        ``"ranking"``: average precision, as the reference's precision at the scores of
        positives and what negatives cost it; ``"auc_roc"``: AUC-ROC, as the share of the
        reference's other class that a case is ranked better than; ``"precision"``,
        ``"recall"`` and ``"flagged"`` (the share flagged, either way) at the threshold;
        ``"calibration"``: the mean of label minus score, either way.
    tolerance : float or mapping of str to float
        How much worse a mean may become without an alarm, 0 to 1; one for all, or one for
        each watch.
    mean_time_to_false_alarm : timedelta or text
        Of all watches together, in plain time.
    threshold : float, optional
        Cases with this score or a higher one are flagged.
    pane : timedelta or text
        The time of one observation. Short panes find changes sooner; cases that depend on
        one another should be in one.
    maturity : timedelta or text
        How long after its end a pane waits for labels, at most 48 panes. A label that comes
        later counts when it comes, in the oldest pane that still waits.
    clusters : bool
        Whether every row has a cluster, of which the bets then count the number.
    segments : mapping of str to mapping of str to Evaluator or Window, optional
        The reference of each segment to look for causes in: ``{"country": {"DE": ...}}``.

    Raises
    ------
    InvalidInputError
        When a setting is out of range, the reference has fewer than 30 cases of a class or
        has weights, or is a window whose panes have changed or are gone with their evaluator,
        or no change of a watch could be seen beyond its tolerance.

    Notes
    -----
    Deterministic; `now` is the latest time of a row or of `advance`. Each watch bets on
    every pane's mean of each class (e-detectors: Shin, Ramdas and Rinaldo 2024) with four
    bets and with an hourly copy. It raises an alarm when its mean evidence reaches the mean
    time in panes times the number of watches, then restarts without evidence; until its alarm
    is acknowledged it adds to that alarm and raises none. State: `to_bytes`.

    Examples
    --------
    >>> from datetime import datetime, timedelta, timezone
    >>> import numpy as np
    >>> from streameval import DriftDetector, Evaluator
    >>> rng = np.random.default_rng(1)
    >>> start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    >>> def day(number, distance):
    ...     labels = rng.random(1440) < 0.2
    ...     scores = distance * labels + rng.normal(size=1440)
    ...     return labels, scores, [start + timedelta(days=number, minutes=m) for m in range(1440)]
    >>> reference = Evaluator()
    >>> for number in range(7):
    ...     labels, scores, _ = day(number, distance=2)
    ...     reference.add_cases(labels=labels, scores=scores)
    >>> detector = DriftDetector(
    ...     reference,
    ...     watch="auc_roc",
    ...     tolerance=0.01,
    ...     mean_time_to_false_alarm=timedelta(days=365),
    ... )
    >>> for number in range(7, 21):
    ...     labels, scores, at = day(number, distance=2 if number < 14 else 1)
    ...     detector.add_cases(labels=labels, scores=scores, at=at)
    >>> for alarm in detector.alarms[:1]:
    ...     print(alarm.watch, alarm.direction, f"{alarm.raised_at:%d %b %H:%M}")
    auc_roc fell 15 Jan 03:42
    """

    def __init__(
        self,
        reference: Evaluator | Window,
        *,
        watch: Any = ("ranking",),
        tolerance: float | Mapping[str, float],
        mean_time_to_false_alarm: Span,
        threshold: float | None = None,
        pane: Span = timedelta(minutes=1),
        maturity: Span = timedelta(0),
        clusters: bool = False,
        segments: Mapping[str, Mapping[Any, Evaluator | Window]] | None = None,
    ) -> None:
        _check_evaluator(reference, "reference")
        settings = DriftSettings.of(
            watch=watch,
            tolerance=tolerance,
            mean_time_to_false_alarm=mean_time_to_false_alarm,
            threshold=threshold,
            pane=pane,
            maturity=maturity,
            clusters=clusters,
            scale=reference._view().scale,
        )
        parts = {name: _cases(each) for name, each in _segments(segments).items()}
        self._begin(DriftEngine(settings, FrozenReference.of(_cases(reference), parts, settings)))

    def _begin(self, engine: DriftEngine) -> None:
        self._engine = engine
        self._parts: dict[str, dict[str, int]] = {}
        for part, name in enumerate(engine.frozen.segments, 1):
            key, _, value = name.partition("=")
            self._parts.setdefault(key, {})[value] = part

    @property
    def now(self) -> datetime:
        """The latest time of a row or of `advance`; 1970 before any."""
        return to_datetime(self._engine.now_us)

    @property
    def watched(self) -> tuple[str, ...]:
        """What is watched, in the order of their numbers in bytes."""
        return tuple(each.name for each in self._engine.settings.watches)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was seen in the reference's panes: cases that depend on one another over hours."""
        return self._engine.frozen.warnings

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The alarms, oldest first: all open ones, and the newest others, 32 at most."""
        return tuple(self._engine.alarms)

    @property
    def evidence(self) -> dict[str, float]:
        """The evidence of each watch as a share of what raises an alarm, from 0 to 1."""
        return {name: self._engine.evidence(index) for index, name in enumerate(self.watched)}

    @by_keyword
    def add_cases(
        self,
        *,
        labels: Any,
        scores: Any,
        at: Any,
        clusters: Any = None,
        segments: Any = None,
        positive: Any = None,
        negative: Any = None,
    ) -> None:
        """Add columns of predictions with their labels, all or none, then advance to their times.

        Parameters
        ----------
        labels, scores, positive, negative
            As `Evaluator.add_cases` takes them.
        at : datetime, or column of datetime or datetime64
            When each was predicted.
        clusters : column of str, int or bytes
            Where clusters are declared.
        segments : mapping of str to column, optional
            For each key that has segments, the value of each row. A value without a
            reference counts in the whole only.

        Raises
        ------
        InvalidInputError
            With ``field`` and ``index`` of the first value at fault. Nothing has changed then.

        Notes
        -----
        Rows count in the order of their arrival, so batches may be cut anywhere. O(n) for
        each watch, and some 0.1 ms for each pane that is over.
        """
        positives = check_labels(labels, positive=positive, negative=negative)
        self._add(positives, scores, at, clusters=clusters, segments=segments, is_prediction=True)

    @by_keyword
    def add_predictions(
        self, *, scores: Any, at: Any, clusters: Any = None, segments: Any = None
    ) -> None:
        """Add columns of predictions whose labels come later, by `add_labels`; else as `add_cases`.

        They count for the share flagged, and for whether scores changed.
        """
        self._add(None, scores, at, clusters=clusters, segments=segments, is_prediction=True)

    @by_keyword
    def add_labels(
        self,
        *,
        labels: Any,
        scores: Any,
        at: Any,
        clusters: Any = None,
        segments: Any = None,
        positive: Any = None,
        negative: Any = None,
    ) -> None:
        """Add columns of labels with the scores of their predictions; else as `add_cases`.

        They count for all but the share flagged. `at` is when each was predicted; call
        `advance` with the time at which the labels come.
        """
        positives = check_labels(labels, positive=positive, negative=negative)
        self._add(positives, scores, at, clusters=clusters, segments=segments, is_prediction=False)

    def advance(self, now: datetime) -> None:
        """Advance to a time: observe panes that are over, and raise alarms. O(panes that are over).

        A time before `now` changes nothing.
        """
        self._engine.advance(to_us(now, field="now"))

    def replay(self, windows: Iterable[Window]) -> tuple[Alarm, ...]:
        """Observe windows of before, and return when it would have rung.

        Labels are taken to have come in time. A window is one observation, at its end, so wide
        windows find a change later and by more. Alarms are marked with `is_past` and are not
        open: a change that goes on raises another.

        Parameters
        ----------
        windows : iterable of Window
            In order of time, without overlap, such as `WindowedEvaluator.panes` yields, after the
            reference. Cases of a window that is not over, by the end of the last one, wait.

        Raises
        ------
        InvalidInputError
            When windows are not in order of time or have weights, or the detector has observed
            something before.

        Notes
        -----
        O(n log n) for n distinct scores of all windows. Segments are not replayed.
        """
        series = checked_windows(windows)
        engine = self._engine
        if engine.now_us or engine.panes.first is not None:
            message = "replay is for a detector that has observed nothing: make another one"
            raise InvalidInputError(message, field="windows")
        if not series:
            return ()
        panes = [(to_us(each.start), to_us(each.end), state_of(each)) for each in series]
        if any(state.weighted is not None for *_, state in panes):
            message = "windows have weights: alarms count cases; leave the weights out"
            raise InvalidInputError(message, field="windows")
        now_us = panes[-1][1] + engine.settings.maturity_us
        engine.replay([panes], now_us, now_us)
        return self.alarms

    def acknowledge(self, number: int, *, at: datetime) -> Alarm:
        """Acknowledge an open alarm, so that its watch may raise another; return it.

        Raises
        ------
        InvalidInputError
            When there is no such alarm, or it was acknowledged before.
        """
        return self._engine.acknowledge(number, to_us(at))

    def to_bytes(self) -> bytes:
        """Return everything as bytes: settings, reference, evidence, alarms. O(state).

        Equal calls give equal bytes. The reference takes at most 1.5 KB, each
        watch at most 2 KB, a segment 0.1 KB for each mean, an alarm 0.2 KB, and a pane that
        waits for labels 28 B for each mean and segment that it has rows of.
        """
        return encode_engine(self._engine)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Return the detector whose bytes these are.

        Raises
        ------
        CorruptStateError
            When they are not the complete, unaltered bytes of a detector.
        """
        made = cls.__new__(cls)
        made._begin(decode_engine(data))  # noqa: SLF001 - of this class
        return made

    def _add(
        self,
        is_positive: BoolArray | None,
        scores: Any,
        at: Any,
        *,
        clusters: Any,
        segments: Any,
        is_prediction: bool,
    ) -> None:
        settings = self._engine.settings
        values = check_scores(scores, scale="probability" if settings.is_probability else "plain")
        if is_positive is not None:
            check_length("scores", values.size, like="labels", length=is_positive.size)
        times = column_us(at, values.size)
        if settings.has_clusters != (clusters is not None):
            raise InvalidInputError(_CLUSTERS_PROBLEM[settings.has_clusters], field="clusters")
        groups_count = CLUSTER_GROUPS if settings.has_clusters else None
        hashed = check_clusters(clusters, groups_count, values.size, like="scores")
        parts = self._parts_of(segments, values.size)
        if not values.size:
            return
        groups = None if hashed is None else hashed.astype(np.int64)
        # Each row comes at the latest time so far, so batches may be cut anywhere.
        received = np.maximum.accumulate(np.append(self._engine.now_us, times))
        panes = self._engine.panes_of(times, received[:-1])
        self._engine.add(
            DriftRows(
                _kinds(is_positive, values.size, is_prediction=is_prediction), values, None, groups
            ),
            panes,
            parts,
        )
        self._engine.advance(int(received[-1]))

    def _parts_of(self, segments: Any, size: int) -> list[IntArray]:
        """Return the part of each row for each key of segments, or refuse them."""
        if segments is None:
            return []
        if not isinstance(segments, Mapping):
            message = f"segments must map keys to columns, got {shown(segments)}"
            raise InvalidInputError(message, field="segments")
        found = []
        for key, column in segments.items():
            known = self._parts.get(key)
            if known is None:
                message = f"segments has the key {shown(key)}, of which the reference has none"
                raise InvalidInputError(message, field="segments")
            values = read_column(column, "segments")
            check_length("segments", values.size, like="scores", length=size)
            found.append(
                np.fromiter(
                    (known.get(str(value), -1) for value in values.tolist()),
                    dtype=np.int64,
                    count=size,
                )
            )
        return found


def _kinds(labels: BoolArray | None, size: int, *, is_prediction: bool) -> npt.NDArray[np.uint8]:
    """Return the `RowKind` of rows with these labels. O(n)."""
    if labels is None:
        return np.full(size, RowKind.PREDICTION, dtype=np.uint8)
    negative = RowKind.NEGATIVE_CASE if is_prediction else RowKind.NEGATIVE
    # `RowKind` numbers a positive one above the negative.
    return labels.view(np.uint8) + np.uint8(negative)


def _cases(evaluator: Evaluator | Window) -> ReferenceCases:
    if not isinstance(evaluator, Window):
        return ReferenceCases(evaluator._view())
    panes, starts_us = evaluator._panes_as_blocks(), evaluator._pane_starts()
    if starts_us and not panes:
        message = (
            "the reference's panes have changed since the window was taken, or its "
            "WindowedEvaluator is gone: keep the evaluator in a variable, and take the window again"
        )
        raise InvalidInputError(message, field="reference")
    return ReferenceCases(evaluator._view(), panes, starts_us)


def _check_evaluator(value: Any, field: str) -> None:
    if not isinstance(value, Evaluator | Window):
        message = f"{field} must be an Evaluator or a Window, got {shown(value)}"
        raise InvalidInputError(message, field=field)


def _segments(segments: Any) -> dict[str, Evaluator | Window]:
    """Return the references of segments by "key=value", sorted, or refuse them."""
    if segments is None:
        return {}
    if not isinstance(segments, Mapping):
        message = f"segments must map keys to the references of values, got {shown(segments)}"
        raise InvalidInputError(message, field="segments")
    found: dict[str, Evaluator | Window] = {}
    for key, values in segments.items():
        if not isinstance(values, Mapping):
            message = f"segments[{shown(key)}] must map values to references, got {shown(values)}"
            raise InvalidInputError(message, field="segments")
        if not isinstance(key, str) or not key or "=" in key:
            message = f"a key of segments must be text without '=', got {shown(key)}"
            raise InvalidInputError(message, field="segments")
        for value, reference in values.items():
            _check_evaluator(reference, "segments")
            found[f"{key}={value}"] = reference
    if len(found) > MAX_SEGMENTS:
        message = f"segments may be {MAX_SEGMENTS} at most, got {len(found)}"
        raise InvalidInputError(message, field="segments")
    return dict(sorted(found.items()))
