"""The hull against a scan in Python integers, on any chain of points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from streameval._metrics import hull
from streameval._metrics.hull import upper_hull


def scan(points):
    """Andrew's scan over Python integers."""
    stack = []
    for x, y in points:
        while len(stack) > 1:
            (x0, y0), (x1, y1) = stack[-2:]
            if (y1 - y0) * (x - x1) > (y - y1) * (x1 - x0):
                break
            stack.pop()
        stack.append((x, y))
    return stack


def check(points):
    """Assert that the hull of an ascending chain of distinct points is the scan's."""
    x = np.array([p[0] for p in points], dtype=np.int64)
    y = np.array([p[1] for p in points], dtype=np.int64)
    rows = upper_hull(x, y)
    assert list(zip(x[rows].tolist(), y[rows].tolist(), strict=True)) == scan(points)


def chain(steps):
    """Make a chain of distinct points from its steps."""
    x = y = 0
    points = [(0, 0)]
    for dx, dy in steps:
        if dx or dy:
            x, y = x + dx, y + dy
            points.append((x, y))
    return points


SMALL = st.tuples(st.integers(0, 4), st.integers(0, 4))
WIDE = st.tuples(
    *(st.one_of(st.integers(0, 4), st.integers(2**31 - 3, 2**31 + 3), st.integers(0, 2**40)),) * 2
)


@pytest.fixture(
    params=[(96, 32, 1 << 17), (3, 2, 1 << 17), (3, 2, 0)], ids=["shipped", "passes", "blocks"]
)
def small(request, monkeypatch):
    """Run with the default limits, with everything vectorised, and with blocks excluded first."""
    scanned, stride, filtered = request.param
    monkeypatch.setattr(hull, "_MAX_SCAN_POINTS", scanned)
    monkeypatch.setattr(hull, "_SAMPLE_STRIDE", stride)
    monkeypatch.setattr(hull, "_MIN_FILTERED_POINTS", filtered)


@pytest.mark.usefixtures("small")
class TestAgainstScan:
    """Random chains, with short and long ones, inside and beyond int64 products."""

    @given(steps=st.lists(SMALL, max_size=60))
    def test_small_steps(self, steps):
        """Many ties and collinear runs."""
        check(chain(steps))

    @given(steps=st.lists(WIDE, max_size=40))
    def test_wide_steps(self, steps):
        """Products of differences beyond 2^63."""
        check(chain(steps))

    @given(seed=st.integers(0, 10**6), size=st.integers(100, 3000), wide=st.booleans())
    def test_long_chains(self, seed, size, wide):
        """A random walk that bends like a ROC curve."""
        rng = np.random.default_rng(seed)
        bend = np.linspace(0.95, 0.05, size)
        up = rng.random(size) < bend
        steps = np.stack((~up, up)).T.astype(np.int64) * (2**40 if wide else 1)
        check(chain(steps.tolist()))


@pytest.mark.parametrize("total", [2**31 - 1, 2**31, 2**31 + 1, 2**40, 2**61])
def test_nearly_collinear_at_the_limits(total):
    """One unit above or below a chord of full length decides, at every width."""
    half = total // 2
    for lift in (-1, 0, 1):
        points = [(0, 0), (half, total - half + lift), (total, 2 * (total - half))]
        check(points)
        # The same among many points, so that the vectorised passes decide.
        crowd = [(half + i, total - half + lift) for i in range(1, 400)]
        check([*points[:2], *crowd, points[2]])


def coprime_arc(size):
    """Make a chain on which every point is a vertex: distinct directions, falling slopes."""
    side = np.arange(1, int((size / 0.6) ** 0.5) + 3)
    dx, dy = (axis.ravel() for axis in np.meshgrid(side, side))
    proper = np.gcd(dx, dy) == 1
    dx, dy = dx[proper][:size], dy[proper][:size]
    order = np.argsort(-dy / dx, kind="stable")
    return np.append(0, np.cumsum(dx[order])), np.append(0, np.cumsum(dy[order]))


ADVERSARIES = {
    "every point is a vertex": lambda x, y: (x, y),
    "one dent": lambda x, y: (x, np.where(np.arange(x.size) == x.size // 2, y - 1, y)),
    "one spike at the end": lambda x, y: (np.append(x, x[-1] + 1), np.append(y, y[-1] + 10**8)),
    "one spike at the start": lambda x, y: (
        np.append(0, x + 1),
        np.append(0, y + 10**8),
    ),
    "jitter": lambda x, y: (5 * x, 5 * y + np.arange(x.size) * 7919 % 3 % 2 * (x > 0)),
    "everything under one chord": lambda x, y: (y[-1] - y[::-1], x[-1] - x[::-1]),
}


@pytest.mark.parametrize("name", ADVERSARIES)
@pytest.mark.parametrize("factor", [1, 2**20], ids=["int64", "wide"])
@pytest.mark.parametrize("filtered", [0, 1 << 17])
def test_adversarial_chains(name, factor, filtered, monkeypatch):
    """Chains that shrink slowly, or not at all, come out right."""
    monkeypatch.setattr(hull, "_MIN_FILTERED_POINTS", filtered)
    x, y = ADVERSARIES[name](*coprime_arc(20_000))
    check(list(zip((x * factor).tolist(), (y * factor).tolist(), strict=True)))


def test_a_million_corners():
    """The fallback handles 10^6 points that passes over neighbours barely reduce."""
    x, y = coprime_arc(1_000_000)
    x, y = 5 * x, 5 * y
    y[1:-1] += np.random.default_rng(5).integers(0, 2, y.size - 2)
    rows = upper_hull(x, y)
    assert rows.size > 400_000
    # Falling slopes and nothing above: the definition of the hull.
    dx, dy = np.diff(x[rows]).astype(object), np.diff(y[rows]).astype(object)
    assert np.all(dy[:-1] * dx[1:] > dy[1:] * dx[:-1])
    segment = np.searchsorted(rows, np.arange(x.size), side="right") - 1
    segment = np.minimum(segment, rows.size - 2)
    a, b = rows[segment], rows[segment + 1]
    above = (y - y[a]) * (x[b] - x[a]) > (x - x[a]) * (y[b] - y[a])
    assert not above.any()
    assert_array_equal(rows[[0, -1]], [0, x.size - 1])
