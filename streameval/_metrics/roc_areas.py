"""Areas under the ROC curve, whole and partial, as pure functions of tied groups.

The whole area is the Wilcoxon-Mann-Whitney statistic, in which a tie counts half. Its
doubled pair count is an exact integer, which is divided once. Every function is O(G)
for G groups.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from streameval._common.errors import InvalidInputError
from streameval._common.values import optional_real
from streameval._counts.exact import dot, exact_dot

if TYPE_CHECKING:
    from streameval._counts.groups import Groups


def auc_roc_value(groups: Groups) -> float:
    """Return the trapezoid area under the ROC curve; nan without both classes.

    Parameters
    ----------
    groups : Groups
        With misses: ``groups.with_misses()``.
    """
    P, N = groups.P, groups.N
    if P == 0 or N == 0:
        return math.nan
    pairs = 2 * P * N
    # Twice the negatives above each positive, plus its ties. Python divides integers
    # of any size with a single rounding.
    lost = 2 * exact_dot(groups.p, groups.fp, pairs) + exact_dot(groups.p, groups.n, pairs)
    return (pairs - lost) / pairs


def partial_auc_roc_value(
    groups: Groups,
    *,
    max_fpr: float | None = None,
    min_recall: float | None = None,
    standardize: bool = False,
) -> float:
    """Return a part of the area under the ROC curve; nan without both classes.

    Parameters
    ----------
    groups : Groups
        With misses: ``groups.with_misses()``.
    max_fpr : float or None
        In (0, 1]. The area where the false positive rate is at most this.
    min_recall : float or None
        In [0, 1). The area between the curve and FPR = 1 where the recall is at
        least this. Give at most one of the two limits.
    standardize : bool
        Use McClish's (1989) scale, on which the diagonal has 0.5 and a perfect
        curve 1.

    Raises
    ------
    InvalidInputError
        A limit out of its range, or both limits.
    """
    max_fpr, min_recall = _checked_region(max_fpr, min_recall)
    if groups.P == 0 or groups.N == 0:
        return math.nan
    if max_fpr is not None and max_fpr < 1:
        area_of, lost_of, width = _up_to_fpr, _lost_up_to_fpr, max_fpr
    elif min_recall:
        area_of, lost_of, width = _from_recall, _lost_from_recall, 1 - min_recall
    else:
        return auc_roc_value(groups)
    area = area_of(groups, width)
    return _standardized(area, lost_of(groups, width), width) if standardize else area


def _checked_region(
    max_fpr: float | None, min_recall: float | None
) -> tuple[float | None, float | None]:
    """Return the limits as numbers, or refuse them."""
    if max_fpr is not None and min_recall is not None:
        message = "give max_fpr or min_recall, not both: they limit different regions"
        raise InvalidInputError(message, field="min_recall")
    max_fpr = optional_real(max_fpr, "max_fpr")
    min_recall = optional_real(min_recall, "min_recall")
    if max_fpr is not None and not 0 < max_fpr <= 1:
        message = f"max_fpr must be in (0, 1], got {max_fpr}"
        raise InvalidInputError(message, field="max_fpr")
    if min_recall is not None and not 0 <= min_recall < 1:
        message = f"min_recall must be in [0, 1), got {min_recall}"
        raise InvalidInputError(message, field="min_recall")
    return max_fpr, min_recall


def _standardized(area: float, lost: float, width: float) -> float:
    """Return McClish's (1 + (area - chance)/(width - chance))/2 without cancellation.

    The chance is width^2/2, and `lost` is the width minus the area. The value is the sum of
    non-negative terms where it is below 3/4, and 1 minus another above: so it never leaves
    [0, 1].
    """
    scale = width * (2 - width)
    value = (area + width * (1 - width)) / scale
    return value if value < 3 / 4 else 1 - lost / scale


def _up_to_fpr(groups: Groups, width: float) -> float:
    """Integrate TPR over FPR from 0: each group adds p to TP at every higher FP."""
    limit = width * groups.N
    begun = groups.fp < limit
    p, n, fp = groups.p[begun], groups.n[begun], groups.fp[begun]
    inside = np.minimum(limit - fp, n)  # the part of a tie below the limit
    gained = p * np.divide(inside, n, out=np.ones(n.size), where=n > 0)
    area = dot(gained, limit - fp - inside / 2)
    return area / groups.N / groups.P


def _from_recall(groups: Groups, width: float) -> float:
    """Integrate 1 - FPR over the last `width` of TPR up to 1."""
    limit = width * groups.P
    missed = groups.P - groups.tp - groups.p  # not from the other end: it would cancel
    kept = missed < limit
    p, n = groups.p[kept], groups.n[kept]
    inside = np.minimum(limit - missed[kept], p)  # the part of a tie above the limit
    above = groups.N - groups.fp[kept] - n + n * (inside / p) / 2
    return dot(inside, above) / groups.P / groups.N


def _lost_up_to_fpr(groups: Groups, width: float) -> float:
    """Integrate 1 - TPR over FPR from 0: each positive loses the FPR at which it is reached."""
    limit = width * groups.N
    p, n, fp = groups.p, groups.n, np.minimum(groups.fp, limit)
    inside = np.minimum(limit - fp, n)  # the part of a tie below the limit
    reached = np.divide(inside, n, out=np.ones(n.size), where=n > 0)
    # Within the part, on average half of it; beyond it, the whole of it.
    lost = dot(p, fp + inside * (1 - reached / 2))
    return lost / groups.N / groups.P


def _lost_from_recall(groups: Groups, width: float) -> float:
    """Integrate FPR over the last `width` of TPR up to 1."""
    limit = width * groups.P
    missed = groups.P - groups.tp - groups.p
    kept = missed < limit
    p, n, missed = groups.p[kept], groups.n[kept], missed[kept]
    inside = np.minimum(limit - missed, p)  # the part of a tie above the limit
    above = groups.fp[kept] + n * (1 - inside / p / 2)
    return dot(inside, above) / groups.P / groups.N
