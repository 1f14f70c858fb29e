"""Conversion between ROC space and PR space, and dominance of curves.

For fixed totals a point of either space is one confusion matrix, except that at
recall 0 every number of false positives has the same recall and precision
(Davis and Goadrich 2006, theorem 3.1). A curve dominates another in one space if and
only if it does in the other (theorem 3.2). `dominates` compares integers, so equal
curves compare as equal at any size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from streameval._common.errors import InvalidInputError
from streameval._metrics.operating_points import precision_of

if TYPE_CHECKING:
    from streameval._common.arrays import FloatArray
    from streameval._metrics.operating_points import Curve

_Integers = npt.NDArray[np.int64] | npt.NDArray[np.object_]
# Rates that were computed from counts may exceed 1 by rounding.
_SLACK = 1e-9


class PrPoints(NamedTuple):
    """Interpolated points: one for each whole number of true positives.

    Attributes
    ----------
    tp : float64[K]
        True positives, one apart.
    fp : float64[K]
        False positives, growing linearly; not always whole numbers.
    recall, precision : float64[K]
        The points in PR space.
    """

    tp: FloatArray
    fp: FloatArray
    recall: FloatArray
    precision: FloatArray


def roc_to_pr(
    fpr: npt.ArrayLike, tpr: npt.ArrayLike, *, positives: int, negatives: int
) -> tuple[FloatArray, FloatArray]:
    """Return the recall and precision of points of ROC space.

    Parameters
    ----------
    fpr, tpr : array_like of float
        In [0, 1], of the same shape.
    positives, negatives : int
        The totals that the rates refer to; each at least 1.

    Returns
    -------
    recall, precision : float64 arrays
        The precision is 1 at (0, 0), where nothing is called positive.

    Raises
    ------
    InvalidInputError
        A rate not in [0, 1], different shapes, or a total below 1.

    Notes
    -----
    O(k). Source: Davis and Goadrich (2006), theorem 3.1.

    Examples
    --------
    >>> recall, precision = roc_to_pr([0.0025, 0.015], [0.25, 0.5], positives=20, negatives=2000)
    >>> recall, precision
    (array([0.25, 0.5 ]), array([0.5 , 0.25]))
    """
    _check_totals(positives, negatives)
    x, y = _rates("fpr", fpr), _rates("tpr", tpr)
    _check_shapes("fpr", x, "tpr", y)
    return y, precision_of(x * negatives, y * positives)


def pr_to_roc(
    recall: npt.ArrayLike, precision: npt.ArrayLike, *, positives: int, negatives: int
) -> tuple[FloatArray, FloatArray]:
    """Return the false and true positive rates of points of PR space.

    Parameters
    ----------
    recall : array_like of float
        In (0, 1]. Recall 0 has no inverse: its false positives are unknown.
    precision : array_like of float
        In (0, 1], and no lower than if every negative were called positive.
    positives, negatives : int
        The totals; each at least 1.

    Returns
    -------
    fpr, tpr : float64 arrays
        The same points in ROC space.

    Raises
    ------
    InvalidInputError
        A recall of 0, a value out of its range, a point without a confusion matrix,
        different shapes, or a total below 1.

    Notes
    -----
    O(k). Source: Davis and Goadrich (2006), theorem 3.1.

    Examples
    --------
    >>> fpr, tpr = pr_to_roc([0.25, 0.5], [0.5, 0.25], positives=20, negatives=2000)
    >>> fpr, tpr
    (array([0.0025, 0.015 ]), array([0.25, 0.5 ]))
    """
    _check_totals(positives, negatives)
    x, y = _rates("recall", recall), _rates("precision", precision)
    _check_shapes("recall", x, "precision", y)
    for name, values, why in (
        ("recall", x, "recall 0 has no inverse, its false positives are unknown"),
        ("precision", y, "precision 0 with a recall above 0 is impossible"),
    ):
        zero = np.flatnonzero(values == 0)
        if zero.size:
            message = f"{name} must be above 0, got 0 at index {int(zero[0])}: {why}"
            raise InvalidInputError(message, field=name, index=int(zero[0]))
    tp = x * positives
    fpr = tp * (1 - y) / y / negatives
    beyond = np.flatnonzero(fpr > 1 + _SLACK)
    if beyond.size:
        index = int(beyond[0])
        message = (
            f"precision {y.flat[index]} at recall {x.flat[index]}, index {index}, "
            f"needs more than all {negatives} negatives"
        )
        raise InvalidInputError(message, field="precision", index=index)
    return np.minimum(fpr, 1.0), x


def pr_between(a: tuple[int, int], b: tuple[int, int], positives: int) -> PrPoints:
    """Return the points between two operating points in PR space.

    Parameters
    ----------
    a, b : (int, int)
        Two operating points as (false positives, true positives); neither count is lower
        at `b` than at `a`.
    positives : int
        All positives.

    Returns
    -------
    PrPoints
        At TP = TP_a, TP_a + 1, ..., TP_b. Each further true positive brings
        (FP_b - FP_a)/(TP_b - TP_a) false positives, the local skew. On a piece from
        (0, 0) the precision is constant, and (0, 0) has the same precision.

    Raises
    ------
    InvalidInputError
        When `b` is below `a`, a count is negative or above `positives`, or both
        points have the same true positives, so that there is nothing between them.

    Notes
    -----
    O(TP_b - TP_a). Source: Davis and Goadrich (2006), section 4 and table 1.

    Examples
    --------
    Table 1 of the paper, 20 positives and 2000 negatives:

    >>> points = pr_between((5, 5), (30, 10), positives=20)
    >>> points.fp
    array([ 5., 10., 15., 20., 25., 30.])
    >>> points.recall, points.precision.round(3)
    (array([0.25, 0.3 , 0.35, 0.4 , 0.45, 0.5 ]), array([0.5  , 0.375, 0.318, 0.286, 0.265, 0.25 ]))
    """
    fp_a, tp_a = a
    fp_b, tp_b = b
    if min(fp_a, tp_a) < 0 or fp_b < fp_a or tp_b <= tp_a:
        message = (
            f"from {a} to {b} must gain true positives and lose nothing; "
            "points are (false positives, true positives)"
        )
        raise InvalidInputError(message, field="b")
    if tp_b > positives:
        message = f"b has {tp_b} true positives, more than all {positives}"
        raise InvalidInputError(message, field="positives")
    gained = np.arange(tp_b - tp_a + 1, dtype=np.float64)
    tp = tp_a + gained
    fp = fp_a + gained * (fp_b - fp_a) / (tp_b - tp_a)
    precision = precision_of(fp, tp)
    if fp_a == 0 and tp_a == 0:
        precision[0] = precision[1]
    return PrPoints(tp=tp, fp=fp, recall=tp / positives, precision=precision)


def dominates(a: Curve, b: Curve, *, space: Literal["roc", "pr"] = "roc") -> bool:
    """Return whether curve `a` is nowhere below curve `b`.

    Parameters
    ----------
    a, b : curve objects
        Operating points or hulls, from (0, 0) to (N, P), of the same totals.
    space : {"roc", "pr"}
        Compare true positives at equal false positives, or precision at equal
        recall. The answer is the same (theorem 3.2).

    Returns
    -------
    bool
        True also when the curves are equal.

    Raises
    ------
    InvalidInputError
        Different totals, a curve that does not end in (N, P), or another space.

    Notes
    -----
    O(K log K), in integers. Source: Davis and Goadrich (2006), theorem 3.2.

    Examples
    --------
    >>> from streameval import Evaluator
    >>> ev = Evaluator()
    >>> ev.add_cases(labels=[1, 0, 1, 0], scores=[0.9, 0.7, 0.4, 0.1])
    >>> dominates(ev.roc_hull(), ev.operating_points())
    True
    >>> dominates(ev.operating_points(), ev.roc_hull(), space="pr")
    False
    """
    if (a.P, a.N) != (b.P, b.N):
        message = (
            "curves of different totals cannot dominate each other: "
            f"P={a.P}, N={a.N} and P={b.P}, N={b.N}"
        )
        raise InvalidInputError(message, field="b")
    for name, curve in (("a", a), ("b", b)):
        if (curve.fp[-1], curve.tp[-1]) != (curve.N, curve.P):
            message = f"curve {name} must end in (N, P) = ({curve.N}, {curve.P})"
            raise InvalidInputError(message, field=name)
    if space not in {"roc", "pr"}:
        message = f"space must be 'roc' or 'pr', got {space!r}"
        raise InvalidInputError(message, field="space")
    a, b = a.in_units(), b.in_units()
    # Interpolated counts are fractions; comparing two of them multiplies three totals.
    widest = max(a.P, a.N, 1)
    exact = np.int64 if 4 * widest**3 < 1 << 63 else object
    ours = a.fp.astype(exact), a.tp.astype(exact)
    theirs = b.fp.astype(exact), b.tp.astype(exact)
    if space == "roc":
        return _above_in_roc(ours, theirs)
    return _above_in_pr(ours, theirs)


_Chain = tuple[_Integers, _Integers]


def _above_in_roc(a: _Chain, b: _Chain) -> bool:
    """Compare the true positives at, and just before, each FP of either curve."""
    at = np.union1d(a[0], b[0])
    (n0, d0), (n1, d1) = _read(a[0], a[1], at, after=True), _read(b[0], b[1], at, after=True)
    if not np.all(n0 * d1 >= n1 * d0):
        return False
    at = at[1:]  # there is nothing before FP = 0
    (n0, d0), (n1, d1) = _read(a[0], a[1], at, after=False), _read(b[0], b[1], at, after=False)
    return bool(np.all(n0 * d1 >= n1 * d0))


def _above_in_pr(a: _Chain, b: _Chain) -> bool:
    """Compare precision at, and just after, each recall above 0 of either curve.

    At recall t/P with f false positives the precision is t/(t + f). Just after recall
    0 it is compared in the limit, in which it depends on f alone.
    """
    at = np.union1d(a[1], b[1])
    for after, recalls in ((False, at[1:]), (True, at[:-1])):
        (f0, d0), (f1, d1) = (_read(curve[1], curve[0], recalls, after=after) for curve in (a, b))
        t = np.maximum(recalls, 1)
        ours, theirs = t * d0 + f0, t * d1 + f1
        # t d0/ours >= t d1/theirs, with the common t divided out.
        if not np.all(d0 * theirs >= d1 * ours):
            return False
    return True


def _read(x: _Integers, y: _Integers, at: _Integers, *, after: bool) -> tuple[_Integers, _Integers]:
    """Return y of the chain at x = `at`, as numerator and denominator.

    On a vertical step of the chain, y is the end's if `after`, else the start's.
    """
    if after:
        left = np.searchsorted(x, at, side="right") - 1
        right = np.minimum(left + 1, x.size - 1)
    else:
        right = np.searchsorted(x, at, side="left")
        left = np.maximum(right - 1, 0)
    run = x[right] - x[left]
    level = run == 0
    numerator = np.where(level, y[left], y[left] * run + (y[right] - y[left]) * (at - x[left]))
    return numerator, np.where(level, 1, run)


def _rates(name: str, values: npt.ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    bad = np.flatnonzero(~((array >= 0) & (array <= 1)))
    if bad.size:
        index = int(bad[0])
        message = f"{name} must be in [0, 1], got {array.flat[index]} at index {index}"
        raise InvalidInputError(message, field=name, index=index)
    return array


def _check_shapes(name_a: str, a: FloatArray, name_b: str, b: FloatArray) -> None:
    if a.shape != b.shape:
        message = f"{name_a} and {name_b} must have the same shape, got {a.shape} and {b.shape}"
        raise InvalidInputError(message, field=name_b)


def _check_totals(positives: int, negatives: int) -> None:
    for name, total in (("positives", positives), ("negatives", negatives)):
        if total < 1:
            message = f"{name} must be at least 1, got {total}"
            raise InvalidInputError(message, field=name)
