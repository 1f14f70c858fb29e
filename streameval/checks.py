"""What a name, an id and a value may be, and how an error says what is wrong with one.

With `streameval.wire`, `streameval.statistics` and `streameval.kernel` it is all that the server
takes from the library besides the public classes: see "The seam" in docs/packages.md. Names
are imported when they are first used.

- Names: ``..._problem`` return what is wrong with a name or an id, or None; without a limit,
  the client's applies. `OTHER_VALUE` stands for the values of a segment key beyond its limit.
- `read_span` reads a span of time, such as "24h".
- Values in messages: `quoted` and `truncated` shorten them, `redact_tokens` hides secrets.
- Files: `read_file`, `read_text` and `read_toml` read one whole and say what is wrong with it;
  `write_atomically` writes one, or leaves it as it was.
- Processes: `check_variables` refuses unknown ones of the environment; `begin_program`,
  `slow_sort_features`, `lazy_exports`.
"""

from typing import TYPE_CHECKING

from streameval._common.lazy_module import lazy_exports as _lazy_exports

if TYPE_CHECKING:
    from streameval._common.atomic_file import write_atomically
    from streameval._common.errors import UnknownFormatError
    from streameval._common.lazy_module import lazy_exports
    from streameval._common.names import (
        OTHER_VALUE,
        dot_segment_problem,
        id_problem,
        is_at_or_below,
        segment_key_problem,
        stream_name_problem,
    )
    from streameval._common.program import begin_program
    from streameval._common.redaction import TOKEN_PREFIX, redact_tokens
    from streameval._common.slow_sort import slow_sort_features
    from streameval._common.spans import read_span
    from streameval._common.text_file import read_file, read_text, read_toml
    from streameval._common.values import quoted
    from streameval._common.variables import check_variables

__all__ = [
    "OTHER_VALUE",
    "TOKEN_PREFIX",
    "UnknownFormatError",
    "begin_program",
    "check_variables",
    "dot_segment_problem",
    "id_problem",
    "is_at_or_below",
    "lazy_exports",
    "quoted",
    "read_file",
    "read_span",
    "read_text",
    "read_toml",
    "redact_tokens",
    "segment_key_problem",
    "slow_sort_features",
    "stream_name_problem",
    "write_atomically",
]

_EXPORTS = {
    "streameval._common.atomic_file": ["write_atomically"],
    "streameval._common.errors": ["UnknownFormatError"],
    "streameval._common.lazy_module": ["lazy_exports"],
    "streameval._common.names": [
        "OTHER_VALUE",
        "dot_segment_problem",
        "id_problem",
        "is_at_or_below",
        "segment_key_problem",
        "stream_name_problem",
    ],
    "streameval._common.program": ["begin_program"],
    "streameval._common.redaction": ["TOKEN_PREFIX", "redact_tokens"],
    "streameval._common.slow_sort": ["slow_sort_features"],
    "streameval._common.spans": ["read_span"],
    "streameval._common.text_file": ["read_file", "read_text", "read_toml"],
    "streameval._common.values": ["quoted"],
    "streameval._common.variables": ["check_variables"],
}
"""Each module, and the public names whose first use imports it."""

if not TYPE_CHECKING:  # for a type checker, a name that is not imported above is an error
    __getattr__ = _lazy_exports(__name__, _EXPORTS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
