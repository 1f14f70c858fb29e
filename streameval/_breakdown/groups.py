"""One evaluator for each group of cases, ranked by how much worse it is than the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._breakdown.factors import factor_of, factor_of_columns
from streameval._common.keywords import by_keyword
from streameval._common.result import Result
from streameval._common.tables import Table
from streameval._counts.cluster_keys import check_cluster_groups
from streameval._counts.columns import check_length
from streameval._counts.merge import merge_states, subtract_states
from streameval._evaluator import Evaluator
from streameval._metric_registry import BY_NAME, HEADLINE, title_of
from streameval._uncertainty.compare import common_prevalence, compare, holm, what_it_lacks
from streameval._uncertainty.intervals import check_level, check_prevalence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streameval._uncertainty.compare import CommonPrevalence, Comparison
    from streameval._uncertainty.interval import Interval


@dataclass(frozen=True, slots=True, eq=False)
class RankedGroup(Result):
    """One group against the rest of the cases.

    Attributes
    ----------
    group : object
        The value that its cases share, None where it is missing; with several columns,
        a tuple.
    value : Interval
        The metric, at the ranking's prevalence.
    difference : float
        The metric of the group minus the metric of the rest; nan where undefined.
    lower, upper : float
        Its confidence limits; nan with too few cases.
    p_value : float
        Two-sided, adjusted for the number of groups (Holm 1979); nan where undefined.
    evaluator : Evaluator
        The group's cases, for any other metric.
    reason : str or None
        Why the difference has no limits, as of `Comparison`; None where it has.
    """

    group: Any
    value: Interval
    difference: float
    lower: float
    upper: float
    p_value: float
    evaluator: Evaluator = field(hash=False)
    reason: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GroupRanking(Result):
    """The groups by how much worse each is than the rest; iterating yields them, worst first.

    Attributes
    ----------
    groups : tuple of RankedGroup
    keys : tuple of str
        The names of the columns that were grouped by.
    metric : str
        What was compared.
    level : float
        Nominal coverage of the intervals.
    prevalence : float or None
        To which all values are rescaled: the greatest of the groups that have both classes;
        None if each group has its own.
    """

    groups: tuple[RankedGroup, ...]
    keys: tuple[str, ...]
    metric: str
    level: float
    prevalence: float | None

    def __iter__(self) -> Iterator[RankedGroup]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat row for each group: ``pd.DataFrame`` and ``pl.DataFrame`` take them."""
        return [
            {
                **dict(zip(self.keys, self._values(each), strict=True)),
                "num_cases": each.evaluator.num_cases,
                "num_positive_ref": each.evaluator.num_positive_ref,
                "num_negative_ref": each.evaluator.num_negative_ref,
                self.metric: each.value.estimate,
                f"{self.metric}_lower": each.value.lower,
                f"{self.metric}_upper": each.value.upper,
                "difference": each.difference,
                "difference_lower": each.lower,
                "difference_upper": each.upper,
                "p_value": each.p_value,
                "reason": each.reason,
            }
            for each in self.groups
        ]

    def __str__(self) -> str:
        return self._as_table().as_text()

    def _as_table(self) -> Table:
        return Table(self._caption(), self._header(), self._cells(), names=len(self.keys))

    def _values(self, each: RankedGroup) -> tuple[Any, ...]:
        return each.group if len(self.keys) > 1 else (each.group,)

    def _caption(self) -> str:
        at = "" if self.prevalence is None else f" at prevalence {self.prevalence:.4g}"
        clustered = any(each.evaluator.cluster_groups is not None for each in self.groups)
        return (
            f"{title_of(self.metric)} by {', '.join(self.keys)}{at}, worst first "
            f"({100 * self.level:g} % intervals, "
            f"if {'clusters' if clustered else 'cases'} are independent)"
        )

    def _header(self) -> list[str]:
        shown = [title_of(self.metric), "minus all other groups", "p"]
        return [*self.keys, "cases", "positives", *shown]

    def _cells(self) -> list[list[str]]:
        return [
            [
                *("(missing)" if value is None else str(value) for value in self._values(each)),
                f"{each.evaluator.num_cases:,}",
                f"{each.evaluator.num_positive_ref:,}",
                each.value.brief(),
                _shown_difference(each),
                "" if math.isnan(each.p_value) else f"{each.p_value:.2g}",
            ]
            for each in self.groups
        ]


