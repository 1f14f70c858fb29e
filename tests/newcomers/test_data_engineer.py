"""A data engineer: three years of history from a directory of Parquet files, and again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from ..pages import blocks
from .conftest import ROOT, program

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Newcomer

pytestmark = pytest.mark.heavy

PAGE = (ROOT / "docs" / "history.md").read_text()


@pytest.mark.nightly
def test_history_from_a_warehouse(
    newcomer: Newcomer, report: Callable[[str, float], None], free_port: Callable[[], int]
) -> None:
    """Install, serve, push, query, push again, as the page has it; then the page of the server."""
    newcomer.install(PAGE)
    newcomer.environment["STREAMEVAL_LISTEN"] = f"127.0.0.1:{free_port()}"
    newcomer.environment["STREAMEVAL_HTTP"] = f"127.0.0.1:{free_port()}"
    (serve,) = re.findall(r"^streameval serve.*$", PAGE, re.MULTILINE)
    says = r"listening on (\S+)\nthe page is at (\S+)\n"
    with newcomer.running(*serve.split(), says=says) as started:
        here = PAGE.replace("127.0.0.1:50051", started[1])
        newcomer.environment["STREAMEVAL_SERVER"] = started[1]
        newcomer.python(program(here))
        (console,) = (each.code for each in blocks(here) if each.language == "console")
        commands = re.findall(r"^\$ ((?:.*\\\n)*.*)", console, re.MULTILINE)
        printed = [newcomer.run("sh", "-c", command) for command in commands]
        assert printed[0].startswith("26,280 cases of history are durable in fraud/v3"), printed
        assert re.search(r"Positives +1,\d\d\d", printed[1]), printed
        assert printed[2].startswith("26,280 rows were durable before\n26,280 cases "), printed
        report("data engineer, three years of history", newcomer.minutes())
        with urlopen(started[2], timeout=10) as page:
            assert b"<title>" in page.read()
