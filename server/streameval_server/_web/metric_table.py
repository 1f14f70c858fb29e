"""The table of metrics as an ES module, so that the page names no metric in a list of its own."""

from __future__ import annotations

import json

from streameval._metric_registry import (
    COMPARED_NAMES,
    COST_NAMES,
    HEADLINE,
    METRICS,
    MONITORED_NAMES,
    ORDERED_NAMES,
    PAGE_NAMES,
    POINT_NAMES,
)

MODULE_PATH = "metrics.js"
"""Below ``static``, as the other modules import it."""


def metrics_module() -> bytes:
    """Return the module's text: titles and units by name, and the lists of names."""
    served = {
        metric.name: {"title": metric.title, "unit": metric.unit}
        for metric in METRICS
        if metric.is_served or metric.is_at_threshold
    }
    exports = {
        "METRICS": served,
        "SHOWN": PAGE_NAMES,
        "COMPARED": COMPARED_NAMES,
        "MONITORED": MONITORED_NAMES,
        "ORDERED": ORDERED_NAMES,
        "RATES": POINT_NAMES,
        "COSTS": COST_NAMES,
        "HEADLINE": HEADLINE,
        "TWINS": {metric.name: metric.twin for metric in METRICS if metric.twin},
        "WATCHED": {metric.watch: metric.title for metric in METRICS if metric.watch},
    }
    lines = ["// The table of metrics, written by the server from its registry."]
    lines += [f"export const {name} = {json.dumps(value)};" for name, value in exports.items()]
    return "\n".join([*lines, ""]).encode()
