"""Every ranking, with ties, of the cases inside cells, and its metrics in rational arithmetic."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache


@cache
def orders(p, n):
    """All rankings, with ties, of p positives and n negatives: lists of (p, n) groups."""
    if p == n == 0:
        return [()]
    return [
        ((a, b), *rest)
        for a in range(p + 1)
        for b in range(n + 1)
        if a + b > 0
        for rest in orders(p - a, n - b)
    ]


def every_order(cells, missed):
    """Yield the ranking for each order inside each cell."""
    for choice in itertools.product(*(orders(p, n) for p, n in cells)):
        yield Ranking([group for cell in choice for group in cell], missed)


class Ranking:
    """A ranking by its tied groups, with the metrics computed from their definitions."""

    def __init__(self, groups, missed):
        self.finite = [g for g in groups if sum(g)]
        self.whole = self.finite + ([missed] if sum(missed) else [])
        self.P = sum(p for p, _ in self.whole)
        self.N = sum(n for _, n in self.whole)

    def points(self, groups):
        """Return counts (FP, TP) from (0, 0) on."""
        found = [(0, 0)]
        for p, n in groups:
            found.append((found[-1][0] + n, found[-1][1] + p))
        return found

    def hull(self):
        """Upper hull of the operating points by testing each against all chords."""
        points = sorted(set(self.points(self.whole)))
        vertices = []
        for point in points:
            while len(vertices) > 1 and cross(vertices[-2], vertices[-1], point) >= 0:
                vertices.pop()
            vertices.append(point)
        return vertices

    def auc_roc(self, points=None):
        """Trapezoids over the points."""
        points = points or self.points(self.whole)
        area = sum(
            Fraction((x1 - x0) * (y0 + y1), 2) for (x0, y0), (x1, y1) in itertools.pairwise(points)
        )
        return area / (self.P * self.N)

    def auc_roc_hull(self):
        """Trapezoids over the hull."""
        return self.auc_roc(self.hull())

    def auc_pr(self, points=None):
        """Integrate t/(t + FP(t)) along straight ROC pieces, in 40 digits."""
        points = points or self.points(self.whole)
        with localcontext() as context:
            context.prec = 40
            area = Decimal(0)
            for (x0, y0), (x1, y1) in itertools.pairwise(points):
                dx, dy = x1 - x0, y1 - y0
                if dy == 0:
                    continue
                s = Decimal(dx) / dy
                start = x0 - s * y0
                if start == 0:
                    area += dy / (1 + s)
                else:
                    log = ((y1 * (1 + s) + start) / (y0 * (1 + s) + start)).ln()
                    area += (dy - start / (1 + s) * log) / (1 + s)
            return area / self.P

    def auc_pr_hull(self):
        """Integrate t/(t + FP(t)) along the hull."""
        return self.auc_pr(self.hull())

    def auc_pr_normalized(self):
        """Rescaled so that the least possible area is 0 (Boyd 2012)."""
        with localcontext() as context:
            context.prec = 40
            x = Decimal(self.P) / self.N
            least = 1 - (1 + x).ln() / x
            return (self.auc_pr() - least) / (1 - least)

    def unit(self):
        """Trapezoids at every integer TP within each piece."""
        area = Fraction(0)
        for (x0, y0), (x1, y1) in itertools.pairwise(self.points(self.whole)):
            for i in range(y1 - y0):
                ends = [Fraction(x1 - x0) * (i + j) / (y1 - y0) + x0 for j in (0, 1)]
                heights = []
                for fp, tp in zip(ends, (y0 + i, y0 + i + 1)):
                    if fp + tp:
                        heights.append(Fraction(tp) / (tp + fp))
                    else:
                        heights.append(Fraction(y1, x1 + y1))
                area += sum(heights) / 2
        return area / self.P

    def gain(self):
        """Area under precision gain against recall gain, from recall gain 0."""
        odds = Fraction(self.P, self.N)
        start = Fraction(self.P * self.P, self.P + self.N)
        area = Fraction(0)
        for (x0, y0), (x1, y1) in itertools.pairwise(self.points(self.whole)):
            low = max(Fraction(y0), start)
            if y1 <= low:
                continue
            ends = []
            for t in (low, Fraction(y1)):
                fp = x0 + Fraction(x1 - x0) * (t - y0) / (y1 - y0)
                ends.append((1 - odds * (self.P - t) / t, 1 - odds * fp / t))
            (r0, p0), (r1, p1) = ends
            area += (r1 - r0) * (p0 + p1) / 2
        return area

    def average_precision(self, weight=1):
        """Sum of p/P x TP/m over finite groups."""
        total = Fraction(0)
        tp = fp = 0
        for p, n in self.finite:
            tp, fp = tp + p, fp + n
            if tp:
                total += p * tp / (tp + weight * Fraction(fp))
        return total / self.P

    def maximum_f_measure(self, beta=1):
        """Return the best F over finite operating points."""
        square = Fraction(beta) ** 2
        return max(
            (1 + square) * tp / (tp + fp + square * self.P) for fp, tp in self.points(self.finite)
        )

    def maximum_mcc(self):
        """Return the best Matthews correlation over all operating points, 0 at both ends."""
        total = self.P + self.N
        squares = [
            Fraction((tp * self.N - fp * self.P) ** 2, m * (total - m) * self.P * self.N)
            for fp, tp in self.points(self.whole)
            if 0 < (m := fp + tp) < total and tp * self.N > fp * self.P
        ]
        with localcontext() as context:
            context.prec = 40
            best = max(squares, default=Fraction(0))
            return (Decimal(best.numerator) / best.denominator).sqrt()

    def eleven_pt(self):
        """Best precision at recall >= i/10."""
        points = [(fp, tp) for fp, tp in self.points(self.finite) if tp]
        return [1.0] + [
            max((Fraction(tp, tp + fp) for fp, tp in points if 10 * tp >= i * self.P), default=0)
            for i in range(1, 11)
        ]

    def precision_at(self, rank):
        """Return the expected share of positives among the first ranks."""
        if rank == 0:
            return 1
        found, left = Fraction(0), rank
        for p, n in self.finite:
            taken = min(left, p + n)
            found += Fraction(taken * p, p + n)
            left -= taken
        return found / rank

    def reciprocal_rank(self):
        """Average over the order of the first tie that has positives."""
        ahead = 0
        for p, n in self.finite:
            if p:
                return sum(
                    Fraction(math.comb(p + n - k, p - 1), math.comb(p + n, p)) / (ahead + k)
                    for k in range(1, n + 2)
                )
            ahead += n
        return 0


def cross(a, b, c):
    """Positive where c lies to the left of the ray from a through b."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
