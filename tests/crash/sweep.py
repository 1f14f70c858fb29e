"""Kill a core at every failpoint and at random moments, and fail the disk at each failpoint.

    python tests/crash/sweep.py                 # each failpoint, at one of its hits
    python tests/crash/sweep.py --times 9999    # at all hits
    python tests/crash/sweep.py --random 1000   # and at this number of random moments
    python tests/crash/sweep.py --case "checkpoint.part.after=kill@3 | disk.prune.delete=kill"

A case is one log and the lives of a core on it, each a process of its own that works through
`workload` until it is killed at the failpoint that the case gives. The next life must find
every acknowledged revision, at most the one commit after it that was not acknowledged, and
exactly the counts of those rounds. The last life repeats the durable rounds, does the
remaining ones, stops, and must leave the same bytes as a life without kills.

Prints how many kills and errors were tried. A failure names its case, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from workload import LIMITS, Run, Workload, is_acked, reopened

from streameval_server._core.committer import CommitterState
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._log import failpoints
from streameval_server._log import sqlite as sqlite_log
from streameval_server._log.checkpoint import read_base
from streameval_server._log.rows import LogRow
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._log.storage import MemoryStorage, PartRow, Storage
from streameval_server._model.errors import StorageError

sqlite_log._MAX_INSERT_ROWS = 2  # most transactions take more than one statement

ABANDONED = "checkpoint.part.after=kill@9"
SICK = (
    "disk.append.insert=error@4;disk.append.commit=error@9;disk.parts.insert=error@5;"
    "disk.manifest.delete=error@3"
)
SCENES: tuple[tuple[tuple[str, ...], str], ...] = (((), ""), ((ABANDONED,), ""), ((), SICK))
"""Earlier lives and disk errors that some failpoints need to be reached."""

COUNT = "close.before=count"
"""An action without effect: while anything is armed, the hits of all failpoints are counted."""

MAX_CPU_S = 0.06
"""About the processor time of a life, in seconds."""

REVISION_BYTES = 8


class Case:
    """Lives of one log.

    Parameters
    ----------
    specs
        The failpoints armed in each life, which is killed by them.
    """

    def __init__(self, workload: Workload, directory: Path, *specs: str) -> None:
        self._workload = workload
        self._path = directory / "log.db"
        self._specs = specs
        self._acked = 0
        for each in directory.glob("log.db*"):
            each.unlink()

    def run(self) -> None:
        """Run each life until it is killed and check its log; then run to the end and check."""
        for spec in self._specs:
            ended = self.life(spec)
            assert os.WIFSIGNALED(ended), f"{spec} was not reached"
            assert os.WTERMSIG(ended) == signal.SIGKILL
        self.check()

    def run_with_errors(self, spec: str) -> int:
        """Run to the end although the disk fails; return how many errors were survived."""
        failpoints.arm(spec)
        storage = SqliteStorage(self._path)
        try:
            core = open_core(storage, LIMITS)
            errors = 0
        except StorageError:
            core = open_core(storage, LIMITS)  # as the next start of the server would
            errors = 1
        run = Run(core, self._workload, self._ack)
        self._end(core, run)
        failpoints.arm("")
        return errors + run.failures + (core.committer.state is CommitterState.FAILED)

    def run_killed_after(self, cpu_s: float) -> bool:
        """Kill it after some processor time; return whether it was still running."""
        ended = self.life("", cpu_s)
        self.check()
        return os.WIFSIGNALED(ended)

    def counts(self, spec: str) -> dict[str, int]:
        """Return the hits of each failpoint in a life that is not killed."""
        failpoints.arm(spec)
        core = open_core(SqliteStorage(self._path), LIMITS)
        run = Run(core, self._workload)
        run.to_the_end()
        core.drain(0)
        found = failpoints.hits()
        failpoints.arm("")
        return found

    def _ack(self, revision: int) -> None:
        self._acked = max(self._acked, revision)

    def life(self, spec: str, cpu_s: float = 0.0) -> int:
        """Work in a child process; return its exit status. Its acks are recorded."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            # The kernel kills it at an arbitrary place: it has no handler for SIGPROF.
            signal.setitimer(signal.ITIMER_PROF, cpu_s)
            self._live(spec, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            while data := pipe.read(REVISION_BYTES):
                self._ack(int.from_bytes(data, "little"))
        return os.waitpid(child, 0)[1]

    def _live(self, spec: str, acks: int) -> None:
        """Work to the end in the child process, and exit without the parent's cleanup."""
        code = 1
        try:
            failpoints.arm(spec)
            core = open_core(SqliteStorage(self._path), LIMITS)

            def acked(revision: int) -> None:
                os.write(acks, revision.to_bytes(REVISION_BYTES, "little"))

            Run(core, self._workload, acked).to_the_end()
            core.drain(0)
            code = 0
        finally:
            os._exit(code)

    def check(self) -> None:
        """Check the log that is left and the state that is restored from it."""
        core = reopened(SqliteStorage(self._path))
        self._workload.check(core)
        revision, workload = core.committer.revision, self._workload
        assert revision >= self._acked, f"revision {self._acked} was acked and is lost"
        first, last = workload.next_round(self._acked), workload.next_round(revision)
        # An empty round is a tick; neither that nor a change of the clock is acked.
        acked = [any(is_acked(each) for each in some) for some in workload.rounds[first:last]]
        more = sum(acked)
        assert more <= 1, f"{more} commits that were not acked"
        self._end(core, Run(core, workload, self._ack))

    def _end(self, core: ServerCore, run: Run) -> None:
        """Work to the end and stop; start from the checkpoint, and from the log alone."""
        workload = self._workload
        run.to_the_end()
        workload.check(core)
        core.drain(0)
        storage = SqliteStorage(self._path)
        again = reopened(storage)
        alone = log_alone(storage)
        storage.close()
        for each in (again, reopened(alone)):
            assert each.committer.revision == workload.ends[-1]
            assert each.engine.state_hash() == workload.hashes[workload.ends[-1]]
        # If the disk failed during the stop, there is no last checkpoint.
        assert again.recovery.replayed == 0 or core.committer.state is CommitterState.FAILED


def log_alone(storage: Storage) -> Storage:
    """Return a copy of a log without its checkpoint: its base and the rows from there on."""
    log = MemoryStorage()
    base = read_base(storage)
    if base is not None:
        for name, part in base.parts.items():
            log.write_parts(
                [PartRow(name, part.revision, 0, storage.read_parts([(name, part.revision)])[0])]
            )
        log.write_base(base.to_bytes(), ())
        # Of the row at the base only the revision and the checksum are read.
        crc32 = storage.checksum_at(base.revision)
        log.rows.append(LogRow(base.revision, 0, 0, 0, "", "", 0, 0, crc32, b""))
    log.append(list(storage.read(0 if base is None else base.revision)))
    return log


def chosen(hits: int, times: int, rng: random.Random) -> list[int]:
    """Return at which of a number of hits to act."""
    return sorted(rng.sample(range(1, hits + 1), min(hits, times)))


class Sweep:
    """Runs cases of every kind and counts them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._workload = Workload()
        self._directory = directory
        self._rng = random.Random(seed)
        self.killed = self.failed = self.at_random = 0
        self.names: set[str] = set()

    def case(self, *specs: str) -> Case:
        """Begin a case."""
        return Case(self._workload, self._directory, *specs)

    def try_case(self, *specs: str) -> None:
        """Run a case of kills; record the failpoints of its last life as reached."""
        try:
            self.case(*specs).run()
        except BaseException:
            print(f'failed: python tests/crash/sweep.py --case "{" | ".join(specs)}"')
            raise
        self.killed += 1

    def kill_everywhere(self, times: int) -> None:
        """Kill at each failpoint, in each scenario that reaches it."""
        for lives, errors in SCENES:
            first = self.case(*lives)
            for spec in lives:
                first.life(spec)
            for name, hits in sorted(first.counts(errors or COUNT).items()):
                if name in self.names:
                    continue
                for at in chosen(hits, times, self._rng):
                    spec = f"{name}=kill@{at}"
                    self.try_case(*lives, ";".join(filter(None, (errors, spec))))
                self.names.add(name)

    def fail_everywhere(self, times: int) -> None:
        """Fail the disk at each of its failpoints, instead of a kill."""
        for name, hits in sorted(self.case().counts(COUNT).items()):
            if not name.startswith("disk."):
                continue
            for at in chosen(hits, times, self._rng):
                errors = self.case().run_with_errors(f"{name}=error@{at}")
                assert errors == 1, f"{name}=error@{at}: {errors} errors"
                self.failed += 1

    def kill_at_random(self, times: int) -> None:
        """Kill at `times` random moments, measured in processor time."""
        for _ in range(times):
            self.at_random += self.case().run_killed_after(self._rng.uniform(0.002, MAX_CPU_S))


def scratch() -> Iterator[Path]:
    """Yield a directory, in memory if possible: a kill loses no writes there either."""
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    try:
        yield root
    finally:
        shutil.rmtree(root)


def main() -> int:
    """Run the sweep that the arguments select."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=1, metavar="N")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", metavar="SPECS")
    asked = parser.parse_args()
    for directory in scratch():
        sweep = Sweep(directory, asked.seed)
        if asked.case:
            sweep.try_case(*map(str.strip, asked.case.split("|")))
            print("passed")
            return 0
        sweep.kill_everywhere(asked.times)
        sweep.fail_everywhere(asked.times)
        sweep.kill_at_random(asked.random)
    missed = sorted(failpoints.NAMES - sweep.names)
    print(
        f"failpoints {len(sweep.names)} of {len(failpoints.NAMES)}, kills {sweep.killed}, "
        f"disk errors {sweep.failed}, random kills {sweep.at_random}"
    )
    if missed:
        print(f"never reached: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
