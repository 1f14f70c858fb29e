"""A file next to the log, in which a server that stops leaves its summaries for the next start.

It is a cache: without the file, the next start computes the summaries from the log again. It uses
the file only if the summaries must be the same: the same release wrote them, for a log that ends
in the same row (whose checksum depends on all rows before it), and not later than the clock is
now. It ignores a file that is damaged, of another release or of another log; the next clean stop
replaces it.

Cost: O(summaries), 1.5 KB of each in the file; a write takes some 5 ms for 1,000.
"""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streameval import CorruptStateError, StreamEvalError, __version__
from streameval.checks import read_file, write_atomically
from streameval.kernel import Frame

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from streameval_server._log.acked_revision import AckedRevision

_log = logging.getLogger(__name__)

FRAME = Frame(b"SVEL", 1, "a list of summaries")
_HEADER = struct.Struct("<qIqqHI")
_ENTRY = struct.Struct("<qq?I")

WRITER = f"{__version__} numpy {np.__version__}".encode()
"""What decides on the figures: the last digits may differ by the release of numpy."""

MAX_BYTES = 64 << 20
"""The largest file that is written or read; streams beyond it are computed after a start."""

_MAX_HEAD_BYTES = 1_024


class KeptSummary(NamedTuple):
    """One stream's summary.

    Attributes
    ----------
    encoded : bytes
        The message, with its projection.
    create_revision : int
        The revision that created the stream.
    valid_until_us : int
        When time alone changes it.
    is_current : bool
        Whether the stream had not changed since, at the end of the log.
    """

    encoded: bytes
    create_revision: int
    valid_until_us: int
    is_current: bool


class SummaryFile:
    """The file of one data directory. For one thread at a time.

    Parameters
    ----------
    database : Path
        The log's; the file's name is that name with ``-summaries`` behind it.
    span_us : int
        The window of its summaries.
    """

    def __init__(self, database: Path, span_us: int) -> None:
        self.path = database.with_name(f"{database.name}-summaries")
        self._span_us = span_us

    def write(self, end: AckedRevision, time_us: int, kept: Sequence[KeptSummary]) -> None:
        """Replace the file. What fails is logged: the next server computes the summaries.

        Parameters
        ----------
        end
            The log's last row.
        time_us
            The clock of the server.
        kept
            At most `MAX_BYTES` of them are written.
        """
        rows: list[bytes] = []
        size = 0
        for each in kept:
            encoded, *fields = each
            size += _ENTRY.size + len(encoded)
            if size > MAX_BYTES - _MAX_HEAD_BYTES:
                break
            rows.append(_ENTRY.pack(*fields, len(encoded)) + encoded)
        header = _HEADER.pack(*end, time_us, self._span_us, len(WRITER), len(rows))
        try:
            with write_atomically(self.path, replace=True) as partial:
                partial.write_bytes(FRAME.sealed(header, WRITER, *rows))
        except (OSError, StreamEvalError) as error:
            _log.warning(
                "the summaries of streams are not kept, and the next server computes them: %s",
                error,
            )

    def read(self, end: AckedRevision, now_us: int) -> list[KeptSummary]:
        """Return the summaries of a log that ends in this row; none that cannot be believed.

        Parameters
        ----------
        end
            The log's last row.
        now_us
            The clock of the server.
        """
        try:
            if self.path.stat().st_size > MAX_BYTES:
                return []
            return self._decoded(read_file(self.path), end, now_us)
        except FileNotFoundError:
            return []
        except (OSError, CorruptStateError) as error:
            _log.warning("the kept summaries of streams are not used: %s", error)
            return []

    def _decoded(self, data: bytes, end: AckedRevision, now_us: int) -> list[KeptSummary]:
        reader = FRAME.reader(data)
        revision, crc32, time_us, span_us, writer_size, count = reader.fields(_HEADER)
        writer = bytes(reader.blob(writer_size))
        is_same = (revision, crc32, span_us, writer) == (*end, self._span_us, WRITER)
        if not is_same or time_us > now_us:
            return []
        kept = []
        for _ in range(count):
            *fields, size = reader.fields(_ENTRY)
            kept.append(KeptSummary(bytes(reader.blob(size)), *fields))
        reader.end()
        return kept
