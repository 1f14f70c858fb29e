"""The annotations of one stream.

They change with entries of their own and with nothing else, and nothing is counted by them.
Their part of a checkpoint is JSON: the last number that was given, and the marks.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from streameval import CorruptStateError
from streameval.kernel import MAX_TIME_US
from streameval_server._model.mark import MAX_MARKS, Mark, mark_problem
from streameval_server._state.observer import CheckpointPart, MadePart, Observer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streameval_server._model.mark import MarkChange
    from streameval_server._state.observer import Restoring

_MARK_BYTES = 400
"""Memory of a mark besides its text."""
_MAX_NUMBER = (1 << 32) - 1

MARKS_PART = "annotations"


class StreamMarks(Observer):
    """The marks of a stream, in order of their numbers.

    Attributes
    ----------
    marks : tuple of Mark
        Replaced by each change, so that views may keep it.
    last_number : int
        The last number that was given; never given again.
    revision : int
        Log revision of the last change.
    """

    __slots__ = ("last_number", "marks", "revision")
    KINDS = (MARKS_PART,)

    def __init__(self) -> None:
        self.marks: tuple[Mark, ...] = ()
        self.last_number = 0
        self.revision = 0

    def change(self, change: MarkChange, received_us: int) -> bool:
        """Make a mark or delete one; return whether that changed anything. O(marks).

        A mark of the same time and text is the same mark, and one that is not there cannot be
        deleted.
        """
        before = self.marks
        if change.deleted:
            self.marks = tuple(each for each in before if each.number != change.deleted)
            return len(self.marks) < len(before)
        if self.find(change.time_us, change.text) is not None:
            return False
        self.last_number += 1
        made = Mark(self.last_number, change.time_us, change.text, received_us)
        self.marks = (*before, made)[-MAX_MARKS:]
        return True

    def find(self, time_us: int, text: str) -> Mark | None:
        """Return the mark of a time and text; None when there is none. O(marks)."""
        return find_mark(self.marks, time_us, text)

    @property
    def memory_bytes(self) -> int:
        """Memory, an upper bound. O(marks)."""
        return sum(_MARK_BYTES + 4 * len(each.text) for each in self.marks)

    def to_bytes(self) -> bytes:
        """Return the part of a checkpoint, equal for equal marks."""
        rows = [[each.number, each.time_us, each.text, each.create_us] for each in self.marks]
        fields = {"last_number": self.last_number, "marks": rows}
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()

    def to_parts(self) -> Iterable[CheckpointPart]:
        """Yield the part of the marks; none before the first. O(marks)."""
        if self.last_number:
            yield CheckpointPart(f"{MARKS_PART}/0", self.revision, self._part)

    def _part(self) -> MadePart:
        return MadePart(partial(bytes, self.to_bytes()))

    def from_part(self, _kind: str, _number: int, data: bytes, origin: Restoring) -> None:
        """Take the marks of the part. Raises CorruptStateError."""
        self.revision = origin.revision
        try:
            fields = json.loads(data)
            self.last_number = _integer(fields["last_number"], _MAX_NUMBER)
            self.marks = tuple(_mark(*row) for row in fields["marks"])
        except (ValueError, TypeError, LookupError) as error:
            raise CorruptStateError(f"the marks cannot be read: {error!r:.200}") from error
        numbers = [each.number for each in self.marks]
        if numbers != sorted(set(numbers)) or max(numbers, default=0) > self.last_number:
            raise CorruptStateError("the numbers of the marks do not ascend")
        if len(numbers) > MAX_MARKS:
            raise CorruptStateError(f"there are {len(numbers)} marks, at most {MAX_MARKS} are kept")


def find_mark(marks: tuple[Mark, ...], time_us: int, text: str) -> Mark | None:
    """Return the mark of a time and text; None when there is none. O(marks)."""
    return next((each for each in marks if (each.time_us, each.text) == (time_us, text)), None)


def _mark(number: Any, time_us: Any, text: Any, create_us: Any) -> Mark:
    problem = mark_problem(text)
    if problem is not None:
        raise ValueError(problem)
    return Mark(
        _integer(number, _MAX_NUMBER),
        _integer(time_us, MAX_TIME_US),
        text,
        _integer(create_us, MAX_TIME_US),
    )


def _integer(value: Any, maximum: int) -> int:
    if type(value) is not int or not 0 <= value <= maximum:
        raise ValueError(f"{value!r:.60} is not a valid number")
    return value
