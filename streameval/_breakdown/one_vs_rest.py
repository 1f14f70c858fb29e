"""Several classes: one evaluator for each class against the rest, with means over the classes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval._breakdown.factors import factor_of
from streameval._common.errors import InvalidInputError
from streameval._common.result import Shown
from streameval._common.tables import Table
from streameval._common.values import shown
from streameval._counts.columns import check_length, check_scores
from streameval._evaluator import Evaluator
from streameval._metric_registry import HEADLINE, Place, title_of
from streameval._uncertainty.class_means import class_figures, mean_limits
from streameval._uncertainty.interval import Interval
from streameval._uncertainty.intervals import analytic_method, check_level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streameval._common.arrays import FloatArray, IntArray
    from streameval._uncertainty.class_means import ClassFigures
    from streameval._uncertainty.limits import Figure


class OneVsRest(Shown):
    """Each class against the rest: one evaluator a class, and means over the classes.

    It prints as a table. Made by `one_vs_rest`.

    Attributes
    ----------
    classes : tuple
        The classes, in the order of their columns.
    evaluators : mapping of class to Evaluator
        In the evaluator of a class its rows are positives, all others negatives.
    """

    def __init__(self, classes: Sequence[Any], codes: IntArray, scores: FloatArray) -> None:
        self.classes = tuple(classes)
        evaluators = {}
        for column, each in enumerate(self.classes):
            evaluators[each] = Evaluator()
            evaluators[each].add_cases(labels=codes == column, scores=scores[:, column].copy())
        self.evaluators: Mapping[Any, Evaluator] = MappingProxyType(evaluators)
        self._states = [each._view() for each in evaluators.values()]
        self._codes = codes
        self._scores = scores
        self._figures: dict[str, ClassFigures] = {}

    def __getitem__(self, each: Any) -> Evaluator:
        """Return the evaluator of one class."""
        return self.evaluators[each]

    def __len__(self) -> int:
        return len(self.classes)

    def macro(self, metric: str = HEADLINE, *, level: float = 0.95) -> Interval:
        """Return the mean of a metric over the classes, each with the same weight.

        Parameters
        ----------
        metric : {"auc_pr", "average_precision", "auc_roc"}
        level : float
            Nominal coverage of the interval.

        Returns
        -------
        Interval
            nan if the metric of any class is nan; without limits if a class has fewer
            than two positives or negatives.

        Raises
        ------
        InvalidInputError
            For another metric, and a level outside (0, 1).

        Notes
        -----
        O(n K) for n rows and K classes. All figures are of the same rows, so their
        variances do not add up: each row has one influence on the mean. Rows that are
        added to an evaluator later do not count. Measured coverage: docs/groups-and-classes.md.

        Examples
        --------
        >>> labels = ["cat", "dog", "cat", "dog", "fox", "fox"]
        >>> columns = {"cat": [5, 1, 4, 2, 3, 1], "dog": [1, 6, 3, 2, 4, 1],
        ...            "fox": [1, 2, 3, 4, 6, 5]}
        >>> found = one_vs_rest(labels, columns)
        >>> mean = found.macro("auc_roc")
        >>> round(mean.estimate, 4), mean.lower < 0.85 < mean.upper
        (0.9167, True)
        """
        check_level(level)
        return self._interval(self._figures_of(metric).macro(), level)

    def weighted(self, metric: str = HEADLINE, *, level: float = 0.95) -> Interval:
        """Return the mean of a metric over the classes, weighted by their numbers of rows.

        Parameters, results and costs as of `macro`; the weights are estimates from the
        rows, and their uncertainty is included. A class without rows has no weight, and
        there are no limits then.
        """
        check_level(level)
        return self._interval(self._figures_of(metric).weighted(), level)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat row for each class: ``pd.DataFrame`` and ``pl.DataFrame`` take them."""
        rows = []
        for each, evaluator in self.evaluators.items():
            row = {
                "class": each,
                "num_positive_ref": evaluator.num_positive_ref,
                "num_negative_ref": evaluator.num_negative_ref,
            }
            for name in Place.COMPARISON.names():
                interval = evaluator.interval(name)
                row |= {name: interval.estimate}
                row |= {f"{name}_lower": interval.lower, f"{name}_upper": interval.upper}
            rows.append(row)
        return rows

    def __str__(self) -> str:
        return self._as_table().as_text()

    def _as_table(self) -> Table:
        return Table(self._caption(), self._header(), self._cells())

    def _caption(self) -> str:
        return (
            f"{len(self.classes)} classes, each against the rest, {len(self._codes):,} rows "
            "(95 % intervals, if rows are independent)"
        )

    def _header(self) -> list[str]:
        return ["class", "rows", *(title_of(name) for name in Place.COMPARISON.names())]

    def _cells(self) -> list[list[str]]:
        rows = [
            [
                str(each),
                f"{evaluator.num_positive_ref:,}",
                *(evaluator.interval(name).brief() for name in Place.COMPARISON.names()),
            ]
            for each, evaluator in self.evaluators.items()
        ]
        for title, mean in (("macro mean", self.macro), ("weighted mean", self.weighted)):
            means = [mean(name).brief() for name in Place.COMPARISON.names()]
            rows.append([title, f"{len(self._codes):,}", *means])
        return rows

    def _figures_of(self, metric: str) -> ClassFigures:
        if metric not in self._figures:
            if metric not in Place.COMPARISON.names():
                names = ", ".join(Place.COMPARISON.names())
                message = f"no mean over classes of {shown(metric)}; there is one of {names}"
                raise InvalidInputError(message, field="metric")
            groups = [state.groups for state in self._states]
            self._figures[metric] = class_figures(metric, groups, self._codes, self._scores)
        return self._figures[metric]

    @staticmethod
    def _interval(figure: Figure, level: float) -> Interval:
        lower, upper = mean_limits(figure, 1 - level)
        method = analytic_method(HEADLINE)  # whatever the metric of the classes
        return Interval(lower, upper, level=level, method=method, estimate=figure.estimate)


