"""What a server answers of a pair: champion and challenger on the ids that both have scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from streameval._common.result import Result
from streameval._common.tables import Table
from streameval._uncertainty.compare import Comparison, compared_cells

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from streameval._uncertainty.interval import Interval
    from streameval.client._wire.answers import Span

PairVerdict = Literal["a_better", "b_better", "not_decided", "too_early", "no_answer"]


@dataclass(frozen=True, slots=True, eq=False)
class PairSettings(Result):
    """The settings of a pair, which cannot change.

    Attributes
    ----------
    max_cells : int
        Pairs of scores that a pane keeps of each class; above it both scores are cut at
        their quantiles.
    max_pending : int
        The most ids that are kept; above it the oldest expire early.
    prevalence : float or None
        Prevalence that areas in precision-recall space are rescaled to; None for the shared
        ids' own.
    pane, retention : timedelta
        The smallest time slice kept apart, and how long panes are kept.
    label_ttl, relabel_ttl : timedelta
        How long an id waits for the other prediction and its label, and how long a counted
        one can be relabelled or retracted.
    segment_keys : tuple of str
        Those that both streams declared when the pair was made.
    cluster_groups : int
        Groups of clusters, where both streams declared as many; 0 means that ids count as
        independent.
    expired : {"drop", "negative"}
        What becomes of an id without a label: "negative" where both streams have that.
    min_label_probability : float or None
        The lesser of the least label probabilities that the streams declared when the pair was
        made; None unless both did.
    """

    max_cells: int
    max_pending: int
    prevalence: float | None
    pane: timedelta
    retention: timedelta
    label_ttl: timedelta
    relabel_ttl: timedelta
    segment_keys: tuple[str, ...]
    cluster_groups: int
    expired: Literal["drop", "negative"]
    min_label_probability: float | None


@dataclass(frozen=True, slots=True, eq=False)
class PairCounters(Result):
    """What a pair keeps, and what arrived without effect since it was made.

    Attributes
    ----------
    repeated_predictions : int
        Predictions of an id that the stream had predicted already: the first counts.
    repeated_labels, relabelled : int
        Labels that repeated a known one, and that changed one.
    retracted, expired, expired_early : int
        Ids that were retracted, or that expired without the other prediction or a label;
        early because `max_pending` ids were kept.
    weighted_labels : int
        Labels with a weight that do not count: those beyond a sum of weights of 2**45.
    beyond_retention : int
        Rows whose pane was already deleted: they count in all time.
    kept_ids, panes, state_bytes : int
        Present size.
    """

    repeated_predictions: int
    repeated_labels: int
    relabelled: int
    retracted: int
    expired: int
    expired_early: int
    weighted_labels: int
    beyond_retention: int
    kept_ids: int
    panes: int
    state_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class PairInfo(Result):
    """Two streams whose predictions meet by id.

    Attributes
    ----------
    name : str
        The pair's own name.
    a, b : str
        The streams; a is the champion as a rule.
    create_time : datetime
        By the server's clock: what was predicted before is not counted.
    create_revision : int
    settings : PairSettings
    counters : PairCounters or None
        Only of `get_pair`.
    """

    name: str
    a: str
    b: str
    create_time: datetime
    create_revision: int
    settings: PairSettings
    counters: PairCounters | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PairCoverage(Result):
    """How many ids have both predictions, by the time of the first one.

    Attributes
    ----------
    predictions_a, predictions_b : int
        Ids that each stream has scored.
    shared : int
        Ids that both have scored.
    shared_share : float or None
        Share of shared ids in all ids that either has scored; None without any.
    labelled, positives, negatives : int
        Shared ids whose label counts; the figures are computed from them.
    """

    predictions_a: int
    predictions_b: int
    shared: int
    shared_share: float | None
    labelled: int
    positives: int
    negatives: int

    def __str__(self) -> str:
        """Return it in a line."""
        share = "" if self.shared_share is None else f" ({self.shared_share:.1%} of all)"
        return (
            f"{self.shared:,} ids are scored by both{share}, {self.labelled:,} of them labelled: "
            f"{self.positives:,} positive, {self.negatives:,} negative"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Disagreement(Result):
    """Labelled shared ids that one model flags and the other does not.

    Each model flags at the threshold that its stream declares now.

    Attributes
    ----------
    threshold_a, threshold_b : float
    both_flag_positives, both_flag_negatives : int
    only_a_positives, only_a_negatives : int
        Cases that only a flags: a is right on the positives, b on the negatives.
    only_b_positives, only_b_negatives : int
    neither_positives, neither_negatives : int
    share : float or None
        Disagreements, as a share of the labelled shared ids; None without any.
    a_right, b_right : int
        Disagreements in which each was right.
    is_approximate : bool
        Whether a threshold is inside a cell.
    """

    threshold_a: float
    threshold_b: float
    both_flag_positives: int
    both_flag_negatives: int
    only_a_positives: int
    only_a_negatives: int
    only_b_positives: int
    only_b_negatives: int
    neither_positives: int
    neither_negatives: int
    share: float | None
    a_right: int
    b_right: int
    is_approximate: bool

    def sentence(self, names: tuple[str, str]) -> str:
        """Return it in a line, given the names of a and b."""
        if self.share is None:
            return "no shared id has a label yet"
        about = "about " if self.is_approximate else ""
        return (
            f"at their thresholds they disagree on {about}{self.share:.1%} of the labelled ids: "
            f"{names[0]} was right in {self.a_right:,} of them, {names[1]} in {self.b_right:,}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class PairComparison(Comparison):
    """How much two models differ on the ids that both have scored.

    Attributes
    ----------
    metric, difference, lower, upper, level, p_value, prevalence, a, b, e_value, warnings
        As in `Comparison`: the difference is a's figure minus b's, and the limits hold for
        one planned look.
    reason : str or None
        Why there are no limits: "NO_LABELS", "TOO_FEW_LABELS", "GRID_TOO_COARSE",
        "TOO_FEW_CLUSTERS", "TOO_FEW_EFFECTIVE"; `sentence` says what to do.
    names : (str, str)
        The streams: a, then b.
    revision : int
        Log revision that the answer includes.
    verdict : {"a_better", "b_better", "not_decided", "too_early", "no_answer"}
        By the e-value, so it may be looked at every minute; too early below 50 labelled
        shared ids of a class.
    sentence : str
        The verdict in words.
    looks : Interval
        The limits that hold the difference at all looks together.
    decided_since : datetime or None
        Since when the evidence has sufficed at every look, by the server's clock; None where
        it does not, and of windows and segments.
    labels_needed : int or None
        About how many more shared labels decide at this difference.
    coverage : PairCoverage
    disagreement : Disagreement or None
        None unless both streams declare a threshold.
    window : (datetime, datetime) or None
    segment : (str, str) or None
    in_cells : bool
        Whether scores are cut into cells, of which only the variance is computed.
    segments : tuple of PairComparison
        One for each value of the requested segment key, the most shared ids first.
    """

    names: tuple[str, str]
    revision: int
    verdict: PairVerdict
    sentence: str
    looks: Interval
    decided_since: datetime | None
    labels_needed: int | None
    coverage: PairCoverage
    disagreement: Disagreement | None
    window: Span | None
    segment: tuple[str, str] | None
    in_cells: bool
    segments: tuple[PairComparison, ...] = ()

    @property
    def winner(self) -> str | None:
        """The stream that is better, None until the evidence suffices."""
        if self.verdict == "a_better":
            return self.names[0]
        return self.names[1] if self.verdict == "b_better" else None

    def __str__(self) -> str:
        """Return the sentence, the limits of one look, and on which ids it stands."""
        lines = [self.sentence]
        if self.reason is None:
            first, second = self.names
            lines.append(
                f"{first} {self.a.estimate:.4f}, {second} {self.b.estimate:.4f}; {first} minus "
                f"{second} {self.difference:+.4f} ({self.lower:+.4f} to {self.upper:+.4f}, "
                f"p = {self.p_value:.2g})"
            )
        return "\n".join((*lines, *self._notes()))

    def _as_table(self) -> Table:
        first, second = self.names
        header = ["", first, second, f"{first} minus {second}", "p"]
        return Table(self.sentence, header, [compared_cells(self)], self._notes())

    def _notes(self) -> list[str]:
        """Return on which ids it stands, and what else to know."""
        disagreement = self.disagreement
        disagree = [] if disagreement is None else [disagreement.sentence(self.names)]
        return [str(self.coverage), *disagree, *self.warnings]
