"""Fail each allocation of a working core in turn: one alone, and a hundred in a row.

    PYTHONMALLOC=malloc python tests/crash/memory_sweep.py   # 20 allocations of each scene
    PYTHONMALLOC=malloc python tests/crash/memory_sweep.py --scene queries --times 99999

Without PYTHONMALLOC=malloc small Python objects share blocks, and are left out.

A scene is a piece of work: a life of a core on a new log, a start on a full one, queries, and
changes of an `Evaluator`. A core that raises ends its process, as the server does, and the
next start must find every acknowledged revision and the exact counts. A core that goes on
must have the exact counts too. Queries and calls of an evaluator that raise change nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sweep import REVISION_BYTES, Case, chosen, scratch
from workload import KEPT, LIMITS, START_US, Run, Workload

from streameval import Evaluator
from streameval.v1 import ingest_pb2 as pb
from streameval.v1 import query_pb2, types_pb2
from streameval_server._core.recovery import ServerCore, open_core
from streameval_server._ingest.unary_call import UnaryCall
from streameval_server._log.sqlite import SqliteStorage
from streameval_server._log.storage import MemoryStorage
from streameval_server._model.threads import StateLock
from streameval_server._queries.query_engine import QueryEngine, parse_snapshot_request, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SOURCE = Path(__file__).with_name("failing_malloc.c")
DROUGHT = 100
"""The allocations in a row that fail when not only one does."""
MAX_ATTEMPTS = 2 * DROUGHT
MAX_LIFE_S = 60
DIED, WENT_ON, WRONG = 3, 0, 4
"""Exit codes of a child: it raised, as the allocation failed; it worked to the end; it is wrong."""
GLIBC_ABORTED = 127
"""That of glibc after "cannot allocate memory for thread-local data: ABORT"."""


def preload() -> None:
    """Run this program again with the failing allocator, which is compiled first."""
    if "failing_malloc" in os.environ.get("LD_PRELOAD", ""):
        return
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "failing_malloc.so")
        subprocess.run(
            ["cc", "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", library, SOURCE], check=True
        )
        environment = {**os.environ, "LD_PRELOAD": str(library)}
        sys.exit(
            subprocess.run([sys.executable, *sys.argv], env=environment, check=False).returncode
        )


class Allocator:
    """The allocator of this process."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._fail = library.fail_allocations
        self._fail.argtypes = (ctypes.c_long, ctypes.c_long)
        self._count = library.allocations
        self._count.restype = ctypes.c_long

    def fail(self, at: int, count: int = 1) -> None:
        """Fail some allocations, counted from now."""
        self._fail(at, count)

    def works(self) -> int:
        """Fail none from now on; return the number of allocations since `fail`."""
        made = self._count()
        self._fail(0, 0)
        return made


class Scene:
    """Work in a child process, some of whose allocations fail.

    Attributes
    ----------
    acked : int
        The last revision that the child acknowledged.
    """

    def __init__(self, allocator: Allocator, workload: Workload, directory: Path) -> None:
        self.allocator, self.workload, self.directory = allocator, workload, directory
        self.acked = 0

    def prepare(self) -> None:
        """Prepare what the child works on."""

    def begin(self) -> None:
        """Begin in the child, before allocations fail."""

    def work(self, acked: Callable[[int], None]) -> None:
        """Work while allocations fail, in the child. An error ends the child."""
        raise NotImplementedError

    def check_child(self) -> None:
        """Check what the child has when it went on."""

    def check(self) -> None:
        """Check what the child left, in the parent."""

    def run(self, at: int, count: int) -> tuple[bool, int]:
        """Run once; return whether the child went on, and the number of its allocations."""
        self.acked = 0
        self.prepare()
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            self._live(at, count, writing)
        os.close(writing)
        made = 0
        with os.fdopen(reading, "rb") as pipe:
            while data := pipe.read(REVISION_BYTES):
                number = int.from_bytes(data, "little", signed=True)
                made = max(made, -number)  # the last message, if the child went on
                self.acked = max(self.acked, number)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        # Python aborts where it cannot report a failed allocation. So does glibc, by an exit, where
        # there is no room for the thread-local data of the first C++ exception, as of `np.unique`.
        ends = {WENT_ON, DIED, GLIBC_ABORTED, -signal.SIGABRT, -signal.SIGSEGV}
        assert code in ends, f"child ended: {code}"
        self.check()
        return code == WENT_ON, made

    def _live(self, at: int, count: int, pipe: int) -> None:
        """Work in the child process, and exit without the parent's cleanup."""
        code = DIED
        try:
            signal.alarm(MAX_LIFE_S)

            def told(number: int) -> None:
                os.write(pipe, number.to_bytes(REVISION_BYTES, "little", signed=True))

            self.begin()
            self.allocator.fail(at, count)
            self.work(told)
            made = self.allocator.works()
            code = WRONG
            told(-made)
            self.check_child()
            code = WENT_ON
        finally:
            while True:
                try:
                    if code == WRONG:
                        sys.excepthook(*sys.exc_info())
                        sys.stderr.flush()
                    os._exit(code)
                except MemoryError:
                    continue


