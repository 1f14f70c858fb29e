"""Coverage-guided fuzzing of the code that reads untrusted bytes.

    pip install atheris
    python bench/fuzz.py                       # a minute in total
    python bench/fuzz.py --seconds 600 --targets state batch

Each target of `bench/fuzz_targets.py` runs in a separate process, guided by the
coverage of our modules (atheris, libFuzzer). Inputs are states whose checksums are
recomputed after each mutation, and requests mutated by field and by byte. Accepted
input is applied, and must replay from the log. The table lists the inputs tried.

An input that violates an invariant is printed and written below --findings, and the
exit code is 1. It then becomes a test in tests/fuzz. The same --seed tries the same
inputs, as far as the time allows.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MAX_INPUT_BYTES = 16_384
NAMES = ("state", "windowed", "joiner", "batch", "session", "merge", "import", "payload")


def fuzz(name: str, corpus: Path, options: list[str]) -> None:
    """Fuzz one target; ends the process."""
    import atheris  # noqa: PLC0415 - an optional dependency

    sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH omits it
    with atheris.instrument_imports(include=["streameval", "streameval_server"]):
        from fuzz_targets import TARGETS  # noqa: PLC0415 - instrumented as it is imported

    target = TARGETS[name]
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], *options, str(corpus)], target.run, custom_mutator=target.mutated)
    atheris.Fuzz()


def main() -> int:
    """Run each target for an equal share of the time; print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together")
    parser.add_argument("--targets", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--one", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        name, corpus, *options = asked.one
        fuzz(name, Path(corpus), options)
    if importlib.util.find_spec("atheris") is None:
        print("fuzzing needs atheris: pip install atheris", file=sys.stderr)
        return 2
    print(f"{'target':10} {'inputs':>12} {'a second':>10} {'edges':>7} {'kept':>6}  found")
    found = [name for name in asked.targets if run_one(name, asked)]
    return int(bool(found))


def run_one(name: str, asked: argparse.Namespace) -> bool:
    """Fuzz one target in a separate process; return whether it found anything."""
    with tempfile.TemporaryDirectory() as corpus, tempfile.TemporaryDirectory() as findings:
        options = (
            f"-max_total_time={max(1, asked.seconds // len(asked.targets))}",
            f"-max_len={MAX_INPUT_BYTES}",
            f"-seed={asked.seed}",
            f"-artifact_prefix={findings}/{name}-",
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
        )
        command = [sys.executable, __file__, "--one", name, corpus, *options]
        done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own
        kept = len(list(Path(corpus).iterdir()))
        inputs = {each.name: each.read_bytes() for each in Path(findings).iterdir()}
    log = done.stderr
    executed, rate, edges = (
        int((re.findall(pattern, log) or ["0"])[-1])
        for pattern in (
            r"number_of_executed_units: (\d+)",
            r"average_exec_per_sec:\s+(\d+)",
            r"cov: (\d+)",
        )
    )
    outcome = f"exit code {done.returncode}" if done.returncode else "nothing"
    print(f"{name:10} {executed:12,} {rate:10,} {edges:7,} {kept:6}  {outcome}", flush=True)
    if not done.returncode:
        return False
    print(done.stdout[-2000:], log[-4000:], sep="\n")
    asked.findings.mkdir(parents=True, exist_ok=True)
    for found, data in inputs.items():
        (asked.findings / found).write_bytes(data)
        print(f"{asked.findings / found}: {data!r}")
    return True


if __name__ == "__main__":
    sys.exit(main())
