"""What all readers of files share; `auc` reads its lists with it, without pyarrow."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from streameval._common.errors import StreamEvalError

if TYPE_CHECKING:
    from pathlib import Path

ROWS_PER_CHUNK = 1 << 16
_MAX_SHOWN_NAMES = 20


class FileError(StreamEvalError):
    """A file cannot be read; the message names the file and the row.

    Attributes
    ----------
    remedy : str
        A command to run, however long; empty where there is none.
    """

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class ColumnError(FileError):
    """A file lacks a column.

    Attributes
    ----------
    name : str
    columns : list of str
        The columns that it has.
    """

    def __init__(self, path: Path, name: str, columns: list[str]) -> None:
        more = len(columns) - _MAX_SHOWN_NAMES
        shown = ", ".join(columns[:_MAX_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
        super().__init__(f"{path}: no column {name!r}; it has {shown}")
        self.name = name
        self.columns = columns


class RowFault(enum.Enum):
    """Why a row is not counted: of `streameval.payloads.Reason`, what rows of files can have."""

    SCORE = "score"
    LABEL = "label"
    ID = "id"
    TIME = "time"
    WEIGHT = "weight"
    CLUSTER = "cluster"
    SEGMENT = "segment"
    UNREADABLE = "unreadable"
    """The row is no JSON object, has an id in JSON that is none, is no UTF-8, or has too few or
    too many values."""
    STORE = "store"
    """The row can be read, and its stream would refuse it."""


class FileRowError(FileError):
    """One row of a file cannot be read, whatever the others are.

    Attributes
    ----------
    index : int
        Its place among the rows that were read together, from 0.
    reason : RowFault
    what : str
        The message without the file and the row.
    """

    def __init__(self, path: Path, row: int, what: str, *, reason: RowFault, index: int) -> None:
        super().__init__(f"{path}: row {row}: {what}")
        self.index = index
        self.reason = reason
        self.what = what
