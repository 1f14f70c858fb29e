"""Write the trace: the requests, and every answer of the tree that runs this.

    PYTHONPATH=.:server python -m tests.trace.record

Run in commit 5fc0899f, before counting and state were rebuilt. A later tree only replays it
(test_trace.py). Where an answer is changed on purpose,

    PYTHONPATH=.:server python -m tests.trace.record --because REASON

takes the requests as the stories have them now, and adds each value that differs to
data/changed.jsonl.gz: its line and place, what it was, what it is and why. The last bits of an
exponential and of a product of matrices depend on the processor, so `arithmetic` is recorded too:
where it differs, floats are compared to rounding.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import library_story, server_story
from .library_subject import LibrarySubject
from .server_subject import ServerSubject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Difference = tuple[tuple[str | int, ...], Any, Any]

DATA = Path(__file__).with_name("data")
STORIES = {"library": library_story, "server": server_story}


def write(name: str, values: Iterable[Any]) -> None:
    """Write JSON lines, compressed without a time, so that equal lines are equal files."""
    text = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in values)
    (DATA / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def read(name: str) -> list[Any]:
    """Return the values of a file of JSON lines."""
    text = gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def arithmetic() -> str:
    """Return a checksum of the last bits of this machine's elementary functions and products."""
    values = np.random.default_rng(5).random(4_099) + 1e-3
    square = values[:4_096].reshape(64, 64)
    functions = (np.exp, np.expm1, np.log, np.log1p, np.log2, np.sqrt, np.tanh, np.cumsum)
    found = [function(values) for function in functions]
    found += [square @ square, values @ values, np.add.reduce(values), values**0.37]
    return hashlib.sha256(b"".join(np.asarray(each).tobytes() for each in found)).hexdigest()


def differences(found: Any, answer: Any, place: tuple[str | int, ...] = ()) -> Iterator[Difference]:
    """Yield where two answers differ: the place, what is found, what the answer is."""
    parts: Iterable[tuple[str | int, Any, Any]]
    if isinstance(found, dict) and isinstance(answer, dict):
        names = sorted(found.keys() | answer.keys())
        parts = [(name, found.get(name), answer.get(name)) for name in names]
    elif isinstance(found, list) and isinstance(answer, list) and len(found) == len(answer):
        both = zip(found, answer, strict=True)
        parts = [(at, *each) for at, each in enumerate(both)]
    else:
        if found != answer:
            yield place, found, answer
        return
    for at, one, other in parts:
        yield from differences(one, other, (*place, at))


def replayed(subject: LibrarySubject | ServerSubject, name: str) -> Iterator[tuple[int, Any, Any]]:
    """Replay a trace; yield each request's line, the answer found, and the one wanted.

    That is the recorded answer, with what was changed since on purpose.
    """
    changed: dict[int, list[dict[str, Any]]] = {}
    for each in read("changed"):
        if each["trace"] == name:
            changed.setdefault(each["line"], []).append(each)
    recorded = zip(read(name), read(f"{name}-answers"), strict=True)
    for line, (request, answer) in enumerate(recorded, 1):
        wanted = answer
        for each in changed.get(line, ()):
            wanted = _with(wanted, each["place"], each["is"])
        # Through JSON, which has lists in place of tuples.
        yield line, json.loads(json.dumps(subject.take(request))), wanted


def _with(answer: Any, place: list[str | int], value: Any) -> Any:
    """Return an answer with another value at a place; None takes the name away."""
    if not place:
        return value
    first, *rest = place
    if isinstance(answer, list):
        return [_with(each, rest, value) if at == first else each for at, each in enumerate(answer)]
    changed = answer | {first: _with(answer.get(first), rest, value)}
    return {name: each for name, each in changed.items() if name != first or each is not None}


def accept(because: str) -> None:
    """Take the requests of the stories; note each value that differs from the wanted answers."""
    found = read("changed")
    for name, story in STORIES.items():
        write(name, story.requests())
    with tempfile.TemporaryDirectory() as directory:
        for name, subject in (
            ("library", LibrarySubject()),
            ("server", ServerSubject(Path(directory))),
        ):
            for line, answer, wanted in replayed(subject, name):
                found += [
                    {
                        "trace": name,
                        "line": line,
                        "place": place,
                        "was": was,
                        "is": now,
                        "because": because,
                    }
                    for place, now, was in differences(answer, wanted)
                ]
    write("changed", found)


def record() -> None:
    """Record both traces."""
    write("arithmetic", [arithmetic()])
    write("changed", [])
    library = library_story.requests()
    subject = LibrarySubject()
    write("library", library)
    write("library-answers", [subject.take(each) for each in library])
    requests = server_story.requests()
    write("server", requests)
    with tempfile.TemporaryDirectory() as directory:
        server = ServerSubject(Path(directory))
        write("server-answers", [server.take(each) for each in requests])
        server.close()


def main() -> None:
    """Record, or accept what was changed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--because", help="accept the answers of this tree, for this reason")
    because = parser.parse_args().because
    if because:
        accept(because)
    else:
        record()


if __name__ == "__main__":
    main()
