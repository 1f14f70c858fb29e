"""Shared basics that import nothing else of the project.

`errors`, `values` (one value that a caller passed), `names` (streams, ids, segments),
`arrays` (array types), `frame` (framed, checksummed bytes), `atomic_file`, `coverage`.
"""

# The names that the server may use; the library imports from the modules.
from streameval._common.arrays import BoolArray, FloatArray, IntArray
from streameval._common.atomic_file import write_atomically
from streameval._common.coverage import Coverage
from streameval._common.frame import Frame, Reader, raise_corrupt
from streameval._common.names import (
    MAX_ID_BYTES,
    MAX_KEY_LENGTH,
    MAX_STREAM_NAME,
    OTHER_VALUE,
    dot_segment_problem,
    id_problem,
    new_stream_name_problem,
    segment_key_problem,
    segment_value_problem,
    stream_name_problem,
)
from streameval._common.values import quoted, truncated

__all__ = [
    "MAX_ID_BYTES",
    "MAX_KEY_LENGTH",
    "MAX_STREAM_NAME",
    "OTHER_VALUE",
    "BoolArray",
    "Coverage",
    "FloatArray",
    "Frame",
    "IntArray",
    "Reader",
    "dot_segment_problem",
    "id_problem",
    "new_stream_name_problem",
    "quoted",
    "raise_corrupt",
    "segment_key_problem",
    "segment_value_problem",
    "stream_name_problem",
    "truncated",
    "write_atomically",
]
