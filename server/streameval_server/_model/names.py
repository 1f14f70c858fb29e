"""Checks of stream names, and the largest number that the log can store."""

from __future__ import annotations

from streameval.checks import dot_segment_problem, stream_name_problem
from streameval_server._model.errors import invalid
from streameval_server._model.limits import Limits

MAX_UINT = (1 << 63) - 1
"""Largest epoch or sequence: SQLite's integers are signed, of 64 bits."""


def check_stream_name(
    name: str,
    field: str,
    max_length: int = Limits().max_stream_name,
    noun: str = "stream name",
) -> None:
    """Refuse an invalid name of a stream, or of what `noun` says, the same way in all calls.

    Raises
    ------
    RequestError
        INVALID_ARGUMENT; `field` is the name's path in the request.
    """
    problem = stream_name_problem(name, max_length, noun)
    if problem is not None:
        raise invalid(field, problem)


def check_new_stream_name(
    name: str,
    field: str,
    max_length: int = Limits().max_stream_name,
    noun: str = "stream name",
) -> None:
    """Refuse a name that no new stream may have.

    Raises
    ------
    RequestError
        As `check_stream_name`.
    """
    problem = stream_name_problem(name, max_length, noun) or dot_segment_problem(name, noun)
    if problem is not None:
        raise invalid(field, problem)
