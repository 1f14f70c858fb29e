"""The two diagrams of docs/architecture.md: the way of a case, and the way of a query.

``python docs/diagrams.py`` writes them to docs/images/. Each is a set of lanes, one a
thread, with boxes in the order of time from left to right.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

IMAGES = Path(__file__).parent / "images"
LANE, COLUMN, LEFT, TOP = 92, 168, 150, 16
WIDTH, HEIGHT = 140, 56
COLOURS = {"step": "#eaf2fb", "wait": "#fdf1dc", "cache": "#e6f5ee", "disk": "#f3e8f3"}
STROKES = {"step": "#0072B2", "wait": "#B07400", "cache": "#00795a", "disk": "#8a3f8a"}
LEGEND = {"step": "a step", "wait": "rows wait", "cache": "a cache", "disk": "durable"}


@dataclass(frozen=True)
class Box:
    """One box: its lane and column, what kind it is, and up to three lines of text."""

    lane: int
    column: int
    kind: str
    lines: tuple[str, ...]

    @property
    def x(self) -> int:
        """The left edge."""
        return LEFT + self.column * COLUMN

    @property
    def y(self) -> int:
        """The upper edge."""
        return TOP + self.lane * LANE + (LANE - HEIGHT) // 2


@dataclass(frozen=True)
class Diagram:
    """Lanes, boxes by name, and arrows between them with an optional label."""

    title: str
    lanes: tuple[str, ...]
    boxes: dict[str, Box]
    arrows: tuple[tuple[str, str, str], ...]

    def svg(self) -> str:
        """Return the drawing."""
        columns = 1 + max(box.column for box in self.boxes.values())
        width = LEFT + columns * COLUMN
        height = TOP + len(self.lanes) * LANE + 40
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"',
            f'aria-label="{escape(self.title)}" font-family="system-ui" font-size="12">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7"',
            'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#444"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
        ]
        for lane, name in enumerate(self.lanes):
            y = TOP + lane * LANE
            shade = "#fafafa" if lane % 2 else "#f2f2f2"
            parts.append(f'<rect x="0" y="{y}" width="{width}" height="{LANE}" fill="{shade}"/>')
            parts += _text(12, y + LANE // 2, name.split("\n"), weight="bold", anchor="start")
        for start, end, label in self.arrows:
            parts += _arrow(self.boxes[start], self.boxes[end], label)
        for box in self.boxes.values():
            parts.append(
                f'<rect x="{box.x}" y="{box.y}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
                f'fill="{COLOURS[box.kind]}" stroke="{STROKES[box.kind]}"/>'
            )
            middle = (box.x + WIDTH // 2, box.y + HEIGHT // 2)
            parts += _text(*middle, box.lines, anchor="middle")
        x = LEFT
        used = {box.kind for box in self.boxes.values()}
        for kind, text in LEGEND.items():
            if kind not in used:
                continue
            y = height - 26
            parts.append(
                f'<rect x="{x}" y="{y}" width="16" height="12" rx="3" fill="{COLOURS[kind]}" '
                f'stroke="{STROKES[kind]}"/>'
            )
            parts += _text(x + 22, y + 6, [text], anchor="start")
            x += 110
        return "\n".join([*parts, "</svg>", ""])


def _text(
    x: int, y: int, lines: tuple[str, ...] | list[str], *, anchor: str, weight: str = "normal"
) -> list[str]:
    first = y + 4 - 7 * (len(lines) - 1)
    return [
        f'<text x="{x}" y="{first + 14 * k}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="#222">{escape(line)}</text>'
        for k, line in enumerate(lines)
    ]


def _arrow(start: Box, end: Box, label: str) -> list[str]:
    """Draw along the lane, or from one lane to another."""
    if start.lane == end.lane:
        forward = end.column > start.column
        x1, x2 = (start.x + WIDTH, end.x) if forward else (start.x, end.x + WIDTH)
        y1 = y2 = start.y + HEIGHT // 2
    else:
        down = end.lane > start.lane
        x1, x2 = start.x + WIDTH // 2, end.x + WIDTH // 2
        if start.column != end.column:
            x1 += 30 if end.column > start.column else -30
            x2 -= 30 if end.column > start.column else -30
        y1, y2 = (start.y + HEIGHT, end.y) if down else (start.y, end.y + HEIGHT)
    line = f'<path d="M{x1} {y1} L{x2} {y2}" stroke="#444" fill="none" marker-end="url(#tip)"/>'
    if not label:
        return [line]
    return [line, *_text((x1 + x2) // 2 + 6, (y1 + y2) // 2 - 4, [label], anchor="start")]


CASE = Diagram(
    title="The way of one case from add_case to counted cells",
    lanes=(
        "caller's thread",
        "client:\ngRPC's thread\nor a task",
        "server:\nevent loop",
        "server:\ncommitter",
        "server:\napplier",
    ),
    boxes={
        "add": Box(0, 0, "step", ("add_case:", "check, append")),
        "buffer": Box(0, 1, "wait", ("StreamBuffer:", "rows of a stream")),
        "sender": Box(1, 1, "step", ("Sender: number", "the batch")),
        "window": Box(1, 2, "wait", ("send window: not", "yet acknowledged")),
        "session": Box(2, 2, "step", ("IngestSession:", "decode, check rows")),
        "queue": Box(3, 2, "wait", ("Committer:", "queue of items")),
        "commit": Box(3, 3, "step", ("Transaction:", "order, duplicates,", "limits")),
        "log": Box(3, 4, "disk", ("one SQLite commit,", "one fdatasync")),
        "ack": Box(2, 4, "step", ("settle: one", "cumulative ack")),
        "acked": Box(1, 4, "step", ("Sender: forget,", "make room")),
        "backlog": Box(4, 4, "wait", ("backlog of", "durable entries")),
        "apply": Box(4, 5, "step", ("Engine.apply: join", "ids, place in panes")),
        "pending": Box(4, 6, "wait", ("StreamCounts:", "collected rows")),
        "cells": Box(4, 7, "step", ("Tally,", "SliceTable")),
    },
    arrows=(
        ("add", "buffer", ""),
        ("buffer", "sender", "take"),
        ("sender", "window", ""),
        ("window", "session", "gRPC"),
        ("session", "queue", "submit"),
        ("queue", "commit", ""),
        ("commit", "log", ""),
        ("log", "ack", "outcomes"),
        ("ack", "acked", "gRPC"),
        ("log", "backlog", "push"),
        ("backlog", "apply", ""),
        ("apply", "pending", ""),
        ("pending", "cells", ""),
    ),
)

QUERY = Diagram(
    title="The way of one query from snapshot to an answer",
    lanes=("caller's thread", "server:\nevent loop", "server:\nquery thread"),
    boxes={
        "ask": Box(0, 0, "step", ("snapshot: build a", "call, min_revision")),
        "access": Box(1, 0, "step", ("access: token,", "scope, stream")),
        "visible": Box(1, 1, "wait", ("wait until the", "revision is applied")),
        "shared": Box(1, 2, "cache", ("QueryThreads: equal", "questions share", "one computation")),
        "view": Box(2, 2, "cache", ("StreamView: the", "stream until it", "changes")),
        "resolve": Box(2, 3, "step", ("resolve the selec-", "tion to panes")),
        "merge": Box(2, 4, "cache", ("LazyCounts: merge", "what is pending")),
        "snapshots": Box(2, 5, "cache", ("snapshot messages", "by their states")),
        "windows": Box(2, 6, "cache", ("windows, and what", "of them stayed", "the same")),
        "metrics": Box(2, 7, "cache", ("metrics, once for", "each state")),
        "answer": Box(2, 8, "step", ("add revision,", "warnings")),
        "send": Box(1, 8, "step", ("token again,", "encode")),
        "decode": Box(0, 8, "step", ("decode to a", "Snapshot")),
    },
    arrows=(
        ("ask", "access", "gRPC"),
        ("access", "visible", ""),
        ("visible", "shared", ""),
        ("shared", "view", "run"),
        ("view", "resolve", ""),
        ("resolve", "merge", ""),
        ("merge", "snapshots", ""),
        ("snapshots", "windows", ""),
        ("windows", "metrics", ""),
        ("metrics", "answer", ""),
        ("answer", "send", ""),
        ("send", "decode", "gRPC"),
    ),
)

if __name__ == "__main__":
    for name, diagram in (("case", CASE), ("query", QUERY)):
        (IMAGES / f"architecture-{name}.svg").write_text(diagram.svg())
