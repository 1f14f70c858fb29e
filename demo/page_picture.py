"""Draw the picture of the web page: one of the demo's streams, in headless Chromium.

``python demo/page_picture.py`` fills a server as ``make demo`` does and writes
docs/images/page.png. It needs playwright and a Chromium on the path.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from fill import Filler
from playwright.sync_api import expect, sync_playwright
from streams import CHAMPION

from streameval.client import Client
from streameval_server.testing import running_service

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "page.png"
SIZE = {"width": 1_440, "height": 900}


def main() -> None:
    """Fill a server, open the stream that fell over a week, and save what is on the screen."""
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if chromium is None:
        sys.exit("no Chromium: install chromium-headless-shell or chromium")
    with (
        running_service() as addresses,
        Client(addresses.grpc, timeout_s=60) as client,
        Filler(client, addresses.grpc, now_us=time.time_ns() // 1_000) as filler,
        sync_playwright() as playwright,
    ):
        filler.fill()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, timezone_id="UTC", reduced_motion="reduce")
        page.set_default_timeout(60_000)
        name = CHAMPION.replace("/", "%2F")
        # The page keeps a connection for events, so the network is never idle: wait for the
        # figure and for the chart, which is drawn last.
        page.goto(f"{addresses.http}/#/stream/{name}?window=7d")
        page.locator("#figure-auc_pr").filter(has_text="0.").wait_for()
        page.locator(".plot svg path").first.wait_for(state="attached")
        page.wait_for_timeout(20_000)  # what is projected comes last
        expect(page.locator("[aria-busy=true]:visible, .skeleton:visible")).to_have_count(
            0, timeout=60_000
        )
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
