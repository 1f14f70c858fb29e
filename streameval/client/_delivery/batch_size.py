"""How large a batch may be, by the caller, by the server, and by what lies between them.

A proxy may take smaller requests than the server, and does not always say so: nginx cuts the
connection. So the size is halved while batches that are sent alone do not arrive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.client._wire.rpc_errors import CONNECTION_CUT

if TYPE_CHECKING:
    from streameval.client._buffer.columns import Rows
    from streameval.client._errors import ClientError
    from streameval.v1 import ingest_pb2

MAX_BATCH_ROWS = 16_384
"""The most rows of a batch, even if caller and server allow more: acks stay quick."""

MAX_BATCH_BYTES = 1 << 19
"""The most bytes of an encoded batch: half of what nginx takes by default."""

_MIN_BATCH_BYTES = 1 << 14
"""Batches are not halved below this."""

_MIN_FAILURES = 2
"""The size is in doubt after this many connections without an acknowledgement."""


class BatchSize:
    """The limits of one producer's batches.

    Parameters
    ----------
    rows : int
        The caller's limit.

    Attributes
    ----------
    rows, nbytes : int
        The most of one batch; a single row may be larger.
    """

    def __init__(self, rows: int) -> None:
        self._most_rows = self.rows = min(rows, MAX_BATCH_ROWS)
        self._most_bytes = self.nbytes = MAX_BATCH_BYTES

    def take_limits(self, resume: ingest_pb2.Resume) -> None:
        """Stay within the server's limits too."""
        self.rows = min(self._most_rows, resume.max_batch_rows or self._most_rows)
        self.nbytes = min(self._most_bytes, resume.max_batch_bytes or self._most_bytes)

    def fits(self, rows: Rows) -> bool:
        """Whether rows may be one batch. O(rows)."""
        return rows.split(self.rows, self.nbytes)[1] is None

    def halve(self, batch: Rows, failures: int) -> bool:
        """Halve the size if a batch's size may be why it did not arrive; return whether.

        Parameters
        ----------
        batch
            The oldest one that was sent and not acknowledged.
        failures
            How many connections in a row have ended with it, for such a reason.
        """
        if failures < _MIN_FAILURES or batch.size == 1 or batch.wire_bytes <= _MIN_BATCH_BYTES:
            return False
        self._most_bytes = max(_MIN_BATCH_BYTES, min(self._most_bytes, batch.wire_bytes) // 2)
        return True


def doubts_size(error: ClientError) -> bool:
    """Whether a batch may have ended the connection because it was too large."""
    is_too_large = error.code == "RESOURCE_EXHAUSTED" and error.retry_after_s is None
    return is_too_large or error.reason == CONNECTION_CUT
