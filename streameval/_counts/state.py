"""The immutable counts of one revision, with a cache of the answers computed from them.

An evaluator replaces its state at every change and never alters one, so a reader in
another thread can keep a complete, consistent revision for any time. Answers are lazy
and cached with the state: a second query without a change costs nothing, and only
what a query needs is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar, cast

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import is_number, shown
from streameval._counts.ascending import ascending
from streameval._counts.cluster_counts import NO_CLUSTERS, ClusterCounts, merge_clusters
from streameval._counts.cumulative import CumulativeCounts, cumulative_counts
from streameval._counts.exact import MAX_TOTAL, repeated
from streameval._counts.groups import Groups
from streameval._counts.multiset import ScoreCounts
from streameval._counts.resolution import (
    MAX_BITS,
    Scale,
    are_lower_edges,
    largest_bits,
    quantise,
)
from streameval._counts.run import Run
from streameval._counts.weights import (
    MAX_WEIGHTED_CASES,
    too_many_weighted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence


T = TypeVar("T")

LABELS = (True, False)
"""Both classes, positives first."""


_UNKNOWN = object()
"""Stands for an answer that was not computed."""


_STATE_BYTES = 640
"""Memory of a state besides its columns: its objects, and the heads of its arrays."""

_PACKED_STATE_BYTES = 400
"""Memory of a packed state besides its packed counts; measured."""


class Declared(NamedTuple):
    """What a user declares of scores and weights; all states of an evaluator share one.

    Attributes
    ----------
    scale : {"plain", "probability"}
        Whether bits are counted from 0 only, or from both 0 and 1.
    max_cells : int or None
        The most distinct scores that are kept before bits are dropped.
    min_label_probability : float or None
        The least probability with which a case is labelled, by design; None declares none. It
        bounds the weight of cases that may be missing, and changes nothing that is counted.
    """

    scale: Scale = "plain"
    max_cells: int | None = None
    min_label_probability: float | None = None


shared_declared = lru_cache(maxsize=256)(Declared)
"""Return equal declarations as one object: a server reads many states of one stream."""

NOTHING_DECLARED = shared_declared()


@dataclass(eq=False, slots=True, weakref_slot=True)
class State:
    """The counts at one revision. It implements the `View` that all queries read.

    A server keeps one of each pane, so it has slots, and no dictionary before the first answer.

    Attributes
    ----------
    counts : ScoreCounts
        The scored cases; with a resolution, each at its cell's lower edge. They have sums of
        weights if any case weighs other than 1: then totals and misses are in units of
        2**-16, and a case of weight 1 counts `unit` of them.
    missed_positives, missed_negatives : int
        References that were never scored.
    resolution : int or None
        Significant bits of a score that are kept; None keeps all.
    declared : Declared
        Its three parts are attributes of a state, too.
    revision : int
        How many mutations it includes.
    clusters : ClusterCounts
        The same cases by groups of clusters, of which there are none where no clusters are
        declared. A state with clusters has no weights: its groups keep numbers of cases.
    """

    MAX_TOTAL: ClassVar = MAX_TOTAL
    """All cases and misses together are fewer, or their weights in units."""
    MAX_WEIGHTED_CASES: ClassVar = MAX_WEIGHTED_CASES
    """Where cases have weights, there are fewer cases."""
    MAX_BITS: ClassVar = MAX_BITS
    """The bits of a score."""

    counts: Final[ScoreCounts] = field(default_factory=ScoreCounts)
    missed_positives: Final[int] = 0
    missed_negatives: Final[int] = 0
    resolution: Final[int | None] = None
    declared: Final[Declared] = NOTHING_DECLARED
    revision: Final[int] = 0
    clusters: Final[ClusterCounts] = NO_CLUSTERS
    _answers: dict[Hashable, Any] | None = field(default=None, init=False, repr=False)

    @classmethod
    def empty(
        cls,
        *,
        resolution: object,
        scale: object,
        max_cells: object,
        cluster_groups: int = 0,
        min_label_probability: float | None = None,
    ) -> State:
        """Return a state with these settings and no counts, or refuse the settings.

        Raises
        ------
        InvalidInputError
            When a setting is out of range.
        """
        return cls(
            resolution=_checked_setting("resolution", resolution, MAX_BITS),
            declared=shared_declared(
                _checked_scale(scale, bounded=resolution is not None or max_cells is not None),
                _checked_setting("max_cells", max_cells, MAX_TOTAL - 1),
                min_label_probability,
            ),
            clusters=ClusterCounts(cluster_groups),
        )

    def declaring(self, min_label_probability: float | None) -> State:
        """Return the same counts under another least label probability. O(1), cached."""
        if self.min_label_probability == min_label_probability:
            return self
        return self.cached(
            ("declaring", min_label_probability),
            lambda: self.redeclared(min_label_probability=min_label_probability),
        )

    def redeclared(self, **changes: Any) -> State:
        """Return the same counts with other parts of what is declared. O(1)."""
        return replace(self, declared=self.declared._replace(**changes))

    @property
    def scale(self) -> Scale:
        """Whether bits are counted from 0 only, or from both 0 and 1."""
        return self.declared.scale

    @property
    def max_cells(self) -> int | None:
        """The most distinct scores that are kept before bits are dropped."""
        return self.declared.max_cells

    @property
    def min_label_probability(self) -> float | None:
        """The least probability with which a case is labelled, by design."""
        return self.declared.min_label_probability

    @property
    def memory_bytes(self) -> int:
        """Memory of the counts, an upper bound. O(1)."""
        clusters = self.clusters.memory_bytes
        if self.counts.stored is not None:
            return _PACKED_STATE_BYTES + self.counts.stored.memory_bytes + clusters
        return self.counts.nbytes + (_STATE_BYTES if self.num_scores else 0) + clusters

    @property
    def num_scores(self) -> int:
        """How many distinct scores are kept, counted by class; opens nothing. O(1)."""
        return len(self.counts)

    @property
    def P(self) -> int:
        """All positives, misses included."""
        return self.counts.total_of(True) + self.missed_positives

    @property
    def N(self) -> int:
        """All negatives, misses included."""
        return self.counts.total_of(False) + self.missed_negatives

    @property
    def total(self) -> int:
        """All references, misses included."""
        return self.P + self.N

    @property
    def unit(self) -> int:
        """What one case of weight 1 counts."""
        return self.counts.unit

    @property
    def weighted(self) -> ScoreCounts | None:
        """The counts if they have weights."""
        return self.counts if self.counts.has_weights else None

    @property
    def num_scored(self) -> tuple[int, int]:
        """How many negatives and positives have a score, whatever they weigh. O(n), once."""
        counts = self.counts
        if not counts.has_weights:
            return counts.total_of(False), counts.total_of(True)
        return self.cached("num_scored", lambda: (counts.num_cases(False), counts.num_cases(True)))

    @property
    def num_cases(self) -> int:
        """All references, misses included, whatever they weigh. O(n), once."""
        return sum(self.num_scored) + (self.missed_positives + self.missed_negatives) // self.unit

    @property
    def is_bounded(self) -> bool:
        """Whether scores are reduced to cells, or may be later."""
        return self.resolution is not None or self.max_cells is not None

    @property
    def is_plain(self) -> bool:
        """Whether cases have neither weights nor groups of clusters. O(1)."""
        return not (self.counts.has_weights or self.clusters.num_groups)

    @property
    def num_cells(self) -> int:
        """How many distinct scores are kept, over both classes. O(n log m), once."""
        return self.cached("num_cells", self._num_cells)

    def _num_cells(self) -> int:
        return self.counts.num_distinct()

    @property
    def groups(self) -> Groups:
        """The tied groups that have positives, best first. O(n) in their number, once."""
        return self.cached("groups", self._groups)

    def _groups(self) -> Groups:
        positives = self.counts.positives
        fp, tied = self.counts.ranks()
        size = positives.scores.size
        n = repeated(np.int64(0), size) if tied is None else tied
        if positives.counts is None:
            p = repeated(np.int64(1), size)
            tp = ascending(size)
        else:
            p = positives.counts[::-1]
            tp = np.cumsum(p) - p
        for column in (n, fp, p, tp):
            column.flags.writeable = False
        return Groups(
            scores=positives.scores[::-1],
            p=p,
            n=n,
            tp=tp,
            fp=fp,
            missed_positives=self.missed_positives,
            missed_negatives=self.missed_negatives,
            P=self.P,
            N=self.N,
        )

    @property
    def cumulative(self) -> CumulativeCounts:
        """The counts above each threshold. O(n) in the number of distinct scores, once."""
        return self.cached("cumulative", self._cumulative)

    def _cumulative(self) -> CumulativeCounts:
        positives, negatives = self.counts.runs
        return cumulative_counts(
            positive_scores=positives.scores,
            negative_scores=negatives.scores,
            positive_counts=positives.counts,
            negative_counts=negatives.counts,
            missed_positives=self.missed_positives,
            missed_negatives=self.missed_negatives,
        )

    def above(self, threshold: float) -> tuple[int, int]:
        """Return how many positives and negatives a threshold calls positive.

        Misses are called positive at -inf alone. O(log n) where no two cases of a class tie, else
        O(n), without the memory of `cumulative`.
        """
        if threshold == -np.inf:
            return self.P, self.N
        positives, negatives = (run.above(threshold) for run in self.counts.parts)
        return positives, negatives

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the cached answer for `key`, computing it on the first call.

        If two threads call at once, both may compute equal answers.
        """
        # One look-up: another thread may call `forget` meanwhile.
        answers = self._answers
        found = _UNKNOWN if answers is None else answers.get(key, _UNKNOWN)
        return self.keep(key, compute()) if found is _UNKNOWN else cast("T", found)

    def known(self, key: Hashable) -> Any:
        """Return the cached answer for `key`, None before `cached` has computed it. O(1)."""
        answers = self._answers
        return None if answers is None else answers.get(key)

    def keep(self, key: Hashable, answer: T) -> T:
        """Cache an answer that was computed together with other states' answers. O(1)."""
        answers = self._answers
        if answers is None:
            # Two threads may both make one: an answer in the first is then computed again.
            answers = self._answers = {}
        return cast("T", answers.setdefault(key, answer))

    @property
    def num_derived(self) -> int:
        """How many things were computed from the counts and are cached here. O(1)."""
        return len(self._answers or ()) + (self.counts.known_ranks is not None)

    def derived_bytes(self) -> int:
        """Return the memory of what was computed from the counts and is cached here, about.

        O(cached objects).
        """
        return _bytes_of([self.counts.known_ranks, *list((self._answers or {}).values())])

    def forget(self) -> None:
        """Drop what was computed from the counts; the next query computes it again."""
        self._answers = None
        self.counts.keep_ranks(None)

    def same_content(self, other: State) -> bool:
        """Return whether both have the same counts and settings; revisions may differ. O(n)."""
        return (
            self.missed_positives == other.missed_positives
            and self.missed_negatives == other.missed_negatives
            and self.resolution == other.resolution
            and self.declared == other.declared
            and all(map(_same, self.counts.runs, other.counts.runs))
            and self.clusters.same_content(other.clusters)
        )

    def run(self, label: bool) -> Run:
        """Return the scores of one class."""
        return self.counts.run(label)

    def quantised(self, run: Run) -> Run:
        """Return a run at this state's resolution."""
        return at_resolution(run, self.resolution, self.scale)

    def edge(self, score: float) -> float:
        """Return the lower edge of one score's cell at this state's resolution."""
        if self.resolution is None:
            return score + 0.0
        return float(quantise(np.array([score]), self.resolution, self.scale)[0])

    def changed(
        self,
        change: ScoreCounts,
        *,
        missed_positives: int = 0,
        missed_negatives: int = 0,
        revision: int,
        clusters: Sequence[ClusterCounts] = (),
    ) -> State:
        """Return the state after a signed change of quantised counts. O(n + d).

        Parameters
        ----------
        change : ScoreCounts
        missed_positives, missed_negatives : int
            References that were never scored; they weigh 1.
        revision : int
        clusters : sequence of ClusterCounts
            The same change by groups of clusters, in any number of parts.

        Raises
        ------
        NegativeCountError
            When a score would be left with a negative count, or with sums of weights that
            no cases have.
        """
        after = State(
            missed_positives=self.missed_positives + missed_positives * self.unit,
            missed_negatives=self.missed_negatives + missed_negatives * self.unit,
            resolution=self.resolution,
            declared=self.declared,
            revision=revision,
            clusters=merge_clusters([self.clusters, *clusters]),
        )
        return fit_to_cap(settled(after, self.counts.merged(change), unit=self.unit))

    def check_weights(self) -> None:
        """Refuse more cases with weights, or greater weights, than can be summed exactly. O(n)."""
        if self.counts.has_weights and (
            sum(self.num_scored) >= MAX_WEIGHTED_CASES or self.total >= MAX_TOTAL
        ):
            raise too_many_weighted()

    def is_consistent(self) -> bool:
        """Return whether the totals and the settings agree with the scores. O(n log n)."""
        runs = self.counts.runs
        return (
            min(self.missed_positives, self.missed_negatives) >= 0
            and self.total < MAX_TOTAL
            and (self.scale == "plain" or self.is_bounded)
            and (self.scale == "plain" or all(is_probability(run) for run in runs))
            and all(_same(run, self.quantised(run)) for run in runs)
            and (self.max_cells is None or self.num_cells <= self.max_cells)
            and (not self.counts.has_weights or self._is_weighted())
            and self.clusters.is_table()
            and self._has_totals_of(self.clusters)
        )

    def _is_weighted(self) -> bool:
        """Return whether the sums of weights agree with the counts, and some weight is not 1."""
        return (
            self.clusters.num_groups == 0
            and self.missed_positives % self.unit == 0
            and self.missed_negatives % self.unit == 0
            and sum(self.num_scored) < MAX_WEIGHTED_CASES
            and self.counts.unweighed().has_weights
        )

    def _has_totals_of(self, clusters: ClusterCounts) -> bool:
        """Return whether the groups' cases and misses add up to the whole's. O(n)."""
        wholes = (
            (False, self.counts.total_of(False), self.missed_negatives),
            (True, self.counts.total_of(True), self.missed_positives),
        )
        return clusters.num_groups == 0 or all(
            clusters.total(label, missed=False) == scored
            and clusters.total(label, missed=True) == missed
            for label, scored, missed in wholes
        )

    def _check(self) -> None:
        """Assert all invariants. O(n log n)."""
        self.counts._check()
        self.clusters._check()
        assert self.is_consistent(), (self.resolution, self.scale, self.max_cells, self.num_cells)


