"""Bytes of payloads against the processor time and the memory that they cost, worst first.

    python bench/payload_costs.py                       # 1 MiB each
    python bench/payload_costs.py --bytes 8388608 --fail-above 20

Each attack of `tests/fuzz/payload_attacks.py` is read as its way in reads it, by each preset and
by a mapping of every key, each time in a process of its own. The table has the worst of each way
in: bytes sent and unpacked, seconds of processor time, memory above what the process had, and
both for a byte that was unpacked. With --fail-above, the exit code is 1 if one of them takes more
seconds than that.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from streameval import InvalidInputError
from streameval.payloads import PayloadMapping, unpack

if TYPE_CHECKING:
    from types import ModuleType

MAX_S = 60


def _beside_the_tests(name: str) -> ModuleType:
    path = Path(__file__).parent.parent / "tests" / "fuzz" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


attacks = _beside_the_tests("payload_attacks")
ways = _beside_the_tests("payload_ways")


class Cost(NamedTuple):
    """What reading one body took.

    Attributes
    ----------
    seconds : float
        Processor time.
    memory : int
        Bytes above what the process had before.
    outcome : str
    """

    seconds: float
    memory: int
    outcome: str


def measured(attack: Any, mapping: PayloadMapping) -> Cost:
    """Read a body in a process of its own; one that does not end in time counts as `MAX_S`."""
    receiving, sending = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (MAX_S, MAX_S))
        before, began_s = _memory(), time.process_time()
        outcome = ways.read(*attack[:1], *attack[2:], mapping)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        cost = Cost(time.process_time() - began_s, max(0, peak - before), outcome[:100])
        os.write(sending, json.dumps(cost).encode())
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return Cost(*json.loads(found)) if found else Cost(MAX_S, 0, "it did not end")


def _memory() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize()


def unpacked_bytes(attack: Any) -> int:
    """Return how long a body is without its encoding, as far as it is unpacked."""
    try:
        return len(
            unpack(attack.body, attack.headers.get("content-encoding", ""), ways.MAX_BODY_BYTES)
        )
    except InvalidInputError:
        return ways.MAX_BODY_BYTES


def door_of(attack: Any) -> str:
    """Return the way in and the form of the body."""
    form, is_named, _ = attack.name.partition(": ")
    return f"{attack.way}, {form if is_named else 'JSON'}"


def main() -> int:
    """Print the worst of each way in."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--all", action="store_true", help="every attack, by its worst mapping")
    parser.add_argument("--mappings", nargs="+", choices=ways.MAPPINGS, default=list(ways.MAPPINGS))
    parser.add_argument("--fail-above", type=float, metavar="SECONDS")
    asked = parser.parse_args()
    rows = []
    for attack in attacks.attacks(asked.bytes):
        costs = {name: measured(attack, ways.MAPPINGS[name]) for name in asked.mappings}
        size = max(1, unpacked_bytes(attack))
        for by in ("seconds", "memory"):
            name = max(costs, key=lambda each: getattr(costs[each], by))
            rows.append((attack, size, name, by, costs[name]))
    print(f"{'way in':24} {'worst in':8} {'sent':>10} {'unpacked':>10} {'s':>7} {'MiB':>7} "
          f"{'us/byte':>8} {'B/byte':>7}  attack, mapping: outcome")  # fmt: skip
    for door in dict.fromkeys(door_of(row[0]) for row in rows):
        for by in ("seconds", "memory"):
            found = [each for each in rows if door_of(each[0]) == door and each[3] == by]
            found.sort(key=lambda each: getattr(each[4], by), reverse=True)
            for attack, size, name, _, cost in found if asked.all else found[:1]:
                print(f"{door:24} {by:8} {len(attack.body):10,} {size:10,} {cost.seconds:7.2f} "
                      f"{cost.memory / 2**20:7.1f} {cost.seconds * 1e6 / size:8.3f} "
                      f"{cost.memory / size:7.1f}  {attack.name}, "
                      f"{name}: {cost.outcome}")  # fmt: skip
    worst = max(row[4].seconds for row in rows)
    return int(asked.fail_above is not None and worst > asked.fail_above)


if __name__ == "__main__":
    sys.exit(main())
