"""The requests of the recorded trace to the library: written once, seeded."""

from __future__ import annotations

from typing import Any

from .server_story import DAY, HOUR, MINUTE, Story

KINDS: dict[str, dict[str, Any]] = {
    "exact": {},
    "capped": {"max_cells": 200},
    "cells": {"resolution": 6},
    "probability": {"resolution": 7, "scale": "probability"},
    "weighted": {},
    "grouped": {"cluster_groups": 16},
    "grouped cells": {"cluster_groups": 8, "resolution": 9},
}


def requests() -> list[dict[str, Any]]:
    """Return the whole trace."""
    story = Story()
    lines: list[dict[str, Any]] = []
    _plain(story, lines)
    _windowed(story, lines)
    _paired(story, lines)
    return lines


def _rows(story: Story, name: str, size: int) -> dict[str, Any]:
    labels, scores = story.scored(size)
    rows: dict[str, Any] = {"labels": labels, "scores": scores}
    if name.startswith("grouped"):
        rows["clusters"] = story.clusters(size)
    if name in {"weighted", "grouped cells"}:
        rows["weights"] = story.weights(size)
    return rows


def _plain(story: Story, lines: list[dict[str, Any]]) -> None:
    for name, settings in KINDS.items():
        lines.append({"do": "make", "name": name, "kind": "plain"} | settings)
        lines.append({"do": "ask", "name": name})
        for size in (1, 30, 400, 30):
            rows = _rows(story, name, size)
            lines.append({"do": "call", "name": name, "method": "add_cases"} | rows)
            lines.append({"do": "ask", "name": name})
        if "clusters" not in rows:
            lines.append({"do": "call", "name": name, "method": "add_misses", "count": 3})
            lines.append({"do": "call", "name": name, "method": "remove_misses", "count": 1})
        first = {key: column[:10] for key, column in rows.items()}
        lines.append({"do": "call", "name": name, "method": "remove_cases"} | first)
        lines.append({"do": "call", "name": name, "method": "remove_cases"} | first)
        lines.append({"do": "copy", "name": name, "to": name + " 2", "through_bytes": True})
        more = _rows(story, name, 50)
        lines.append({"do": "call", "name": name + " 2", "method": "add_cases"} | more)
        lines.append({"do": "ask", "name": name + " 2"})
        lines.append({"do": "merge", "name": name, "others": [name + " 2", name + " 2"]})
        lines.append({"do": "ask", "name": name})
    lines.append({"do": "merge", "name": "exact", "others": ["cells", "probability"]})
    lines.append({"do": "ask", "name": "exact"})
    for metric in ("auc_pr", "auc_roc", "average_precision"):
        for a, b in (("exact", "capped"), ("weighted", "cells"), ("grouped", "grouped cells")):
            lines.append({"do": "compare", "a": a, "b": b, "metric": metric})


def _windowed(story: Story, lines: list[dict[str, Any]]) -> None:
    for name, settings in {
        "panes": {"pane": 60, "retention": 3 * 86_400},
        "capped panes": {"pane": 300, "retention": 86_400, "max_cells": 64},
        "grouped panes": {"pane": 3_600, "retention": 7 * 86_400, "cluster_groups": 8},
    }.items():
        lines.append({"do": "make", "name": name, "kind": "windowed"} | settings)
        for turn in range(6):
            story.now += 5 * HOUR
            rows = _rows(story, name, 120)
            at_us = story.ago(120, (turn + 1) * 4 * HOUR)
            if turn % 2 and not name.startswith("grouped"):
                rows["weights"] = story.weights(120)
            lines.append({"do": "call", "name": name, "method": "add_cases", "at_us": at_us} | rows)
            removed = {key: column[:5] for key, column in rows.items()} | {"at_us": at_us[:5]}
            lines.append({"do": "call", "name": name, "method": "remove_cases"} | removed)
            windows = ({"span_s": 21_600}, {"half_life_s": 7_200}, {"cases": 90})
            lines += [{"do": "ask", "name": name} | window for window in windows]
            lines.append({"do": "panes", "name": name})
        lines.append({"do": "copy", "name": name, "to": name + " 2", "through_bytes": True})
        story.now += 30 * MINUTE
        lines.append({"do": "advance", "name": name, "at_us": story.now})
        lines.append({"do": "merge", "name": name, "others": [name + " 2"]})
        lines.append({"do": "panes", "name": name})
        lines.append({"do": "advance", "name": name, "at_us": story.now + 2 * DAY})
        lines.append({"do": "panes", "name": name})
        lines.append({"do": "ask", "name": name, "span_s": 5 * 86_400})


def _paired(story: Story, lines: list[dict[str, Any]]) -> None:
    for name, settings in {"both": {}, "both in cells": {"max_cells": 64}}.items():
        lines.append({"do": "make", "name": name, "kind": "paired"} | settings)
        for turn in range(3):
            labels, scores = story.scored(150)
            _, noise = story.scored(150, 0.2)
            other = [
                round(0.7 * score + 0.3 * each, 4)
                for score, each in zip(scores, noise, strict=True)
            ]
            rows: dict[str, Any] = {"labels": labels, "scores_a": scores, "scores_b": other}
            if turn == 2:
                rows["weights"] = story.weights(150)
            lines.append({"do": "call", "name": name, "method": "add_cases"} | rows)
            lines += [
                {"do": "pair", "name": name, "metric": metric, "anytime": anytime}
                for metric in ("auc_pr", "auc_roc", "average_precision")
                for anytime in (False, True)
            ]