_OBJECT_BYTES = 120
"""Memory of a small object, or of the head of an array."""


_ATOMS = frozenset({float, int, bool, str, type(None)})
"""Types of most fields, which refer to nothing."""


def _bytes_of(value: object) -> int:
    """Return the memory of a value with the arrays that it refers to, about. O(objects)."""
    size = 0
    left = [value]
    while left:
        each = left.pop()
        size += _OBJECT_BYTES
        kind: Any = type(each)
        if kind in _ATOMS:
            continue
        names = _field_names(kind)
        if isinstance(each, np.ndarray):
            # A broadcast column has the memory of one element.
            size += each.nbytes if each.strides != (0,) else each.itemsize
        elif isinstance(each, tuple | list):
            left += each
        elif isinstance(each, dict):
            left += list(each.values())
        elif names is not None:
            left += [getattr(each, name) for name in names]
        elif hasattr(each, "__dict__") and not callable(each):
            left.append(vars(each))
    return size


@cache
def _field_names(kind: Any) -> tuple[str, ...] | None:
    """Return the names of a dataclass's fields; None of another class."""
    return tuple(each.name for each in fields(kind)) if is_dataclass(kind) else None


def fit_to_cap(state: State) -> State:
    """Return the state, reduced to the largest resolution at which it fits its cap on cells.

    Cells are nested, so dropping bits early or late gives the same result: it depends
    on the scores alone.
    """
    if state.max_cells is None or state.num_scores <= state.max_cells:
        return state
    if state.num_cells <= state.max_cells:
        return state
    positives, negatives = state.counts.runs
    bits = MAX_BITS if state.resolution is None else state.resolution
    bits = largest_bits(positives.scores, negatives.scores, bits, state.max_cells, state.scale)
    counts = ScoreCounts(
        at_resolution(positives, bits, state.scale), at_resolution(negatives, bits, state.scale)
    )
    return replace(state, counts=counts, resolution=bits)


