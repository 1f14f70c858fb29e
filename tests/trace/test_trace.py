"""The recorded trace, replayed: every answer is the recorded one, to the last bit.

What was changed on purpose since stands in data/changed.jsonl.gz, value by value, with its reason.
On a processor whose exponentials or products of matrices have other last bits, floats are
compared to `ROUNDING` instead; everything else is still equal.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from .library_subject import LibrarySubject
from .record import STORIES, arithmetic, differences, read, replayed
from .server_subject import ServerSubject

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ROUNDING = 1e-9
IS_EXACT = arithmetic() == read("arithmetic")[0]


def test_library() -> None:
    """Evaluators, windows and pairs of the library answer as recorded."""
    _check(LibrarySubject(), "library")


def test_server(tmp_path: Path) -> None:
    """A server that is restarted three times answers as recorded."""
    subject = ServerSubject(tmp_path)
    _check(subject, "server")
    subject.close()


def test_restarts_change_no_answer(tmp_path: Path) -> None:
    """The answers are the same where the server is killed in place of each checkpoint."""

    class Killed(ServerSubject):
        def take(self, request: Mapping[str, Any]) -> Any:
            if request["do"] != "checkpoint":
                return super().take(request)
            super().take({"at_us": request["at_us"], "do": "restart", "clean": False})
            return None

    subject = Killed(tmp_path)
    _check(subject, "server")
    subject.close()


def test_requests_are_those_of_the_stories() -> None:
    """A story that is changed is recorded again."""
    for name, story in STORIES.items():
        assert json.loads(json.dumps(story.requests())) == read(name)


def test_each_change_has_a_reason() -> None:
    """And says what the answer was."""
    for each in read("changed"):
        assert each["was"] != each["is"]
        assert each["because"]


def _check(subject: LibrarySubject | ServerSubject, name: str) -> None:
    count = 0
    for line, found, wanted in replayed(subject, name):
        count += 1
        for place, now, was in differences(found, wanted):
            is_rounding = not IS_EXACT and _is_close(now, was)
            assert is_rounding, f"{name}, line {line}, {place}: {now}, was {was}"
    assert count > 300


def _is_close(found: Any, answer: Any) -> bool:
    """Whether both are floats in hexadecimal, and equal to rounding."""
    texts = isinstance(found, str) and isinstance(answer, str)
    if not texts or "0x" not in found or "0x" not in answer:
        return False
    one, other = float.fromhex(found), float.fromhex(answer)
    return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)