class Life(Scene):
    """A core on a new log, through all rounds and its stop."""

    def prepare(self) -> None:
        """Remove the log."""
        self.case = Case(self.workload, self.directory)

    def work(self, acked: Callable[[int], None]) -> None:
        """Live."""
        core = open_core(SqliteStorage(self.directory / "log.db"), LIMITS)
        Run(core, self.workload, acked).to_the_end()
        self.core = core
        core.drain(0)

    def check_child(self) -> None:
        """Compare the state with the rounds."""
        self.workload.check(self.core)

    def check(self) -> None:
        """Start on the log that is left."""
        self.case._ack(self.acked)
        self.case.check()


class Restart(Life):
    """A core that starts on the log of another, without a checkpoint of the last rounds."""

    def prepare(self) -> None:
        """Let another core live until it is killed."""
        super().prepare()
        self.case.life("close.before=kill")
        self.acked = self.case._acked


class Commit(Scene):
    """One batch of a running core with a small log: its call, commit, ack and counts.

    The core's threads run already: Python waits for ever for a new thread that dies for want
    of memory before it has begun.
    """

    def prepare(self) -> None:
        """Make a log of one batch."""
        for file in self.directory.iterdir():
            file.unlink()
        self._opened()
        self._send(1)
        self.core.drain(START_US)

    def begin(self) -> None:
        """Start on the log, and send a batch."""
        self._opened()
        self._send(2)

    def work(self, acked: Callable[[int], None]) -> None:
        """Send another batch."""
        if self._send(3):
            acked(3)

    def check_child(self) -> None:
        """Compare its counts."""
        self._check_counts(3)
        self.core.drain(START_US)

    def check(self) -> None:
        """Start on the log that is left: it may hold the batch that was not acknowledged."""
        self._opened()
        revision = self.core.engine.revision
        assert revision in {2, 3}
        assert revision >= self.acked
        self._check_counts(revision)
        self.core.storage.close()

    def _opened(self) -> None:
        self.core = open_core(SqliteStorage(self.directory / "log.db"), LIMITS)

    def _send(self, number: int) -> bool:
        """Send a batch of three cases by a single call; return whether it is acknowledged."""
        call = UnaryCall(self.core.committer, LIMITS)
        cases = pb.Cases(scores=[number, 0.5, 0.25], positives=[True, False, True])
        request = pb.IngestBatchRequest(batch=pb.Batch(stream="s", cases=cases))
        call.ingest_batch(request.SerializeToString(), START_US)
        self.core.committer.step(START_US).deliver()
        self.core.applier.finish()
        return call.response() is not None

    def _check_counts(self, batches: int) -> None:
        view = self.core.engine.view("s")
        assert view is not None
        expected = Evaluator()
        for number in range(1, batches + 1):
            expected.add_cases(labels=[True, False, True], scores=[number, 0.5, 0.25])
        found = view.evaluator
        assert found.num_positive_ref == expected.num_positive_ref
        assert found.num_negative_ref == expected.num_negative_ref
        assert found.auc_roc() == expected.auc_roc()


class Retried(Scene):
    """Calls that are made again when an allocation fails: each that raised changed nothing."""

    subject: object = None

    def made(self) -> object:
        """Return what is called, new."""
        raise NotImplementedError

    def calls(self, subject: Any) -> list[Callable[[], object]]:
        """Return the calls in their order; the results of all are compared."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Make all calls while no allocation fails; once, as the children change only copies."""
        if self.subject is None:
            self.expected = [call() for call in self.calls(self.made())]
            self.subject = self.made()
            self.called = self.calls(self.subject)
            self.found: list[object] = [None] * len(self.called)

    def work(self, _acked: Callable[[int], None]) -> None:
        """Make all calls, each until it does not raise."""
        for at, call in enumerate(self.called):
            for _ in range(MAX_ATTEMPTS):
                try:
                    self.found[at] = call()
                except MemoryError:
                    continue
                break

    def check_child(self) -> None:
        """Compare the results."""
        pairs = enumerate(zip(self.found, self.expected))
        differ = [at for at, (found, expected) in pairs if found != expected]
        assert not differ, f"calls {differ} of {len(self.expected)}"