def settled(state: State, counts: ScoreCounts, *, unit: int) -> State:
    """Return the state with these cases, in its normal form: unweighted if all weigh 1. O(n).

    Parameters
    ----------
    state : State
        Settings, revision and misses; its cases are replaced.
    counts : ScoreCounts
        The cases.
    unit : int
        In what the state's misses are counted.

    Raises
    ------
    InvalidInputError
        When the cases or their weights are too many.
    """
    counts = counts.unweighed()
    after = replace(
        state,
        counts=counts,
        missed_positives=state.missed_positives // unit * counts.unit,
        missed_negatives=state.missed_negatives // unit * counts.unit,
    )
    after.check_weights()
    return after


def at_resolution(run: Run, bits: int | None, scale: Scale) -> Run:
    """Return a run with `bits` significant bits of each score; None keeps all. O(n)."""
    # At its own resolution a run is unchanged.
    if bits is None or not run.scores.size or are_lower_edges(run.scores, bits, scale):
        return run
    edges = quantise(run.scores, bits, scale)
    # Quantising keeps the order, so the run stays sorted.
    if np.array_equal(edges, run.scores):
        return run
    return Run.of_ordered(edges, run.columns)


def is_probability(run: Run) -> bool:
    """Return whether all scores are in [0, 1]. O(1)."""
    return not run.scores.size or bool(run.scores[0] >= 0.0 and run.scores[-1] <= 1.0)


def _same(a: Run, b: Run) -> bool:
    if a is b:
        return True
    if a.total != b.total or (a.columns is None) != (b.columns is None):
        return False
    return np.array_equal(a.scores, b.scores) and (
        a.columns is None or b.columns is None or np.array_equal(a.columns, b.columns)
    )


def _checked_setting(field: str, value: object, largest: int) -> int | None:
    if value is None:
        return None
    if not is_number(value) or not isinstance(value, int | np.integer):
        message = f"{field} must be an integer or None, got {shown(value)}"
        raise InvalidInputError(message, field=field)
    if not 1 <= value <= largest:
        message = f"{field} must be between 1 and {largest}, got {shown(value)}"
        raise InvalidInputError(message, field=field)
    return int(value)


def _checked_scale(scale: object, *, bounded: bool) -> Scale:
    if scale is None or (isinstance(scale, str) and scale == "plain"):
        return "plain"
    if not isinstance(scale, str) or scale != "probability":
        message = f'scale must be "probability", "plain" or None, got {shown(scale)}'
        raise InvalidInputError(message, field="scale")
    if not bounded:
        message = "scale needs a resolution or max_cells: an exact evaluator has no cells"
        raise InvalidInputError(message, field="scale")
    return "probability"
