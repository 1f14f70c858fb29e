"""Configuration of Sphinx. ``make docs`` builds the site; a warning is an error."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streameval import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "streameval"
author = "the streameval authors"
project_copyright = "Apache-2.0"
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


def write_commands(app: Sphinx) -> None:
    """Write the reference of the commands from their help texts."""
    command = [sys.executable, "-m", "typer", "streameval.cli._app", "utils", "docs"]
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, "--name", "streameval"], check=True, capture_output=True, text=True
    )
    page = html.unescape(done.stdout).replace("# `streameval`", "# The commands", 1)
    page = re.sub(r"<(\w[\w ]*)>", r"`\1`", re.sub(r"`([^`\n]*)`", _plain, page))
    target = Path(app.srcdir, "reference-commands.md")
    if not target.exists() or target.read_text() != page:
        target.write_text(page)


def _plain(code: re.Match[str]) -> str:
    return "`" + code.group(1).replace("<", "").replace(">", "") + "`"


def setup(app: Sphinx) -> None:
    """Generate pages before Sphinx reads them."""
    app.connect("builder-inited", write_commands)