def one_vs_rest(
    labels: Any, probabilities: Any, *, classes: Sequence[Any] | None = None
) -> OneVsRest:
    """Evaluate a scorer of several classes: each class against the rest.

    Parameters
    ----------
    labels : column
        The class of each row.
    probabilities : array_like of shape (n, K), or mapping of class to column
        The score of each row for each class; higher means more of the class. The rows
        need not add up to 1. A DataFrame is a mapping by its columns' names.
    classes : sequence, optional
        The class of each column of an array. By default the distinct labels in ascending
        order, as in scikit-learn.

    Returns
    -------
    OneVsRest

    Raises
    ------
    InvalidInputError
        When a label is missing or is none of the classes, when there are not as many
        columns as classes, and for invalid scores.

    Notes
    -----
    O(K n log n). It keeps a copy of the scores, 8 B each, for the intervals of the means.

    Examples
    --------
    >>> found = one_vs_rest(["a", "b", "c", "a"], [[3, 1, 1], [1, 3, 2], [1, 0, 4], [5, 2, 0]])
    >>> found["a"].auc_roc(), found.macro("auc_roc").estimate
    (1.0, 1.0)
    """
    factor = factor_of(labels, "labels")
    if None in factor.values:
        index = int(np.argmax(factor.codes == factor.values.index(None)))
        message = f"labels must not have missing values, got null at index {index}"
        raise InvalidInputError(message, field="labels", index=index)
    names, columns = _columns(probabilities, classes, factor.values)
    if len(set(names)) != len(names):
        raise InvalidInputError(f"classes must differ, got {shown(names)}", field="classes")
    places = {name: place for place, name in enumerate(names)}
    for value in factor.values:
        if value not in places:
            index = int(np.argmax(factor.codes == factor.values.index(value)))
            message = f"label {shown(value)} at index {index} is none of the classes {shown(names)}"
            raise InvalidInputError(message, field="labels", index=index)
    scores = np.empty((factor.codes.size, len(names)))
    for place, column in enumerate(columns):
        checked = check_scores(column, field="probabilities")
        check_length("probabilities", checked.size, like="labels", length=factor.codes.size)
        scores[:, place] = checked
    of_labels = np.array([places[value] for value in factor.values], dtype=np.int64)
    return OneVsRest(names, of_labels[factor.codes], scores)


def _columns(
    probabilities: Any, classes: Sequence[Any] | None, labels: list[Any]
) -> tuple[list[Any], list[Any]]:
    """Return the class and the scores of each column."""
    # pyarrow's tables have names and columns apart, DataFrames are mappings by their names.
    named = getattr(probabilities, "column_names", getattr(probabilities, "columns", None))
    if isinstance(probabilities, Mapping):
        named = list(probabilities)
    if named is not None:
        if classes is not None:
            raise InvalidInputError("the columns have names: leave classes out", field="classes")
        return list(named), [probabilities[name] for name in named]
    try:
        array = np.asarray(probabilities)
    except ValueError as error:
        message = f"probabilities cannot be read as rows of equal length: {error}"
        raise InvalidInputError(message, field="probabilities") from error
    if array.ndim != 2:
        message = f"probabilities must have one column for each class, got shape {array.shape}"
        raise InvalidInputError(message, field="probabilities")
    names = labels if classes is None else list(classes)
    if array.shape[1] != len(names):
        hint = "; give classes=, the class of each column" if classes is None else ""
        message = f"probabilities has {array.shape[1]} columns, got {len(names)} classes{hint}"
        raise InvalidInputError(message, field="probabilities")
    return list(names), [np.ascontiguousarray(array[:, place]) for place in range(array.shape[1])]
