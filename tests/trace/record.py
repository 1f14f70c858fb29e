"""Write the trace: the requests, and beside them every answer of the tree that runs this.

    PYTHONPATH=.:server python -m tests.trace.record

Run in commit 5fc0899f, before counting and state were rebuilt. A later tree only replays it
(test_trace.py); an answer that is changed on purpose stands in `CHANGED` there, with its reason.
The last bits of an exponential and of a product of matrices depend on the processor, so
`arithmetic` is recorded too: where it differs, floats are compared to rounding.
"""

from __future__ import annotations

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
    from collections.abc import Iterable

DATA = Path(__file__).with_name("data")


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


def main() -> None:
    """Record both traces."""
    write("arithmetic", [arithmetic()])
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


if __name__ == "__main__":
    main()
