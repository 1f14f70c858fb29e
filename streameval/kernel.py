"""Counts, panes and the joiner of ids: what the server keeps of a stream.

A part of the seam between server and library (docs/architecture.md). Names are imported when
they are first used.
"""

from typing import TYPE_CHECKING

from streameval._common.lazy_module import lazy_exports as _lazy_exports

if TYPE_CHECKING:
    from streameval._common.arrays import BoolArray, Counts, FloatArray, IntArray
    from streameval._common.frame import Frame, Reader, raise_corrupt

__all__ = [
    "BoolArray",
    "Counts",
    "FloatArray",
    "Frame",
    "IntArray",
    "Reader",
    "raise_corrupt",
]

_EXPORTS = {
    "streameval._common.arrays": ["BoolArray", "Counts", "FloatArray", "IntArray"],
    "streameval._common.frame": ["Frame", "Reader", "raise_corrupt"],
}
"""Each module, and the public names whose first use imports it."""

if not TYPE_CHECKING:  # for a type checker, a name that is not imported above is an error
    __getattr__ = _lazy_exports(__name__, _EXPORTS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