class Queries(Retried):
    """Answers of a core that has not been asked before, and its state afterwards.

    An error within the engine's lock ends the child, as it stops a server.
    """

    def made(self) -> ServerCore:
        """Return a core after all rounds."""
        core = open_core(MemoryStorage(), LIMITS)
        Run(core, self.workload).to_the_end()
        return core

    def calls(self, subject: ServerCore) -> list[Callable[[], object]]:
        """Return a query of each kind for each stream."""
        engine = subject.engine
        lock = StateLock(lambda _error: None)

        def locked(read: Callable[..., T], *arguments: object) -> T:
            with lock:
                return read(*arguments)

        answers = QueryEngine(partial(locked, engine.view), lambda: START_US)
        found: list[Callable[[], object]] = []
        for name in KEPT:
            asked = query_pb2.GetSnapshotRequest(selection=types_pb2.Selection(stream=name))
            request = parse_snapshot_request(asked)
            found += [
                lambda request=request: snapshot(answers, request).SerializeToString(),
                lambda name=name: locked(engine.view, name).evaluator.to_bytes(),
                lambda name=name: locked(engine.export, name)()[1],
            ]
        return [*found, partial(locked, engine.state_hash)]


class Evaluators(Retried):
    """Changes of an exact and of a bounded evaluator, and what they answer afterwards."""

    def made(self) -> list[Evaluator]:
        """Return two evaluators of each kind."""
        return [Evaluator(**options) for options in ({}, {"resolution": 8}) for _ in range(2)]

    def calls(self, subject: list[Evaluator]) -> list[Callable[[], object]]:
        """Return changes and queries of all of them."""
        rng = random.Random(3)
        rows = [(rng.random() < 0.3, rng.randrange(200) / 128) for _ in range(400)]
        labels, scores = [row[0] for row in rows], [row[1] for row in rows]
        found: list[Callable[[], object]] = []
        for evaluator in subject:
            found += [
                partial(evaluator.add_cases, labels=labels, scores=scores),
                partial(evaluator.add_case, positive=True, score=0.5),
                partial(evaluator.remove_case, positive=labels[0], score=scores[0]),
                partial(evaluator.add_misses, 2),
                evaluator.to_bytes,
                partial(evaluator.remove_cases, labels=labels[1:50], scores=scores[1:50]),
                evaluator.auc_pr,
                lambda evaluator=evaluator: str(evaluator.interval("auc_roc")),
            ]
        for one, other in (subject[:2], subject[2:]):
            found += [partial(one.merge, other), one.to_bytes, one.average_precision]
        return found


class SmallEvaluator(Evaluators):
    """The same for a few changes and answers of one exact evaluator."""

    def made(self) -> list[Evaluator]:
        """Return two evaluators."""
        return [Evaluator(), Evaluator()]

    def calls(self, subject: list[Evaluator]) -> list[Callable[[], object]]:
        """Return each change once, and what the evaluator has then."""
        one, other = subject
        return [
            partial(one.add_cases, labels=[True, False, True], scores=[0.5, 0.25, 0.5]),
            partial(one.add_case, positive=False, score=0.5),
            partial(one.remove_case, positive=True, score=0.5),
            partial(one.add_misses, 2),
            partial(other.add_cases, labels=[True, False], scores=[0.75, 0.25]),
            partial(one.merge, other),
            one.auc_pr,
            one.to_bytes,
        ]


SCENES = {
    "life": Life,
    "restart": Restart,
    "queries": Queries,
    "evaluators": Evaluators,
    "commit": Commit,
    "evaluator": SmallEvaluator,
}


def main() -> int:
    """Run the sweep; print the number of failed allocations, and of works that went on."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scene", choices=SCENES)
    parser.add_argument("--at", type=int, default=0, help="this allocation of the scene only")
    asked = parser.parse_args()
    preload()
    rng, allocator, workload = random.Random(asked.seed), Allocator(), Workload()
    for directory in scratch():
        for name in [asked.scene] if asked.scene else SCENES:
            scene = SCENES[name](allocator, workload, directory)
            went_on, made = scene.run(0, 0)
            assert went_on
            for count in (1, DROUGHT):
                survived = 0
                moments = [asked.at] if asked.at else chosen(made, asked.times, rng)
                for at in moments:
                    try:
                        survived += scene.run(at, count)[0]
                    except BaseException:
                        print(f"failed: {name}, {count} from allocation {at} of {made}")
                        raise
                print(f"{name} {count} {len(moments)} of {made}, went on {survived}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
