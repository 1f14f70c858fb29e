"""What the client's page shows at a prompt is what happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from streameval_server.testing import running_server

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


def test_examples() -> None:
    """Every example prints what the page says, against a server in memory."""
    text = PAGE.read_text()
    examples = "".join(re.findall(r"```pycon\n(.*?)```", text, re.DOTALL))
    report: list[str] = []
    with running_server() as address:
        examples = examples.replace("127.0.0.1:50051", address)
        test = doctest.DocTestParser().get_doctest(examples, {}, "client", "client.md", 0)
        assert len(test.examples) > 20
        failed, _ = doctest.DocTestRunner().run(test, out=report.append)
    assert not failed, "".join(report)


def test_links_lead_somewhere() -> None:
    """The pages that it names are there."""
    links = re.findall(r"\]\(([^)]+)\)", PAGE.read_text())
    assert links
    assert all((PAGE.parent / link).exists() for link in links)
