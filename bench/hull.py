"""Time of the exact hull on easy, hard and adversarial chains.

    python bench/hull.py                     # 10^6 corners, a few seconds
    python bench/hull.py --corners 100_000

Each chain is timed three times; the table shows the best. `scan` is Andrew's
algorithm in plain Python on the same chain: the hull must never be much slower than
that, even on adversarial input. If the two return different vertices, the run stops.

The adversarial chains start from an arc on which every point is a vertex. `jitter`
moves half of its points outwards, so that each pass over neighbours drops few points.
`huge counts` is the arc with totals far above 2^31, whose products exceed int64.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

import numpy as np

from streameval._metrics.hull import _scan, upper_hull

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Chain = tuple[np.ndarray, np.ndarray]


def binormal(corners: int, shift: float) -> Chain:
    """Draw a ROC curve with about `corners` corners, half of the cases positive."""
    rng = np.random.default_rng(0)
    positive = rng.random(2 * corners) < 0.5
    ranked = positive[np.argsort(-(rng.normal(size=positive.size) + shift * positive))]
    fp, tp = np.cumsum(~ranked), np.cumsum(ranked)
    return np.append(0, fp[ranked]), np.append(0, tp[ranked])


def arc(corners: int) -> Chain:
    """Return a chain with distinct, falling directions, so that every point is a vertex."""
    side = np.arange(1, int((corners / 0.6) ** 0.5) + 3)
    dx, dy = (axis.ravel() for axis in np.meshgrid(side, side))
    proper = np.gcd(dx, dy) == 1
    dx, dy = dx[proper][:corners], dy[proper][:corners]
    order = np.argsort(-dy / dx, kind="stable")
    return np.append(0, np.cumsum(dx[order])), np.append(0, np.cumsum(dy[order]))


def chains(corners: int) -> Iterator[tuple[str, Chain]]:
    """Yield every chain by name."""
    yield "binormal", binormal(corners, 1.5)
    yield "random ranking", binormal(corners, 0.0)
    x, y = arc(corners)
    yield "every point a vertex", (x, y)
    yield "one spike at the end", (np.append(x, x[-1] + 1), np.append(y, y[-1] + 10**9))
    dents = y.copy()
    dents[50::100] -= 3
    yield "a dent in 100", (x, np.maximum.accumulate(dents))
    jitter = 5 * y
    jitter[1:-1] += np.random.default_rng(5).integers(0, 2, y.size - 2)
    yield "jitter", (5 * x, jitter)
    yield "huge counts", (x << 20, y << 20)


def best_of_three(work: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Return the least seconds, and the result."""
    least = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        answer = work()
        least = min(least, time.perf_counter() - begin)
    return least, answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corners", type=int, default=1_000_000)
    corners = parser.parse_args().corners
    print(f"{'chain':<22}{'points':>10}{'vertices':>10}{'hull ms':>10}{'scan ms':>10}")
    for name, (x, y) in chains(corners):
        hull, vertices = best_of_three(lambda x=x, y=y: upper_hull(x, y))
        scan, expected = best_of_three(lambda x=x, y=y: _scan(x.tolist(), y.tolist()))
        if not np.array_equal(vertices, expected):
            raise SystemExit(f"{name}: hull and scan differ")
        print(f"{name:<22}{x.size:>10,}{vertices.size:>10,}{hull * 1e3:>10.1f}{scan * 1e3:>10.1f}")


if __name__ == "__main__":
    main()
