"""Shared basics that import nothing else of the project.

`errors`, `values` (one value that a caller passed), `names` (streams, ids, segments),
`arrays` (array types), `frame` (framed, checksummed bytes), `atomic_file`, `coverage`,
`addresses` (of servers), `spans` (of time, as text), `redaction` (of tokens), `lazy_module`
(names that are imported on first use), `result` (equality of what calls return), `extras`
(what is said when an extra is not installed), `grpc_log` (gRPC's own lines), `slow_sort`
(numpy's, on one processor), `text_file` (files that are read whole).
"""

# The names that the server may use; the library imports from the modules.
from typing import TYPE_CHECKING

from streameval._common.lazy_module import lazy_exports as _lazy_exports

if TYPE_CHECKING:
    from streameval._common.arrays import BoolArray, Counts, FloatArray, IntArray
    from streameval._common.atomic_file import write_atomically
    from streameval._common.coverage import Coverage
    from streameval._common.errors import UnknownFormatError
    from streameval._common.frame import Frame, Reader, raise_corrupt
    from streameval._common.grpc_log import silence_grpc_log
    from streameval._common.lazy_module import lazy_exports
    from streameval._common.names import (
        CROSS,
        MAX_ID_BYTES,
        MAX_KEY_LENGTH,
        MAX_STREAM_NAME,
        OTHER_VALUE,
        declared_key_problem,
        dot_segment_problem,
        id_problem,
        is_at_or_below,
        new_stream_name_problem,
        segment_key_problem,
        segment_value_problem,
        stream_name_problem,
    )
    from streameval._common.redaction import TOKEN_PREFIX, redact_tokens
    from streameval._common.slow_sort import restart_with_fast_sort, slow_sort_features
    from streameval._common.text_file import read_file, read_text, read_toml
    from streameval._common.values import quoted, truncated


__all__ = [
    "CROSS",
    "MAX_ID_BYTES",
    "MAX_KEY_LENGTH",
    "MAX_STREAM_NAME",
    "OTHER_VALUE",
    "TOKEN_PREFIX",
    "BoolArray",
    "Counts",
    "Coverage",
    "FloatArray",
    "Frame",
    "IntArray",
    "Reader",
    "UnknownFormatError",
    "declared_key_problem",
    "dot_segment_problem",
    "id_problem",
    "is_at_or_below",
    "lazy_exports",
    "new_stream_name_problem",
    "quoted",
    "raise_corrupt",
    "read_file",
    "read_text",
    "read_toml",
    "redact_tokens",
    "restart_with_fast_sort",
    "segment_key_problem",
    "segment_value_problem",
    "silence_grpc_log",
    "slow_sort_features",
    "stream_name_problem",
    "truncated",
    "write_atomically",
]

_EXPORTS = {
    "BoolArray": "streameval._common.arrays",
    "Counts": "streameval._common.arrays",
    "Coverage": "streameval._common.coverage",
    "FloatArray": "streameval._common.arrays",
    "Frame": "streameval._common.frame",
    "IntArray": "streameval._common.arrays",
    "MAX_ID_BYTES": "streameval._common.names",
    "MAX_KEY_LENGTH": "streameval._common.names",
    "MAX_STREAM_NAME": "streameval._common.names",
    "OTHER_VALUE": "streameval._common.names",
    "Reader": "streameval._common.frame",
    "TOKEN_PREFIX": "streameval._common.redaction",
    "UnknownFormatError": "streameval._common.errors",
    "dot_segment_problem": "streameval._common.names",
    "id_problem": "streameval._common.names",
    "is_at_or_below": "streameval._common.names",
    "lazy_exports": "streameval._common.lazy_module",
    "new_stream_name_problem": "streameval._common.names",
    "quoted": "streameval._common.values",
    "raise_corrupt": "streameval._common.frame",
    "read_file": "streameval._common.text_file",
    "read_text": "streameval._common.text_file",
    "read_toml": "streameval._common.text_file",
    "redact_tokens": "streameval._common.redaction",
    "CROSS": "streameval._common.names",
    "declared_key_problem": "streameval._common.names",
    "segment_key_problem": "streameval._common.names",
    "segment_value_problem": "streameval._common.names",
    "restart_with_fast_sort": "streameval._common.slow_sort",
    "silence_grpc_log": "streameval._common.grpc_log",
    "slow_sort_features": "streameval._common.slow_sort",
    "stream_name_problem": "streameval._common.names",
    "truncated": "streameval._common.values",
    "write_atomically": "streameval._common.atomic_file",
}
"""Each public name, and the module from which its first use imports it."""

if not TYPE_CHECKING:  # for a type checker, a name that is not imported above is an error
    __getattr__ = _lazy_exports(__name__, _EXPORTS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
