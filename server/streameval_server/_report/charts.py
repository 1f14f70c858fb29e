"""Charts as inline SVG: axes, lines, bands. Every chart has a title that says what it shows.

Coordinates are rounded to a tenth of a pixel: that is what a reader sees, and it halves the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval_server._report.markup import Markup, joined, tag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Point = tuple[float, float]

LEFT, RIGHT, TOP, BOTTOM = 56, 26, 10, 42
_STEPS_OF_CURVE = 120
"""Line segments of a PR curve from recall 0 to 1."""


@dataclass(frozen=True, slots=True)
class Plot:
    """An area with axes.

    Attributes
    ----------
    width, height : int
        The size of the whole drawing, in pixels.
    x, y : (float, float)
        The ends of the axes.
    """

    width: int
    height: int
    x: tuple[float, float] = (0.0, 1.0)
    y: tuple[float, float] = (0.0, 1.0)

    def at(self, point: Point) -> Point:
        """Return where a point of the data is drawn."""
        (x0, x1), (y0, y1) = self.x, self.y
        across = LEFT + (self.width - LEFT - RIGHT) * (point[0] - x0) / ((x1 - x0) or 1.0)
        down = (
            self.height
            - BOTTOM
            - (self.height - TOP - BOTTOM) * (point[1] - y0) / ((y1 - y0) or 1.0)
        )
        return across, down

    def path(self, points: Iterable[Point]) -> str:
        """Return the ``d`` of a line through points."""
        return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in map(self.at, points))

    def line(self, points: Sequence[Point], kind: str) -> Markup | None:
        """Return a line; None without points."""
        return tag("path", d=self.path(points), class_=kind) if points else None

    def area(self, points: Sequence[Point], kind: str) -> Markup | None:
        """Return a filled area; None without points."""
        return tag("path", d=f"{self.path(points)}Z", class_=kind) if points else None

    def dots(self, points: Iterable[Point], radius: float = 2.5) -> Markup:
        """Return points."""
        return joined(
            tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=radius, class_="dot")
            for x, y in map(self.at, points)
        )

    def upright(self, x: float) -> Markup:
        """Return a mark across the whole height."""
        (across, top), (_, bottom) = self.at((x, self.y[1])), self.at((x, self.y[0]))
        return tag("line", x1=f"{across:.1f}", x2=f"{across:.1f}", y1=top, y2=bottom, class_="mark")

    def drawn(self, label: str, axes: Markup, *parts: Markup | None) -> Markup:
        """Return the drawing, with what it shows for readers who do not see it."""
        return tag(
            "svg",
            tag("title", label),
            axes,
            *parts,
            viewBox=f"0 0 {self.width} {self.height}",
            role="img",
        )

    def axes(
        self,
        names: tuple[str, str],
        ticks: tuple[Sequence[float], Sequence[float]],
        shown: tuple[Callable[[float], str], Callable[[float], str]],
    ) -> Markup:
        """Return grid, ticks and names of both axes."""
        left, bottom = LEFT, self.height - BOTTOM
        parts: list[Markup] = []
        for tick in ticks[0]:
            x, _ = self.at((tick, self.y[0]))
            parts.append(
                tag("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=TOP, y2=bottom, class_="grid")
            )
            parts.append(
                tag("text", shown[0](tick), x=f"{x:.1f}", y=bottom + 16, text_anchor="middle")
            )
        for tick in ticks[1]:
            _, y = self.at((self.x[0], tick))
            parts.append(
                tag(
                    "line",
                    x1=left,
                    x2=self.width - RIGHT,
                    y1=f"{y:.1f}",
                    y2=f"{y:.1f}",
                    class_="grid",
                )
            )
            parts.append(
                tag("text", shown[1](tick), x=left - 7, y=f"{y + 4:.1f}", text_anchor="end")
            )
        middle = (left + self.width - RIGHT) / 2
        parts.append(tag("text", names[0], x=middle, y=self.height - 6, text_anchor="middle"))
        parts.append(
            tag(
                "text",
                names[1],
                x=-(TOP + bottom) / 2,
                y=13,
                text_anchor="middle",
                transform="rotate(-90)",
            )
        )
        return joined(parts)


def number(value: float) -> str:
    """Return a tick's number."""
    return f"{value:.3g}".replace("-", "\N{MINUS SIGN}")


def short_percent(value: float) -> str:
    """Return a tick's share in percent."""
    return f"{100 * value:.3g} %"


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers between two ends, at most `most` and one.

    Examples
    --------
    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    size = (high - low) / most
    if size <= 0 or not math.isfinite(size):
        return [low]
    base = 10.0 ** math.floor(math.log10(size))
    step = next(base * each for each in (1, 2, 5, 10) if base * each >= size * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


UNIT = ticks(0.0, 1.0)


def pr_points(fp: Sequence[float], tp: Sequence[float], positives: float) -> list[Point]:
    """Return recall and precision along a curve of counts, bent between its points.

    False positives grow evenly with true positives (Davis and Goadrich 2006). At recall 0 it
    has the precision of the first piece.
    """
    points: list[Point] = []
    for (fp0, tp0), (fp1, tp1) in zip(
        zip(fp, tp, strict=True), zip(fp[1:], tp[1:], strict=True), strict=False
    ):
        if tp0 == 0 and fp0 == 0 and tp1 > 0:
            points.append((0.0, tp1 / (tp1 + fp1)))
        pieces = max(1, math.ceil(_STEPS_OF_CURVE * (tp1 - tp0) / positives))
        for step in range(1, pieces + 1):
            share = step / pieces
            hits, alarms = tp0 + share * (tp1 - tp0), fp0 + share * (fp1 - fp0)
            if hits + alarms > 0:
                points.append((hits / positives, hits / (hits + alarms)))
    return points


def min_precision(prevalence: float) -> list[Point]:
    """Return the border of the region that no ranking reaches at a prevalence (Boyd 2012)."""
    recalls = [index / 50 for index in range(51)]
    return [
        (recall, prevalence * recall / (prevalence * recall + 1 - prevalence))
        for recall in recalls
        if prevalence * recall + 1 - prevalence > 0
    ]
