"""Label coverage: how many predictions the metrics of a joined stream include."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from streameval._common.result import Result

COUNTS = ("predictions", "labelled", "expired", "retracted", "orphans")
"""The fields that are counted; all other values are derived from them."""


@dataclass(frozen=True, slots=True, eq=False)
class Coverage(Result):
    """How many predictions have received their label.

    Attributes
    ----------
    predictions : int
        Predictions by id that arrived.
    labelled : int
        Predictions whose label is counted now.
    expired : int
        Predictions whose label did not arrive in time.
    retracted : int
        Predictions that were retracted.
    orphans : int
        Labels whose prediction never arrived, by the time of the label.

    Examples
    --------
    >>> from streameval import Coverage
    >>> coverage = Coverage(predictions=10, labelled=6, expired=1)
    >>> coverage.pending, coverage.labelled_share
    (3, 0.6)
    >>> print(coverage)
    6 of 10 predictions labelled (60.0%): 3 pending, 1 expired, 0 retracted, 0 orphans
    """

    predictions: int = 0
    labelled: int = 0
    expired: int = 0
    retracted: int = 0
    orphans: int = 0

    @property
    def pending(self) -> int:
        """Predictions without a label that are neither expired nor retracted."""
        return self.predictions - self.labelled - self.expired - self.retracted

    @property
    def labelled_share(self) -> float:
        """Labelled predictions among those not retracted; nan without any."""
        expected = self.predictions - self.retracted
        return self.labelled / expected if expected else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Return all counts and rates as values that JSON can hold.

        Examples
        --------
        >>> from streameval import Coverage
        >>> Coverage(predictions=2, labelled=1).to_dict()["labelled_share"]
        0.5
        """
        share = self.labelled_share
        return {
            **{name: getattr(self, name) for name in COUNTS},
            "pending": self.pending,
            "labelled_share": None if math.isnan(share) else share,
        }

    def __str__(self) -> str:
        share = "" if math.isnan(self.labelled_share) else f" ({self.labelled_share:.1%})"
        return (
            f"{self.labelled:,} of {self.predictions:,} predictions labelled{share}: "
            f"{self.pending:,} pending, {self.expired:,} expired, {self.retracted:,} retracted, "
            f"{self.orphans:,} orphans"
        )

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(*(getattr(self, name) + getattr(other, name) for name in COUNTS))
