"""What all readers of files share; `auc` reads its lists with it, without pyarrow."""

from __future__ import annotations

from streameval._common.errors import StreamEvalError

ROWS_PER_CHUNK = 1 << 16
BOOLEAN_LABELS = {"1": True, "true": True, "1.0": True, "0": False, "false": False, "0.0": False}
"""The values of labels whose classes have no name, in lower case."""


class FileError(StreamEvalError):
    """A file cannot be read; the message names the file and the row."""
