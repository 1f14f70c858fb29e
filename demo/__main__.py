"""The whole walk: a real model, a real server, live AUC-PR; then drift and late labels.

Run it with ``make demo``.
"""

from __future__ import annotations

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


@contextmanager
def running_server(data: Path) -> Iterator[str]:
    """Start a server on a free port; yield its address; stop it."""
    command = [sys.executable, "-m", "streameval_server", "--listen", "127.0.0.1:0", "--data", data]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip().rpartition(" ")[2]
            if not address:
                sys.exit("the server did not start")
            yield address
        finally:
            server.send_signal(signal.SIGTERM)


def main() -> None:
    """Run the walk; exit 1 if the server's figures are not scikit-learn's."""
    with tempfile.TemporaryDirectory() as data, running_server(Path(data)) as address:
        console.print(f"server on {address}, log in {data}\n")
        with Client(address) as client:
            if not stream_digits(client):
                sys.exit(f"the server's figures differ from scikit-learn's by over {EQUAL_WITHIN}")
            watch_drift(client)


if __name__ == "__main__":
    main()
