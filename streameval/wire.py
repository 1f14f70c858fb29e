"""Rows as messages: the columns of a batch, encoded by clients and decoded by the server.

A part of the seam between server and library (docs/packages.md). A `RowReader` accepts every
form of the contract and checks that columns fit together: the `field` of an `InvalidInputError`
is the path inside the message. Cost: O(rows), a few nanoseconds a value. Names are imported when
they are first used.
"""

from typing import TYPE_CHECKING

from streameval._common.lazy_module import lazy_exports as _lazy_exports

if TYPE_CHECKING:
    from streameval._row_codec.clusters import cluster_column
    from streameval._row_codec.decode import RowReader
    from streameval._row_codec.segments import SegmentCodes, check_distinct

__all__ = ["RowReader", "SegmentCodes", "check_distinct", "cluster_column"]

_EXPORTS = {
    "streameval._row_codec.clusters": ["cluster_column"],
    "streameval._row_codec.decode": ["RowReader"],
    "streameval._row_codec.segments": ["SegmentCodes", "check_distinct"],
}
"""Each module, and the public names whose first use imports it."""

if not TYPE_CHECKING:  # for a type checker, a name that is not imported above is an error
    __getattr__ = _lazy_exports(__name__, _EXPORTS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
