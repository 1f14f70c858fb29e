"""Annotations of streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streameval._common.result import Result

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, eq=False)
class StreamMark(Result):
    """An annotation of a stream's time, such as a deployment.

    Attributes
    ----------
    number : int
        From 1, ascending in its stream; `Client.delete_mark` takes it.
    time : datetime
        When what it names happened.
    text : str
    create_time : datetime
        When it was made.
    """

    number: int
    time: datetime
    text: str
    create_time: datetime
