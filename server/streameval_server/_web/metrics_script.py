"""The table of metrics as an ES module, so that the page names no metric in a list of its own."""

from __future__ import annotations

import json

from streameval.statistics import BY_NAME, HEADLINE, Place

MODULE_PATH = "metrics.js"
"""Below ``static``, as the other modules import it."""


def metrics_module() -> bytes:
    """Return the module's text: titles and units by name, and the lists of names."""
    served = {
        metric.name: {"title": metric.title, "unit": metric.unit}
        for metric in BY_NAME.values()
        if metric.shown & {Place.REQUEST, Place.DECISION}
    }
    exports = {
        "METRICS": served,
        "SHOWN": Place.PAGE.names(),
        "COMPARED": Place.COMPARISON.names(),
        "MONITORED": Place.MONITOR.names(),
        "ORDERED": Place.ORDER.names(),
        "RATES": Place.POINT.names(["threshold"]),
        "COSTS": [name for name in Place.POINT.names() if BY_NAME[name].is_cost],
        "HEADLINE": HEADLINE,
        "TWINS": {metric.name: metric.twin for metric in BY_NAME.values() if metric.twin},
        "WATCHED": {metric.watch: metric.title for metric in BY_NAME.values() if metric.watch},
    }
    lines = ["// The table of metrics, written by the server from its registry."]
    lines += [f"export const {name} = {json.dumps(value)};" for name, value in exports.items()]
    return "\n".join([*lines, ""]).encode()
