"""What became of predictions and labels: the part of a `LabelJoiner` that changes nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from streameval._common.errors import InvalidInputError
from streameval._counts.weight_columns import check_weights_allowed
from streameval._evaluator import Evaluator
from streameval._metric_registry import HEADLINE
from streameval._projection.label_history import LabelHistory
from streameval._projection.label_table import LabelTable
from streameval._projection.projection import Projection
from streameval._sampling.allocation import allocate_labels
from streameval._time.times import to_datetime, to_us
from streameval._time.window import Window

if TYPE_CHECKING:
    from datetime import datetime

    from streameval._common.coverage import Coverage
    from streameval._joining.effect_counter import EffectCounter
    from streameval._joining.joiner import Joiner
    from streameval._joining.rules import JoinCounts
    from streameval._sampling.allocation import LabelSample
    from streameval._time.coverage import CoverageCell, ScoreBand
    from streameval._time.windowed import WindowedEvaluator


class JoinOutcomes:
    """Answers from the ids that are kept and from what was counted."""

    _joiner: Joiner
    _counter: EffectCounter

    @property
    def evaluator(self) -> WindowedEvaluator | Evaluator:
        """The evaluator that counts the cases."""
        return self._counter.evaluator

    @property
    def now(self) -> datetime:
        """The latest time of any call; 1970 before any."""
        return to_datetime(self._joiner.now_us)

    @property
    def num_ids(self) -> int:
        """How many ids are kept: they wait for their other half, or can be relabelled."""
        return len(self._joiner)

    @property
    def counts(self) -> JoinCounts:
        """Operations without an effect on any case, and ids that expired early. O(1)."""
        return replace(self._joiner.counts, beyond_retention=self._counter.beyond_retention)

    def coverage(self, window: Window | None = None) -> Coverage:
        """Return how many predictions have their label, and the outcome of the others.

        Parameters
        ----------
        window : Window, optional
            A window of the evaluator: it selects predictions by their time, orphans by
            the time of the label. All time by default.

        Raises
        ------
        InvalidInputError
            When a window is given, and cases are counted in a plain `Evaluator`.

        Notes
        -----
        O(panes).

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> from streameval import LabelJoiner, WindowedEvaluator
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.log_cases(ids=["a", "b"], scores=[0.9, 0.4], at=noon)
        >>> joiner.label("a", True, at=noon)
        >>> joiner.coverage().labelled_share
        0.5
        """
        return self._coverage_cell(window).coverage

    def coverage_by_score(self, window: Window | None = None) -> tuple[ScoreBand, ...]:
        """Return the coverage in up to ten bands of score, lowest first.

        Labels are rarely missing at random: a figure of the labelled cases represents
        bands with a low labelled share less well. Bands have about equally many
        predictions, as far as edges at quarters of a doubling of the score allow.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> from streameval import Evaluator, LabelJoiner
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(Evaluator(), ttl=timedelta(days=7))
        >>> joiner.log_cases(ids=["a", "b", "c"], scores=[0.2, 0.3, 0.9], at=noon)
        >>> joiner.label("c", True, at=noon)
        >>> [(band.predictions, band.labelled) for band in joiner.coverage_by_score()]
        [(1, 0), (1, 0), (1, 1)]
        """
        return self._coverage_cell(window).by_score()

    def projection(self, window: Window) -> Projection:
        """Return what a window will read once its predictions have their labels.

        Labels that come late or are chosen by score are weighted by how they came to
        earlier panes, by class, band of score and age.

        Parameters
        ----------
        window : Window
            A window of the evaluator, not decayed.

        Raises
        ------
        InvalidInputError
            When the joiner does not keep delays, or the window is decayed.

        Notes
        -----
        O(rows of delays). Panes count as a model once the ttl has passed, so the
        evaluator has to keep them for longer. Only labels of predictions that came
        through this joiner are seen.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> from streameval import LabelJoiner, WindowedEvaluator
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> ev = WindowedEvaluator()
        >>> joiner = LabelJoiner(ev, ttl=timedelta(days=7), keep_delays=True)
        >>> joiner.log("order-17", 0.9, at=noon)
        >>> joiner.projection(ev.last(timedelta(hours=1))).reason.name
        'TOO_FEW_MATURE'
        """
        delays = self._counter.delays
        if delays is None:
            message = "a projection needs the delays of labels: LabelJoiner(..., keep_delays=True)"
            raise InvalidInputError(message, field="keep_delays")
        if type(window) is not Window:
            raise InvalidInputError(
                "a projection is of a window that is not decayed", field="window"
            )
        settings = self._joiner.settings
        self._counter.advance(self._joiner.now_us)
        span = (to_us(window.start, field="window"), to_us(window.end, field="window"))
        settle_us = settings.ttl_us + settings.bucket_us
        history = LabelHistory(LabelTable.of(delays), settle_us, delays.scale)
        return Projection(history, window, span)

    def sample_for_labels(
        self,
        window: Window | None = None,
        *,
        size: int,
        metric: str = HEADLINE,
        seed: int = 0,
        **arguments: Any,
    ) -> LabelSample:
        """Draw ids to label among the predictions that wait, so that a metric is known best.

        Give each label back with its probability, and leave out other labels of predictions
        that waited at the draw: then the labelled cases of the window, with these, estimate
        the window with all its labels.

        Parameters
        ----------
        window : Window, optional
            A window of the evaluator, not decayed: which predictions, by their time. All
            that are kept by default.
        size : int
            How many, from 1 to as many as wait.
        metric, **arguments
            As of `allocate_labels`.
        seed : int
            From 0 to 2^64 - 1: which draw.

        Returns
        -------
        LabelSample
            `allocation.bands` has the counts of each band of score.

        Raises
        ------
        InvalidInputError
            When no prediction waits, fewer than `size` wait, or a value is invalid; where
            the joiner takes no label probabilities; with ``expired="negative"``, where a
            prediction that is not drawn would count twice: itself when it expires, and by the
            weight of the drawn ones, which stand for it.

        Notes
        -----
        O(n log n) for n predictions that wait, some 2 us each. The draw depends on what
        waits and what is labelled, not on the order in which it arrived. Draw once from
        a window: a second sample of it would count the same predictions again.

        Examples
        --------
        >>> from datetime import datetime, timedelta, timezone
        >>> from streameval import LabelJoiner, WindowedEvaluator
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        >>> joiner = LabelJoiner(WindowedEvaluator(), ttl=timedelta(days=7))
        >>> joiner.log_cases(ids=["a", "b", "c"], scores=[0.9, 0.4, 0.2], at=noon)
        >>> joiner.label("a", True, at=noon)
        >>> sample = joiner.sample_for_labels(size=1, seed=7)
        >>> set(sample.ids) < {"b", "c"}, sample.label_probabilities
        (True, array([0.5]))
        """
        evaluator = self._counter.evaluator
        if window is not None and (type(window) is not Window or isinstance(evaluator, Evaluator)):
            message = "labels are drawn for an undecayed window of a WindowedEvaluator, or for all"
            raise InvalidInputError(message, field="window")
        self._check_takes_weights("label_probability")
        if self._joiner.settings.expired == "negative":
            message = (
                "predictions that expire count as negatives, although the drawn ones stand for "
                "them: labels are drawn with expired='drop'"
            )
            raise InvalidInputError(message, field="expired")
        span_us = None
        labelled: Evaluator | Window
        if isinstance(evaluator, Evaluator):
            labelled = evaluator
        elif window is None:
            labelled = evaluator.last(timedelta(microseconds=self._counter.retention_us or 1))
        else:
            labelled = window
            span_us = (to_us(window.start, field="window"), to_us(window.end, field="window"))
        slots = self._joiner.waiting(span_us)
        scores = self._joiner.table.score[slots]
        allocation = allocate_labels(labelled, scores=scores, size=size, metric=metric, **arguments)
        table = self._joiner.table
        return allocation.draw(ids=lambda rows: table.ids(slots[rows]), scores=scores, seed=seed)

    def _coverage_cell(self, window: Window | None) -> CoverageCell:
        if window is None:
            return self._counter.overall
        return self._counter.between(
            to_us(window.start, field="window"), to_us(window.end, field="window")
        )

    def _check_takes_weights(self, field: str) -> None:
        """Refuse weights where clusters are declared, delays kept, or orphans misses."""
        check_weights_allowed(self._counter.evaluator.cluster_groups, field=field)
        if self._counter.delays is not None:
            message = (
                "a joiner that keeps delays takes no weights and no label probabilities: "
                "a projection weighs the labels itself"
            )
            raise InvalidInputError(message, field=field)
        if self._joiner.settings.orphans == "miss":
            message = (
                "with orphans='miss' there are no weights and no label probabilities: "
                "a miss weighs 1"
            )
            raise InvalidInputError(message, field=field)
