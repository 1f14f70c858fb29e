"""Fail each write and sync of a working log with strace, or kill the process there.

    python tests/crash/disk_sweep.py                # two of the calls of each kind
    python tests/crash/disk_sweep.py --times 9999   # each call

Like `sweep.py`, with faults inside SQLite: in its write-ahead log, its checkpoints and when
it closes its files. A process that survives sees one failed call, opens the log again and
continues; after a kill the next process continues with the log that is left. Each fault is
verified in strace's own output.
"""

from __future__ import annotations

import argparse
import os
import random
import sys

from faults import Fault
from sweep import REVISION_BYTES, Case, chosen, scratch
from workload import LIMITS, Run, Workload

from streameval_server._core.recovery import open_core
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._model.errors import StorageError

FAULTS = {
    "fdatasync": ("error=EIO", "error=ENOSPC", "signal=KILL"),
    "pwrite64": ("error=EIO", "error=ENOSPC", "signal=KILL"),
    "ftruncate": ("error=EIO", "signal=KILL"),
    "unlink": ("error=EIO", "signal=KILL"),
}
"""The system calls that SQLite makes, and the faults to inject into them."""


class FaultyCase(Case):
    """A log whose first process meets a fault."""

    def meet(self, call: str, what: str = "", when: int = 1) -> int:
        """Run with a fault and check the log that is left; return the number of calls."""
        reading, writing = os.pipe()
        starting, start = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            os.close(start)
            os.read(starting, 1)
            self._bear(writing)
        os.close(writing)
        os.close(starting)
        log = self._path.with_name("strace.txt")
        fault = Fault(child, call, what, log, str(when))
        os.write(start, b"!")
        os.close(start)
        with os.fdopen(reading, "rb") as pipe:
            while data := pipe.read(REVISION_BYTES):
                self._ack(int.from_bytes(data, "little"))
        ended = os.waitpid(child, 0)[1]
        fault.end()
        assert os.WIFSIGNALED(ended) == what.startswith("signal"), ended
        assert os.WIFSIGNALED(ended) or os.WEXITSTATUS(ended) == 0, ended
        if what.startswith("error"):
            assert fault.hits == 1, f"{call}:{what}:when={when} was not reached"
        self.check()
        return fault.calls

    def _bear(self, acks: int) -> None:
        """Work to the end in the child process, starting and recovering until the disk works."""
        code = 1
        try:
            storage = SqliteStorage(self._path)
            try:
                core = open_core(storage, LIMITS)
            except StorageError:
                core = open_core(storage, LIMITS)  # as the next start of the server would

            def acked(revision: int) -> None:
                os.write(acks, revision.to_bytes(REVISION_BYTES, "little"))

            Run(core, self._workload, acked).to_the_end()
            core.drain(0)
            code = 0
        finally:
            if code:
                sys.excepthook(*sys.exc_info())
            os._exit(code)


def main() -> int:
    """Run the sweep; print how many faults of each kind were met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=2, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rng, workload = random.Random(asked.seed), Workload()
    for directory in scratch():
        for call, effects in FAULTS.items():
            calls = FaultyCase(workload, directory).meet(call)
            for what in effects:
                times = chosen(calls, asked.times, rng)
                for when in times:
                    try:
                        FaultyCase(workload, directory).meet(call, what, when)
                    except BaseException:
                        print(f"failed: {call} {what} when {when} of {calls}")
                        raise
                print(f"{call} {what} {len(times)} of {calls}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
