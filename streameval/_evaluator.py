"""The evaluator: counts that change, and every query of them.

`Evaluator` implements the mutations. Each family of queries is a facet in a module of
its own, which reads one immutable `State`.

The scalar `add_case` only checks its arguments and appends to a list. Sorting and
merging happen at the next query, or when the buffer has grown in proportion to the
state. So the cost stays O(log n) a case, and the buffer takes a fraction of the
state's memory.

Guarantee: a mutation that raises has changed nothing. One thread may write while
others read, and each answer comes from one complete revision.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Never, Self

import numpy as np

from streameval._common.keywords import MISSING, by_keyword, keywords_error, reports_keywords
from streameval._counts.accumulator import MAX_BUFFERED_SCORES, CountsAccumulator
from streameval._counts.cluster_counts import ClusterCounts
from streameval._counts.cluster_keys import check_cluster, check_cluster_groups, check_clusters
from streameval._counts.codec import decode_evaluator, encode_evaluator
from streameval._counts.columns import (
    check_columns,
    check_count,
    check_label,
    check_score,
    column_of_one,
)
from streameval._counts.merge import merge_states
from streameval._counts.missing_cases import missing_case_error
from streameval._counts.state import State
from streameval._counts.unsorted_cases import UnsortedCases
from streameval._counts.weight_columns import (
    check_least_probability,
    check_unit,
    check_units,
    check_weights_allowed,
)
from streameval._evaluator_queries import EvaluatorQueries, RevisionQueries
from streameval._snapshot import HasSnapshot, Snapshot, take_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streameval._counts.resolution import Scale

_LARGEST = float(np.finfo(np.float64).max)


class Evaluator(EvaluatorQueries, HasSnapshot):
    """Exact, live evaluation of a binary scorer from a stream of cases.

    Parameters
    ----------
    resolution : int or None
        How many significant bits of a score to keep, 1 to 53. None keeps all
        and is exact. With fewer, memory is bounded by the number of cells, and
        ``bounds(metric)`` returns hard limits of the exact value.
    scale : {"probability"} or None
        With "probability", scores must be in [0, 1], and bits are counted from both
        ends, where probabilities are dense. Needs `resolution` or `max_cells`.
    max_cells : int or None
        The most distinct scores to keep. Beyond it `resolution` drops for the
        whole evaluator, to the largest that fits; it never rises again.
    cluster_groups : int or None
        Declares that cases come in clusters (a user's, a burst's), so that every case has
        a cluster. Each is hashed into one of this many groups, 8 to 1024: 32 is a good
        choice. Intervals then allow for dependence inside clusters.
    min_label_probability : float or None
        The least probability with which the design of the labels chooses a case, 2**-31 to
        1: no case then weighs more than 1 over it, and intervals allow for unseen cases
        of that weight. Without it they take twice the largest weight seen, and say so.

    Raises
    ------
    InvalidInputError
        When a setting is out of range.

    See Also
    --------
    streameval.functional : the same metrics from columns, in one call.

    Notes
    -----
    One thread may change an evaluator while others query it. Exact state takes
    8 B for each distinct score, 16 B once any repeats, and some 24 B more for each
    score with positives after the first query. Each query is computed once per
    revision.

    Examples
    --------
    >>> ev = Evaluator()
    >>> ev.add_case(True, 0.93)
    >>> ev.add_cases(labels=[1, 0, 0], scores=[0.4, 0.4, 0.1])
    >>> ev.num_cases, ev.num_positive_ref, ev.num_negative_ref
    (4, 2, 2)
    """

    def __init__(
        self,
        *,
        resolution: int | None = None,
        scale: str | None = None,
        max_cells: int | None = None,
        cluster_groups: int | None = None,
        min_label_probability: float | None = None,
    ) -> None:
        self._begin(
            State.empty(
                resolution=resolution,
                scale=scale,
                max_cells=max_cells,
                cluster_groups=check_cluster_groups(cluster_groups) or 0,
                min_label_probability=check_least_probability(min_label_probability),
            )
        )

    def _begin(self, state: State) -> None:
        self._accumulator = CountsAccumulator(state)
        # The accumulator's own lists: `add_case` appends without an attribute lookup on it.
        self._positives = self._accumulator.positives
        self._negatives = self._accumulator.negatives
        self._permits: Iterator[object] = iter(())
        self._set_limits(state.scale)

    def _set_limits(self, scale: Scale) -> None:
        is_probability = scale == "probability"
        self._low = 0.0 if is_probability else -_LARGEST
        self._high = 1.0 if is_probability else _LARGEST

    # -- mutations ---------------------------------------------------------

    def add_case(
        self,
        positive: bool,
        score: float,
        *,
        weight: float | None = None,
        label_probability: float | None = None,
        cluster: str | int | bytes | None = None,
    ) -> None:
        """Add one case.

        Parameters
        ----------
        positive : bool
            Whether the reference is positive; 1 and 0 are accepted too.
        score : float
            A finite number; higher means more positive.
        weight : float, optional
            From 0 to 2**31, kept as the nearest multiple of 2**-16: one that would change by
            more than a thousandth is refused with a factor. Of weight 0 the case changes nothing.
        label_probability : float, optional
            The probability with which this case was chosen to be labelled, above 0 and at
            most 1: it weighs `weight` over this.
        cluster : str, int or bytes
            Where clusters are declared: which one the case is of, as in `add_cases`.

        Raises
        ------
        InvalidInputError
            When an argument is invalid. Nothing has changed then.

        Notes
        -----
        O(1), about 0.1 us, with a weight some 2 us, with a cluster 20 us; O(log n) amortised
        with the merge at the next query. Columns are faster: `add_cases`.

        Examples
        --------
        >>> ev = Evaluator()
        >>> ev.add_case(True, 0.93)
        >>> ev.add_case(False, float("nan"))
        Traceback (most recent call last):
        streameval.InvalidInputError: score must be finite, got nan
        """
        # The range check rejects NaN and the infinities too.
        if weight is not None or label_probability is not None:
            self._add_weighted(positive, score, weight, label_probability, cluster)
            return
        if cluster is None and type(score) is float and self._low <= score <= self._high:
            # Each case takes one permit, which bounds the buffer. Advancing the iterator
            # costs half as much as a check of the list's length.
            for _ in self._permits:
                if positive is False:
                    self._negatives.append(score)
                    return
                if positive is True:
                    self._positives.append(score)
                    return
                break
        self._add_checked(positive, score, cluster)

    def _add_checked(self, positive: Any, score: Any, cluster: Any) -> None:
        """Slow path: check every type of argument, and renew the permits when none is left."""
        label = check_label(positive)
        number = check_score(score, scale=self._accumulator.state.scale)
        hashed = check_cluster(cluster, self.cluster_groups)
        if hashed is not None:
            # No permits are renewed, so that every case with a cluster comes here.
            self._accumulator.add_rows(
                UnsortedCases(np.array([label]), np.array([number]), None, clusters=hashed)
            )
            return
        if next(self._permits, self) is self:
            # This case takes the first of the new permits.
            self._permits = repeat(None, self._accumulator.renew_permits(MAX_BUFFERED_SCORES) - 1)
        (self._positives if label else self._negatives).append(number)

    def _add_weighted(
        self, positive: Any, score: Any, weight: Any, label_probability: Any, cluster: Any
    ) -> None:
        label = check_label(positive)
        number = check_score(score, scale=self._accumulator.state.scale)
        check_weights_allowed(self.cluster_groups, field="weight")
        check_cluster(cluster, None)
        units = check_unit(weight, label_probability)
        self._permits = iter(())  # the remaining total changes: renew
        self._accumulator.add_weighted_case(label, number, units)

    @reports_keywords
    def add_cases(
        self,
        *columns: Never,
        labels: Any,
        scores: Any,
        counts: Any = None,
        weights: Any = None,
        label_probability: Any = None,
        clusters: Any = None,
        positive: Any = None,
        negative: Any = None,
    ) -> None:
        """Add columns of cases, all or none.

        Parameters
        ----------
        labels : column of bool or of 0 and 1
            Whether each reference is positive.
        scores : column of float
            Finite numbers, as many as there are labels.
        counts : column of int, optional
            How many identical cases each row represents; 0 drops the row.
        weights : column of float, optional
            The weight of each case, from 0 to 2**31, kept as the nearest multiple of 2**-16:
            where one would change by more than a thousandth, all are refused with a factor to
            multiply them by. 0 drops the row.
        label_probability : float or column of float, optional
            The probability with which each case was chosen to be labelled, above 0 and at
            most 1: it weighs its weight over this, rounded.
        clusters : column of str, int or bytes
            Where the evaluator declares clusters (`cluster_groups`): which one each row
            is of. Only a hash of it is kept; 17, "17" and b"17" are one cluster.
        positive, negative : object, optional
            The labels of the two classes, where they are others than true, false, 1 and 0:
            ``positive="fraud", negative="ok"``. Without `negative` the one other class of the
            call is the negative one.

        Raises
        ------
        InvalidInputError
            With ``field`` and ``index`` of the first value at fault. Nothing
            has changed then.

        Notes
        -----
        With weights every metric reads their sums (docs/weights.md), and an evaluator keeps
        40 B for each distinct score of a class. Weights that are all 1 are none. Where
        clusters are declared, weights are refused.

        A column is a list, or a column of numpy, pandas, polars, pyarrow or torch.
        Empty columns change nothing. O(n log n), with sorts at about 10 ns a score.

        Data that does not fit memory is added in chunks, each all or none::

            for labels, scores in chunks:
                ev.add_cases(labels=labels, scores=scores)

        Examples
        --------
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 0], scores=[0.9, 0.4, 0.1], counts=[1, 5, 9])
        >>> ev.num_negative_ref
        14
        >>> ev.add_cases(labels=["fraud", "ok"], scores=[0.8, 0.3], positive="fraud")
        >>> users = Evaluator(cluster_groups=32)
        >>> users.add_cases(labels=[1, 0, 0], scores=[0.9, 0.4, 0.1], clusters=["ann", "ann", "bo"])
        """
        if columns or labels is MISSING or scores is MISSING:
            raise keywords_error(Evaluator.add_cases)
        self._add_rows(
            self._checked_rows(
                labels=labels,
                scores=scores,
                counts=counts,
                weights=weights,
                label_probability=label_probability,
                clusters=clusters,
                positive=positive,
                negative=negative,
            )
        )

    def add_misses(self, count: int, *, cluster: str | int | bytes | None = None) -> None:
        """Add positive references that were never scored.

        They rank below every case, as one tied group.

        Parameters
        ----------
        count : int
            0 or more.

        Raises
        ------
        InvalidInputError
            When `count` is not such an integer.

        Notes
        -----
        O(1).

        Examples
        --------
        >>> ev = Evaluator()
        >>> ev.add_misses(3)
        >>> ev.num_misses, ev.num_positive_ref, ev.num_cases, ev.num_scored
        (3, 3, 3, 0)
        """
        self._change_misses(True, check_count(count), cluster)

    def add_negative_misses(self, count: int, *, cluster: str | int | bytes | None = None) -> None:
        """Add negative references that were never scored.

        They rank below every case, as one tied group.

        Parameters
        ----------
        count : int
            0 or more.

        Raises
        ------
        InvalidInputError
            When `count` is not such an integer.

        Notes
        -----
        O(1).

        Examples
        --------
        >>> ev = Evaluator()
        >>> ev.add_negative_misses(2)
        >>> ev.num_negative_ref, ev.num_cases, ev.num_scored
        (2, 2, 0)
        """
        self._change_misses(False, check_count(count), cluster)

    def remove_case(
        self,
        positive: bool,
        score: float,
        *,
        weight: float | None = None,
        label_probability: float | None = None,
        cluster: str | int | bytes | None = None,
    ) -> None:
        """Remove one case.

        Parameters
        ----------
        positive, score, weight, label_probability, cluster
            As they were added. With a resolution, any case of the score's cell, and with
            a cluster any of its group.

        Raises
        ------
        InvalidInputError
            When there is no such case. Nothing has changed then.

        Notes
        -----
        O(log n), amortised with the merge that follows; O(n) if the case was added
        after the last query, and where cases have weights. Removal does not restore bits
        that `max_cells` has dropped. A score's weights are kept as sums: a weight that no
        case has is refused where the sums tell.

        Examples
        --------
        >>> ev = Evaluator()
        >>> ev.add_case(True, 0.93)
        >>> ev.remove_case(True, 0.93)
        >>> ev.num_cases
        0
        """
        if weight is not None or label_probability is not None:
            check_weights_allowed(self.cluster_groups, field="weights")
            check_cluster(cluster, None)
            self.remove_cases(
                labels=[positive],
                scores=[score],
                weights=column_of_one(weight),
                label_probability=column_of_one(label_probability),
            )
            return
        is_positive = check_label(positive)
        number = check_score(score, scale=self._accumulator.state.scale)
        hashed = check_cluster(cluster, self.cluster_groups)
        if hashed is not None:
            rows = np.array([is_positive]), np.array([number]), None
            self._remove_rows(UnsortedCases(*rows, clusters=hashed))
            return
        if not self._accumulator.remove(is_positive, number):
            raise missing_case_error(is_positive, number, field="score")

    @by_keyword
    def remove_cases(
        self,
        *,
        labels: Any,
        scores: Any,
        counts: Any = None,
        weights: Any = None,
        label_probability: Any = None,
        clusters: Any = None,
        positive: Any = None,
        negative: Any = None,
    ) -> None:
        """Remove columns of cases, all or none.

        Parameters
        ----------
        labels, scores, counts, weights, label_probability, clusters, positive, negative
            As in `add_cases`.

        Raises
        ------
        InvalidInputError
            With the first row that removes more cases than there are. Nothing has
            changed then.

        Notes
        -----
        O(n + d log d) for d rows.

        Examples
        --------
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 0], scores=[0.9, 0.4, 0.1])
        >>> ev.remove_cases(labels=[0, 1], scores=[0.4, 0.4])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        streameval.InvalidInputError: there is no positive case of score 0.4 to remove ...
        """
        self._remove_rows(
            self._checked_rows(
                labels=labels,
                scores=scores,
                counts=counts,
                weights=weights,
                label_probability=label_probability,
                clusters=clusters,
                positive=positive,
                negative=negative,
            )
        )

    def remove_misses(self, count: int, *, cluster: str | int | bytes | None = None) -> None:
        """Remove positive references that were never scored.

        Raises
        ------
        InvalidInputError
            When there are fewer than `count`. Nothing has changed then.

        Examples
        --------
        >>> ev = Evaluator()
        >>> ev.add_misses(3)
        >>> ev.remove_misses(1)
        >>> ev.num_positive_ref
        2
        """
        self._change_misses(True, -check_count(count), cluster)

    def remove_negative_misses(
        self, count: int, *, cluster: str | int | bytes | None = None
    ) -> None:
        """Remove negative references that were never scored.

        Raises
        ------
        InvalidInputError
            When there are fewer than `count`. Nothing has changed then.

        Examples
        --------
        >>> ev = Evaluator()
        >>> ev.add_negative_misses(3)
        >>> ev.remove_negative_misses(1)
        >>> ev.num_negative_ref
        2
        """
        self._change_misses(False, -check_count(count), cluster)

    def _change_misses(self, positive: bool, count: int, cluster: Any) -> None:
        """Add misses of one class, or remove them if negative."""
        # Without misses there is no cluster to name.
        hashed = None if not count else check_cluster(cluster, self.cluster_groups)
        self._permits = iter(())  # the remaining total changes: renew
        self._accumulator.add_misses(positive, count, hashed)

    def merge(self, *others: Evaluator) -> None:
        """Add the counts of other evaluators.

        Parameters
        ----------
        *others : Evaluator
            Any number; they are not changed. One call with many is faster than many
            calls.

        Raises
        ------
        InvalidInputError
            When bounded evaluators of different scales meet, or an exact one
            has scores outside [0, 1] and the other is on the probability scale, or
            when their `cluster_groups` differ.
            Nothing has changed then.

        Notes
        -----
        The result has the lowest resolution of all (exact counts as the highest) and
        the smallest `max_cells`. It is the same to the bit in any order of the
        evaluators. O(S log S) for S distinct scores in all.

        Examples
        --------
        >>> total = Evaluator()
        >>> panes = [Evaluator(), Evaluator()]
        >>> panes[0].add_case(True, 0.9)
        >>> panes[1].add_cases(labels=[0, 1], scores=[0.4, 0.9])
        >>> total.merge(*panes)
        >>> total.num_cases
        3
        """
        if not others:
            return
        mine = self._accumulator.view()
        merged = merge_states(
            [mine, *(other._view() for other in others)], revision=mine.revision + 1
        )
        self._permits = iter(())  # the remaining total changes: renew
        self._accumulator.replace(merged)
        self._set_limits(merged.scale)

    def reset(self) -> None:
        """Remove all cases and misses; the settings stay, and the revision rises by one.

        Notes
        -----
        O(1). Bits that `max_cells` has dropped stay dropped: `resolution` says how many
        are kept.

        Examples
        --------
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0], scores=[0.9, 0.4])
        >>> ev.reset()
        >>> ev.num_cases, ev.revision
        (0, 2)
        """
        state = self._accumulator.view()
        empty = State(
            revision=state.revision + 1,
            resolution=state.resolution,
            declared=state.declared,
            clusters=ClusterCounts(state.clusters.num_groups),
        )
        self._permits = iter(())  # the remaining total changes: renew
        self._accumulator.replace(empty)

    def __add__(self, other: Evaluator) -> Self:
        if not isinstance(other, Evaluator):
            return NotImplemented
        both = self.copy()
        both.merge(other)
        return both

    def __iadd__(self, other: Evaluator) -> Self:
        if not isinstance(other, Evaluator):
            return NotImplemented
        self.merge(other)
        return self

    # -- counts and settings -------------------------------------------------

    @property
    def num_cases(self) -> int:
        """P + N: all references, misses included; each counts 1, whatever it weighs. O(1)."""
        return self.num_positive_ref + self.num_negative_ref

    @property
    def num_scored(self) -> int:
        """How many references have a score: all but the misses of both classes. O(1)."""
        _, positives, negatives = self._accumulator.totals()
        return positives + negatives

    @property
    def num_positive_ref(self) -> int:
        """P: all positive references, misses included. O(1)."""
        return self._accumulator.totals()[1] + self.num_misses

    @property
    def num_negative_ref(self) -> int:
        """N: all negative references, misses included. O(1)."""
        return self._accumulator.totals()[2] + self.num_negative_misses

    @property
    def num_misses(self) -> int:
        """How many positive references were never scored."""
        state = self._accumulator.state
        return state.missed_positives // state.unit

    @property
    def num_negative_misses(self) -> int:
        """How many negative references were never scored."""
        state = self._accumulator.state
        return state.missed_negatives // state.unit

    @property
    def num_cells(self) -> int:
        """How many distinct scores are kept, over both classes. O(n log m)."""
        return self._accumulator.view().num_cells

    @property
    def resolution(self) -> int | None:
        """Significant bits of a score that are kept now; None if all are."""
        return self._accumulator.view().resolution

    @property
    def scale(self) -> Scale:
        """The scale of the resolution: "plain" or "probability"."""
        return self._accumulator.state.scale

    @property
    def max_cells(self) -> int | None:
        """The most distinct scores that are kept; None means no limit."""
        return self._accumulator.state.max_cells

    @property
    def cluster_groups(self) -> int | None:
        """How many groups clusters are hashed into; None if none are declared."""
        return self._accumulator.state.clusters.num_groups or None

    @property
    def min_label_probability(self) -> float | None:
        """The least probability with which a case is labelled; None if it is not declared."""
        return self._accumulator.state.min_label_probability

    @property
    def revision(self) -> int:
        """How many mutations have been made; every answer belongs to one."""
        return self._accumulator.totals()[0]

    def snapshot(self) -> Snapshot:
        """Return the metrics of the present revision, immutable.

        Returns
        -------
        Snapshot
            Areas, hull, counts and revision. Intervals and bounds are computed when
            they are read, from the same revision.

        Notes
        -----
        O(G) for G distinct scores of positives, after the merge of new cases.

        Examples
        --------
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
        >>> snapshot = ev.snapshot()
        >>> ev.add_case(False, 0.95)
        >>> snapshot.auc_roc, ev.snapshot().auc_roc
        (0.75, 0.5)
        """
        return take_snapshot(RevisionQueries(self._accumulator.view()))

    # -- copies and bytes ------------------------------------------------------

    def copy(self) -> Self:
        """Return an independent evaluator with the same content and revision.

        O(1): both share one immutable state until either changes.

        Examples
        --------
        >>> ev = Evaluator()
        >>> ev.add_case(True, 0.9)
        >>> other = ev.copy()
        >>> other.add_case(False, 0.1)
        >>> ev.num_cases, other.num_cases
        (1, 2)
        """
        return self._of(self._accumulator.view())

    def to_bytes(self) -> bytes:
        """Return the content as bytes: versioned, checksummed, the same on every machine.

        Equal evaluators have equal bytes, for any order in which cases were added.
        The bytes do not include the revision. O(n).

        Examples
        --------
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 0], scores=[0.9, 0.4])
        >>> Evaluator.from_bytes(ev.to_bytes()) == ev
        True
        """
        return encode_evaluator(self._accumulator.view())

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Return the evaluator that `to_bytes` wrote.

        Raises
        ------
        CorruptStateError
            When the bytes are truncated, altered, or of an unknown format.

        Notes
        -----
        O(n). Untrusted bytes are safe to read: no code is executed, and reading takes
        no more memory than a small multiple of their length.

        Examples
        --------
        >>> ev = Evaluator()
        >>> ev.add_case(True, 0.9)
        >>> Evaluator.from_bytes(ev.to_bytes()) == ev
        True
        """
        return cls._of(decode_evaluator(data))

    @classmethod
    def _of(cls, state: State) -> Self:
        """Return an evaluator with this state."""
        self = cls.__new__(cls)
        self._begin(state)
        return self

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[object, ...]:
        state = self._accumulator.view()
        return _restored, (type(self), encode_evaluator(state), state.revision)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Evaluator):
            return NotImplemented
        return self._accumulator.view().same_content(other._view())

    __hash__ = None  # type: ignore[assignment]  # mutable, so it must not be a key

    def _settings(self) -> str:
        settings = {
            "scale": None if self.scale == "plain" else self.scale,
            "max_cells": self.max_cells,
            "cluster_groups": self.cluster_groups,
            "min_label_probability": self.min_label_probability,
        }
        return ", ".join(f"{name}={each}" for name, each in settings.items() if each is not None)

    # -- internals -------------------------------------------------------------

    def _checked_rows(
        self,
        *,
        labels: Any,
        scores: Any,
        counts: Any,
        weights: Any,
        label_probability: Any,
        clusters: Any,
        positive: Any = None,
        negative: Any = None,
    ) -> UnsortedCases:
        """Return columns of cases, which may be the caller's own memory, or refuse them. O(n)."""
        is_positive, values, repeats = check_columns(
            labels=labels,
            scores=scores,
            counts=counts,
            scale=self._accumulator.state.scale,
            positive=positive,
            negative=negative,
        )
        units = None
        if weights is not None or label_probability is not None:
            check_weights_allowed(self.cluster_groups, field="weights")
            units = check_units(weights, label_probability, size=is_positive.size, counts=repeats)
        groups = check_clusters(clusters, self.cluster_groups, is_positive.size)
        return UnsortedCases(is_positive, values, repeats, units, groups)

    def _add_rows(self, cases: UnsortedCases) -> None:
        """Add checked cases, all or none. O(n)."""
        self._permits = iter(())  # the remaining total changes: renew
        self._accumulator.add_rows(cases)

    def _remove_rows(self, cases: UnsortedCases) -> None:
        """Remove checked cases, all or none. O(n + d log d) for d rows."""
        self._accumulator.remove_rows(cases)

    def _view(self) -> State:
        """Return the state with all mutations merged."""
        return self._accumulator.view()

    def _check(self) -> None:
        """Assert all invariants. O(n log n)."""
        self._accumulator.view()._check()


def _restored(cls: type[Evaluator], data: bytes, revision: int) -> Evaluator:
    """Return the unpickled evaluator."""
    return cls._of(replace(decode_evaluator(data), revision=revision))


def evaluator_of(state: State) -> Evaluator:
    """Return an evaluator with a state. O(1)."""
    return Evaluator._of(state)
