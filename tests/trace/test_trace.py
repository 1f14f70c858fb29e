"""The recorded trace, replayed: every answer is the recorded one, to the last bit.

On a processor whose exponentials or products of matrices have other last bits, floats are
compared to `ROUNDING` instead; everything else is still equal.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .library_subject import LibrarySubject
from .record import arithmetic, read
from .server_subject import ServerSubject

if TYPE_CHECKING:
    from pathlib import Path

ROUNDING = 1e-9
IS_EXACT = arithmetic() == read("arithmetic")[0]

CHANGED: dict[int, str] = {}
"""Lines of the server's trace whose answer was changed on purpose, and why."""


def test_library() -> None:
    """Evaluators, windows and pairs of the library answer as recorded."""
    subject = LibrarySubject()
    recorded = zip(read("library"), read("library-answers"), strict=True)
    for line, (request, answer) in enumerate(recorded, 1):
        _check(line, request, subject.take(request), answer)


def test_server(tmp_path: Path) -> None:
    """A server that is restarted twice answers as recorded."""
    subject = ServerSubject(tmp_path)
    recorded = zip(read("server"), read("server-answers"), strict=True)
    for line, (request, answer) in enumerate(recorded, 1):
        found = subject.take(request)
        if line in CHANGED:
            assert _plain(found) != answer, f"line {line} is as recorded: remove it from CHANGED"
        else:
            _check(line, request, found, answer)
    subject.close()


def test_restarts_change_no_answer(tmp_path: Path) -> None:
    """The answers are the same where the server is killed and started again before each part."""
    subject = ServerSubject(tmp_path)
    recorded = zip(read("server"), read("server-answers"), strict=True)
    for line, (request, answer) in enumerate(recorded, 1):
        if request["do"] == "checkpoint":
            restart = {"at_us": request["at_us"], "do": "restart", "clean": False}
            subject.take(restart)
            continue
        found = subject.take(request)
        if line not in CHANGED:
            _check(line, request, found, answer)
    subject.close()


def _check(line: int, request: dict[str, Any], found: Any, answer: Any) -> None:
    difference = _first_difference(_plain(found), answer)
    if difference:
        short = {name: each for name, each in request.items() if not isinstance(each, list)}
        raise AssertionError(f"line {line}, {short}: {difference}")


def _plain(found: Any) -> Any:
    """Return an answer with lists in place of tuples, as JSON has it."""
    if isinstance(found, dict):
        return {name: _plain(each) for name, each in found.items()}
    if isinstance(found, list | tuple):
        return [_plain(each) for each in found]
    return found


def _first_difference(found: Any, answer: Any, where: str = "") -> str:
    """Return where two answers differ, and by what; nothing where they do not."""
    if isinstance(found, dict) and isinstance(answer, dict):
        names = sorted(found.keys() | answer.keys())
        parts = [(f"{where}.{name}", found.get(name), answer.get(name)) for name in names]
    elif isinstance(found, list) and isinstance(answer, list) and len(found) == len(answer):
        both = zip(found, answer, strict=True)
        parts = [(f"{where}[{at}]", *each) for at, each in enumerate(both)]
    else:
        is_same = found == answer or (not IS_EXACT and _is_close(found, answer))
        return "" if is_same else f"{where} is {found!r}, was {answer!r}"
    differences = (_first_difference(one, other, at) for at, one, other in parts)
    return next(filter(None, differences), "")


def _is_close(found: Any, answer: Any) -> bool:
    """Whether both are floats in hexadecimal, and equal to rounding."""
    texts = isinstance(found, str) and isinstance(answer, str)
    if not texts or "0x" not in found or "0x" not in answer:
        return False
    one, other = float.fromhex(found), float.fromhex(answer)
    return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)
