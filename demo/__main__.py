"""The demo: a server with eight streams, six weeks of their cases, and what it says of them.

Run it with ``make demo``. ``DEMO_STAY=1 make demo`` keeps the server and its web page running,
and rows coming, until Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fill import Filler
from story import told

from streameval.client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

LIVE_S = 2.0
"""How often rows are sent while the server stays."""


@contextmanager
def running_server(data: Path) -> Iterator[tuple[str, str]]:
    """Run a server on free ports; yield its address and the address of its web page."""
    command = [sys.executable, "-m", "streameval_server", "--data", data]
    command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "warning"]
    # In a session of its own, so that Ctrl-C ends the demo first and its server then.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as server:
        try:
            assert server.stdout is not None
            # The first line ends with the gRPC address, the second with that of the page.
            address, page = (server.stdout.readline().split()[-1:] for _ in range(2))
            if not (address and page):
                sys.exit("the server did not start")
            yield address[0], page[0].rstrip("/")
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()  # after Ctrl-C the end of the block does not


def main() -> None:
    """Fill the streams, print what the server says of them, and stay if that is asked for."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as data,
        running_server(Path(data)) as (address, page),
        Client(address, timeout_s=60) as client,
        Filler(client, address, now_us=time.time_ns() // 1_000) as filler,
    ):
        print(f"server on {address}, log in {data}")
        filler.fill()
        print(f"filled in {time.monotonic() - began:.0f} s; the server says:\n")
        print("\n".join(told(client)))
        if os.environ.get("DEMO_STAY") != "1":
            return
        print(f"\nThe web page: {page} (until Ctrl-C)", flush=True)
        while True:
            time.sleep(LIVE_S)
            filler.send(time.time_ns() // 1_000)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("stopped")
