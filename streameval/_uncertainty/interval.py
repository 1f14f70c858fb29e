"""A confidence interval: its limits, and how they read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval._common.result import Result
from streameval._common.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SILENT_EFFECT = 1.2
"""With a larger design effect by panes an interval has a warning."""


@dataclass(frozen=True, slots=True, eq=False)
class Interval(Result):
    """A confidence interval of one metric.

    It unpacks as ``lower, upper = interval``. A format of a float applies to its
    three numbers: ``f"{interval:.3f}"``.

    Attributes
    ----------
    lower, upper : float
        The limits, in the metric's range; nan with too few references.
    level : float
        The nominal coverage, for instance 0.95.
    method : str
        How it is made: ``"delong-newcombe"`` (AUC-ROC), ``"influence-logit"``
        (areas in precision-recall space), ``"wilson"`` (prevalence and rates at
        a threshold), ``"square-and-add"`` (expected cost) or ``"bootstrap"``.
    estimate : float
        The metric; nan where it is undefined.
    anytime : bool
        Whether it holds at any number of looks (a confidence sequence).
    design_effect : float
        The factor by which weights or declared clusters make the metric's variance larger
        than with as many independent cases of equal weight: 1 without both; in a decayed
        window the effect of clusters alone. Limits allow for it. nan where scores differ only
        in bits that the groups of clusters do not keep.
    refused : str or None
        Why there are no limits although there are cases enough.
    least_effect : float
        Of a window of panes without clusters: what the design effect is at least, 1 or
        more; nan elsewhere, and where one of the panes has changed since the window was taken:
        take the window again. The limits do not allow for it.
    assumed_weight : float
        Of weighted cases without a declared least label probability: what the limits take an
        unseen case to weigh, twice the largest weight seen; nan elsewhere.

    Examples
    --------
    >>> interval = Interval(0.7, 0.9, level=0.95, method="wilson", estimate=0.82)
    >>> 0.8 in interval
    True
    >>> lower, upper = interval
    >>> lower, upper
    (0.7, 0.9)
    >>> print(interval)
    0.8200 (0.7000 to 0.9000)
    >>> f"{interval:.2f}"
    '0.82 (0.70 to 0.90)'
    """

    lower: float
    upper: float
    level: float
    method: str
    estimate: float = math.nan
    anytime: bool = False
    design_effect: float = 1.0
    refused: str | None = None
    least_effect: float = math.nan
    assumed_weight: float = math.nan

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def __iter__(self) -> Iterator[float]:
        return iter((self.lower, self.upper))

    def __str__(self) -> str:
        return format(self)

    def __format__(self, spec: str) -> str:
        """Format the estimate and the limits, or say why there are none; ".4f" by default."""
        spec = spec or ".4f"
        limits = f"{self.lower:{spec}} to {self.upper:{spec}}"
        if self.reason is not None:
            limits = f"no interval: {self.reason}"
        return limits if math.isnan(self.estimate) else f"{self.estimate:{spec}} ({limits})"

    def brief(self) -> str:
        """Return it with three decimals, as a cell of a table: alone where it has no limits."""
        if math.isnan(self.estimate):
            return "undefined"
        return f"{self.estimate:.3f}" if self.reason else f"{self:.3f}"

    def _as_table(self) -> Table:
        figures = [f"{each:.4f}" for each in (self.estimate, self.lower, self.upper)]
        name = f"{100 * self.level:g} % interval, {self.method}"
        notes = [
            each for each in (self.reason and f"no limits: {self.reason}", self.warning) if each
        ]
        return Table("", ["", "estimate", "from", "to"], [[name, *figures]], notes)

    @property
    def reason(self) -> str | None:
        """Why there are no limits; None where there are.

        ``"TOO_FEW"`` references; ``"TOO_FEW_EFFECTIVE"``: of weights whose bound is not
        declared, one case may have more than a fifth of the sum of their squares;
        ``"TOO_COARSE"``: the groups of clusters do not keep the bits in which scores differ;
        ``"TOO_FEW_CLUSTERS"``: fewer than 20 clusters of equal size would tell as much.
        """
        return (self.refused or "TOO_FEW") if math.isnan(self.lower) else None

    @property
    def warning(self) -> str | None:
        """What the limits do not know, and what to do; None where nothing is known of it."""
        found = (dependence_warning(self.least_effect), self.weight_warning)
        return "; ".join(each for each in found if each) or None

    @property
    def weight_warning(self) -> str | None:
        """The part of `warning` on weights without a declared bound; None where there is none."""
        if math.isnan(self.assumed_weight):
            return None
        return (
            f"no least label probability bounds the weights, so an unseen case is taken to weigh "
            f"{self.assumed_weight:.4g}, twice the largest weight seen: where the weights are of "
            "label probabilities, declare the least that the design gives "
            "(min_label_probability=0.05, or --min-label-probability 0.05)"
        )

    @property
    def width(self) -> float:
        """Upper minus lower limit."""
        return self.upper - self.lower


def dependence_warning(least_effect: float) -> str | None:
    """Return what a design effect of at least this means for intervals; None for a small one."""
    if not least_effect > MAX_SILENT_EFFECT:
        return None
    return (
        f"cases of one pane are dependent: the variance is at least {least_effect:.2g} "
        "times as large as with independent cases, so the interval is too narrow; declare clusters "
        "(cluster_groups=32, then clusters= with the cases; on a stream cluster_key)"
    )
