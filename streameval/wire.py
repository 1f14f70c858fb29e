"""Rows as messages: the columns of a batch, encoded by clients and decoded by the server.

A part of the seam between server and library (docs/architecture.md). Decoding accepts every
form of the contract and checks that columns fit together: the `field` of an `InvalidInputError`
is the path inside the message. Cost: O(rows), a few nanoseconds a value. Names are imported when
they are first used.
"""

from typing import TYPE_CHECKING

from streameval._common.lazy_module import lazy_exports as _lazy_exports

if TYPE_CHECKING:
    from streameval._row_codec.clusters import decode_clusters, encode_clusters
    from streameval._row_codec.rows import (
        decode_cases,
        decode_labels,
        decode_misses,
        decode_predictions,
        decode_times,
        row_count,
    )
    from streameval._row_codec.segments import (
        BatchCodes,
        SegmentCodes,
        Segments,
        check_distinct,
        decode_segments,
        encode_segment,
    )
    from streameval._row_codec.weights import decode_units

__all__ = [
    "BatchCodes",
    "SegmentCodes",
    "Segments",
    "check_distinct",
    "decode_cases",
    "decode_clusters",
    "decode_labels",
    "decode_misses",
    "decode_predictions",
    "decode_segments",
    "decode_times",
    "decode_units",
    "encode_clusters",
    "encode_segment",
    "row_count",
]

_EXPORTS = {
    "streameval._row_codec.clusters": ["decode_clusters", "encode_clusters"],
    "streameval._row_codec.rows": [
        "decode_cases",
        "decode_labels",
        "decode_misses",
        "decode_predictions",
        "decode_times",
        "row_count",
    ],
    "streameval._row_codec.segments": [
        "BatchCodes",
        "SegmentCodes",
        "Segments",
        "check_distinct",
        "decode_segments",
        "encode_segment",
    ],
    "streameval._row_codec.weights": ["decode_units"],
}
"""Each module, and the public names whose first use imports it."""

if not TYPE_CHECKING:  # for a type checker, a name that is not imported above is an error
    __getattr__ = _lazy_exports(__name__, _EXPORTS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