@by_keyword
def evaluate_by(
    *,
    labels: Any,
    scores: Any,
    by: Any,
    counts: Any = None,
    clusters: Any = None,
    cluster_groups: int = 32,
    positive: Any = None,
    negative: Any = None,
    metric: str = HEADLINE,
    level: float = 0.95,
    prevalence: CommonPrevalence = "common",
) -> GroupRanking:
    """Evaluate each group of cases, and compare each with the rest.

    Parameters
    ----------
    labels, scores, counts, positive, negative
        As of `Evaluator.add_cases`.
    clusters : column of str, int or bytes, optional
        Which cluster (a user, a burst) each case is of, as of `Evaluator.add_cases`:
        intervals and differences allow for it. One cluster may have cases in several groups.
    cluster_groups : int
        Into how many groups clusters are hashed.
    by : column, or mapping of str to column
        The group of each case: any values; missing ones (None, NaN, null) are a group,
        too. With several columns each combination that occurs is a group.
    metric : {"auc_pr", "average_precision", "auc_roc", "prevalence"}
        What is compared. Every other metric is a query of a group's ``evaluator``.
    level : float
        Nominal coverage of the intervals.
    prevalence : float, "common" or "own"
        As for `compare`. AUC-PR depends on the prevalence, so by default all values are
        rescaled to one prevalence, the greatest that a group has.

    Returns
    -------
    GroupRanking
        One row for each group, by the upper limit of its difference from the rest; it
        prints as a table.

    Raises
    ------
    InvalidInputError
        With ``field`` and ``index`` of the first value at fault.

    Notes
    -----
    O(n log n) for n cases, and O(S) for each group and S distinct scores in all. The rest
    is all cases without the group, which share none with it. p-values are adjusted for the
    number of groups (Holm 1979). Intervals assume independent cases, or clusters.

    Examples
    --------
    >>> labels, scores = [1, 0, 1, 0, 1, 0, 1, 0], [0.9, 0.2, 0.8, 0.1, 0.6, 0.7, 0.3, 0.5]
    >>> country = ["US", "US", "US", "US", "DE", "DE", "DE", "DE"]
    >>> ranking = evaluate_by(labels=labels, scores=scores, by=country, metric="auc_roc")
    >>> [(each.group, each.value.estimate, each.difference) for each in ranking]
    [('DE', 0.25, -0.75), ('US', 1.0, 0.75)]
    >>> ranking.groups[0].evaluator.average_precision()
    0.5
    """
    declared = None if clusters is None else check_cluster_groups(cluster_groups)
    empty = Evaluator(cluster_groups=declared)
    cases = empty._checked_rows(
        labels=labels,
        scores=scores,
        counts=counts,
        weights=None,
        label_probability=None,
        clusters=clusters,
        positive=positive,
        negative=negative,
    )
    if isinstance(by, Mapping):
        keys, factor = tuple(map(str, by)), factor_of_columns(by, "by")
        if len(keys) == 1:
            factor = factor._replace(values=[value for (value,) in factor.values])
    else:
        name = getattr(by, "name", None)  # of a Series
        keys, factor = (name if isinstance(name, str) and name else "group",), factor_of(by, "by")
    check_length("by", factor.codes.size, like="labels", length=len(cases))
    order = np.argsort(factor.codes, kind="stable")
    starts = np.searchsorted(factor.codes[order], np.arange(len(factor.values) + 1))
    evaluators = {}
    for group, start, end in zip(factor.values, starts, starts[1:], strict=False):
        evaluators[group] = empty.copy()
        evaluators[group]._add_rows(cases.take(order[start:end]))
    return rank_groups(evaluators, keys=keys, metric=metric, level=level, prevalence=prevalence)


def rank_groups(
    evaluators: Mapping[Any, Evaluator],
    *,
    keys: Sequence[str],
    metric: str,
    level: float,
    prevalence: CommonPrevalence,
) -> GroupRanking:
    """Compare evaluators that share no case, each with the sum of the others. O(groups S)."""
    check_level(level)
    check_prevalence(None if isinstance(prevalence, str) else prevalence, metric)
    states = {group: each._view() for group, each in evaluators.items()}
    total = merge_states(list(states.values()), revision=0) if states else Evaluator()._view()
    if prevalence == "common" and BY_NAME[metric].is_rescaled:
        prevalence = common_prevalence((state.P, state.N) for state in states.values())
    found: dict[Any, Comparison] = {}
    for group, state in states.items():
        rest = Evaluator._of(subtract_states(total, state))
        found[group] = compare(
            evaluators[group], rest, metric=metric, level=level, prevalence=prevalence
        )
    p_values = holm([each.p_value for each in found.values()]).tolist()
    groups = [
        RankedGroup(
            group=group,
            value=each.a,
            difference=each.difference,
            lower=each.lower,
            upper=each.upper,
            p_value=p_value,
            evaluator=evaluators[group],
            reason=each.reason,
        )
        for (group, each), p_value in zip(found.items(), p_values, strict=True)
    ]
    return GroupRanking(
        groups=tuple(sorted(groups, key=_worst_first)),
        keys=tuple(keys),
        metric=metric,
        level=level,
        prevalence=None if isinstance(prevalence, str) else prevalence,
    )


def _worst_first(each: RankedGroup) -> tuple[float, float]:
    """Order by the upper limit of the difference, then by the difference; undefined ones last."""
    return (
        math.inf if math.isnan(each.upper) else each.upper,
        math.inf if math.isnan(each.difference) else each.difference,
    )


def _shown_difference(each: RankedGroup) -> str:
    if math.isnan(each.difference):
        return what_it_lacks(each.value, each.reason)
    if math.isnan(each.lower):
        return f"{each.difference:+.3f}"
    return f"{each.difference:+.3f} ({each.lower:+.3f} to {each.upper:+.3f})"
