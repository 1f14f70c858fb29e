"""Query facet: what the cases weigh; the refusal of metrics that weights give no meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streameval._common.errors import InvalidInputError
from streameval._counts.view import Queries

if TYPE_CHECKING:
    from streameval._counts.run import Run
    from streameval._counts.view import View


class WeightTotals(NamedTuple):
    """What the references of each class weigh, misses included.

    Attributes
    ----------
    positives, negatives : float
        The sum of their weights.
    effective_positives, effective_negatives : float
        Kish's effective number of cases, (sum w)^2 / sum w^2: as many cases of equal weight
        tell as much.
    """

    positives: float
    negatives: float
    effective_positives: float
    effective_negatives: float

    def __str__(self) -> str:
        return (
            f"weights of {self.positives:,.6g} positive and {self.negatives:,.6g} negative; "
            f"as many as {self.effective_positives:,.0f} and {self.effective_negatives:,.0f} "
            "of equal weight"
        )

    def __repr__(self) -> str:
        return str(self)


class WeightQueries(Queries):
    """What the cases weigh."""

    @property
    def weights(self) -> WeightTotals | None:
        """What the references weigh in all; None where every case weighs 1.

        Notes
        -----
        O(n) for n distinct scores; cached per revision. Source: Kish, Survey Sampling
        (1965).

        Examples
        --------
        >>> from streameval import Evaluator
        >>> ev = Evaluator()
        >>> ev.add_cases(labels=[1, 1, 0], scores=[0.9, 0.4, 0.1], weights=[1, 3, 10])
        >>> ev.num_positive_ref, ev.weights.positives, ev.weights.effective_positives
        (2, 4.0, 1.6)
        """
        view = self._view()
        return view.cached("weights", lambda: _weights_of(view))


class ReferenceCounts(NamedTuple):
    """The numbers of references and of misses, each counted once whatever it weighs."""

    positives: int
    negatives: int
    missed_positives: int
    missed_negatives: int

    @classmethod
    def of(cls, view: View) -> ReferenceCounts:
        """Count the references of a view. O(n) where cases have weights."""
        missed = view.missed_positives // view.unit, view.missed_negatives // view.unit
        if view.weighted is None:
            return cls(view.P, view.N, *missed)
        positives, negatives = (view.weighted.num_cases(label) for label in (True, False))
        return cls(positives + missed[0], negatives + missed[1], *missed)


def _weights_of(view: View) -> WeightTotals | None:
    if view.weighted is None:
        return None
    return WeightTotals(
        view.P / view.unit,
        view.N / view.unit,
        _effective(view.P, view.weighted.positives, view.missed_positives * view.unit),
        _effective(view.N, view.weighted.negatives, view.missed_negatives * view.unit),
    )


def _effective(units: int, run: Run, missed_squares: int) -> float:
    """Return Kish's number; misses weigh 1, so their squares are the unit times their units."""
    return effective_cases(units, float(run.squares().sum()) + missed_squares)


def effective_cases(units: float, squares: float) -> float:
    """Return Kish's effective number of cases, (sum w)^2 / sum w^2, 0 of none."""
    return units * (units / squares) if squares else 0.0


def require_unweighted(what: str, *, is_weighted: bool) -> None:
    """Refuse a metric that counts cases one by one where cases have weights."""
    if is_weighted:
        message = f"{what} counts cases one by one, which has no meaning where cases have weights"
        raise InvalidInputError(message, field="weights")
