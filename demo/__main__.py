"""The demo: a real model, a real server, live AUC-PR; then drift and late labels.

Run it with ``make demo``. ``DEMO_STAY=1 make demo`` keeps the server and its web page
running at the end, until Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from digits import EQUAL_WITHIN, console, stream_digits
from fraud import watch_drift

from streameval.client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

STOP = {signal.SIGINT, signal.SIGTERM}


@contextmanager
def running_server(data: Path) -> Iterator[tuple[str, str]]:
    """Run a server on free ports; yield its address and the address of its web page."""
    command = [sys.executable, "-m", "streameval_server", "--listen", "127.0.0.1:0", "--data", data]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            # The first line ends with the gRPC address, the second with that of the page.
            address, page = (server.stdout.readline().split()[-1:] for _ in range(2))
            if not (address and page):
                sys.exit("the server did not start")
            yield address[0], page[0]
        finally:
            server.send_signal(signal.SIGTERM)


def main() -> None:
    """Run the demo; exit 1 if the server's metrics differ from scikit-learn's."""
    with tempfile.TemporaryDirectory() as data, running_server(Path(data)) as (address, page):
        console.print(f"server on {address}, log in {data}\nwatch it live: {page}\n")
        with Client(address) as client:
            if not stream_digits(client):
                sys.exit(f"the server's metrics differ from scikit-learn's by over {EQUAL_WITHIN}")
            watch_drift(client)
        if os.environ.get("DEMO_STAY") == "1":
            console.print(f"\nThe web page remains at {page} until Ctrl-C.")
            # Wait for the signal instead of being interrupted, so that the server is stopped too.
            signal.pthread_sigmask(signal.SIG_BLOCK, STOP)
            signal.sigwait(STOP)


if __name__ == "__main__":
    main()
