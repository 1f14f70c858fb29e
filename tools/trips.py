"""List the files that one case and one query pass through, recorded by a profile hook.

    python tools/trips.py            # the table
    python tools/trips.py --files    # and the files of each trip

Starts a server in this process, adds one case by the client and queries a snapshot
twice. Counts every call of a function of this project, in any thread, except of
generated code.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType


class Recorder:
    """Counts calls of this project's functions while `is_on` is set."""

    def __init__(self) -> None:
        self.is_on = False
        self.files: Counter[str] = Counter()
        self.classes: set[str] = set()
        self.threads: set[str] = set()
        self.moves = 0
        self._last: dict[int, str] = {}

    def hook(self, frame: FrameType, event: str, _: object) -> None:
        """Record one call; the profile hook of every thread."""
        if not self.is_on or event != "call":
            return
        name = project_path(frame.f_code.co_filename)
        if name is None:
            return
        thread = threading.get_ident()
        self.files[name] += 1
        self.threads.add(threading.current_thread().name)
        if self._last.get(thread, name) != name:
            self.moves += 1
        self._last[thread] = name
        function = frame.f_code.co_qualname
        if "." in function and "<locals>" not in function:
            self.classes.add(f"{name}:{function.split('.')[0]}")

    def start(self) -> None:
        """Clear the record and start recording."""
        self.files.clear()
        self.classes.clear()
        self.threads.clear()
        self._last.clear()
        self.moves = 0
        self.is_on = True

    def stop(self, trip: str, *, with_files: bool) -> None:
        """Stop recording, and print a row of the table."""
        self.is_on = False
        row = f"{len(self.files):6} {len(self.classes):8} {self.moves:6} {len(self.threads):8}"
        print(f"{trip:<52}{row}")
        if with_files:
            for name in sorted(self.files):
                print(f"    {self.files[name]:5} {name}")


def project_path(filename: str) -> str | None:
    """Return a source file's path from its package on; None if it is of another project."""
    for package in ("streameval_server/", "streameval/"):
        start = filename.rfind(package)
        if start >= 0:
            name = filename[start:]
            return None if "/v1/" in name else name
    return None


def main() -> None:
    """Make the trips."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="list the files of each trip")
    with_files = parser.parse_args().files
    recorder = Recorder()
    threading.setprofile(recorder.hook)
    sys.setprofile(recorder.hook)

    # Imported after the hook is set, so that it sees every thread that they start.
    from streameval import Evaluator
    from streameval.client import Client
    from streameval_server import Settings
    from streameval_server.testing import running_server

    print(f"{'trip':<52}{'files':>6} {'classes':>8} {'moves':>6} {'threads':>8}")
    with (
        tempfile.TemporaryDirectory() as directory,
        running_server(Settings(listen="127.0.0.1:0", data=Path(directory))) as address,
        Client(address) as client,
    ):
        stream = client.stream("trips/v1")
        stream.add_case(False, 0.1)
        stream.flush()
        stream.snapshot()
        stream = client.stream("trips/v2")
        recorder.start()
        stream.add_case(True, 0.9)
        stream.flush()
        time.sleep(0.5)  # an ack means durable; the engine applies the row after it
        recorder.stop("one add_case, until it is durable and applied", with_files=with_files)
        recorder.start()
        stream.snapshot()
        recorder.stop("the first GetSnapshot", with_files=with_files)
        recorder.start()
        stream.snapshot()
        recorder.stop("the same, nothing changed", with_files=with_files)
        evaluator = Evaluator()
        recorder.start()
        evaluator.add_cases(labels=[1, 0, 1], scores=[0.9, 0.5, 0.2])
        evaluator.auc_pr()
        recorder.stop("Evaluator.add_cases, then auc_pr", with_files=with_files)


if __name__ == "__main__":
    main()
