"""Cut the power at each moment of a working log, on a disk that forgets what was not synced.

    python tests/crash/power_sweep.py                # 100 moments
    python tests/crash/power_sweep.py --times 9999   # each write, sync and ack
    python tests/crash/power_sweep.py --synchronous NORMAL   # must fail: acks before the sync

One life of a core works through `workload` while `power` notes what SQLite does to its files.
Then each moment is a case: the files that a power cut there may leave, with none, some or all
of the operations that were not synced. The next start must find every acknowledged revision
and the exact counts, work to the end, and leave the same bytes as a life without cuts.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from power import Journal, Recorder
from sweep import Case, chosen, scratch
from workload import LIMITS, Run, Workload

from streameval_server._core.recovery import open_core
from streameval_server._log import sqlite as sqlite_log
from streameval_server._log.sqlite import SqliteStorage

if TYPE_CHECKING:
    from sqlite3 import Connection

KEPT = (0.0, 0.5, 1.0)
"""The shares of unsynced operations that survive."""
MAX_WAL_PAGES = 24
"""Few, so that commits copy the write-ahead log into the database and restart it."""


def recorded(workload: Workload, directory: Path) -> Journal:
    """Work to the end, stop, and return what happened to the files."""
    with Recorder(directory) as journal:
        storage = SqliteStorage(directory / "log.db", max_wal_pages=MAX_WAL_PAGES)
        core = open_core(storage, LIMITS)
        Run(core, workload, journal.acked).to_the_end()
        core.drain(0)
    return journal


def with_synchronous(mode: str) -> None:
    """Make logs sync as another mode of SQLite does."""
    ensure_schema = sqlite_log.ensure_schema

    def ensure(connection: Connection, path: Path) -> None:
        connection.execute(f"PRAGMA synchronous = {mode}")
        ensure_schema(connection, path)

    sqlite_log.ensure_schema = ensure


class CutCase(Case):
    """A log after a power cut."""

    def start_from(self, image: dict[str, bytes], acked: int) -> None:
        """Check the next start on the files that are left."""
        for path, data in image.items():
            self._path.with_name(Path(path).name).write_bytes(data)
        self._acked = acked
        self.check()


def main() -> int:
    """Run the sweep; print how many cuts were survived."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=100, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--synchronous", default="", metavar="MODE")
    asked = parser.parse_args()
    if asked.synchronous:
        with_synchronous(asked.synchronous)
    workload = Workload()
    for directory in scratch():
        (directory / "life").mkdir()
        journal = recorded(workload, directory / "life")
        (directory / "cut").mkdir()
        moments = len(journal.events)
        cuts = 0
        for moment in chosen(moments, asked.times, random.Random(asked.seed)):
            for kept in KEPT:
                rng = random.Random(f"{asked.seed} {moment} {kept}")
                image = journal.image(moment, rng, kept)
                try:
                    CutCase(workload, directory / "cut").start_from(
                        image, journal.acked_before(moment)
                    )
                except BaseException:
                    print(f"failed: at {moment} of {moments} with {kept:g} of the rest")
                    raise
                cuts += 1
    print(f"power cuts {cuts}, events {moments}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
