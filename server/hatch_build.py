"""The description and the addresses of both distributions, for the package index.

Both pyproject.toml name this file. The address of the repository is one setting, `repository` in
``[tool.streameval]`` of the root's pyproject.toml. While it is empty, the descriptions have no
links and no pictures, which would lead nowhere on the index; with it they are absolute.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hatch_fancy_pypi_readme import hooks
from hatchling.metadata.plugin.interface import MetadataHookInterface

# A link of a README, from the root of the repository or, in server/README.md, from `server`.
LINK = r"\[([^\[\]]*)\]\((?:\.\./)?([^()\s]+)\)"


class IndexPage(MetadataHookInterface):
    """Sets `readme` and `urls` of the distribution in `root`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set both, unless a source distribution has them in its PKG-INFO."""
        metadata.setdefault("urls", {})
        if "readme" in metadata:
            return
        project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
        repository = project["tool"]["streameval"]["repository"].rstrip("/")
        if repository and not repository.startswith("https://"):
            raise ValueError(f"tool.streameval.repository must be https://..., got {repository!r}")
        tag = f"v{metadata['version']}"
        pages, pictures = f"{repository}/blob/{tag}", f"{repository}/raw/{tag}"
        replacements = {rf"!{LINK}\s*": "", LINK: r"\1"}
        if repository:
            replacements = {
                rf"!{LINK}": rf"![\1]({pictures}/\2)",
                rf"(?<!!){LINK}": rf"[\1]({pages}/\2)",
            }
            metadata["urls"] = {
                "Repository": repository,
                "Documentation": f"{pages}/docs/index.md",
                "Changelog": f"{pages}/CHANGELOG.md",
                "Security": f"{pages}/SECURITY.md",
            }
        config = {
            "content-type": "text/markdown",
            "fragments": [{"path": str(Path(self.root, "README.md"))}],
            "substitutions": [
                {"pattern": pattern, "replacement": text} for pattern, text in replacements.items()
            ],
        }
        hooks.FancyReadmeMetadataHook(self.root, config).update(metadata)
