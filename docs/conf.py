"""Configuration of Sphinx. ``make docs`` builds the site; a warning is an error."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from streameval import __version__
from streameval._metric_registry import METRICS, Place, WorstOrder

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from streameval._metric_registry import Metric

project = "streameval"
author = "the streameval authors"
project_copyright = "the streameval authors, Apache-2.0"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "streameval"
html_static_path: list[str] = []

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# The second word of a code block may name the library that the block needs.
suppress_warnings = ["misc.highlighting_failure"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

autodoc_member_order = "bysource"
# pyspark is large, and the reference needs only its names.
autodoc_mock_imports = ["pyspark"]
autodoc_typehints = "signature"
napoleon_google_docstring = False
# Docstrings mark code with single backquotes, as Markdown does.
default_role = "code"


def write_api(app: Sphinx) -> None:
    """Write the pages of the Python API and of the contract."""
    sys.path.insert(0, str(app.srcdir))
    pages = import_module("api_pages")
    pages.write(Path(app.srcdir))
    pages.write_contract(Path(app.srcdir), Path(app.srcdir).parent / "proto" / "streameval" / "v1")


def write_commands(app: Sphinx) -> None:
    """Write the reference of the commands from their help texts."""
    command = [sys.executable, "-m", "typer", "streameval.cli._app", "utils", "docs"]
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, "--name", "streameval"], check=True, capture_output=True, text=True
    )
    page = html.unescape(done.stdout).replace("# `streameval`", "# The commands", 1)
    page = re.sub(r"<(\w[\w ]*)>", r"`\1`", re.sub(r"`([^`\n]*)`", _plain, page))
    page = import_module("api_pages").write_commands(Path(app.srcdir), page)
    _write(Path(app.srcdir, "reference-commands.md"), page)


def write_metrics(app: Sphinx) -> None:
    """Write the table of metrics from the registry."""
    _write(Path(app.srcdir, "reference-metrics.md"), metrics_page())


def metrics_page() -> str:
    """Return the page with the table of all registered metrics."""
    return "\n".join(
        [
            "# The metrics",
            "",
            "The names that `GetSnapshot`, `streameval.spark` and `bounds` accept. *Interval* is",
            "the method of the [confidence interval](intervals.md). *Bounds* is the order of a",
            "cell's cases that gives [the least value](bounded-memory.md) when scores keep fewer",
            "bits.",
            "",
            "| name | metric | better | range | interval | bounds | where |",
            "|---|---|---|---|---|---|---|",
            *map(_metric_row, METRICS),
            "",
        ]
    )


_WORST_ORDERS = {
    WorstOrder.NEGATIVES_FIRST: "negatives first",
    WorstOrder.ANY: "ends of the cells",
    WorstOrder.ONE_BY_ONE: "positives one by one",
}


def _metric_row(metric: Metric) -> str:
    summary = (metric.function.__doc__ or "").partition("\n")[0].removeprefix("Return ")
    places = {
        "snapshot": {Place.SNAPSHOT},
        "by name": {Place.REQUEST, Place.DECISION},
        "Prometheus": {Place.MONITOR, Place.CALIBRATION, Place.POINT},
        "page": {Place.PAGE},
        "adapters": {Place.ADAPTER},
    }
    where = [name for name, any_of in places.items() if metric.shown & any_of]
    cells = (
        f"`{metric.name}`",
        f"{metric.title}: {summary.rstrip('.')}{', of the hull' if metric.is_hull else ''}",
        metric.better,
        f"{metric.least:g} to {metric.greatest:g} {metric.unit}".strip(),
        "" if metric.interval is None else metric.interval.method,
        _WORST_ORDERS[metric.bounds.worst] if metric.bounds else "",
        ", ".join(where) or "library only",
    )
    return f"| {' | '.join(cells)} |"


def _write(target: Path, page: str) -> None:
    """Write a page unless it is unchanged, because Sphinx reads newer files again."""
    if not target.exists() or target.read_text() != page:
        target.write_text(page)


def _plain(code: re.Match[str]) -> str:
    return "`" + re.sub(r" <[^>]*>", "", code.group(1)) + "`"  # an argument's type


# Their docstrings explain the modules inside, to those who change them.
_PACKAGES = {"streameval.client", "streameval.spark", "streameval_server"}


def leave_out_packages(
    _app: Sphinx, what: str, name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """Leave a package's docstring out of the reference, which has public names only."""
    if what == "module" and name in _PACKAGES:
        lines.clear()


def setup(app: Sphinx) -> None:
    """Generate pages before Sphinx reads them."""
    app.connect("autodoc-process-docstring", leave_out_packages)
    app.connect("builder-inited", write_api)
    app.connect("builder-inited", write_commands)
    app.connect("builder-inited", write_metrics)
