"""What has become slower since another commit, or since the last release.

    PYTHONPATH=. python bench/guard.py [COMMIT] [--rounds 7]

The last release is the newest tag `v*`, or the commit that stands for it (tests/release.py);
the files of a commit come from the history of the repository. It and this tree run as processes
with the packages of this environment, each loaded by its own `bench/load.py`. Each round measures
every row in both, one after the other and in turn first, so that both see the same noise; the
table shows medians, and the middle of the rounds' ratios. What runs in one process is measured in
its processor time, what is served by the clock. Rows that take more than 1.10 times as long are
marked. Nothing fails.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from guard_works import SERVED, works
from host import print_host_at_exit
from rich.console import Console
from rich.table import Table

from tests.release import last_release, unpack

ROOT = Path(__file__).parents[1]
SLOWER = 1.10


class Tree:
    """The processes of one tree: a worker and a server.

    Parameters
    ----------
    root : Path
        Where its files are.
    data : Path
        The server's data.
    """

    def __init__(self, root: Path, data: Path, stack: ExitStack) -> None:
        # The library of the tree comes before an installed one, and before the current folder's.
        folders = (root, root / "server", root / "bench")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, folders)),
            "PYTHONSAFEPATH": "1",
            "STREAMEVAL_LOG_LEVEL": "warning",
        }

        def started(*arguments: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(  # noqa: S603 - our own
                [sys.executable, *arguments],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        served = ("-m", "streameval_server", "--listen", "127.0.0.1:0", "--data", str(data))
        address = self._line(started(*served)).split()[-1]
        self._worker = started(str(Path(__file__).with_name("guard_works.py")), address)
        self._line(self._worker)

    @staticmethod
    def _line(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{process.args} ended")
        return line

    def seconds(self, name: str) -> float:
        """Run a work once."""
        assert self._worker.stdin is not None
        print(name, file=self._worker.stdin, flush=True)
        return float(self._line(self._worker))


def measure(trees: dict[str, Tree], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of each row and tree, round by round."""
    names = [*works(), *SERVED]
    seconds: dict[str, dict[str, list[float]]] = {n: {t: [] for t in trees} for n in names}
    for number in range(rounds + 1):
        order = list(trees)[:: 1 if number % 2 else -1]
        for name in names:
            for key in order:
                taken = trees[key].seconds(name)
                if number:  # the first round warms up
                    seconds[name][key].append(taken)
    return seconds


def show(seconds: dict[str, dict[str, list[float]]], before: str) -> None:
    """Print the table."""
    table = Table(title=f"seconds x 10^-6, against {before}")
    for column in ("work", "before", "this tree", "ratio", "least to greatest", ""):
        table.add_column(column, justify="left" if column == "work" else "right")
    for name, each in seconds.items():
        ratios = [new / old for new, old in zip(each["new"], each["old"], strict=True)]
        ratio = statistics.median(ratios)
        old, new = (f"{1e6 * statistics.median(each[key]):,.0f}" for key in ("old", "new"))
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        mark = "SLOWER" if ratio > SLOWER else ""
        table.add_row(name, old, new, f"{ratio:.2f}", spread, mark)
    Console(width=110).print(table)


def main() -> None:
    print_host_at_exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?", help="what to compare with; the last release")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        scratch = tempfile.TemporaryDirectory(dir=".", prefix=".bench-")  # on a disk
        folder = Path(stack.enter_context(scratch)).resolve()
        before = unpack(folder / "before", arguments.commit or last_release())
        trees = {
            "old": Tree(folder / "before", folder / "old", stack),
            "new": Tree(ROOT, folder / "new", stack),
        }
        show(measure(trees, arguments.rounds), before[:12])


if __name__ == "__main__":
    main()
