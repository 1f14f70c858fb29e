"""The page in Debian's Firefox: each view, what is saved, the threshold, live figures, widths."""

from __future__ import annotations

import csv
import time
from typing import TYPE_CHECKING

import pytest

from .conftest import HOSTILE, OTHER, STREAM, Served, figure
from .marionette import Firefox, firefox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.heavy

DRAWN = "return document.querySelectorAll('#pr-plot svg path').length > 3"
SETTLED = "return !document.querySelector('[aria-busy]')"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where Firefox has its profile, and saves files."""
    return tmp_path_factory.mktemp("firefox")


@pytest.fixture(scope="module")
def window(require_command: Callable[[str], str], directory: Path) -> Iterator[Firefox]:
    """Return a window of Firefox."""
    with firefox(require_command("firefox-esr"), directory) as opened:
        yield opened


@pytest.fixture(autouse=True)
def quiet(window: Firefox, served: Served) -> Iterator[None]:
    """No script may fail, and nothing may break the page's policy."""
    before = window.errors(served.http)
    yield
    assert window.errors(served.http)[len(before) :] == []


def shown(window: Firefox, selector: str, text: str) -> None:
    """Wait for a text."""
    window.wait(
        "return document.querySelector(arguments[0])?.textContent.includes(arguments[1])",
        selector,
        text,
    )


def saved(directory: Path, part: str) -> Path:
    """Wait for a saved file whose name has a part."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        files = list((directory / "saved").glob(f"*{part}"))
        if files and files[0].stat().st_size and not list((directory / "saved").glob("*.part")):
            return files[0]
        time.sleep(0.05)
    raise AssertionError(f"no file *{part} was saved")


def test_figures_are_the_snapshots(window: Firefox, served: Served) -> None:
    """Of one stream, with its charts; text that is markup stays text."""
    window.open(served.url(f"stream/{STREAM}?window=all"))
    known = served.client.stream(STREAM).snapshot()
    shown(window, "#figure-auc_pr", figure(known.auc_pr))
    shown(window, "#figure-auc_roc", figure(known.auc_roc))
    window.wait(DRAWN)
    shown(window, "#segments", HOSTILE)
    assert window.run("return typeof window.hacked") == "undefined"


@pytest.mark.nightly
def test_the_list_and_the_comparison(window: Firefox, served: Served) -> None:
    """Rows of streams; two streams with their difference."""
    window.open(served.url("?window=all"))
    shown(window, "table.streams", STREAM)
    window.open(served.url(f"compare?a={STREAM}&a.window=all&b={OTHER}&b.window=all"))
    shown(window, "main", "Different cases, so not ranked")
    window.wait("return document.querySelectorAll('main svg path').length > 3")


@pytest.mark.nightly
def test_charts_and_reports_are_saved(window: Firefox, served: Served, directory: Path) -> None:
    """PNG, SVG and CSV of a chart, and the report."""
    window.open(served.url(f"stream/{STREAM}?window=all"))
    window.wait(DRAWN)
    window.wait(SETTLED)
    for place, kind in enumerate(("png", "svg", "csv"), 1):
        window.click(f"#pr .take:nth-child({place})")
        content = saved(directory, f"precision-and-recall.{kind}").read_bytes()
        if kind == "png":
            assert content.startswith(b"\x89PNG\r\n\x1a\n")
            assert len(content) > 10_000
        elif kind == "svg":
            assert content.startswith(b"<svg ")
        else:
            rows = list(csv.DictReader(content.decode().splitlines()))
            assert int(rows[-1]["TP"]) == served.client.stream(STREAM).snapshot().num_positive_ref


@pytest.mark.nightly
def test_the_threshold_by_keyboard(window: Firefox, served: Served) -> None:
    """The slider moves, a target is found, and the dialog asks before it writes."""
    window.open(served.url(f"stream/{STREAM}?window=all"))
    window.wait(DRAWN)
    before = window.text("#threshold-value")
    window.type("#threshold-slider", "\ue014")  # the right arrow
    window.wait(
        "return document.querySelector('#threshold-value').textContent !== arguments[0]", before
    )
    window.type("#target-recall", "80\ue007")  # and Enter
    shown(window, "#target-found", "recall of 80 %")
    window.click("#declare")
    assert window.run("return document.querySelector('dialog:modal') !== null")
    window.type("dialog:modal", "\ue00c")  # Escape
    window.wait("return document.querySelector('dialog:modal') === null")
    assert served.client.get_stream(STREAM).settings.threshold is None


def test_figures_are_live(window: Firefox, served: Served) -> None:
    """New cases change the open page."""
    stream = served.client.stream("firefox/live")
    stream.add_cases(labels=[1, 0, 0], scores=[0.9, 0.3, 0.2])
    served.client.flush()
    window.open(served.url("stream/firefox/live?window=all"))
    shown(window, "#figure-counts", "3")
    stream.add_cases(labels=[0, 1], scores=[0.8, 0.1])
    served.client.flush()
    shown(window, "#figure-counts", "5")
    shown(window, "#connection", "Live")
    window.open("about:blank")
    served.client.delete_stream("firefox/live")


@pytest.mark.parametrize("width", [1440, 1024, 500])
def test_no_view_is_wider_than_the_window(window: Firefox, served: Served, width: int) -> None:
    """At a desk, on a tablet, and as narrow as Firefox's window gets; light and dark."""
    window.resize(width, 900)
    for view in ("", f"stream/{STREAM}?window=all", f"compare?a={STREAM}&b={OTHER}"):
        window.open(served.url(view))
        window.wait(
            "return document.querySelector('h1') && document.querySelector('main svg, .starts a')"
        )
        for _ in range(2):
            assert window.run("return document.documentElement.scrollWidth - innerWidth") <= 0
            window.click("#theme")
